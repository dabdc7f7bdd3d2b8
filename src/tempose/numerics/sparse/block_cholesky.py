r"""Cholesky factorisation of sparse symmetric matrices made of small dense blocks.

The Hessian of a pose graph has one b × b block per node on the diagonal (b = 6 for poses) and one per edge off it.
Everything structural is decided on the small graph of the n nodes; everything numeric is dense linear algebra.

**Factor.** A permutation P of the nodes that keeps the fill low, then :math:`P A P^T = L L^T` with L lower
triangular. Columns of L with (nearly) the same rows form a *supernode*. Supernode s has a *front*: its own k pivot
columns, then the u rows below them in which L is nonzero. The fronts form a tree, the parent of s being the
supernode of its first such row. From the leaves to the root each front sums its entries of A and the update
matrices of its children (*extend-add*), and then eliminates its pivots:

.. math::

    F = \begin{pmatrix} F_{11} & F_{21}^T \\ F_{21} & 0 \end{pmatrix} + \sum_{\text{children } c} U_c, \quad
    F_{11} = L_{11} L_{11}^T, \quad L_{21} = F_{21} L_{11}^{-T}, \quad U_s = F_{22} - L_{21} L_{21}^T .

**Solve.** :math:`A^{-1} = P^T L^{-T} L^{-1} P`; L is applied front by front, up the tree, Lᵀ down the tree. If z is
standard normal, then :math:`x = P^T L^{-T} z` has covariance :math:`P^T L^{-T} L^{-1} P = A^{-1}`.

**Selected inverse.** The blocks of :math:`Z = A^{-1}` on the pattern of L need no other blocks of Z (Takahashi). From
the root down, with :math:`Z_{22}` the part on the u rows, which the parent's front already holds,

.. math::

    K = L_{21} L_{11}^{-1}, \quad Z_{21} = -Z_{22} K, \quad Z_{11} = (L_{11} L_{11}^T)^{-1} + K^T Z_{22} K,

at about twice the cost of the factor, for all nodes and all edges at once.

References
----------
J. W. H. Liu, The multifrontal method for sparse matrix solution: theory and practice, SIAM Review 34 (1992).
C. Ashcraft, R. Grimes, The influence of relaxed supernode partitions on the multifrontal method, ACM TOMS 15 (1989).
K. Takahashi, J. Fagan, M.-S. Chin, Formation of a sparse bus impedance matrix, PICA (1973).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from tempose._support.parallel import on_threads
from tempose._typing import Array, Index, Mask
from tempose.errors import ArgumentError, GraphError, TemposeError

from . import _numeric, _symbolic
from ._dense import PADDING
from .ordering import Order, fill_reducing_order, inverse

T = TypeVar("T")
R = TypeVar("R")

_ALONE = 1e9  # operations, a tenth of a second: patterns that take less are left to the thread that asks
_WORTH_RELEASING = 1 << 24  # numbers, 128 MB
_MOST_TASKS = 32  # about: more balance better and need more memory


class NotPositiveDefiniteError(TemposeError):
    """The matrix is not positive definite.

    Parameters
    ----------
    node
        Index, in the caller's numbering, of the node whose pivot block failed: the matrix restricted to the nodes
        eliminated so far, this one included, is not positive definite.
    """

    def __init__(self, node: int) -> None:
        self.node = node
        super().__init__(
            f"the matrix is not positive definite: the elimination broke at node {node}. Likely a free gauge (fix a "
            "node, or add a prior), a component without an anchor, or an indefinite Hessian (add a shift)"
        )

    def __reduce__(self) -> tuple[type[NotPositiveDefiniteError], tuple[int]]:
        return type(self), (self.node,)


class Symbolic:
    """Everything about a factorisation that depends on the pattern alone; made by :func:`analyze`.

    Attributes
    ----------
    n, block
        Number of nodes, and b: the matrix has n·b rows.
    order
        (n,) elimination order: block row j of the permuted matrix P A Pᵀ is node ``order[j]``.
    first_order
        The same before it was sorted by the elimination tree: what another analysis of the pattern may start from.
    ordering
        What kind of order it is (:mod:`tempose.numerics.sparse.ordering`).
    pairs
        (e, 2) the off-diagonal block positions, as given.
    nonzeros
        Scalars stored for L, explicit zeros of relaxed supernodes included.
    flops
        Floating point operations of one numeric factorisation.
    """

    def __init__(self, n: int, pairs: Index, block: int, order: Order | None = None, n_last: int = 0) -> None:
        self.n = n
        self.block = block
        self.pairs = pairs
        self._spare: list[Array] = []  # memory of a factor that is no longer used
        self._loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        graph = _adjacency(n, pairs)
        indptr, indices = graph.indptr, graph.indices

        self.first_order = fill_reducing_order(graph) if order is None else order
        self.ordering = self.first_order.kind
        nodes = self.first_order.nodes
        parent = _symbolic.elimination_tree(indptr, indices, nodes, inverse(nodes))
        post = _symbolic.postorder(parent)
        nodes, parent = nodes[post], _renumber(parent, post)
        count = _symbolic.column_counts(indptr, indices, nodes, inverse(nodes), parent)
        label = _symbolic.supernodes(parent, count, block)
        if n_last:  # the last nodes stay last: a supernode of their own, which absorbs no others
            label[n - n_last :] = n
            label = np.unique(label, return_inverse=True)[1]
        # amalgamation moves the columns of an absorbed child next to those of its parent
        post = np.argsort(label, kind="stable")
        nodes, parent, label = nodes[post], _renumber(parent, post), label[post]
        rank = inverse(nodes)
        start = np.searchsorted(label, np.arange(label[-1] + 2 if n else 1))
        above = parent[start[1:] - 1]
        supernode_parent = np.where(above < 0, -1, label[above])
        pointer, rows = _symbolic.supernode_rows(indptr, indices, nodes, rank, label, supernode_parent)

        columns, below = np.diff(start) * block, np.diff(pointer) * block
        panel = _offsets((columns + below) * columns)
        k, u = columns.astype(float), below.astype(float)
        cost = k**3 / 3 + k * k * u + k * u * u
        self.flops = float(cost.sum())
        least = math.inf if self.flops < _ALONE else self.flops / _MOST_TASKS
        begin, is_task = _symbolic.shares(supernode_parent, cost, least)
        self._tasks, self._top = _ranges(begin, is_task), _ranges(begin, ~is_task)
        region = np.repeat(np.where(is_task, np.cumsum(is_task), 0), np.diff(begin))
        update, self._stack_size = _symbolic.stack_places(supernode_parent, below**2, region)

        owner = np.repeat(np.arange(len(below)), below // block)
        keys = owner * n + rows  # ascending, so that one bisection finds a row of any front

        def place(front: Index, row: Index) -> Index:
            """Index of a block row within a front: its columns first, then its rows."""
            inside = row < start[front + 1]
            found = np.searchsorted(keys, front * n + row) - pointer[front] + columns[front] // block
            return np.where(inside, row - start[front], found)

        inner = np.flatnonzero(supernode_parent >= 0)
        child = inner[np.argsort(supernode_parent[inner], kind="stable")]

        edges = np.flatnonzero(pairs[:, 0] != pairs[:, 1])
        ends = rank[pairs[edges]]
        high, low = ends.min(1), ends.max(1)  # column and row in the lower triangle
        front = label[high]
        height = (columns + below)[front]
        position = panel[front] + (place(front, low) + (high - start[front]) * height) * block
        by_front = np.argsort(front, kind="stable")

        self.order = nodes
        self.nonzeros = int(panel[-1])
        self._beyond = [_beyond(a, b, start, pointer, rows, supernode_parent) for a, b in self._tasks]
        self._tree = _numeric.Tree(
            block=block,
            tallest=int((columns + below).max(initial=0)) // block,
            order=nodes,
            start=start,
            pointer=pointer,
            rows=rows,
            relative=place(supernode_parent[owner], rows),
            panel=panel,
            update=update,
            child_pointer=np.searchsorted(supernode_parent[child], np.arange(columns.size + 1)),
            child=child,
            entry_pointer=np.searchsorted(front[by_front], np.arange(columns.size + 1)),
            entry=edges[by_front],
            entry_place=position[by_front],
            entry_flip=(ends[:, 0] < ends[:, 1])[by_front],
        )
        self._panel_sizes = np.diff(panel)
        self._largest_panel = int(self._panel_sizes.max(initial=0))
        column = np.arange(n * block) - np.repeat(start[:-1] * block, columns)
        self._diagonal = np.repeat(panel[:-1], columns) + column * (np.repeat(columns + below, columns) + 1)

    def _largest_of(self, part: tuple[int, int]) -> int:
        return int(self._panel_sizes[part[0] : part[1]].max(initial=0))

    def factor(self, diag: ArrayLike, off: ArrayLike, *, shift: float = 0.0) -> Factor:
        """Factor A + shift · I.

        Parameters
        ----------
        diag
            (n, b, b) diagonal blocks; the lower triangle of each is read.
        off
            (e, b, b) off-diagonal blocks: block k is A[rows[k], cols[k]] of the pairs analysed, its transpose is
            A[cols[k], rows[k]]. Pairs given more than once are summed; self loops are left out.
        shift
            Added to the diagonal.

        Raises
        ------
        NotPositiveDefiniteError
            Naming the node at which the elimination broke.
        """
        b = self.block
        diag = _checked("diag", diag, (self.n, b, b))
        off = _checked("off", off, (len(self.pairs), b, b))
        try:
            values = self._spare.pop()
        except IndexError:
            values = np.empty(self.nonzeros + PADDING)
        stack = np.empty(self._stack_size + PADDING)

        def share(part: tuple[int, int]) -> int:
            return int(_numeric.factor(self._tree, *part, diag, off, float(shift), values, stack))

        broken = min((at for at in _shared(share, self._tasks) if at >= 0), default=-1)
        for part in self._top:
            broken = share(part) if broken < 0 else broken
        if broken >= 0:
            self._spare.append(values)
            raise NotPositiveDefiniteError(int(self.order[broken]))
        return Factor(self, values)

    def release(self) -> None:
        """Give back the memory of a factor that is no longer used, where it is worth it: the next factor takes fresh one."""
        if self.nonzeros > _WORTH_RELEASING:
            self._spare.clear()

    def __repr__(self) -> str:
        supernodes = len(self._tree.start) - 1
        return (
            f"Symbolic(n={self.n}, block={self.block}, pairs={len(self.pairs)}, supernodes={supernodes}, "
            f"nonzeros={self.nonzeros}, flops={self.flops:.3g})"
        )


class Factor:
    """A numeric factorisation P A Pᵀ = L Lᵀ; made by :meth:`Symbolic.factor`.

    P takes a vector in the caller's order to the elimination order: block j of P x is block ``symbolic.order[j]``
    of x. Right-hand sides are (n·b,) or (n·b, k).
    """

    def __init__(self, symbolic: Symbolic, values: Array) -> None:
        self.symbolic = symbolic
        self._values = values

    def __del__(self) -> None:
        # the next factorisation takes over the memory: fresh pages would cost as much as a light factorisation
        if not self.symbolic._spare:
            self.symbolic._spare.append(self._values)

    def solve(self, rhs: ArrayLike) -> Array:
        """Return A⁻¹ rhs."""
        return self._solve(rhs, True, True)

    def solve_L(self, rhs: ArrayLike) -> Array:
        """Return L⁻¹ P rhs: takes the caller's order to the elimination order; whitens vectors of covariance A."""
        return self._solve(rhs, True, False)

    def solve_Lt(self, rhs: ArrayLike) -> Array:
        """Return Pᵀ L⁻ᵀ rhs: takes the elimination order to the caller's.

        ``solve(r) == solve_Lt(solve_L(r))``; if z is standard normal, ``solve_Lt(z)`` is a draw of N(0, A⁻¹).
        """
        return self._solve(rhs, False, True)

    def last_columns(self, count: int) -> Array:
        """Return L (count·b, count·b) of the last ``count`` nodes of the order, dense; L Lᵀ is their Schur complement.

        That is what is left of A for these nodes, ``symbolic.order[-count:]``, when all the others are eliminated.
        """
        symbolic = self.symbolic
        tree, b, first = symbolic._tree, symbolic.block, symbolic.n - count
        out = np.zeros((count * b, count * b))
        within = np.arange(b)
        for s in range(len(tree.start) - 2, -1, -1):
            begin, end = int(tree.start[s]), int(tree.start[s + 1])
            if end <= first:
                break
            below = tree.rows[tree.pointer[s] : tree.pointer[s + 1]]
            height = (end - begin + len(below)) * b
            panel = self._values[tree.panel[s] : tree.panel[s + 1]].reshape(-1, height)  # by columns
            skip = max(first - begin, 0)
            rows = np.concatenate([np.arange(begin + skip, end), below]) - first
            lines = (rows[:, None] * b + within).reshape(-1)
            own = slice((begin + skip - first) * b, (end - first) * b)
            out[lines, own] = panel[skip * b :, skip * b :].T
        return np.tril(out)

    def log_determinant(self) -> float:
        """Return log det A = 2 Σ log Lⱼⱼ."""
        return 2.0 * float(np.log(self._values[self.symbolic._diagonal]).sum())

    def selected_inverse(self) -> tuple[Array, Array]:
        """Return the blocks of A⁻¹ on the pattern of A.

        Returns
        -------
        diag
            (n, b, b) marginal covariance of every node, if A is an information matrix.
        off
            (e, b, b) blocks A⁻¹[rows[k], cols[k]] of the pairs analysed, in their order.
        """
        symbolic = self.symbolic
        b = symbolic.block
        diag = np.empty((symbolic.n, b, b))
        off = np.empty((len(symbolic.pairs), b, b))
        stack = np.empty(symbolic._stack_size + PADDING)

        def share(part: tuple[int, int]) -> None:
            Z, N, K = (np.empty(symbolic._largest_of(part) + PADDING) for _ in range(3))
            _numeric.selected_inverse(symbolic._tree, *part, self._values, stack, Z, N, K, diag, off)

        for part in reversed(symbolic._top):
            share(part)
        _shared(share, symbolic._tasks)
        off[symbolic._loops] = diag[symbolic.pairs[symbolic._loops, 0]]
        return diag, off

    def selected_inverse_given(self, last: Array) -> tuple[Array, Array]:
        """The same where the block of the last nodes, of those that :func:`analyze` was told, is given instead.

        With ``last`` (k·b, k·b) their covariance Σ, in the order of elimination, and all others eliminated before them, these are
        blocks of ``H_II⁻¹ + X Σ Xᵀ``, ``X = H_II⁻¹ H_IB``, and of ``−X Σ``: what the others are if the last have covariance Σ.

        Raises
        ------
        NotPositiveDefiniteError
            If ``last`` is not positive definite.
        """
        symbolic = self.symbolic
        begin, end = symbolic._tree.panel[-2:]
        panel = self._values[begin:end].reshape(len(last), len(last))  # by columns: its transpose is L
        before = panel.copy()
        try:
            # Σ = W Wᵀ with W upper triangular, and so (L Lᵀ)⁻¹ with L = W⁻ᵀ: no inverse of Σ, and no difference of large numbers
            upper = np.linalg.cholesky(last[::-1, ::-1])[::-1, ::-1]
        except np.linalg.LinAlgError:
            raise NotPositiveDefiniteError(int(symbolic.order[-1])) from None
        try:
            panel[:] = np.triu(solve_triangular(upper, np.eye(len(last))))
            return self.selected_inverse()
        finally:
            panel[:] = before

    def inverse_blocks(self, i: ArrayLike, j: ArrayLike) -> Array:
        """Return the blocks A⁻¹[i[k], j[k]], (m, b, b), of any nodes i and j: one block column per distinct j."""
        symbolic = self.symbolic
        b, n = symbolic.block, symbolic.n
        rows, cols = np.broadcast_arrays(np.atleast_1d(_nodes("i", i, n)), np.atleast_1d(_nodes("j", j, n)))
        blocks = np.empty((len(rows), b, b))
        nodes, which = np.unique(cols, return_inverse=True)
        chunk = max(1, 96 // b)
        for begin in range(0, len(nodes), chunk):
            part = nodes[begin : begin + chunk]
            rhs = np.zeros((n * b, len(part) * b))
            rhs[(part[:, None] * b + np.arange(b)).ravel(), np.arange(len(part) * b)] = 1.0
            columns = self.solve(rhs).reshape(n, b, len(part), b)
            here = np.flatnonzero((which >= begin) & (which < begin + len(part)))
            blocks[here] = columns[rows[here], :, which[here] - begin, :]
        return blocks

    def _solve(self, rhs: ArrayLike, forward: bool, backward: bool) -> Array:
        symbolic = self.symbolic
        n, b, order = symbolic.n, symbolic.block, symbolic.order
        given = np.asarray(rhs, dtype=float)
        if given.ndim not in (1, 2) or given.shape[0] != n * b:
            raise ArgumentError(f"the right-hand side has shape {given.shape}, expected ({n * b},) or ({n * b}, k)")
        count = 1 if given.ndim == 1 else given.shape[1]
        blocks = given.reshape(n, b, count)
        flat = np.empty(n * b * count + PADDING)
        x = flat[: n * b * count].reshape(n, b, count)
        x[:] = blocks[order] if forward else blocks
        for wanted, transposed in ((forward, False), (backward, True)):
            if wanted and count:
                self._sweep(flat, count, transposed)
        if not backward:
            return x.reshape(given.shape)
        result = np.empty_like(x)
        result[order] = x
        return result.reshape(given.shape)

    def _sweep(self, x: Array, count: int, transposed: bool) -> None:
        """Overwrite the flat right-hand sides by L⁻¹ x, or by L⁻ᵀ x.

        Tasks that go up the tree at the same time each take what they take from rows above them from a vector of their own;
        these are added in the order of the tasks, whatever the number of threads.
        """
        symbolic = self.symbolic
        tree, values, width = symbolic._tree, self._values, symbolic.block * count

        def share(part: tuple[int, int], beyond: Array) -> None:
            work = np.empty(tree.tallest * width + PADDING)
            if count == 1:
                _numeric.solve_part(tree, *part, values, x, beyond, transposed, work)
            else:
                _numeric.solve_many(tree, *part, values, x, beyond, count, transposed, work)

        def up(task: int) -> Array:
            beyond = np.zeros(len(x)) if len(symbolic._beyond[task]) else x  # zeros that nobody touches take no memory
            share(symbolic._tasks[task], beyond)
            return beyond.reshape(-1)[: symbolic.n * width].reshape(symbolic.n, width)[symbolic._beyond[task]]

        if transposed:
            for part in reversed(symbolic._top):
                share(part, x)
            _shared(lambda part: share(part, x), symbolic._tasks)
            return
        blocks = x[: symbolic.n * width].reshape(symbolic.n, width)
        for rows, taken in zip(symbolic._beyond, _shared(up, list(range(len(symbolic._tasks)))), strict=True):
            blocks[rows] += taken
        for part in symbolic._top:
            share(part, x)

    def __repr__(self) -> str:
        return f"Factor({self.symbolic!r})"


def analyze(
    n: int,
    rows: ArrayLike,
    cols: ArrayLike,
    *,
    block: int = 6,
    order: Order | Index | None = None,
    last: Index | None = None,
) -> Symbolic:
    """Analyse a block pattern: ordering, elimination tree, supernodes, fronts.

    Parameters
    ----------
    n
        Number of nodes (block rows).
    rows, cols
        (e,) positions of the off-diagonal blocks. The pattern is symmetric: a pair stands for both triangles, in
        either order; it may occur more than once; pairs with rows[k] = cols[k] are ignored.
    block
        Size b of a block.
    order
        A good order of elimination (n,), if one is known: that of the same pattern with blocks of another size.
    last
        Nodes to be eliminated after all others, in any order; they must all be neighbours of each other.

    Returns
    -------
    Symbolic
        To be used for any number of numeric factorisations.
    """
    n, block = int(n), int(block)
    if n < 0:
        raise GraphError(f"the number of nodes is {n}, expected a non-negative integer")
    if block < 1:
        raise ArgumentError(f"the block size is {block}, expected a positive integer")
    first, second = _nodes("rows", rows, n), _nodes("cols", cols, n)
    if first.shape != second.shape or first.ndim != 1:
        raise GraphError(f"rows has shape {first.shape} and cols {second.shape}, expected two equal lists")
    if order is not None and not isinstance(order, Order):
        order = Order(order, "given")
    pairs = np.column_stack([first, second])
    if last is not None and len(last):
        found = fill_reducing_order(_adjacency(n, pairs)) if order is None else order
        at_end = np.isin(found.nodes, last)
        order = Order(np.concatenate([found.nodes[~at_end], found.nodes[at_end]]), found.kind)
    return Symbolic(n, pairs, block, order, 0 if last is None else len(last))


def _nodes(name: str, values: ArrayLike, n: int) -> Index:
    nodes = np.asarray(values)
    if nodes.size == 0:
        return np.zeros(nodes.shape, dtype=np.int64)
    if nodes.dtype.kind not in "iu":
        raise GraphError(f"{name} has type {nodes.dtype}, expected integers")
    bad = np.flatnonzero((nodes < 0) | (nodes >= n))
    if bad.size:
        raise GraphError(f"{name}[{bad[0]}] is node {nodes.flat[bad[0]]}, expected 0 … {n - 1}")
    return nodes.astype(np.int64)


def _checked(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = np.require(values, dtype=np.float64, requirements=["C", "A", "W"])  # one array type, one compiled kernel
    if array.size == 0 and 0 in shape:
        return np.zeros(shape)
    if array.shape != shape:
        raise ArgumentError(f"{name} has shape {array.shape}, expected {shape}")
    return array


def _adjacency(n: int, pairs: Index) -> Any:
    """Symmetric pattern without self loops, in compressed rows."""
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    both = np.concatenate([pairs, pairs[:, ::-1]])
    graph = csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n, n))
    graph.sum_duplicates()
    return graph


def _renumber(parent: Index, order: Index) -> Index:
    """Parents in a tree whose nodes are taken in a new order."""
    moved = parent[order]
    return np.where(moved < 0, -1, inverse(order)[moved])


def _shared(function: Callable[[T], R], tasks: list[T]) -> list[R]:
    """What a function makes of each task: on all cores, if there are several tasks."""
    return [function(task) for task in tasks] if len(tasks) < 2 else list(on_threads(function, tasks))


def _ranges(begin: Index, wanted: Mask) -> list[tuple[int, int]]:
    """First supernode, and one behind the last, of the pieces that are wanted."""
    return [(int(begin[k]), int(begin[k + 1])) for k in np.flatnonzero(wanted)]


def _beyond(first: int, last: int, start: Index, pointer: Index, rows: Index, parent: Index) -> Index:
    """Block rows of later supernodes that supernodes ``first`` … ``last - 1``, whole subtrees, reach."""
    roots = first + np.flatnonzero(parent[first:last] >= last)
    reached = [rows[pointer[s] : pointer[s + 1]] for s in roots]
    return np.unique(np.concatenate(reached)) if reached else np.empty(0, np.int64)


def _offsets(sizes: Index) -> Index:
    return np.concatenate([[0], np.cumsum(sizes)])
