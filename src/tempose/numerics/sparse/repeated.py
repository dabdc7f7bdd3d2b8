"""From compiled code: many solves with one factor (:mod:`tempose.numerics.sparse._panels`), or a new factor each time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tempose._support.compiling import compile_for, kernel
from tempose._typing import Array, Index

from . import _numeric, _panels
from ._dense import PADDING, SCRATCH
from ._numeric import Tree
from ._panels import LANES, backward, backward_lanes, backward_two, forward, forward_lanes, forward_two
from .block_cholesky import Factor, Symbolic

# what compiled code elsewhere solves with
__all__ = [
    "LANES", "PADDING", "SCRATCH", "Panels", "Pattern", "backward", "backward_lanes", "backward_two", "blank", "compile_solves",
    "factor_again", "forward", "forward_lanes", "forward_two", "inverse_again", "panels", "pattern", "solve_again", "solve_lanes",
]  # fmt: skip


class Panels(NamedTuple):
    """What the kernels of :mod:`tempose.numerics.sparse._panels` read; made by :func:`panels`.

    Attributes
    ----------
    tree
        The assembly tree of the factor; vectors are in its elimination order.
    forward, backward
        Inverse panels, and their transposes where several right-hand sides are solved together.
    """

    tree: Tree
    forward: Array
    backward: Array


def panels(factor: Factor, *, lanes: bool = False) -> Panels:
    """Prepare a factor for thousands of solves, at about the price of one factorisation.

    Parameters
    ----------
    factor
        The factor P A Pᵀ = L Lᵀ.
    lanes
        For ``_panels.LANES`` right-hand sides at a time instead of one.
    """
    symbolic = factor.symbolic
    tree = symbolic._tree
    forward = np.zeros(symbolic.nonzeros + PADDING)
    scratch = np.empty((2, symbolic._largest_panel + PADDING))
    _panels.invert(tree, factor._values, scratch[0], scratch[1], forward)
    backward = np.zeros(symbolic.nonzeros * lanes + PADDING)
    if lanes:
        _panels.transpose(tree, forward, backward)
    return Panels(tree, forward, backward)


class Pattern(NamedTuple):
    """What compiled code needs to factor matrices of one pattern; made by :func:`pattern`."""

    tree: Tree
    pivots: Index  # where the diagonal of L is
    nonzeros: int  # numbers in L
    stack: int  # numbers of scratch for a factor
    panel: int  # numbers in the largest panel


def pattern(symbolic: Symbolic) -> Pattern:
    """Of an analysed pattern, what :func:`factor_again`, :func:`solve_again` and :func:`inverse_again` take."""
    return Pattern(symbolic._tree, symbolic._diagonal, symbolic.nonzeros, symbolic._stack_size, symbolic._largest_panel)


@kernel
def factor_again(p: Pattern, diagonal: Any, off: Any, L: Any, stack: Any) -> Any:
    """Factor the matrix of blocks (n, b, b) and (e, b, b); return ``log det``, or NaN if it is not positive definite.

    ``L`` and ``stack`` have :data:`PADDING` more numbers than the pattern says.
    """
    if _numeric.factor(p.tree, 0, p.tree.start.size - 1, diagonal, off, 0.0, L, stack) >= 0:
        return math.nan
    total = 0.0
    for k in p.pivots:
        total += math.log(L[k])
    return 2.0 * total


@kernel
def solve_again(p: Pattern, L: Any, x: Any) -> None:
    """Overwrite the vector x, in elimination order, by A⁻¹ x, given what :func:`factor_again` wrote."""
    work = np.empty(p.tree.tallest * p.tree.block)
    _numeric.solve_one(p.tree, L, x, False, work)
    _numeric.solve_one(p.tree, L, x, True, work)


@kernel
def inverse_again(p: Pattern, L: Any, stack: Any, diagonal: Any, off: Any) -> None:
    """Write the blocks of A⁻¹ on the pattern of A, (n, b, b) and (e, b, b), given what :func:`factor_again` wrote."""
    Z, N, K = np.empty(p.panel + PADDING), np.empty(p.panel + PADDING), np.empty(p.panel + PADDING)
    _numeric.selected_inverse(p.tree, 0, p.tree.start.size - 1, L, stack, Z, N, K, diagonal, off)


def blank() -> Panels:
    """Panels of nothing, for their type."""
    index, number = np.empty(0, np.int64), np.empty(0)
    arrays: Any = [*[index] * 12, np.empty(0, np.bool_)]
    return Panels(Tree(1, 0, *arrays), number, number)


def compile_solves() -> None:
    """Compile what is done with a factor on the way to the optimum and at it: solves, marginals, panels for many solves."""
    tree, number, blocks = blank().tree, np.empty(0), np.empty((0, 1, 1))
    compile_for(_numeric.solve_part, tree, 0, 0, number, number, number, True, number)
    compile_for(_numeric.selected_inverse, tree, 0, 0, *[number] * 5, blocks, blocks)
    compile_for(_panels.invert, tree, *[number] * 4)
    compile_for(_panels.transpose, tree, *[number] * 2)


def solve_L(p: Panels, rhs: Array) -> Array:
    """L⁻¹ P rhs for one vector (n·b,), as :meth:`Factor.solve_L`."""
    x = np.ascontiguousarray(_blocks(p, rhs)[p.tree.order]).reshape(-1)
    _panels.forward(p.tree, p.forward, x, np.empty(p.tree.tallest * p.tree.block))
    return x


def solve_Lt(p: Panels, rhs: Array) -> Array:
    """Pᵀ L⁻ᵀ rhs for one vector (n·b,), as :meth:`Factor.solve_Lt`."""
    x = np.array(rhs)
    _panels.backward(p.tree, p.forward, x, np.empty(p.tree.tallest * p.tree.block))
    result = np.empty_like(x)
    _blocks(p, result)[p.tree.order] = _blocks(p, x)
    return result


def solve_lanes(p: Panels, rhs: Array, *, forward: bool = True) -> Array:
    """A⁻¹ rhs, or Pᵀ L⁻ᵀ rhs without ``forward``, for (n·b, ≤ 8) right-hand sides."""
    n, b, count = len(p.tree.order), p.tree.block, rhs.shape[1]
    flat = np.zeros(n * b * int(_panels.LANES) + PADDING)
    x = flat[:-PADDING].reshape(n, b, -1)
    x[:, :, :count] = rhs.reshape(n, b, count)[p.tree.order] if forward else rhs.reshape(n, b, count)
    work, scratch = np.empty(p.tree.tallest * b * int(_panels.LANES) + PADDING), np.empty(SCRATCH)
    if forward:
        _panels.forward_lanes(p.tree, p.forward, flat, work, scratch)
    _panels.backward_lanes(p.tree, p.backward, flat, work, scratch)
    result = np.empty((n, b, count))
    result[p.tree.order] = x[:, :, :count]
    return result.reshape(rhs.shape)


def _blocks(p: Panels, x: Array) -> Array:
    return x.reshape(-1, p.tree.block)
