"""Pose graphs, reconstructions and pose priors of pycolmap.

COLMAP's poses are ``cam_from_world``, tempose's ``world_from_node``; ``cam2_from_cam1`` of an edge is tempose's ``j_from_i`` with
i = image 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import NodeId, PathLike
from tempose.errors import DrawsError, FileError, GraphError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.solution import Solution


def graph_from_colmap(
    pose_graph: Any, *, sigma_rot_deg: float, sigma_trans: float | None = None, initial: Poses | None = None
) -> PoseGraph:
    """A pose graph of ``pycolmap.PoseGraph``, nodes named by image ids; edges that are not valid are left out.

    COLMAP's edges have no precisions, and the length of a translation between two images is not known: without ``sigma_trans``
    the edges are rotation-only.
    """
    pairs, wxyz, t = [], [], []
    for pair, edge in pose_graph.edges.items():
        if edge.valid:
            first, second = _pair(pair)
            pairs.append((first, second))
            wxyz.append(np.asarray(edge.cam2_from_cam1.rotation.quat)[[3, 0, 1, 2]])
            t.append(np.asarray(edge.cam2_from_cam1.translation))
    if not pairs:
        raise GraphError("the pose graph has no valid edges")
    graph = PoseGraph.from_arrays(
        pairs,
        wxyz=np.array(wxyz),
        translations=None if sigma_trans is None else np.array(t),
        sigma_rot_deg=sigma_rot_deg,
        sigma_trans=sigma_trans,
        measures="b_from_a",
    )
    return graph if initial is None else replace(graph, initial=initial.select(graph.node_ids))


def to_colmap_pose_graph(graph: PoseGraph) -> Any:
    """A ``pycolmap.PoseGraph`` of the edges between nodes, which must be image ids; precisions have no place in it.

    Rotation-only edges get a zero translation. COLMAP keeps one edge per pair of images: several are refused.
    """
    pycolmap = require("pycolmap", "pose graphs of COLMAP")
    out = pycolmap.PoseGraph()
    for k in np.flatnonzero(graph.is_relative):
        i, j = (_image_id(graph.node_ids[ends[k]]) for ends in (graph.edge_i, graph.edge_j))
        if out.has_edge(i, j):
            raise GraphError(f"images {i} and {j} have several edges, and COLMAP keeps one; choose one")
        motion = _rigid(pycolmap, graph.j_from_i_wxyz[k], np.nan_to_num(graph.j_from_i_t[k]))
        out.add_edge(i, j, pycolmap.PoseGraphEdge(cam2_from_cam1=motion))
    return out


def poses_from_reconstruction(reconstruction: Any, *, by: str = "id") -> Poses:
    """Poses ``world_from_node`` of the images of a ``pycolmap.Reconstruction``, named by their ids, or by their names."""
    if by not in ("id", "name"):
        raise GraphError(f"images are named by 'id' or by 'name', not by {by!r}")
    images = [image for image in reconstruction.images.values() if image.has_pose]
    matrices = np.array([image.cam_from_world().inverse().matrix() for image in images]).reshape(-1, 3, 4)
    wxyz = quat.from_matrix(matrices[:, :, :3])
    return Poses(tuple(image.image_id if by == "id" else image.name for image in images), wxyz, matrices[:, :, 3])


def update_reconstruction(reconstruction: Any, poses: Poses) -> None:
    """Give the images of a ``pycolmap.Reconstruction`` poses, in place; nodes are image ids, or names of images.

    Images that share a frame with others (a rig) are refused: their poses are not their own.
    """
    pycolmap = require("pycolmap", "reconstructions of COLMAP")
    images: dict[Any, Any] = {image.name: image for image in reconstruction.images.values()}
    images.update({image.image_id: image for image in reconstruction.images.values()})
    motions = se3.inverse((poses.wxyz, poses.position))
    for name, wxyz, t in zip(poses.ids, *motions, strict=True):
        image = images.get(name)
        if image is None:
            raise GraphError(f"there is no image {name!r} in the reconstruction")
        if len(list(image.frame.image_ids)) > 1:
            raise GraphError(f"image {name!r} is of a rig, whose images have their poses in common")
        image.frame.set_cam_from_world(image.camera_id, _rigid(pycolmap, wxyz, t))


def to_colmap_pose_priors(solution: Solution, nodes: Iterable[NodeId] | None = None) -> dict[NodeId, Any]:
    """A ``pycolmap.PosePrior`` of each node: its position and 3×3 covariance in the world, Cartesian.

    The covariances are the marginal ones, and COLMAP takes priors for independent. Positions that are not determined are left out.
    """
    pycolmap = require("pycolmap", "pose priors of COLMAP")
    if solution.nodes is None:
        raise DrawsError("this solution has neither draws nor a Gaussian approximation: there are no covariances")
    out = {}
    for name in solution.poses.ids if nodes is None else nodes:
        row = solution.poses.row(name)
        if solution.nodes.determined[row]:
            prior = pycolmap.PosePrior()
            prior.position = solution.poses.position[row]
            prior.position_covariance = np.array(solution.nodes.covariance[row][3:, 3:])
            prior.coordinate_system = pycolmap.PosePriorCoordinateSystem.CARTESIAN
            out[name] = prior
    return out


def write_colmap_pose_priors(database: PathLike, solution: Solution, nodes: Sequence[NodeId] | None = None) -> int:
    """Write pose priors into a COLMAP database; how many. Nodes are names of images, or image ids. Older priors are replaced."""
    pycolmap = require("pycolmap", "pose priors of COLMAP")
    if not Path(database).is_file():
        raise FileError(f"{database}: there is no such database; make it with COLMAP's feature extraction first")
    priors = to_colmap_pose_priors(solution, nodes)
    with pycolmap.Database.open(str(database)) as held:
        images = {image.image_id: image for image in held.read_all_images()}
        by_name = {image.name: image for image in images.values()}
        found = []
        for name, prior in priors.items():
            image = by_name.get(name) if isinstance(name, str) else images.get(name)
            if image is None:
                raise GraphError(f"there is no image {name!r} in {database}")
            prior.corr_data_id = image.data_id
            found.append(prior)
        held.clear_pose_priors()
        for prior in found:
            held.write_pose_prior(prior)
    return len(found)


def _pair(pair: Any) -> tuple[int, int]:
    """The two image ids of a pair, which may be one number."""
    if isinstance(pair, int):
        pycolmap = require("pycolmap", "pose graphs of COLMAP")
        first, second = pycolmap.pair_id_to_image_pair(pair)
        return int(first), int(second)
    return int(pair[0]), int(pair[1])


def _image_id(name: NodeId) -> int:
    if not isinstance(name, int) or not 0 <= name < 2**31 - 1:
        raise GraphError(f"node {name!r} is no image id: an integer from 0")
    return name


def _rigid(pycolmap: Any, wxyz: Any, t: Any) -> Any:
    return pycolmap.Rigid3d(pycolmap.Rotation3d(np.asarray(wxyz)[[1, 2, 3, 0]]), np.asarray(t))
