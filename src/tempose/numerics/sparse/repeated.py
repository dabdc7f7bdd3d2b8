"""Many solves with one factor, from compiled code: see :mod:`tempose.numerics.sparse._panels` for how."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tempose._typing import Array

from . import _panels
from ._dense import PADDING, SCRATCH
from ._numeric import Tree
from ._panels import LANES, backward, backward_lanes, forward, forward_lanes
from .block_cholesky import Factor

# what compiled code elsewhere solves with
__all__ = [
    "LANES", "PADDING", "SCRATCH", "Panels", "backward", "backward_lanes", "forward", "forward_lanes", "panels",
    "solve_lanes",
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
