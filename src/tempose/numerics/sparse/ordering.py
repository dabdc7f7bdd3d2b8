"""In which order to eliminate the nodes of a graph, so that little fills in.

Minimum degree is quick, and good where separators are small: chains, sheets, most pose graphs. In space separators are planes,
and nested dissection, which finds them from the coarse to the fine, needs half the arithmetic. Graphs of at least
:data:`LARGE` nodes get both, and the cheaper is kept, by a count of operations that knows neither clocks nor block sizes: the same
graph gets the same order every time. Nested dissection is that of METIS (``pip install 'tempose[large]'``). Without it
large graphs are ordered by minimum degree. The order changes the last digits of results, so that these may differ
between machines with METIS and without; :attr:`Symbolic.ordering` says which order it was, and so does ``result.json``.

References
----------
J. W. H. Liu, Modification of the minimum-degree algorithm by multiple elimination, ACM TOMS 11 (1985).
G. Karypis, V. Kumar, A fast and high quality multilevel scheme for partitioning irregular graphs, SIAM J. Sci. Comput. 20 (1998).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import eye_array
from scipy.sparse.linalg import spilu

from tempose._support.packages import require
from tempose._typing import Index

from . import _symbolic

LARGE = 10_000
"""Nodes from which on nested dissection is tried, too."""


class Order(NamedTuple):
    """An order of elimination and what it is: ``minimum degree``, ``nested dissection`` (METIS), or ``given``."""

    nodes: Index
    kind: str


def fill_reducing_order(graph: Any) -> Order:
    """An order (n,) for a symmetric pattern in compressed rows without self loops."""
    ours = Order(minimum_degree(graph), "minimum degree")
    if graph.shape[0] < LARGE or not has_metis():
        return ours
    theirs = Order(nested_dissection(graph), "nested dissection")
    return theirs if operations(graph, theirs.nodes) < operations(graph, ours.nodes) else ours


def has_metis() -> bool:
    """Whether nested dissection can be had."""
    return find_spec("pymetis") is not None


def operations(graph: Any, order: Index) -> float:
    """Multiplications of a factorisation in this order, of one number per entry of the pattern."""
    indptr, indices = graph.indptr, graph.indices
    parent = _symbolic.elimination_tree(indptr, indices, order, inverse(order))
    count = _symbolic.column_counts(indptr, indices, order, inverse(order), parent).astype(np.float64)
    return float(0.5 * np.sum((count + 1.0) * (count + 2.0)))


def minimum_degree(graph: Any) -> Index:
    """Minimum degree ordering of the nodes, with hubs, which would make it quadratic, at the end.

    SuperLU's multiple minimum degree, read off a factorisation of the n × n pattern, which drops all fill since nobody wants
    its numbers: on pose graphs it gave less fill than nested dissection by spectral bisection, in the order in which the nodes come
    even more so.
    """
    inner, last, degree = _without_hubs(graph)
    if last.size:
        graph = graph[inner][:, inner]
    if inner.size == 0:
        return last
    matrix = (eye_array(inner.size) * (degree.max() + 1.0) - (graph > 0)).tocsc()
    lu = spilu(
        matrix, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )  # fmt: skip
    return np.concatenate([inner[inverse(lu.perm_c.astype(np.int64))], last])


def nested_dissection(graph: Any) -> Index:
    """METIS' multilevel nested dissection, hubs at the end; METIS draws from a stream of its own, the same each time."""
    metis = require("pymetis", "nested dissection")
    inner, last, _ = _without_hubs(graph)
    if last.size:
        graph = graph[inner][:, inner]
    if inner.size == 0:
        return last
    pattern = metis.CSRAdjacency(graph.indptr.astype(np.int32), graph.indices.astype(np.int32))
    found = np.asarray(metis.nested_dissection(pattern, options=metis.Options(seed=0))[0], dtype=np.int64)
    return np.concatenate([inner[found], last])


def _without_hubs(graph: Any) -> tuple[Index, Index, Index]:
    """Nodes of a moderate number of neighbours, the others, and the number of neighbours of each."""
    degree = np.diff(graph.indptr)
    hub = degree > max(16.0, 10.0 * np.sqrt(graph.shape[0]))
    return np.flatnonzero(~hub), np.flatnonzero(hub), degree


def inverse(permutation: Index) -> Index:
    """Where each number is."""
    found = np.empty_like(permutation)
    found[permutation] = np.arange(len(permutation))
    return found
