"""Block Cholesky against dense linear algebra, over many shapes of graph."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.sparse import eye_array
from scipy.sparse.linalg import splu

from tempose._support import parallel
from tempose.errors import ArgumentError, GraphError, TemposeError
from tempose.numerics.sparse import NotPositiveDefiniteError, analyze, block_cholesky, ordering, repeated
from tempose.numerics.sparse.block_cholesky import _adjacency


def dense(n, block, pairs, diag, off):
    A = block_diag(*diag) if n else np.zeros((0, 0))
    for (i, j), value in zip(pairs, off, strict=True):
        if i != j:
            A[i * block : (i + 1) * block, j * block : (j + 1) * block] += value
            A[j * block : (j + 1) * block, i * block : (i + 1) * block] += value.T
    return A


def problem(rng, n, pairs, block, spread=0.0):
    """Random SPD blocks Σ JᵀJ + small prior on a pattern; ``spread`` decades between edge weights."""
    pairs = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    weight = 10.0 ** rng.uniform(-spread / 2, spread / 2, len(pairs))
    diag = np.tile(0.1 * np.eye(block), (n, 1, 1))
    off = np.zeros((len(pairs), block, block))
    for k, (i, j) in enumerate(pairs):
        J = rng.normal(size=(2, block, block)) * np.sqrt(weight[k])
        off[k] = J[0].T @ J[1]
        if i != j:  # a self loop is ignored, whatever its block
            diag[i] += J[0].T @ J[0]
            diag[j] += J[1].T @ J[1]
    return pairs, diag, off


def random_pairs(rng, n, edges):
    return rng.integers(0, n, (edges, 2))


def chain(n):
    return np.column_stack([np.arange(n - 1), np.arange(1, n)])


def grid(rows, cols):
    index = np.arange(rows * cols).reshape(rows, cols)
    across = np.column_stack([index[:, :-1].ravel(), index[:, 1:].ravel()])
    return np.concatenate([across, np.column_stack([index[:-1].ravel(), index[1:].ravel()])])


def complete(n):
    return np.column_stack(np.triu_indices(n, 1))


def star(n):
    return np.column_stack([np.zeros(n - 1, int), np.arange(1, n)])


def tree(rng, n):
    return np.array([[i, rng.integers(0, i)] for i in range(1, n)])


def binary_tree(n):
    return np.array([[i, (i - 1) // 2] for i in range(1, n)])


RNG = np.random.default_rng(11)
SHAPES = {
    "one node": (1, []),
    "no edges": (7, []),
    "one edge": (2, [[1, 0]]),
    "self loops": (3, [[0, 0], [2, 2], [0, 2], [1, 1]]),
    "duplicates": (4, [[0, 1], [1, 0], [0, 1], [3, 2], [2, 3], [1, 2]]),
    "chain": (90, chain(90)),
    "ring": (50, np.concatenate([chain(50), [[49, 0]]])),
    "star": (60, star(60)),
    "reversed star": (60, 59 - star(60)),
    "tree": (80, tree(RNG, 80)),
    "binary tree": (127, binary_tree(127)),
    "complete": (40, complete(40)),
    "grid": (110, grid(10, 11)),
    "two grids": (72, np.concatenate([grid(6, 6), grid(6, 6) + 36])),
    "clique and chain": (60, np.concatenate([complete(25), chain(60)])),
    "sparse random": (100, random_pairs(RNG, 100, 90)),
    "random": (70, random_pairs(RNG, 70, 200)),
    "dense random": (50, random_pairs(RNG, 50, 900)),
}


def from_compiled_code(symbolic, diag, off, right):
    """What :mod:`tempose.numerics.sparse.repeated` does without a :class:`Factor`."""
    p, b = repeated.pattern(symbolic), symbolic.block
    L, stack = np.empty(p.nonzeros + repeated.PADDING), np.empty(p.stack + repeated.PADDING)
    log_determinant = repeated.factor_again(p, diag, off, L, stack)
    x, solution = right.reshape(-1, b)[symbolic.order].reshape(-1), np.empty_like(right)
    repeated.solve_again(p, L, x)
    solution.reshape(-1, b)[symbolic.order] = x.reshape(-1, b)
    marginal, cross = np.empty_like(diag), np.empty_like(off)
    repeated.inverse_again(p, L, stack, marginal, cross)
    return {"log determinant": log_determinant, "solution": solution, "marginal": marginal, "cross": cross}


def check_all(rng, n, pairs, block, diag, off):
    """Compare every operation with the dense matrix."""
    A = dense(n, block, pairs, diag, off)
    symbolic = analyze(n, pairs[:, 0], pairs[:, 1], block=block)
    factor = symbolic.factor(diag, off)
    scale = np.linalg.norm(A, 1)
    rhs = rng.normal(size=(n * block, 3))

    one, many = factor.solve(rhs[:, 0]), factor.solve(rhs)
    assert one.shape == (n * block,)
    for x, r in ((one, rhs[:, 0]), (many, rhs)):
        assert np.abs(A @ x - r).max() <= 1e-13 * scale * max(np.abs(x).max(), 1e-300)

    # P A Pᵀ = L Lᵀ: from L⁻¹ P I, the inverse of L, with its columns in elimination order
    permuted = (symbolic.order[:, None] * block + np.arange(block)).ravel()
    L_inverse = factor.solve_L(np.eye(n * block)[:, permuted])
    assert np.abs(np.triu(L_inverse, 1)).max(initial=0) == 0
    L = np.linalg.inv(L_inverse)
    np.testing.assert_allclose(L @ L.T, A[np.ix_(permuted, permuted)], atol=1e-11 * scale)
    np.testing.assert_allclose(factor.solve_Lt(factor.solve_L(rhs)), many, rtol=1e-12, atol=1e-12 * np.abs(many).max())

    # the same by products with inverse panels
    single, lanes = repeated.panels(factor), repeated.panels(factor, lanes=True)
    close = {"rtol": 1e-9, "atol": 1e-11}
    for column in rhs.T:
        expected = factor.solve_L(column)
        np.testing.assert_allclose(repeated.solve_L(single, column), expected, **close)
        np.testing.assert_allclose(repeated.solve_Lt(single, expected), factor.solve(column), **close)
    for alone, together in ((repeated.forward, repeated.forward_two), (repeated.backward, repeated.backward_two)):
        expected, found = (rhs[:, :2].T.copy() for _ in range(2))
        work = np.empty((2, single.tree.tallest * block))
        for x in expected:
            alone(single.tree, single.forward, x, work[0])
        together(single.tree, single.forward, *found, *work)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(repeated.solve_lanes(lanes, rhs), many, **close)
    np.testing.assert_allclose(repeated.solve_lanes(lanes, rhs, forward=False), factor.solve_Lt(rhs), **close)

    sign, log_determinant = np.linalg.slogdet(A)
    assert sign == 1
    assert factor.log_determinant() == pytest.approx(log_determinant, rel=1e-11, abs=1e-10)

    # the same from compiled code
    again = from_compiled_code(symbolic, diag, off, rhs[:, 0])
    assert again["log determinant"] == pytest.approx(log_determinant, rel=1e-11, abs=1e-10)
    np.testing.assert_allclose(again["solution"], one, **close)

    inverse = np.linalg.inv(A).reshape(n, block, n, block)
    tolerance = {"rtol": 1e-9, "atol": 1e-12 * np.abs(inverse).max()}
    marginal, cross = factor.selected_inverse()
    np.testing.assert_allclose(marginal, inverse[np.arange(n), :, np.arange(n)], **tolerance)
    np.testing.assert_allclose(cross, inverse[pairs[:, 0], :, pairs[:, 1]], **tolerance)
    np.testing.assert_array_equal(marginal, marginal.transpose(0, 2, 1))
    np.testing.assert_allclose(again["marginal"], marginal, **tolerance)
    apart = pairs[:, 0] != pairs[:, 1]
    np.testing.assert_allclose(again["cross"][apart], cross[apart], **tolerance)

    i, j = rng.integers(0, n, (2, 9))
    np.testing.assert_allclose(factor.inverse_blocks(i, j), inverse[i, :, j], **tolerance)
    return factor


@pytest.mark.parametrize("block", [1, 3, 6])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_dense(shape, block):
    rng = np.random.default_rng([block, len(shape)])
    n, pairs = SHAPES[shape]
    pairs, diag, off = problem(rng, n, pairs, block)
    check_all(rng, n, pairs, block, diag, off)


@pytest.mark.parametrize("seed", range(60))
def test_equals_dense_on_random_graphs(seed):
    rng = np.random.default_rng([17, seed])
    n, block = int(rng.integers(1, 60)), int(rng.integers(1, 8))
    edges = int(n * rng.choice([0.3, 1, 2, 6]))
    pairs, diag, off = problem(rng, n, random_pairs(rng, n, edges), block)
    check_all(rng, n, pairs, block, diag, off)


def test_large_fronts():
    """Fronts of several hundred rows take the BLAS path on every level."""
    rng = np.random.default_rng(4)
    n = 130
    pairs, diag, off = problem(rng, n, np.concatenate([complete(60), random_pairs(rng, n, 300)]), 6)
    check_all(rng, n, pairs, 6, diag, off)


def test_numbering_does_not_matter():
    rng = np.random.default_rng(5)
    n, block = 80, 3
    pairs, diag, off = problem(rng, n, random_pairs(rng, n, 160), block)
    factor = check_all(rng, n, pairs, block, diag, off)
    name = rng.permutation(n)  # node v is renamed to name[v], pairs are shuffled and half of them turned around
    shuffle, turn = rng.permutation(len(pairs)), rng.random(len(pairs)) < 0.5
    renamed = name[pairs[shuffle]]
    values = off[shuffle]
    renamed[turn] = renamed[turn][:, ::-1]
    values[turn] = values[turn].transpose(0, 2, 1)
    other = analyze(n, renamed[:, 0], renamed[:, 1], block=block).factor(diag[np.argsort(name)], values)
    assert other.log_determinant() == pytest.approx(factor.log_determinant(), rel=1e-12)
    np.testing.assert_allclose(other.selected_inverse()[0][name], factor.selected_inverse()[0], atol=1e-10)


def test_symbolic_is_reused_and_results_are_reproducible():
    rng = np.random.default_rng(6)
    pairs, diag, off = problem(rng, 60, grid(6, 10), 6)
    symbolic = analyze(60, pairs[:, 0], pairs[:, 1])
    first = symbolic.factor(diag, off)
    second = symbolic.factor(2 * diag, 2 * off)
    third = symbolic.factor(diag, off)
    rhs = rng.normal(size=360)
    np.testing.assert_array_equal(first.solve(rhs), third.solve(rhs))
    np.testing.assert_array_equal(first.selected_inverse()[0], third.selected_inverse()[0])
    np.testing.assert_allclose(2 * second.solve(rhs), first.solve(rhs), rtol=1e-10)


def test_an_order_that_is_known_changes_nothing():
    """Whether a pattern was analysed before, for blocks of whatever size, must not decide the last digits."""
    n, pairs = SHAPES["random"]
    for first, second in ((1, 6), (3, 6), (6, 3)):
        known = analyze(n, pairs[:, 0], pairs[:, 1], block=first).first_order
        alone, after = (analyze(n, pairs[:, 0], pairs[:, 1], block=second, order=order) for order in (None, known))
        np.testing.assert_array_equal(alone.order, after.order)


def test_factors_alive_at_once_do_not_share_memory():
    rng = np.random.default_rng(18)
    pairs, diag, off = problem(rng, 40, grid(5, 8), 3)
    symbolic = analyze(40, pairs[:, 0], pairs[:, 1], block=3)
    rhs = rng.normal(size=120)
    exact = [np.linalg.solve(dense(40, 3, pairs, scale * diag, off), rhs) for scale in (1, 2, 3)]
    first, second = symbolic.factor(diag, off), symbolic.factor(2 * diag, off)
    np.testing.assert_allclose(first.solve(rhs), exact[0], rtol=1e-8)
    del first  # its memory goes to the next factor, or to a failed attempt and then to the next factor
    with pytest.raises(NotPositiveDefiniteError):
        symbolic.factor(-diag, off)
    third = symbolic.factor(3 * diag, off)
    np.testing.assert_allclose(second.solve(rhs), exact[1], rtol=1e-8)
    np.testing.assert_allclose(third.solve(rhs), exact[2], rtol=1e-8)


def test_threads_share_one_analysis():
    rng = np.random.default_rng(19)
    pairs, diag, off = problem(rng, 60, grid(6, 10), 6)
    symbolic = analyze(60, pairs[:, 0], pairs[:, 1])
    rhs = rng.normal(size=360)

    def work(scale):
        return symbolic.factor(scale * diag, scale * off).solve(scale * rhs)

    alone = [work(scale) for scale in range(1, 33)]
    with ThreadPoolExecutor(4) as pool:
        for expected, found in zip(alone, pool.map(work, range(1, 33)), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_read_only_input():
    diag = np.broadcast_to(2 * np.eye(3), (5, 3, 3))
    off = np.zeros((0, 3, 3))
    off.flags.writeable = False
    assert analyze(5, [], [], block=3).factor(diag, off).log_determinant() == pytest.approx(15 * np.log(2))


def test_shift_adds_to_the_diagonal():
    rng = np.random.default_rng(7)
    pairs, diag, off = problem(rng, 30, grid(5, 6), 3)
    symbolic = analyze(30, pairs[:, 0], pairs[:, 1], block=3)
    A = dense(30, 3, pairs, diag, off)
    values = np.linalg.eigvalsh(A + 2.5 * np.eye(90))
    assert symbolic.factor(diag, off, shift=2.5).log_determinant() == pytest.approx(np.log(values).sum(), rel=1e-12)


def test_draws_have_the_inverse_as_covariance():
    rng = np.random.default_rng(8)
    n, block, draws = 12, 2, 40_000
    pairs, diag, off = problem(rng, n, random_pairs(rng, n, 25), block)
    factor = analyze(n, pairs[:, 0], pairs[:, 1], block=block).factor(diag, off)
    x = factor.solve_Lt(rng.normal(size=(n * block, draws)))
    # whitened by an independent route, the sample covariance is the identity
    C = np.linalg.cholesky(dense(n, block, pairs, diag, off))
    white = C.T @ x
    np.testing.assert_allclose(white @ white.T / draws, np.eye(n * block), atol=6 / np.sqrt(draws))


@pytest.mark.parametrize("spread", [6.0, 10.0])
def test_unbalanced_weights(spread):
    """Weights over many decades: the solution is backward stable, and so is the inverse up to the condition."""
    rng = np.random.default_rng(9)
    pairs, diag, off = problem(rng, 60, grid(6, 10), 6, spread)
    A = dense(60, 6, pairs, diag, off)
    factor = analyze(60, pairs[:, 0], pairs[:, 1]).factor(diag, off)
    rhs = rng.normal(size=360)
    x = factor.solve(rhs)
    assert np.abs(A @ x - rhs).max() <= 1e-14 * np.linalg.norm(A, np.inf) * np.abs(x).max()
    marginal, _ = factor.selected_inverse()
    exact = np.linalg.inv(A).reshape(60, 6, 60, 6)[np.arange(60), :, np.arange(60)]
    error = np.abs(marginal - exact).max() / np.abs(exact).max()
    assert error < 1e-15 * np.linalg.cond(A)


@pytest.mark.parametrize("shape", ["chain", "grid", "star", "clique and chain", "no edges", "complete"])
@pytest.mark.parametrize("block", [1, 6])
def test_not_positive_definite_names_the_node(shape, block):
    n, pairs = SHAPES[shape]
    rng = np.random.default_rng(10)
    pairs, diag, off = problem(rng, n, pairs, block)
    symbolic = analyze(n, pairs[:, 0], pairs[:, 1], block=block)
    for culprit in rng.integers(0, n, 3):
        broken = diag.copy()
        broken[culprit, -1, -1] = -1.0
        with pytest.raises(NotPositiveDefiniteError, match="not positive definite") as caught:
            symbolic.factor(broken, off)
        # elimination goes through `order`, and the leading blocks up to a node decide whether it breaks there
        place = int(np.flatnonzero(symbolic.order == caught.value.node)[0])
        index = (symbolic.order[:, None] * block + np.arange(block)).ravel()
        A = dense(n, block, pairs, broken, off)[np.ix_(index, index)]
        before, through = place * block, (place + 1) * block
        np.linalg.cholesky(A[:before, :before])
        with pytest.raises(np.linalg.LinAlgError):
            np.linalg.cholesky(A[:through, :through])
    symbolic.factor(diag, off)  # the analysis survives a failure


def test_eigenvalue_bound_decides_definiteness():
    rng = np.random.default_rng(12)
    pairs, diag, off = problem(rng, 40, grid(5, 8), 6)
    symbolic = analyze(40, pairs[:, 0], pairs[:, 1])
    smallest = np.linalg.eigvalsh(dense(40, 6, pairs, diag, off))[0]
    symbolic.factor(diag, off, shift=-smallest * (1 - 1e-6))
    with pytest.raises(NotPositiveDefiniteError):
        symbolic.factor(diag, off, shift=-smallest * (1 + 1e-6))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n", [3, 40])
def test_values_that_are_not_finite_are_refused(bad, n):
    pairs, diag, off = problem(np.random.default_rng(13), n, complete(n), 6)
    symbolic = analyze(n, pairs[:, 0], pairs[:, 1])
    diag[n // 2, 0, 0] = bad
    with pytest.raises(NotPositiveDefiniteError):
        symbolic.factor(diag, off)


def test_long_chain():
    """A path of 1e5 nodes: deep trees need no recursion; chain marginals against the two-sided recursion."""
    n, block = 100_000, 2
    rng = np.random.default_rng(14)
    pairs = chain(n)
    coupling = rng.normal(size=(n - 1, block, block))
    diag = np.tile(0.5 * np.eye(block), (n, 1, 1))
    diag[:-1] += coupling.transpose(0, 2, 1) @ coupling
    diag[1:] += np.eye(block)
    off = -coupling.transpose(0, 2, 1)
    factor = analyze(n, pairs[:, 0], pairs[:, 1], block=block).factor(diag, off)
    rhs = rng.normal(size=n * block)
    x = factor.solve(rhs).reshape(n, block, 1)
    product = diag @ x
    product[:-1] += off @ x[1:]
    product[1:] += off.transpose(0, 2, 1) @ x[:-1]
    assert np.abs(product.ravel() - rhs).max() < 1e-11
    marginal, cross = factor.selected_inverse()
    # (A Z)_ii = I for every node, from selected blocks alone
    identity = diag @ marginal
    identity[:-1] += off @ cross.transpose(0, 2, 1)
    identity[1:] += off.transpose(0, 2, 1) @ cross
    np.testing.assert_allclose(identity, np.broadcast_to(np.eye(block), identity.shape), atol=1e-10)


def test_rounding_does_not_grow_along_a_band():
    """Marginals of 2000 poses, each tied to the next ten, against solves; not symmetric to the last bit they are 1e12 times off."""
    n, width = 2000, 10
    rng = np.random.default_rng(16)
    rows = np.repeat(np.arange(n), width)
    cols = rows + np.tile(np.arange(1, width + 1), n)
    rows, cols = rows[cols < n], cols[cols < n]
    motion = np.tile(np.eye(6), (len(rows), 1, 1))  # a turn moves what is ahead sideways
    motion[:, 3:, :3] = (cols - rows)[:, None, None] * np.array([[0, 0, 0], [0, 0, 1], [0, -1, 0]])
    motion[:, 3:, :3] += 0.05 * rng.normal(size=(len(rows), 3, 3))
    weight = np.diag([400.0, 400.0, 400.0, 100.0, 100.0, 100.0])
    off = -motion.transpose(0, 2, 1) @ weight
    diag = np.zeros((n, 6, 6))
    np.add.at(diag, cols, weight)
    np.add.at(diag, rows, -off @ motion)
    diag[0] += 100 * np.eye(6)
    factor = analyze(n, rows, cols).factor(diag, off)
    marginal = factor.selected_inverse()[0]
    for node in range(0, n, 200):
        unit = np.zeros((n, 6, 6))
        unit[node] = np.eye(6)
        exact = factor.solve(unit.reshape(-1, 6)).reshape(n, 6, 6)[node]
        np.testing.assert_allclose(np.linalg.solve(exact, marginal[node]), np.eye(6), atol=1e-7)


def test_a_wrong_value_would_be_noticed():
    """Negative control: the comparison with the dense matrix fails if one block is changed."""
    rng = np.random.default_rng(15)
    pairs, diag, off = problem(rng, 30, grid(5, 6), 6)
    A = dense(30, 6, pairs, diag, off)
    wrong = off.copy()
    wrong[7] = wrong[7].T
    factor = analyze(30, pairs[:, 0], pairs[:, 1]).factor(diag + 3 * np.eye(6), wrong)
    A += 3 * np.eye(180)
    rhs = rng.normal(size=180)
    x = factor.solve(rhs)
    assert np.abs(A @ x - rhs).max() > 1e-6 * np.linalg.norm(A, 1) * np.abs(x).max()
    exact = np.linalg.inv(A).reshape(30, 6, 30, 6)[np.arange(30), :, np.arange(30)]
    assert np.abs(factor.selected_inverse()[0] - exact).max() > 1e-6 * np.abs(exact).max()


def test_empty_matrix():
    symbolic = analyze(0, [], [], block=6)
    factor = symbolic.factor(np.zeros((0, 6, 6)), np.zeros((0, 6, 6)))
    assert factor.log_determinant() == 0.0
    assert factor.solve(np.zeros(0)).shape == (0,)
    marginal, cross = factor.selected_inverse()
    assert marginal.shape == cross.shape == (0, 6, 6)


def test_no_right_hand_sides():
    factor = analyze(2, [0], [1], block=1).factor(np.full((2, 1, 1), 2.0), np.ones((1, 1, 1)))
    assert factor.solve(np.zeros((2, 0))).shape == (2, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: analyze(3, [0, 1], [1, 3]), r"cols\[1\] is node 3, expected 0 … 2"),
        (lambda: analyze(3, [0, -1], [1, 2]), r"rows\[1\] is node -1"),
        (lambda: analyze(3, [0, 1], [1]), "expected two equal lists"),
        (lambda: analyze(3, [0.0], [1.0]), "expected integers"),
        (lambda: analyze(-1, [], []), "number of nodes"),
        (lambda: analyze(1, [], [], block=0), "block size"),
        (lambda: analyze(2, [0], [1]).factor(np.zeros((2, 3, 3)), np.zeros((1, 6, 6))), "diag has shape"),
        (lambda: analyze(2, [0], [1]).factor(np.zeros((2, 6, 6)), np.zeros((2, 6, 6))), "off has shape"),
        (lambda: analyze(1, [], [], block=1).factor(np.ones((1, 1, 1)), []).solve([1.0, 2.0]), "right-hand side"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(TemposeError, match=message) as caught:
        call()
    assert isinstance(caught.value, GraphError | ArgumentError)


def test_error_survives_pickling():
    error = pickle.loads(pickle.dumps(NotPositiveDefiniteError(5)))
    assert error.node == 5
    assert "node 5" in str(error)


@pytest.mark.skipif("TEMPOSE_DATA" not in os.environ, reason="TEMPOSE_DATA is not set")
@pytest.mark.parametrize("name", ["smallGrid3D", "sphere2500", "parking-garage"])
def test_public_graphs(name):
    text = (Path(os.environ["TEMPOSE_DATA"]) / "g2o" / f"{name}.g2o").read_text()
    ends = [line.split()[1:3] for line in text.splitlines() if line.startswith("EDGE_SE3:QUAT")]
    pairs = np.array(ends, dtype=np.int64)
    n = int(pairs.max()) + 1
    rng = np.random.default_rng(16)
    pairs, diag, off = problem(rng, n, pairs, 6)
    factor = analyze(n, pairs[:, 0], pairs[:, 1]).factor(diag, off)
    marginal, cross = factor.selected_inverse()
    k = rng.integers(0, len(pairs), 20)
    np.testing.assert_allclose(factor.inverse_blocks(pairs[k, 0], pairs[k, 1]), cross[k], atol=1e-11)
    np.testing.assert_allclose(factor.inverse_blocks(pairs[k, 0], pairs[k, 0]), marginal[pairs[k, 0]], atol=1e-11)


class TestOrdering:
    """Minimum degree beside nested dissection: permutations, and the cheaper of the two."""

    @staticmethod
    def cube(k: int) -> tuple[int, np.ndarray]:
        v = np.arange(k**3).reshape(k, k, k)
        ends = [(v[:-1], v[1:]), (v[:, :-1], v[:, 1:]), (v[:, :, :-1], v[:, :, 1:])]
        return k**3, np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in ends])

    def test_operations_are_those_of_the_factor(self):
        n, pairs = SHAPES["random"]
        graph = _adjacency(n, pairs)
        order = ordering.minimum_degree(graph)
        filled = dense(n, 1, pairs, np.full((n, 1, 1), 100.0), np.full((len(pairs), 1, 1), -1.0))[np.ix_(order, order)]
        below = (np.abs(np.linalg.cholesky(filled)) > 0.0).sum(axis=0).astype(float)  # its diagonal included
        assert ordering.operations(graph, order) == pytest.approx(0.5 * np.sum(below * (below + 1)))
        assert ordering.operations(graph, np.arange(n)) > ordering.operations(graph, order)  # negative control

    @pytest.mark.parametrize("shape", SHAPES)
    def test_dropping_the_fill_does_not_change_the_order(self, shape):
        n, pairs = SHAPES[shape]
        graph = _adjacency(n, np.asarray(pairs, dtype=np.int64).reshape(-1, 2))
        if n == 0 or np.diff(graph.indptr).max() > 16:
            pytest.skip("nothing to order, or hubs, which come last by themselves")
        matrix = (eye_array(n) * (np.diff(graph.indptr).max() + 1.0) - (graph > 0)).tocsc()
        whole = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        np.testing.assert_array_equal(ordering.minimum_degree(graph)[whole.perm_c], np.arange(n))

    def test_nested_dissection_is_kept_where_it_is_cheaper(self, monkeypatch: pytest.MonkeyPatch):
        pytest.importorskip("pymetis")
        n, pairs = self.cube(12)
        graph = _adjacency(n, pairs)
        assert ordering.fill_reducing_order(graph).kind == "minimum degree"  # small graphs do not depend on METIS
        monkeypatch.setattr(ordering, "LARGE", n)
        found = ordering.fill_reducing_order(graph)
        assert found.kind == "nested dissection"
        np.testing.assert_array_equal(np.sort(found.nodes), np.arange(n))
        np.testing.assert_array_equal(ordering.nested_dissection(graph), found.nodes)
        assert ordering.operations(graph, found.nodes) < 0.9 * ordering.operations(
            graph, ordering.minimum_degree(graph)
        )
        chain = _adjacency(n, np.column_stack([np.arange(n - 1), np.arange(1, n)]))
        assert ordering.fill_reducing_order(chain).kind == "minimum degree"

    def test_a_graph_in_another_order_has_the_same_solution(self, monkeypatch: pytest.MonkeyPatch):
        pytest.importorskip("pymetis")
        n, pairs = self.cube(8)
        pairs, diag, off = problem(np.random.default_rng(3), n, pairs, 3)
        rhs = np.random.default_rng(4).normal(size=3 * n)
        ours = analyze(n, pairs[:, 0], pairs[:, 1], block=3)
        monkeypatch.setattr(ordering, "LARGE", n)
        theirs = analyze(n, pairs[:, 0], pairs[:, 1], block=3)
        assert (ours.ordering, theirs.ordering) == ("minimum degree", "nested dissection")
        a, b = (s.factor(diag, off) for s in (ours, theirs))
        np.testing.assert_allclose(a.solve(rhs), b.solve(rhs), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(a.selected_inverse()[1], b.selected_inverse()[1], rtol=1e-9, atol=1e-12)
        assert not np.array_equal(a.solve(rhs), b.solve(rhs))  # negative control: it is another order


class TestTasks:
    """Subtrees of the elimination tree at the same time."""

    @pytest.fixture
    def shared(self, monkeypatch: pytest.MonkeyPatch):
        """A pattern that is cut into tasks though it is small, its blocks, and right-hand sides."""
        monkeypatch.setattr(block_cholesky, "_ALONE", 0.0)
        n, pairs = TestOrdering.cube(7)
        pairs, diag, off = problem(np.random.default_rng(5), n, pairs, 3)
        rhs = np.random.default_rng(6).normal(size=(3 * n, 5))
        return analyze(n, pairs[:, 0], pairs[:, 1], block=3), diag, off, rhs

    @staticmethod
    def everything(symbolic, diag, off, rhs):
        factor = symbolic.factor(diag, off)
        one = [f(rhs[:, 0]) for f in (factor.solve, factor.solve_L, factor.solve_Lt)]
        many = [f(rhs) for f in (factor.solve, factor.solve_L, factor.solve_Lt)]
        return [*one, *many, *factor.selected_inverse(), np.array(factor.log_determinant())]

    def test_tasks_are_whole_subtrees_that_share_nothing(self, shared):
        symbolic = shared[0]
        tree, tasks = symbolic._tree, symbolic._tasks
        assert len(tasks) >= 5 and symbolic._top
        covered = np.concatenate([np.arange(a, b) for a, b in tasks + symbolic._top])
        np.testing.assert_array_equal(np.sort(covered), np.arange(len(tree.start) - 1))
        size = (np.diff(tree.pointer) * symbolic.block) ** 2
        used = []
        for (a, b), beyond in zip(tasks, symbolic._beyond, strict=True):
            inside = {
                int(c) for s in range(a, b) for c in tree.child[tree.child_pointer[s] : tree.child_pointer[s + 1]]
            }
            assert all(a <= c < b for c in inside)
            rows = np.unique(tree.rows[tree.pointer[a] : tree.pointer[b]])
            np.testing.assert_array_equal(rows[rows >= tree.start[b]], beyond)
            used.append((int(tree.update[a:b].min()), int((tree.update[a:b] + size[a:b]).max())))
        used.sort()
        assert all(high <= low for (_, high), (low, _) in zip(used, used[1:], strict=False))

    def test_any_number_of_threads_gives_the_same_bytes(self, shared, monkeypatch: pytest.MonkeyPatch):
        results = []
        for threads in (1, 2, 5):
            monkeypatch.setattr(parallel, "cores", lambda threads=threads: threads)
            results.append(self.everything(*shared))
        for other in results[1:]:
            for a, b in zip(results[0], other, strict=True):
                np.testing.assert_array_equal(a, b)

    def test_tasks_compute_what_one_thread_alone_does(self, shared, monkeypatch: pytest.MonkeyPatch):
        symbolic, diag, off, rhs = shared
        monkeypatch.setattr(block_cholesky, "_ALONE", np.inf)
        alone = analyze(symbolic.n, symbolic.pairs[:, 0], symbolic.pairs[:, 1], block=3)
        assert len(alone._tasks) == 1 and not alone._top
        assert symbolic._stack_size > alone._stack_size
        a, b = self.everything(alone, diag, off, rhs), self.everything(symbolic, diag, off, rhs)
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)
        np.testing.assert_array_equal(
            a[2], b[2]
        )  # down the tree and all of the factor: the same numbers in the same order
        np.testing.assert_array_equal(a[-1], b[-1])
        exact = np.linalg.inv(dense(symbolic.n, 3, symbolic.pairs, diag, off))
        np.testing.assert_allclose(b[0], exact @ rhs[:, 0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(b[6][5], exact[15:18, 15:18], rtol=1e-8)

    def test_what_breaks_is_the_same_node_on_any_number_of_threads(self, shared, monkeypatch: pytest.MonkeyPatch):
        symbolic, diag, off, _ = shared
        bad = diag.copy()
        bad[[3, 200, 300]] *= -1.0
        named = set()
        for threads in (1, 3):
            monkeypatch.setattr(parallel, "cores", lambda threads=threads: threads)
            with pytest.raises(NotPositiveDefiniteError) as broken:
                symbolic.factor(bad, off)
            named.add(broken.value.node)
        assert len(named) == 1


@pytest.mark.parametrize("seed", range(6))
def test_nodes_that_come_last_leave_their_schur_complement(seed):
    """S = A_BB − A_BI A_II⁻¹ A_IB is L Lᵀ of the end of the factor, also where parts do not touch the border at all."""
    rng = np.random.default_rng(seed)
    n, block, k = 40, (1, 3, 6)[seed % 3], (1, 7, 12)[seed // 2]
    border = np.sort(rng.permutation(n)[:k])
    loose = random_pairs(rng, n, 45)
    clique = np.array([(a, b) for a in border for b in border if a > b]).reshape(-1, 2)
    pairs = np.concatenate([loose, clique])
    pairs, diag, off = problem(rng, n, pairs, block)
    symbolic = analyze(n, pairs[:, 0], pairs[:, 1], block=block, last=border)
    assert set(symbolic.order[-k:].tolist()) == set(border.tolist())
    factor = symbolic.factor(diag, off)
    A = dense(n, block, pairs, diag, off)
    rows = (symbolic.order[-k:, None] * block + np.arange(block)).ravel()
    rest = np.setdiff1d(np.arange(n * block), rows)
    want = A[np.ix_(rows, rows)] - A[np.ix_(rows, rest)] @ np.linalg.solve(A[np.ix_(rest, rest)], A[np.ix_(rest, rows)])
    L = factor.last_columns(k)
    assert np.allclose(L @ L.T, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
    touches = np.any(A[np.ix_(rows, rest)])  # negative control: what is eliminated counts
    assert touches != np.allclose(L @ L.T, A[np.ix_(rows, rows)], rtol=1e-9)
    right = rng.standard_normal(n * block)
    assert np.allclose(factor.solve(right), np.linalg.solve(A, right))
    assert np.allclose(
        factor.selected_inverse()[0], [np.linalg.inv(A)[v * block :, v * block :][:block, :block] for v in range(n)]
    )


def test_blocks_of_an_inverse_whose_end_is_given():
    """Σ_II = H_II⁻¹ + X Σ Xᵀ; and the factor is as it was afterwards."""
    rng = np.random.default_rng(3)
    n, block, border = 25, 3, np.arange(19, 25)
    clique = np.array([(a, b) for a in border for b in border if a > b])
    pairs, diag, off = problem(rng, n, np.concatenate([chain(n), random_pairs(rng, n, 12), clique]), block)
    symbolic = analyze(n, pairs[:, 0], pairs[:, 1], block=block, last=border)
    factor, A = symbolic.factor(diag, off), dense(n, block, pairs, diag, off)
    order = symbolic.order[-len(border) :]
    last = (order[:, None] * block + np.arange(block)).ravel()
    rest = np.setdiff1d(np.arange(n * block), last)
    J = rng.standard_normal((len(last), len(last)))
    sigma = J @ J.T + np.eye(len(last))
    X = np.linalg.solve(A[np.ix_(rest, rest)], A[np.ix_(rest, last)])
    want = np.linalg.inv(A)
    want[np.ix_(rest, rest)] = np.linalg.inv(A[np.ix_(rest, rest)]) + X @ sigma @ X.T
    before = factor.selected_inverse()
    found = factor.selected_inverse_given(sigma)[0]
    for v in range(19):
        here = slice(v * block, (v + 1) * block)
        assert np.allclose(found[v], want[here, here], rtol=1e-9)
        assert not np.allclose(found[v], before[0][v], rtol=1e-6)  # negative control
    assert np.array_equal(factor.selected_inverse()[0], before[0])
    with pytest.raises(NotPositiveDefiniteError):
        factor.selected_inverse_given(-sigma)
