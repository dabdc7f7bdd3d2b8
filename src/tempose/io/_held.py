"""What formats of relative poses alone cannot hold."""

from __future__ import annotations

from tempose.errors import GraphError
from tempose.model.graph import PoseGraph


def refuse_all_but_motions(graph: PoseGraph, files: str, *, planar: bool = False) -> None:
    """One line for a graph that a format of relative poses alone cannot hold; ``planar``: it has lines for the plane."""
    held = {
        "is planar": graph.is_planar and not planar,
        "has landmarks": bool(graph.landmarks),
        "has measurements of single nodes": bool(graph.is_absolute.any()),
        "has lever arms": graph.arm is not None,
        "has several fixed nodes": len(graph.fixed) > 1,
    }
    why = [words for words, true in held.items() if true]
    if why:
        raise GraphError(f"the graph {' and '.join(why)}, which {files} cannot hold; write .csv or .g2o")
