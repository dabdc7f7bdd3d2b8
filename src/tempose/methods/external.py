"""Other people's software, to be run beside ours where it is installed."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
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
def gtsam_gnc(graph: PoseGraph) -> Estimate:
    """GTSAM's graduated non-convexity (Geman–McClure, Levenberg–Marquardt) from its chordal start, told the stated noise."""
    gtsam = require("gtsam", "graduated non-convexity")
    if not graph.has_translation.all():
        raise NotApplicable("needs a translation on every edge")
    factors = gtsam.NonlinearFactorGraph()
    sigma_rot = sigma_from_concentration(graph.mean_concentration)
    sigma_trans = 1.0 / np.sqrt(np.einsum("maa->m", graph.translation_precision_matrices) / 3.0)
    for k in range(graph.n_edges):
        noise = gtsam.noiseModel.Diagonal.Sigmas(np.repeat([sigma_rot[k], sigma_trans[k]], 3))
        measured = gtsam.Pose3(gtsam.Rot3(*graph.j_from_i_wxyz[k]), graph.j_from_i_t[k])
        factors.add(gtsam.BetweenFactorPose3(int(graph.edge_j[k]), int(graph.edge_i[k]), measured, noise))
    tight = gtsam.noiseModel.Isotropic.Sigma(6, 1e-6)
    # last: added first, a tight prior makes the chordal start throw
    factors.add(gtsam.PriorFactorPose3(0, gtsam.Pose3(), tight))
    start = gtsam.InitializePose3.initialize(factors)
    options = gtsam.GncLMParams(gtsam.LevenbergMarquardtParams())
    options.setLossType(gtsam.GncLossType.GM)
    options.setKnownInliers([graph.n_edges])
    found = gtsam.GncLMOptimizer(factors, start, options).optimize()
    poses = [found.atPose3(v) for v in range(graph.n_nodes)]
    wxyz = quat.from_matrix(np.array([pose.rotation().matrix() for pose in poses]))
    position = np.array([pose.translation() for pose in poses])
    return Estimate(Poses(graph.node_ids, wxyz, position), "finished")
