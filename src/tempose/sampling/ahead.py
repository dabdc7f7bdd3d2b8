"""Compiling what a solve needs before it needs it: in another process, while the optimum is sought.

What is needed first comes first. What both processes need, U and its gradient, the other has compiled by the time it is
needed here.

Kernels are compiled for types. The arguments here are empty and have the types of the real ones;
``tests/sampling/test_ahead.py`` notices if they no longer do.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tempose._support.compiling import compile_for
from tempose.numerics.chart import PLANE, SPACE, Axes, Frame
from tempose.numerics.hessian import compile_hessian
from tempose.numerics.layout import EdgeBlocks
from tempose.numerics.sparse.repeated import blank, compile_solves
from tempose.sampling import _kernels


def compile_in_space() -> None:
    """For a graph in space, with one number per rotation and translation."""
    compile_hessian()
    _compile(SPACE)


def compile_in_the_plane() -> None:
    """The same in the plane."""
    _compile(PLANE)


def _compile(axes: Axes) -> None:
    number, index = np.empty(0), np.empty(0, np.int64)
    rows, matrices = np.empty((0, 8)), np.empty((0, 1, 1))
    nodes = np.empty((0, 64), np.uint32)
    fixed = np.empty((0, 4))
    fixed.flags.writeable = False
    panels, nothing = blank(), cast(Any, None)
    compile_solves()
    compile_for(_kernels.half_square, number, number)
    compile_for(_kernels.kick, 1.0, number, number)
    compile_for(_kernels.turn, 1.0, 1.0, number, number)
    model = _kernels.Model(
        axes, nothing, panels, nothing, True, nothing, EdgeBlocks(nodes, nodes, rows, index, index, index, None, None),
        index, np.empty(0, np.int32), matrices, matrices, fixed, fixed, rows, Frame(index, number, 1),
    )  # fmt: skip
    vectors, several, several_vectors = np.empty((0, 3)), np.empty((0, 0)), np.empty((0, 0, 3))
    compile_for(_kernels.spread, axes, panels, several, 1.0, rows, several_vectors)
    compile_for(_kernels.gather, axes, panels, several_vectors, 1.0, rows, several)
    compile_for(_kernels.target, model, None, None, 1.0, vectors, number, rows, rows, vectors)
