"""The benchmark files, where ``TEMPOSE_DATA`` says where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tempose.geometry import quaternion as quat
from tempose.io import ReadOptions, read_graph, read_poses
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior


def data(*parts: str) -> Path:
    root = os.environ.get("TEMPOSE_DATA")
    if not root:
        pytest.skip("TEMPOSE_DATA is not set: the benchmark files are not part of the project")
    path = Path(root, *parts)
    if not path.exists():
        pytest.skip(f"{path} is missing")
    return path


def raw_edges(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Ends and numbers of the EDGE_SE3:QUAT lines, by the simplest means."""
    rows = np.array([line.split()[1:] for line in path.open() if line.startswith("EDGE_SE3:QUAT")], dtype=float)
    return rows[:, :2].astype(int), rows[:, 2:]


@pytest.mark.parametrize("precision", ["isotropic", "full"])
@pytest.mark.parametrize(
    ("name", "nodes", "edges"),
    [("tinyGrid3D", 9, 11), ("smallGrid3D", 125, 297), ("sphere2500", 2500, 4949),
     ("torus3D", 5000, 9048), ("parking-garage", 1661, 6275)],
)  # fmt: skip
def test_counts(name, nodes, edges, precision):
    g = read_graph(data("g2o", f"{name}.g2o"), ReadOptions(precision=precision))
    assert (g.n_nodes, g.n_edges, g.n_components) == (nodes, edges, 1)
    assert g.initial is not None
    dense = name in ("sphere2500", "parking-garage")
    assert g.concentration.ndim == (3 if dense and precision == "full" else 1)
    assert g.translation_precision.ndim == 1
    assert len(g.notices) == (dense and precision == "isotropic")


@pytest.mark.parametrize(("name", "worst"), [("sphere2500", "4.16x"), ("parking-garage", "2.7e+09x")])
def test_notices_of_the_dense_files(name, worst):
    path = data("g2o", f"{name}.g2o")
    g = read_graph(path, ReadOptions(precision="isotropic"))
    assert g.notices == (
        f"rotation precisions differ by up to {worst} between axes, translation by 1.00x; "
        "reduced to one number per edge by the trace rule; --precision full keeps them",
    )
    assert g.origin["reduced_edges"] == str(g.n_edges)
    _, values = raw_edges(path)
    omega = np.zeros((len(values), 6, 6))
    omega[:, np.triu_indices(6)[0], np.triu_indices(6)[1]] = values[:, 7:]
    block = omega[:, 3:, 3:] + np.swapaxes(np.triu(omega[:, 3:, 3:], 1), 1, 2)
    eig = np.linalg.eigvalsh(block)
    assert float(worst[:-1]) == pytest.approx((eig[:, 2] / eig[:, 0]).max(), rel=0.02)


@pytest.mark.parametrize("name", ["smallGrid3D", "sphere2500", "parking-garage"])
def test_potential_is_half_of_se_syncs_objective(name):
    """F = Σ κ‖R_j − R_i R_ij‖² + τ‖p_j − p_i − R_i t_ij‖², from the raw file, at perturbed vertices: U = F/2."""
    path = data("g2o", f"{name}.g2o")
    g = read_graph(path, ReadOptions(precision="isotropic"))
    rng = np.random.default_rng(0)
    n = g.n_nodes
    poses = Poses(
        g.node_ids,
        quat.multiply(g.initial.wxyz, quat.exp(0.1 * rng.standard_normal((n, 3)))),
        g.initial.position + 0.1 * rng.standard_normal((n, 3)),
    )
    ends, values = raw_edges(path)
    total = 0.0
    rotation = dict(zip(poses.ids, quat.to_matrix(poses.wxyz), strict=True))
    position = dict(zip(poses.ids, poses.position, strict=True))
    for (i, j), row in zip(ends.tolist(), values, strict=True):
        omega = np.zeros((6, 6))
        omega[np.triu_indices(6)] = row[7:]
        omega = omega + np.triu(omega, 1).T
        tau = 3 / np.trace(np.linalg.inv(omega[:3, :3]))
        kappa = 3 / (2 * np.trace(np.linalg.inv(omega[3:, 3:])))
        R_ij = quat.to_matrix(quat.normalize(row[[6, 3, 4, 5]]))
        total += kappa * np.sum((rotation[j] - rotation[i] @ R_ij) ** 2)
        total += tau * np.sum((position[j] - position[i] - rotation[i] @ row[:3]) ** 2)
    assert Posterior(g).reference_potential(poses) == pytest.approx(total / 2, rel=1e-9)


def test_sphere_ground_truth_is_a_sphere():
    """The noise-free EDGE3 file, chained along its odometry, is a sphere of radius 50; every edge agrees with it."""
    g = read_graph(data("g2o", "sphere2500_groundtruth.txt"), ReadOptions(precision="isotropic"))
    assert (g.n_nodes, g.n_edges) == (2500, 4949)
    wxyz, position = np.zeros((2500, 4)), np.zeros((2500, 3))
    wxyz[0] = quat.IDENTITY
    following = {(int(i), int(j)): k for k, (i, j) in enumerate(zip(g.edge_i, g.edge_j, strict=True))}
    for k in range(1, 2500):
        e = following[g.index[k], g.index[k - 1]]  # source k, target k − 1: (k−1)_from_k
        before = (wxyz[k - 1], position[k - 1])
        wxyz[k] = quat.multiply(before[0], g.j_from_i_wxyz[e])
        position[k] = quat.rotate(before[0], g.j_from_i_t[e]) + before[1]
    # centre and radius by linear least squares: |p|² = 2 c·p + (r² − |c|²)
    solution = np.linalg.lstsq(np.c_[2 * position, np.ones(2500)], np.sum(position**2, axis=1), rcond=None)[0]
    radius = np.sqrt(solution[3] + solution[:3] @ solution[:3])
    assert radius == pytest.approx(50.0, abs=0.05)
    np.testing.assert_allclose(np.linalg.norm(position - solution[:3], axis=1), radius, atol=0.05)
    truth = Poses(tuple(range(2500)), quat.normalize(wxyz), position).select(g.node_ids)
    rotation, translation = Posterior(g).potential_by_edge(truth)
    assert np.sqrt(rotation / g.concentration).max() < 1e-3
    assert np.sqrt(2 * translation / g.translation_precision).max() < 0.02


def test_vertices_are_the_odometry_chain():
    path = data("g2o", "torus3D.g2o")
    g = read_graph(path)
    poses = read_poses(path)
    np.testing.assert_array_equal(poses.position, g.initial.position)
    rotation, translation = Posterior(g).potential_by_edge(g.initial)
    chain = np.array([abs(g.node_ids[i] - g.node_ids[j]) == 1 for i, j in zip(g.edge_i, g.edge_j, strict=True)])
    first = np.flatnonzero(chain)[:50]  # the file's six digits add up along the chain
    assert (rotation[first] / g.concentration[first]).max() < 1e-11
    assert (translation[first] / g.translation_precision[first]).max() < 1e-9


@pytest.mark.parametrize(
    ("scene", "measured", "true"),
    [
        ("7-scenes-redkitchen-evaluation", (60, 588), (60, 506)),
        ("sun3d-hotel_uc-scan3-evaluation", (55, 241), (55, 226)),
    ],
)
def test_threedmatch(scene, measured, true):
    options = ReadOptions(sigma_rot_deg=2.0, sigma_trans=0.05)
    log, gt = (read_graph(data("threedmatch", scene, name), options) for name in ("3dmatch.log", "gt.log"))
    assert (log.n_nodes, log.n_edges) == measured
    assert (gt.n_nodes, gt.n_edges) == true
    # most measured pairs agree with the true ones, which they would not if one of the two were inverted
    truth = {(gt.node_ids[i], gt.node_ids[j]): k for k, (i, j) in enumerate(zip(gt.edge_i, gt.edge_j, strict=True))}
    common = [
        (k, truth[log.node_ids[i], log.node_ids[j]])
        for k, (i, j) in enumerate(zip(log.edge_i, log.edge_j, strict=True))
        if (log.node_ids[i], log.node_ids[j]) in truth
    ]
    a, b = (list(column) for column in zip(*common, strict=True))
    angle = quat.angle_between(log.j_from_i_wxyz[a], gt.j_from_i_wxyz[b])
    assert np.degrees(np.median(angle)) < 5.0
