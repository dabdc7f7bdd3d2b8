"""Pose graphs, reconstructions and pose priors of pycolmap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.cli import main
from tempose.errors import FileError, GraphError
from tempose.geometry import quaternion as quat
from tempose.interop import (
    graph_from_colmap,
    poses_from_reconstruction,
    to_colmap_pose_graph,
    to_colmap_pose_priors,
    update_reconstruction,
    write_colmap_pose_priors,
)
from tempose.model.residuals import residuals

pycolmap = pytest.importorskip("pycolmap")


def dataset(path: Path | None = None):
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig, options.num_points3D = 1, 1, 6, 30
    if path is None:
        return pycolmap.synthesize_dataset(options)
    with pycolmap.Database.open(str(path)) as database:
        return pycolmap.synthesize_dataset(options, database)


def test_poses_of_a_reconstruction_and_back() -> None:
    found = dataset()
    poses = poses_from_reconstruction(found)
    for name in poses.ids:
        np.testing.assert_allclose(poses[name].position, found.images[name].projection_center(), atol=1e-12)
    names = poses_from_reconstruction(found, by="name")
    assert set(names.ids) == {image.name for image in found.images.values()}
    rng = np.random.default_rng(2)
    moved = tempose.Poses(poses.ids, quat.random_uniform(rng, len(poses)), rng.normal(size=(len(poses), 3)))
    update_reconstruction(found, moved)
    again = poses_from_reconstruction(found).select(moved.ids)
    np.testing.assert_allclose(again.position, moved.position, atol=1e-12)
    assert np.max(quat.angle_between(again.wxyz, moved.wxyz)) < 1e-7
    with pytest.raises(GraphError, match="no image 99"):
        update_reconstruction(found, tempose.Poses.identity([99]))


def test_a_pose_graph_fits_the_reconstruction_it_was_made_from() -> None:
    """Both ways, with the truth as it is and, as a negative control, inverted."""
    found = dataset()
    images = list(found.images)
    given = pycolmap.PoseGraph()
    for a, b in zip(images, images[1:], strict=False):
        first, second = (found.images[k].cam_from_world() for k in (a, b))
        given.add_edge(a, b, pycolmap.PoseGraphEdge(cam2_from_cam1=second * first.inverse()))
    graph = graph_from_colmap(given, sigma_rot_deg=1.0, sigma_trans=0.1)
    poses = poses_from_reconstruction(found).select(graph.node_ids)
    left = residuals(graph, poses)
    assert np.max(left.angle) < 1e-7 and np.max(np.abs(left.translation)) < 1e-9
    inverse = tempose.Poses(poses.ids, quat.conjugate(poses.wxyz), poses.position)
    assert np.max(residuals(graph, inverse).angle) > 0.1
    again = graph_from_colmap(to_colmap_pose_graph(graph), sigma_rot_deg=1.0, sigma_trans=0.1)
    left = residuals(again, poses.select(again.node_ids))
    assert np.max(left.angle) < 1e-7 and np.max(np.abs(left.translation)) < 1e-9
    assert not graph_from_colmap(given, sigma_rot_deg=1.0).has_translation.any()
    with pytest.raises(GraphError, match="several edges"):
        to_colmap_pose_graph(
            tempose.PoseGraph.from_concentrations([(1, 2), (1, 2)], [[1, 0, 0, 0]] * 2, concentration=1.0)
        )
    with pytest.raises(GraphError, match="no valid edges"):
        graph_from_colmap(pycolmap.PoseGraph(), sigma_rot_deg=1.0)


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tempose.Solution]:
    home = tmp_path_factory.mktemp("colmap")
    found = dataset(home / "database.db")
    truth = poses_from_reconstruction(found, by="name")
    graph = tempose.GraphBuilder()
    for a, b in zip(truth.ids, truth.ids[1:], strict=False):
        graph.add_edge(a, b, transform=truth.relative(a, b), sigma_rot_deg=0.5, sigma_trans=0.1)
    graph.add_node(truth.ids[0], truth[truth.ids[0]], fixed=True)
    solution = tempose.solve(graph.build(), draws=0)
    solution.save(home / "result")
    return home, solution


def test_pose_priors_are_read_by_colmap(solved: tuple[Path, tempose.Solution]) -> None:
    home, solution = solved
    assert main(["export", str(home / "result"), str(home / "database.db"), "--quiet"]) == 0
    with pycolmap.Database.open(str(home / "database.db")) as database:
        images = {image.data_id.id: image.name for image in database.read_all_images()}
        priors = {images[prior.corr_data_id.id]: prior for prior in database.read_all_pose_priors()}
    assert set(priors) == set(solution.poses.ids)
    for name, prior in priors.items():
        np.testing.assert_allclose(np.ravel(prior.position), solution[name].position, atol=1e-12)
        np.testing.assert_allclose(prior.position_covariance, solution.covariance(name)[3:, 3:], atol=1e-12)
        assert prior.coordinate_system == pycolmap.PosePriorCoordinateSystem.CARTESIAN
    assert write_colmap_pose_priors(home / "database.db", solution) == len(priors)  # replaced, not added
    with pycolmap.Database.open(str(home / "database.db")) as database:
        assert database.num_pose_priors() == len(priors)


def test_priors_of_unknown_images_are_refused(solved: tuple[Path, tempose.Solution], tmp_path: Path) -> None:
    home, _ = solved
    graph = tempose.GraphBuilder().add_edge(
        "a", "b", wxyz=[1, 0, 0, 0], translation=[1, 0, 0], sigma_rot_deg=1, sigma_trans=1
    )
    other = tempose.solve(graph.build(), draws=0)
    with pytest.raises(GraphError, match="there is no image 'a'"):
        write_colmap_pose_priors(home / "database.db", other)
    with pytest.raises(FileError, match="no such database"):
        write_colmap_pose_priors(tmp_path / "nowhere.db", other)
    assert list(to_colmap_pose_priors(other, ["b"])) == ["b"]
