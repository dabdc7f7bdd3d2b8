"""Precisions of a graph as a reader was asked for them, for formats that hold whole information or covariance matrices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempose._typing import PathLike
from tempose.errors import ParseError
from tempose.io.options import ReadOptions
from tempose.model import precision as precisions
from tempose.model.graph import PoseGraph


def as_asked(path: PathLike, graph: PoseGraph, options: ReadOptions) -> PoseGraph:
    """The graph with one number for each block of an edge, if ``options.precision`` asks for that; else as it is."""
    notices = list(graph.notices)
    if options.sigma_rot_deg is not None or options.sigma_trans is not None:
        notices.append("the given standard deviations were not used: the file says how sure its edges are")
    if options.precision == "full" or graph.is_isotropic:
        return replace(graph, notices=tuple(notices))
    whole, d = graph.information, graph.dimension
    for block, other in (
        (precisions.ROTATION[d], precisions.TRANSLATION[d]),
        (precisions.TRANSLATION[d], precisions.ROTATION[d]),
    ):
        left = precisions.complement(whole, block, other)
        bad = np.flatnonzero(~precisions.is_definite(left) & ~precisions.is_zero(left))
        if len(bad):
            i, j = graph.edge_names(bad[:1])[0]
            why = f"edge {bad[0]} ({i!r} → {j!r}) says nothing along some axis, so that no one number stands for it"
            raise ParseError(path, None, f"{why}; --precision full keeps it")
    notice = precisions.reduction_notice(whole, d, options.precision)
    rule = precisions.marginal_numbers if options.precision == "isotropic" else precisions.block_numbers
    found = rule(whole, d)
    return replace(
        graph,
        concentration=found.concentration,
        translation_precision=found.translation_precision,
        coupling=None,
        notices=(*notices, *([notice] if notice else [])),
    )
