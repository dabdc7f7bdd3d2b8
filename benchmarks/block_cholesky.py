"""Block Cholesky against scipy's SuperLU, side by side in one run.

Set ``TEMPOSE_DATA`` to a directory that holds ``g2o/*.g2o`` to add those graphs; the others are generated.

    python benchmarks/block_cholesky.py [--repeat 7] [--big] [--only sphere] [--alone]

Times are the best of the repeats in milliseconds; the ratio is SuperLU over block Cholesky, so larger is better for
us. SuperLU is asked for a symmetric ordering and no pivoting; it offers no selected inverse, so that column
compares with our own factorisation instead.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.sparse import bsr_array
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

from tempose.numerics.sparse import analyze

BLOCK = 6


def nearest(points: np.ndarray, edges: int) -> np.ndarray:
    """Return the shortest pairs of points, in the given number."""
    distance, index = cKDTree(points).query(points, 17)
    ends = np.column_stack([np.repeat(np.arange(len(points)), 16), index[:, 1:].ravel()])
    pairs, first = np.unique(np.sort(ends, 1), axis=0, return_index=True)
    return pairs[np.argsort(distance[:, 1:].ravel()[first])[:edges]]


def read_g2o(path: Path) -> tuple[int, np.ndarray]:
    pairs = [line.split()[1:3] for line in path.read_text().splitlines() if line.startswith("EDGE_SE3:QUAT")]
    ids, ends = np.unique(np.array(pairs, dtype=np.int64), return_inverse=True)
    return len(ids), ends.reshape(-1, 2)


def graphs(big: bool) -> Iterator[tuple[str, int, np.ndarray]]:
    rng = np.random.default_rng(7)
    yield "random 3D", 2500, nearest(rng.random((2500, 3)), 10_000)
    yield "flat", 2500, nearest(rng.random((2500, 2)), 10_000)
    if "TEMPOSE_DATA" in os.environ:
        for path in sorted(Path(os.environ["TEMPOSE_DATA"]).glob("g2o/*.g2o")):
            yield path.stem, *read_g2o(path)
    yield "chain", 100_000, np.column_stack([np.arange(99_999), np.arange(1, 100_000)])
    side = np.arange(100 * 100).reshape(100, 100)
    across = np.column_stack([side[:, :-1].ravel(), side[:, 1:].ravel()])
    yield "grid 100×100", 10_000, np.concatenate([across, np.column_stack([side[:-1].ravel(), side[1:].ravel()])])
    if big:
        yield "random 3D", 10_000, nearest(rng.random((10_000, 3)), 40_000)


def hessian(n: int, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Σ over edges of JᵀJ with J = [-B, C], plus a small prior."""
    rng = np.random.default_rng(3)
    jacobian = rng.normal(size=(2, len(pairs), BLOCK, BLOCK)) + 2 * np.eye(BLOCK)
    diag = np.tile(1e-3 * np.eye(BLOCK), (n, 1, 1))
    for side in (0, 1):
        np.add.at(diag, pairs[:, side], jacobian[side].transpose(0, 2, 1) @ jacobian[side])
    return diag, -jacobian[0].transpose(0, 2, 1) @ jacobian[1]


def assembled(n: int, pairs: np.ndarray, diag: np.ndarray, off: np.ndarray) -> bsr_array:
    blocks = np.concatenate([diag, off, off.transpose(0, 2, 1)])
    rows = np.concatenate([np.arange(n), pairs[:, 0], pairs[:, 1]])
    cols = np.concatenate([np.arange(n), pairs[:, 1], pairs[:, 0]])
    by_row = np.argsort(rows, kind="stable")
    pointer = np.searchsorted(rows[by_row], np.arange(n + 1))
    return bsr_array((blocks[by_row], cols[by_row], pointer), shape=(n * BLOCK, n * BLOCK)).tocsc()


def best(call: Callable[[], object], repeat: int) -> float:
    """Return the shortest time of a call, in milliseconds; slow calls are repeated less."""
    shortest, spent = np.inf, 0.0
    for k in range(repeat):
        begin = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - begin)
        spent += time.perf_counter() - begin
        if spent > 5.0 and k >= 1:
            break
    return 1e3 * shortest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--big", action="store_true", help="add a random 3D graph of 10 000 nodes")
    parser.add_argument("--alone", action="store_true", help="leave SuperLU out")
    parser.add_argument("--only", default="", help="graphs whose name contains this")
    options = parser.parse_args()

    print("times in ms; ratio = SuperLU / ours; inverse = all marginal blocks, ratio = inverse / factor")
    print(
        f"{'graph':<16}{'nodes':>8}{'edges':>8}{'Mflop':>8}{'fill MB':>8}{'analyse':>9}{'factor':>9}{'ratio':>7}"
        f"{'solve':>8}{'ratio':>7}{'inverse':>9}{'ratio':>7}{'residual':>10}"
    )
    for name, n, pairs in graphs(options.big):
        if options.only not in name:
            continue
        diag, off = hessian(n, pairs)
        matrix = assembled(n, pairs, diag, off)
        rhs = np.random.default_rng(5).normal(size=n * BLOCK)

        symbolic = analyze(n, pairs[:, 0], pairs[:, 1], block=BLOCK)
        factor = symbolic.factor(diag, off)
        factor.selected_inverse()
        x = factor.solve(rhs)
        residual = np.abs(matrix @ x - rhs).max() / (abs(matrix).sum(1).max() * np.abs(x).max())
        analyse = best(lambda p=pairs, m=n: analyze(m, p[:, 0], p[:, 1], block=BLOCK), options.repeat)
        ours = best(lambda: symbolic.factor(diag, off), options.repeat)  # noqa: B023
        solve = best(lambda: factor.solve(rhs), options.repeat)  # noqa: B023
        inverse = best(factor.selected_inverse, options.repeat)
        theirs = their_solve = np.nan
        if not options.alone:
            setting = {
                "permc_spec": "MMD_AT_PLUS_A",
                "diag_pivot_thresh": 0.0,
                "options": {"SymmetricMode": True},
            }
            theirs = best(lambda: splu(matrix, **setting), 2)  # noqa: B023
            lu = splu(matrix, **setting)
            their_solve = best(lambda: lu.solve(rhs), options.repeat)  # noqa: B023
        print(
            f"{name:<16}{n:>8}{len(pairs):>8}{symbolic.flops / 1e6:>8.0f}{symbolic.nonzeros * 8 / 1e6:>8.1f}"
            f"{analyse:>9.2f}{ours:>9.2f}{theirs / ours:>7.1f}{solve:>8.2f}{their_solve / solve:>7.1f}"
            f"{inverse:>9.2f}{inverse / ours:>7.1f}{residual:>10.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
