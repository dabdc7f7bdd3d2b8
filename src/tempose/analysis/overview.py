"""What can be said about a graph before solving it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tempose._typing import Array
from tempose.model import precision
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses


def contents(graph: PoseGraph) -> dict[str, Any]:
    """What kinds of things a graph holds, as plain values."""
    turns, moves = graph.ranks
    single = graph.is_absolute
    sighting = graph.is_landmark[graph.edge_i] & ~single
    return {
        "dimension": graph.dimension,
        "n_landmarks": len(graph.landmarks),
        "landmark_sightings": int(np.sum(sighting)),
        "measured_positions": int(np.sum(single & (moves > 0))),
        "measured_attitudes": int(np.sum(single & (turns > 0))),
        "n_fixed": len([name for name in graph.fixed if name != WORLD]),
        "correlated_edges": 0 if graph.coupling is None else int(np.sum(np.any(graph.coupling, axis=(1, 2)))),
        "lever_arms": 0 if graph.arm is None else int(np.sum(np.any(graph.arm, axis=1))),
        "world_origin": graph.world_origin.tolist() if np.any(graph.world_origin) else None,
    }


def overview(graph: PoseGraph) -> dict[str, Any]:
    """Counts, structure and noise levels of a graph, as plain values."""
    pairs = np.sort(np.stack([graph.edge_i, graph.edge_j], axis=1), axis=1)
    relative = ~graph.is_absolute
    distinct = len(np.unique(pairs[relative], axis=0)) if relative.any() else 0
    rows = [graph.index[name] for name in graph.reported]
    sizes = np.sort(np.bincount(graph.component[rows], minlength=max(graph.n_components, 1)))[::-1]
    bridges = [graph.edge_name(k) for k in graph.bridges]
    has_turn, has_shift = (rank > 0 for rank in graph.ranks)
    sigma_rot, sigma_trans = graph.edge_sigmas
    return {
        "n_nodes": len(rows),
        "n_edges": graph.n_edges,
        **contents(graph),
        "n_components": graph.n_components,
        "component_sizes": sizes.tolist(),
        "edges_measured_twice_or_more": int(np.sum(relative)) - distinct,
        "rotation_only_edges": int(np.sum(~graph.has_translation & relative)),
        "isolated_nodes": [str(name) for name in graph.isolated],
        "n_bridges": len(bridges),
        "bridges": bridges,
        "degree": _range(graph.degree[rows].astype(np.float64)),
        "precisions": "isotropic" if graph.is_isotropic else "full",
        "sigma_if_correlations_dropped": _sigma_lost(graph),
        "sigma_rot_deg": _range(sigma_rot[relative & has_turn]),
        "sigma_trans": _range(sigma_trans[relative & has_shift]),
        "sigma_position": _range(sigma_trans[~relative & has_shift]),
        "translation_length": _range(np.linalg.norm(graph.j_from_i_t[graph.has_translation & relative], axis=1)),
        "fixed_nodes": [str(name) for name in graph.fixed],
        "has_poses": graph.initial is not None,
        **{f"read_{key}": value for key, value in graph.origin.items()},
    }


def suggested(facts: Mapping[str, Any], *, is_sequence: bool) -> list[str]:
    """Options that a first solve of a graph should have, by :func:`overview` and the triangles' facts beside it.

    Estimated noise if triangles show other noise than is stated, by a factor of 2; wrong edges if some break their triangles.
    """
    stated = {"rot_deg": facts["sigma_rot_deg"], "trans": facts["sigma_trans"]}
    shown = {name: facts[f"sigma_{name}_shown_by_triangles"] for name in stated}
    off = [
        shown[name] / spread["median"]
        for name, spread in stated.items()
        if spread is not None and shown[name] is not None and spread["median"] > 0
    ]
    wrong = facts["n_edges_that_break_triangles"] > 0
    options = ["--robust"] if wrong else []
    if wrong or any(not 0.5 < ratio < 2.0 for ratio in off):
        options += ["--noise", "auto"]
    return [*options, "--trust-odometry"] if wrong and is_sequence else options


def precisions(graph: PoseGraph) -> dict[str, Any] | None:
    """Which precisions a graph has, and what one number per edge would make of them; None if it has no others.

    ``sigma_between_axes`` is the largest ratio of the σ along two axes of one edge, ``sigma_if_correlations_dropped`` the
    median share of their σ that correlated edges would be left with, ``open_edges`` the number of those whose rotation or
    translation is measured along some axes only.
    """
    if graph.is_isotropic:
        return None
    whole = graph.has_rotation, graph.ranks[1] == graph.dimension
    ratio = [
        float(np.sqrt(one[known].max(initial=1.0)))
        for one, known in zip(precision.spreads(graph.information, graph.dimension), whole, strict=True)
    ]
    turns, moves = graph.ranks
    some = ((turns > 0) & (turns < len(graph.axes) - graph.dimension)) | ((moves > 0) & (moves < graph.dimension))
    return {
        "used": "full",
        "open_edges": int(np.sum(some)),
        "sigma_between_axes": {"rotation": ratio[0], "translation": ratio[1]},
        "correlated_edges": contents(graph)["correlated_edges"],
        "sigma_if_correlations_dropped": _sigma_lost(graph),
    }


def _sigma_lost(graph: PoseGraph) -> dict[str, float] | None:
    """Median share of the σ of correlated edges that would be left if their correlations were dropped."""
    if graph.coupling is None:
        return None
    tied = graph.information[np.any(graph.coupling, axis=(1, 2))]
    right, wrong = precision.marginal_numbers(tied, graph.dimension), precision.block_numbers(tied, graph.dimension)
    with np.errstate(divide="ignore", invalid="ignore"):
        r, t = (float(np.nanmedian(np.sqrt(a / b))) for a, b in zip(right[:2], wrong[:2], strict=True))
    return {"rotation": r, "translation": t}


def _range(x: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float] | None:
    return {"least": float(x.min()), "median": float(np.median(x)), "most": float(x.max())} if len(x) else None


def of_poses(poses: Poses, times: Array | None = None) -> dict[str, Any]:
    """Counts and extents of poses that come without edges, as plain values; ``times`` (n,) in seconds, if they are known."""
    steps = np.linalg.norm(np.diff(poses.position, axis=0), axis=1)
    return {
        "n_nodes": len(poses),
        "first": poses.ids[0] if len(poses) else None,
        "last": poses.ids[-1] if len(poses) else None,
        "path_length": float(np.sum(steps)),
        "median_step": float(np.median(steps)) if len(steps) else None,
        "extent": np.ptp(poses.position, axis=0).tolist() if len(poses) else None,
        "seconds": None if times is None or not len(times) else float(np.max(times) - np.min(times)),
    }
