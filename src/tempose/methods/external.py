"""Other people's software, to be run beside ours where it is installed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, Mask
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.methods.base import Estimate, synchronisation_method
from tempose.model.bingham import sigma_from_concentration
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses


def colmap_rotation_averaging(graph: PoseGraph, **options: Any) -> Estimate:
    """COLMAP's rotation averaging: L1, then Geman–McClure weights, all edges of one weight.

    Parameters
    ----------
    options
        Of ``pycolmap.RotationEstimatorOptions``. Its default threshold for the steps, 0.001 rad, ends the iteration while
        rotations still move by hundredths of a degree.

    Returns
    -------
    Estimate
        Poses of the nodes that COLMAP has placed, positions zero. The time is that of the averaging alone.
    """
    pycolmap = require("pycolmap", "COLMAP's rotation averaging")
    pairs = np.sort(np.stack([graph.edge_i, graph.edge_j], axis=1), axis=1)
    if len(np.unique(pairs, axis=0)) < graph.n_edges:
        raise NotApplicable("COLMAP's pose graph holds one edge per pair; this graph has pairs measured twice")
    pycolmap.logging.minloglevel = int(pycolmap.logging.Level.ERROR)
    scene = pycolmap.Reconstruction()
    # a camera is needed to declare the images; the averaging does not look at it
    scene.add_camera_with_trivial_rig(
        pycolmap.Camera(model="SIMPLE_PINHOLE", width=2, height=2, params=[1.0, 1.0, 1.0], camera_id=1)
    )
    for node in range(graph.n_nodes):
        scene.add_image_with_trivial_frame(pycolmap.Image(name=str(node), camera_id=1, image_id=node + 1))
    edges = pycolmap.PoseGraph()
    for i, j, wxyz in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), graph.j_from_i_wxyz, strict=True):
        j_from_i = pycolmap.Rigid3d(pycolmap.Rotation3d(wxyz[[1, 2, 3, 0]]), np.zeros(3))
        edges.add_edge(i + 1, j + 1, pycolmap.PoseGraphEdge(cam2_from_cam1=j_from_i))
    settings = pycolmap.RotationEstimatorOptions(random_seed=0, **options)
    began, cpu_began = time.perf_counter(), time.process_time()
    succeeded = pycolmap.run_rotation_averaging(settings, edges, scene, [])
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    placed = [node for node in range(graph.n_nodes) if scene.image(node + 1).has_pose]
    if not placed:
        raise NotApplicable("pycolmap has found no rotations")
    xyzw = np.array([scene.image(node + 1).cam_from_world().rotation.quat for node in placed])
    ids = tuple(graph.node_ids[node] for node in placed)
    poses = Poses(ids, quat.conjugate(quat.normalize(xyzw[:, [3, 0, 1, 2]])), np.zeros((len(ids), 3)))
    # what it returns is not what it has done: it may say no and still fill in all rotations
    status = (
        "finished" if succeeded and len(placed) == graph.n_nodes else f"placed {len(placed)} of {graph.n_nodes} nodes"
    )
    return Estimate(poses, status, seconds=seconds, cpu_seconds=cpu_seconds)


@synchronisation_method(connected=True)
def gtsam_gnc(graph: PoseGraph, known: Mask | None = None, start: Poses | None = None) -> Estimate:
    """GTSAM's graduated non-convexity (Geman–McClure, Levenberg–Marquardt), told the stated noise.

    Parameters
    ----------
    known
        Edges (m,) that it is told are right.
    start
        Poses to begin with; by default its chordal start, in the plane LAGO's.
    """
    gtsam = require("gtsam", "graduated non-convexity")
    if not graph.has_translation.all():
        raise NotApplicable("needs a translation on every edge")
    kind = _Planar(gtsam) if graph.is_planar else _Spatial(gtsam)
    factors = gtsam.NonlinearFactorGraph()
    kind.add(graph, factors)
    values = kind.first(factors)
    if start is not None:
        values = gtsam.Values()
        first = start.select(graph.node_ids)
        origin = se3.inverse((first.wxyz[0], first.position[0]))  # the prior holds node 0 at the origin
        for v, moved in enumerate(zip(*se3.compose(origin, (first.wxyz, first.position)), strict=True)):
            values.insert(v, kind.pose(*moved))
    options = gtsam.GncLMParams(gtsam.LevenbergMarquardtParams())
    options.setLossType(gtsam.GncLossType.GM)
    rows = [] if known is None else np.flatnonzero(known).tolist()
    options.setKnownInliers([*rows, graph.n_edges])
    found = gtsam.GncLMOptimizer(factors, values, options).optimize()
    return Estimate(kind.poses(graph, found), "finished")


@synchronisation_method(connected=True)
def open3d_line_process(graph: PoseGraph, known: Mask, start: Poses) -> Estimate:
    """Open3D's global optimisation of pose graphs: a line process switches loop closures off, certain edges stay.

    It is told the stated noise, and takes edges that miss by more than three σ of a translation for wrong.

    Parameters
    ----------
    known
        Edges (m,) that are certain.
    start
        Poses to begin with.
    """
    open3d = require("open3d", "its line process")
    if graph.is_planar or not graph.has_translation.all():
        raise NotApplicable("needs poses in space and a translation on every edge")
    registration = open3d.pipelines.registration
    sigma_rot = sigma_from_concentration(graph.mean_concentration)
    sigma_trans = 1.0 / np.sqrt(np.einsum("maa->m", graph.translation_precision_matrices) / 3.0)
    first, poses = start.select(graph.node_ids), registration.PoseGraph()
    for wxyz, t in zip(first.wxyz, first.position, strict=True):
        poses.nodes.append(registration.PoseGraphNode(_matrix(wxyz, t)))
    for k in range(graph.n_edges):
        precision = np.diag(np.repeat([sigma_rot[k], sigma_trans[k]], 3) ** -2.0)
        measured = _matrix(graph.j_from_i_wxyz[k], graph.j_from_i_t[k])
        ends = int(graph.edge_i[k]), int(graph.edge_j[k])
        poses.edges.append(registration.PoseGraphEdge(*ends, measured, precision, uncertain=not known[k]))
    registration.global_optimization(
        poses,
        registration.GlobalOptimizationLevenbergMarquardt(),
        registration.GlobalOptimizationConvergenceCriteria(),
        registration.GlobalOptimizationOption(
            max_correspondence_distance=3.0 * float(np.median(sigma_trans)), edge_prune_threshold=0.25, reference_node=0
        ),
    )
    found = np.array([np.asarray(node.pose) for node in poses.nodes])
    return Estimate(Poses(graph.node_ids, quat.from_matrix(found[:, :3, :3]), found[:, :3, 3]), "finished")


def _matrix(wxyz: Array, t: Array) -> Array:
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = quat.to_matrix(wxyz), t
    return out


class _Spatial:
    """Poses in space, as GTSAM's ``Pose3``."""

    def __init__(self, gtsam: Any) -> None:
        self.gtsam = gtsam

    def pose(self, wxyz: Array, t: Array) -> Any:
        return self.gtsam.Pose3(self.gtsam.Rot3(*wxyz), t)

    def add(self, graph: PoseGraph, factors: Any) -> None:
        """All edges, and last the prior: added first, a tight prior makes the chordal start throw."""
        gtsam = self.gtsam
        sigma_rot = sigma_from_concentration(graph.mean_concentration)
        sigma_trans = 1.0 / np.sqrt(np.einsum("maa->m", graph.translation_precision_matrices) / 3.0)
        for k in range(graph.n_edges):
            noise = gtsam.noiseModel.Diagonal.Sigmas(np.repeat([sigma_rot[k], sigma_trans[k]], 3))
            measured = self.pose(graph.j_from_i_wxyz[k], graph.j_from_i_t[k])
            factors.add(gtsam.BetweenFactorPose3(int(graph.edge_j[k]), int(graph.edge_i[k]), measured, noise))
        factors.add(gtsam.PriorFactorPose3(0, gtsam.Pose3(), gtsam.noiseModel.Isotropic.Sigma(6, 1e-6)))

    def first(self, factors: Any) -> Any:
        return self.gtsam.InitializePose3.initialize(factors)

    def poses(self, graph: PoseGraph, values: Any) -> Poses:
        poses = [values.atPose3(v) for v in range(graph.n_nodes)]
        wxyz = quat.from_matrix(np.array([pose.rotation().matrix() for pose in poses]))
        return Poses(graph.node_ids, wxyz, np.array([pose.translation() for pose in poses]))


class _Planar:
    """Poses in the plane, as GTSAM's ``Pose2``."""

    def __init__(self, gtsam: Any) -> None:
        self.gtsam = gtsam

    def pose(self, wxyz: Array, t: Array) -> Any:
        return self.gtsam.Pose2(t[0], t[1], 2.0 * np.arctan2(wxyz[3], wxyz[0]))

    def add(self, graph: PoseGraph, factors: Any) -> None:
        gtsam = self.gtsam
        sigma_rot_deg, sigma_trans = graph.edge_sigmas
        for k in range(graph.n_edges):
            sigma = np.array([sigma_trans[k], sigma_trans[k], np.radians(sigma_rot_deg[k])])
            measured = self.pose(graph.j_from_i_wxyz[k], graph.j_from_i_t[k])
            factors.add(
                gtsam.BetweenFactorPose2(
                    int(graph.edge_j[k]), int(graph.edge_i[k]), measured, gtsam.noiseModel.Diagonal.Sigmas(sigma)
                )
            )
        factors.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(), gtsam.noiseModel.Isotropic.Sigma(3, 1e-6)))

    def first(self, factors: Any) -> Any:
        return self.gtsam.lago.initialize(factors, False)

    def poses(self, graph: PoseGraph, values: Any) -> Poses:
        poses = [values.atPose2(v) for v in range(graph.n_nodes)]
        half = 0.5 * np.array([pose.theta() for pose in poses])
        zero = np.zeros(len(half))
        wxyz = np.column_stack([np.cos(half), zero, zero, np.sin(half)])
        return Poses(graph.node_ids, wxyz, np.column_stack([[[pose.x(), pose.y()] for pose in poses], zero]))
