"""Objects of other software, both ways: GTSAM's factor graphs and values, pycolmap's pose graphs, reconstructions and pose priors.

The packages are imported where they are needed: ``pip install 'tempose[interop]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.interop.colmap_objects import graph_from_colmap as graph_from_colmap
    from tempose.interop.colmap_objects import poses_from_reconstruction as poses_from_reconstruction
    from tempose.interop.colmap_objects import to_colmap_pose_graph as to_colmap_pose_graph
    from tempose.interop.colmap_objects import to_colmap_pose_priors as to_colmap_pose_priors
    from tempose.interop.colmap_objects import update_reconstruction as update_reconstruction
    from tempose.interop.colmap_objects import write_colmap_pose_priors as write_colmap_pose_priors
    from tempose.interop.gtsam_objects import GtsamGraph as GtsamGraph
    from tempose.interop.gtsam_objects import graph_from_gtsam as graph_from_gtsam
    from tempose.interop.gtsam_objects import to_gtsam as to_gtsam
    from tempose.interop.gtsam_objects import to_gtsam_prior as to_gtsam_prior

_WHERE = {
    "GtsamGraph": "gtsam_objects",
    "graph_from_colmap": "colmap_objects",
    "graph_from_gtsam": "gtsam_objects",
    "poses_from_reconstruction": "colmap_objects",
    "to_colmap_pose_graph": "colmap_objects",
    "to_colmap_pose_priors": "colmap_objects",
    "to_gtsam": "gtsam_objects",
    "to_gtsam_prior": "gtsam_objects",
    "update_reconstruction": "colmap_objects",
    "write_colmap_pose_priors": "colmap_objects",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
