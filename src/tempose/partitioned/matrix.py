"""A symmetric matrix in parts at the root, as those of the certificate: whether it is positive definite, and solutions with it.

A matrix is positive definite if and only if the interior of every part is, and what is left for the separators,

    R = A_SS − Σ A_BI A_II⁻¹ A_IB,

a sum over the parts. The root has the blocks of the matrix and the factor of R; factors of the interiors are the workers'.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path

import numpy as np

from tempose._support.files import make_directory
from tempose._typing import Array, Index, Mask
from tempose.numerics.sparse import NotPositiveDefiniteError, Symbolic, analyze
from tempose.optimum.quadratic import Hubs, Quadratic
from tempose.partitioned import blocks as work
from tempose.partitioned.blocks import BlockPart, Held, Right
from tempose.partitioned.dissection import dissect, joined
from tempose.partitioned.elimination import unpacked
from tempose.partitioned.hands import Hands

_serial = count()


class PatternInParts:
    """A pattern of blocks in parts, for any number of matrices.

    Parameters
    ----------
    n
        Number of nodes.
    rows, columns
        (e,) positions of the blocks off the diagonal; both ends differ.
    n_parts
        How many parts.
    between
        Nodes (n,) that are to be among the separators.
    """

    def __init__(self, n: int, rows: Index, columns: Index, n_parts: int, between: Mask | None = None) -> None:
        self.number, self.n = next(_serial), n
        cut = dissect(n, rows, columns, n_parts, between)
        self.separators, self.shares = cut.separators, cut.shares(rows, columns)
        self.own = cut.between(rows, columns)
        self.ends = [
            (_places(share.nodes, rows[share.edges]), _places(share.nodes, columns[share.edges]))
            for share in self.shares
        ]
        self.borders = [np.searchsorted(self.separators, share.border) for share in self.shares]
        source, target = (np.searchsorted(self.separators, end[self.own]) for end in (rows, columns))
        self.pairs, self.places = joined(source, target, self.borders)
        self._symbolic: dict[int, Symbolic] = {}

    def symbolic(self, block: int) -> Symbolic:
        """Of what is left for the separators."""
        if block not in self._symbolic:
            self._symbolic[block] = analyze(len(self.separators), self.pairs[:, 0], self.pairs[:, 1], block=block)
        return self._symbolic[block]


def _places(nodes: Index, wanted: Index) -> Index:
    """Where in ``nodes`` some are."""
    order = np.argsort(nodes)
    return order[np.searchsorted(nodes[order], wanted)]


class FactorInParts:
    """A matrix whose parts are eliminated.

    Parameters
    ----------
    pattern, hands, directory
        How it falls into parts, who works on them, and a folder that all workers see.
    diagonal, off
        Blocks (n, b, b) of the nodes, symmetric, and (e, b, b) of the pairs.

    Raises
    ------
    NotPositiveDefiniteError
        If it is not positive definite; the node is one of the part, or of the separators, that broke.
    """

    def __init__(self, pattern: PatternInParts, hands: Hands, directory: str, diagonal: Array, off: Array) -> None:
        self.pattern, self.hands, self.block = pattern, hands, diagonal.shape[-1]
        home, name = make_directory(Path(directory)), f"matrix-{next(_serial)}"
        self.held = [
            Held(str(home / f"{name}-{k:05d}.pickle"), f"{home}/{pattern.number}-{self.block}-{k}")
            for k in range(len(pattern.shares))
        ]
        weakref.finalize(self, _discard, [held.path for held in self.held])
        size = np.abs(np.einsum("nbb->nb", diagonal))
        for held, share, ends in zip(self.held, pattern.shares, pattern.ends, strict=True):
            stiff = np.maximum(2.0 * size[share.border], 1e-9 * size.max(initial=1.0))
            work.write_block_part(held, BlockPart(*ends, diagonal[share.inside], off[share.edges], stiff))
        found = hands.all(work.eliminate_blocks, self.held)
        for share, one in zip(pattern.shares, found, strict=True):
            if one is None:
                raise NotPositiveDefiniteError(int(share.inside[0]))
        b, left = self.block, diagonal[pattern.separators].copy()
        joins = np.zeros((len(pattern.pairs), b, b))
        joins[: len(pattern.own)] = off[pattern.own]
        for border, place, one in zip(pattern.borders, pattern.places, found, strict=True):
            assert one is not None
            k = len(border)
            S = unpacked(one).reshape(k, b, k, b).transpose(0, 2, 1, 3)
            left[border] += S[np.arange(k), np.arange(k)]
            joins[place] = S[np.tril_indices(k, -1)]
        try:
            self.factor = pattern.symbolic(b).factor(left, joins)
        except NotPositiveDefiniteError as error:
            raise NotPositiveDefiniteError(int(pattern.separators[error.node])) from None

    def solve(self, rhs: Array) -> Array:
        """``A⁻¹ rhs``, of (n b,) or (n b, c)."""
        pattern, b = self.pattern, self.block
        right = np.asarray(rhs, float).reshape(pattern.n, b, -1)
        columns = right.shape[2]
        tasks = [
            Right(held, right[share.inside].reshape(-1, columns))
            for held, share in zip(self.held, pattern.shares, strict=True)
        ]
        between = right[pattern.separators].copy()
        for border, seen in zip(pattern.borders, self.hands.all(work.seen, tasks), strict=True):
            between[border] -= seen.reshape(len(border), b, columns)
        out = np.empty_like(right)
        between = self.factor.solve(between.reshape(-1, columns)).reshape(between.shape)
        out[pattern.separators] = between
        tasks = [
            Right(task.held, task.inside, between[border].reshape(-1, columns))
            for task, border in zip(tasks, pattern.borders, strict=True)
        ]
        for share, found in zip(pattern.shares, self.hands.all(work.inside, tasks), strict=True):
            out[share.inside] = found.reshape(-1, b, columns)
        return out.reshape(np.shape(rhs))


def _discard(paths: Iterable[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class QuadraticInParts(Quadratic):
    """The quadratic form of a graph whose matrices are factorised in parts."""

    hands: Hands = field(default_factory=Hands)
    directory: str = ""
    n_parts: int = 1

    def factored(self, diagonal: Array, off: Array, hubs: Hubs | None = None) -> FactorInParts:
        """As :meth:`Quadratic.factored`, in parts; hubs are separators, since they touch every part."""
        pattern = self._pattern if hubs is None else self._pattern_about(hubs)
        return FactorInParts(pattern, self.hands, self.directory, diagonal, off)

    @cached_property
    def _pattern(self) -> PatternInParts:
        return PatternInParts(self.graph.n_nodes, self.graph.edge_i, self.graph.edge_j, self.n_parts)

    def _pattern_about(self, hubs: Hubs) -> PatternInParts:
        between = np.zeros(self.graph.n_nodes, dtype=bool)
        between[hubs.nodes] = True
        return PatternInParts(self.graph.n_nodes, *hubs.pairs, self.n_parts, between)

    def release(self) -> None:
        """Nothing: the root has the factor of the separators only."""
