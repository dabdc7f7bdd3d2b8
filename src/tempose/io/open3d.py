"""Pose graphs of Open3D: the JSON files of ``open3d.io.write_pose_graph``.

::

    {"class_name": "PoseGraph", "version_major": 1, "version_minor": 0,
     "nodes": [{"class_name": "PoseGraphNode", "pose": [16 numbers], …}, …],
     "edges": [{"class_name": "PoseGraphEdge", "source_node_id": 0, "target_node_id": 1, "transformation": [16 numbers],
                "information": [36 numbers], "uncertain": false, "confidence": 1.0, …}, …]}

Matrices are 4×4, **column after column**. Nodes are numbered from 0; ``pose`` is ``T = world_from_node``. The transformation of
an edge is ``X = target_from_source``: ``x_target = X x_source``, and Open3D's error is

    e = (sin θ · n, t)  of  X⁻¹ T_target⁻¹ T_source,    cost eᵀΩe,

rotation first, in the axes of the source. An edge becomes the tempose edge from its source to its target with this measurement
as it stands and Ω as its joint information, correlations and all.

``get_information_matrix_from_point_clouds`` makes Ω by counting: ``Ω = Σ [−p×, I]ᵀ[−p×, I]`` over pairs of corresponding points
is the inverse covariance only for points with a noise of 1. A notice says so if all edges look like that; estimate the noise
(``--noise auto``), or divide Ω by the variance of a point.

``uncertain`` edges are loop closures that may be wrong. If there are any, the others have an ``inlier_prior`` of 1 for robust
solves. ``confidence``, a result of Open3D's own optimisation, is not read, and written as 1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tempose._typing import Array, PathLike
from tempose.errors import GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io._held import refuse_all_but_motions
from tempose.io._reduced import as_asked
from tempose.io._text import LARGEST, read_text, rotation_matrices, write_text
from tempose.io.options import ReadOptions
from tempose.model import precision as precisions
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

FORMAT = "open3d"
_VERSION = {"version_major": 1, "version_minor": 0}


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a pose graph; see the module for the equations."""
    options = options or ReadOptions()
    notices: list[str] = []
    content = _load(path)
    nodes, edges = _list(path, content, "nodes"), _list(path, content, "edges")
    if not edges:
        raise ParseError(path, None, "the pose graph has no edges")
    ends = np.array(
        [[_end(path, k, edge, name, len(nodes)) for name in ("target", "source")] for k, edge in enumerate(edges)]
    )
    bad = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if len(bad):
        raise ParseError(path, None, f"edge {bad[0]} joins node {ends[bad[0], 0]} to itself; remove it")
    wxyz, t = _motions(path, edges, "edge", "transformation", notices)
    information = np.array([_numbers(path, f"edge {k}", edge, "information", 36) for k, edge in enumerate(edges)])
    information = _checked(path, information.reshape(-1, 6, 6))
    if np.all(information[:, 5, 5] == np.round(information[:, 5, 5])) and np.all(information[:, 5, 5] >= 1.0):
        notices.append(
            "information matrices count corresponding points: σ is that of points with a noise of 1; --noise auto estimates it"
        )
    noise = precisions.noise(information, wxyz)
    graph = PoseGraph(
        tuple(range(len(nodes))),
        ends[:, 1],
        ends[:, 0],
        wxyz,
        np.where(precisions.is_zero(information[:, 3:, 3:])[:, None], np.nan, t),
        noise.concentration,
        noise.translation_precision,
        initial=Poses(tuple(range(len(nodes))), *_motions(path, nodes, "node", "pose", notices)),
        inlier_prior=_priors(edges),
        notices=tuple(notices),
        origin={
            "file": Path(path).name,
            "format": FORMAT,
            "rotation_information": "rotation-vector",
            "precision": options.precision,
        },
        coupling=noise.coupling,
    )
    return as_asked(path, graph, options)


def read_poses(path: PathLike) -> Poses:
    """The poses of the nodes."""
    nodes = _list(path, _load(path), "nodes")
    if not nodes:
        raise ParseError(path, None, "the pose graph has no nodes")
    return Poses(tuple(range(len(nodes))), *_motions(path, nodes, "node", "pose", []))


def write_graph(path: PathLike, graph: PoseGraph, poses: Poses | None = None) -> None:
    """Write a pose graph. Nodes must be 0, 1, 2, … and have poses: ``poses``, or the graph's initial ones."""
    refuse_all_but_motions(graph, "Open3D files")
    shown = graph.initial if poses is None else poses
    if shown is None:
        raise GraphError("Open3D files have a pose for every node; give poses, or write .g2o or .csv")
    if sorted(map(str, graph.node_ids)) != sorted(map(str, range(graph.n_nodes))) or any(
        isinstance(k, str) for k in graph.node_ids
    ):
        raise GraphError("Open3D files number their nodes 0, 1, 2, …, and these have other names; write .g2o or .csv")
    order = list(range(graph.n_nodes))
    placed = shown.select(order).shifted(graph.world_origin)
    back = quat.conjugate(graph.j_from_i_wxyz)
    information = precisions.turned_jointly(graph.information, back)
    prior = graph.inlier_prior
    edges = [
        {
            "class_name": "PoseGraphEdge",
            "confidence": 1.0,
            "information": information[k].ravel().tolist(),
            "source_node_id": int(graph.node_ids[graph.edge_i[k]]),
            "target_node_id": int(graph.node_ids[graph.edge_j[k]]),
            "transformation": _columns(graph.j_from_i_wxyz[k], np.nan_to_num(graph.j_from_i_t[k])),
            "uncertain": prior is not None and bool(prior[k] != 1.0),
            **_VERSION,
        }
        for k in range(graph.n_edges)
    ]
    write_text(path, json.dumps(_content(placed, edges), indent=1) + "\n")


def write_poses(path: PathLike, poses: Poses) -> None:
    """Write poses as the nodes of a pose graph without edges; they must be 0, 1, 2 and so on."""
    if any(isinstance(k, str) for k in poses.ids) or sorted(map(int, poses.ids)) != list(range(len(poses))):
        raise GraphError("Open3D files number their nodes 0, 1, 2, …, and these have other names; write .tum or .csv")
    write_text(path, json.dumps(_content(poses.select(list(range(len(poses)))), []), indent=1) + "\n")


def _content(poses: Poses, edges: list[dict[str, Any]]) -> dict[str, Any]:
    nodes = [
        {"class_name": "PoseGraphNode", "pose": _columns(q, p), **_VERSION}
        for q, p in zip(poses.wxyz, poses.position, strict=True)
    ]
    return {"class_name": "PoseGraph", "edges": edges, "nodes": nodes, **_VERSION}


def _columns(wxyz: Array, t: Array) -> list[float]:
    """A motion as 16 numbers, column after column."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = quat.to_matrix(wxyz), t
    return [float(x) for x in matrix.T.ravel()]


# ---------------------------------------------------------------------- JSON that may not be what it claims


def _load(path: PathLike) -> dict[str, Any]:
    text = read_text(path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ParseError(path, error.lineno, f"is not valid JSON: {error.msg} in column {error.colno}") from None
    except (ValueError, RecursionError):
        raise ParseError(path, None, "is not JSON that can be read: a number or a nesting in it is too large") from None
    if not isinstance(content, dict) or content.get("class_name") != "PoseGraph":
        raise ParseError(path, None, 'is JSON, but no pose graph of Open3D: expected "class_name": "PoseGraph"')
    return content


def _list(path: PathLike, content: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = content.get(name)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ParseError(path, None, f"there is no list of {name} in the pose graph")
    return found


def _end(path: PathLike, k: int, edge: dict[str, Any], name: str, count: int) -> int:
    node = edge.get(f"{name}_node_id")
    if not isinstance(node, int) or isinstance(node, bool) or not 0 <= node < count:
        what = repr(node)[:40]
        raise ParseError(
            path, None, f"edge {k}: {name}_node_id is {what}; expected the number of a node, 0 to {count - 1}"
        )
    return node


def _numbers(path: PathLike, what: str, item: dict[str, Any], name: str, count: int) -> list[float]:
    found = item.get(name)
    if not isinstance(found, list) or len(found) != count:
        size = len(found) if isinstance(found, list) else "no"
        raise ParseError(path, None, f"{what}: {name} has {size} numbers, expected {count}")
    for x in found:
        if isinstance(x, bool) or not isinstance(x, int | float) or not abs(x) <= LARGEST:
            raise ParseError(
                path, None, f"{what}: {name} has {repr(x)[:40]}; expected a finite number, at most {LARGEST:g} in size"
            )
    return [float(x) for x in found]


def _motions(
    path: PathLike, items: list[dict[str, Any]], what: str, name: str, notices: list[str]
) -> tuple[Array, Array]:
    """Quaternions (k, 4) and translations (k, 3) of 4×4 matrices."""
    given = np.array([_numbers(path, f"{what} {k}", item, name, 16) for k, item in enumerate(items)])
    matrix = np.swapaxes(given.reshape(-1, 4, 4), 1, 2)
    bad = np.flatnonzero(np.any(np.abs(matrix[:, 3] - [0, 0, 0, 1]) > 1e-6, axis=1))
    if len(bad):
        why = "the last row of its matrix is not 0 0 0 1; matrices are written column after column"
        raise ParseError(path, None, f"{what} {bad[0]}: {why}")
    return rotation_matrices(path, np.zeros(len(items), dtype=np.int64), matrix[:, :3, :3], notices), matrix[:, :3, 3]


def _checked(path: PathLike, information: Array) -> Array:
    """Informations (m, 6, 6), symmetric; one that is none is refused by its edge."""
    scale = np.max(np.abs(information), axis=(1, 2), initial=0.0)
    off = np.max(np.abs(information - np.swapaxes(information, 1, 2)), axis=(1, 2), initial=0.0)
    for bad, why in (
        (off > 1e-6 * scale, "is not symmetric"),
        (precisions.is_jointly_indefinite(information), "is not positive semi-definite"),
        (
            ~precisions.is_semidefinite(information[:, :3, :3]),
            "has a rotation block that is not positive semi-definite",
        ),
        (
            ~precisions.is_semidefinite(information[:, 3:, 3:]),
            "has a translation block that is not positive semi-definite",
        ),
        (
            precisions.ties_the_unmeasured(information),
            "is singular: it ties the translation to a rotation that it does not measure",
        ),
    ):
        if np.any(bad):
            raise ParseError(path, None, f"edge {int(np.argmax(bad))}: the information matrix {why}")
    return 0.5 * (information + np.swapaxes(information, 1, 2))


def _priors(edges: list[dict[str, Any]]) -> Array | None:
    """1 for edges that are certain, if others are not."""
    uncertain = np.array([bool(edge.get("uncertain", False)) for edge in edges])
    return np.where(uncertain, np.nan, 1.0) if uncertain.any() else None
