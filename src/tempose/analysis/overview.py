"""What can be said about a graph before solving it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose.model.bingham import sigma_from_concentration
from tempose.model.graph import PoseGraph


def overview(graph: PoseGraph) -> dict[str, Any]:
    """Counts, structure and noise levels of a graph, as plain values."""
    pairs = np.sort(np.stack([graph.edge_i, graph.edge_j], axis=1), axis=1)
    distinct = len(np.unique(pairs, axis=0)) if graph.n_edges else 0
    sizes = np.sort(np.bincount(graph.component, minlength=max(graph.n_components, 1)))[::-1]
    ids = graph.node_ids
    bridges = [f"{ids[graph.edge_i[k]]} → {ids[graph.edge_j[k]]}" for k in graph.bridges]
    sigma_rot = np.degrees(sigma_from_concentration(np.maximum(graph.mean_concentration, 1e-300)))
    precision = (
        graph.translation_precision
        if graph.translation_precision.ndim == 1
        else np.trace(graph.translation_precision, axis1=1, axis2=2) / 3.0
    )
    has = graph.has_translation & (precision > 0)
    return {
        "n_nodes": graph.n_nodes,
        "n_edges": graph.n_edges,
        "n_components": graph.n_components,
        "component_sizes": sizes.tolist(),
        "edges_measured_twice_or_more": graph.n_edges - distinct,
        "rotation_only_edges": int(np.sum(~graph.has_translation)),
        "isolated_nodes": [str(name) for name in graph.isolated],
        "n_bridges": len(bridges),
        "bridges": bridges,
        "degree": _range(graph.degree.astype(np.float64)),
        "precisions": "isotropic" if graph.is_isotropic else "full",
        "sigma_rot_deg": _range(sigma_rot),
        "sigma_trans": _range(1.0 / np.sqrt(precision[has])),
        "translation_length": _range(np.linalg.norm(graph.j_from_i_t[graph.has_translation], axis=1)),
        "fixed_nodes": [str(name) for name in graph.fixed],
        "has_poses": graph.initial is not None,
        **{f"read_{key}": value for key, value in graph.origin.items()},
    }


def _range(x: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float] | None:
    return {"least": float(x.min()), "median": float(np.median(x)), "most": float(x.max())} if len(x) else None
