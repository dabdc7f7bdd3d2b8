"""Every kind of g2o line against the error that g2o (or hdl_graph_slam) defines for it, in plain matrices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tempose.errors import GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io import ReadOptions, read_graph, write_graph
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior

SMALL = 1e-5
INFO6 = "100 0 0 0 0 0 100 0 0 0 0 100 0 0 0 25 0 0 25 0 25"
LINK = f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0.6 0.8 {INFO6}\n"
LINK2 = "EDGE_SE2 0 1 1 2 0.5 10 0 0 10 0 300\n"
PAIR = "VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1\nVERTEX_SE3:QUAT 1 1 2 3 0 0 0.6 0.8\n"
PAIR2 = "VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 1 2 0.5\n"


@pytest.fixture
def load(tmp_path):
    def _load(text: str, **options: str) -> PoseGraph:
        path = tmp_path / "graph.g2o"
        path.write_text(text)
        return read_graph(path, ReadOptions(**options))  # type: ignore[arg-type]

    return _load


def refused(load, text: str, line: int | None, *words: str) -> None:
    with pytest.raises(ParseError) as caught:
        load(text)
    assert caught.value.line == line, str(caught.value)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def words(values: object) -> str:
    return " ".join(repr(float(x)) for x in np.ravel(values))  # type: ignore[arg-type]


def upper(omega: np.ndarray) -> str:
    return words(omega[np.triu_indices(len(omega))])


def spd(rng: np.random.Generator, d: int) -> np.ndarray:
    a = rng.standard_normal((d, d))
    return a @ a.T + 0.2 * np.eye(d)


def pose(rng: np.random.Generator, size: float = 1.0) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3] = Rotation.from_rotvec(size * rng.standard_normal(3)).as_matrix()
    out[:3, 3] = size * rng.standard_normal(3)
    return out


def flat(rng: np.random.Generator, size: float = 1.0) -> np.ndarray:
    out = np.eye(4)
    out[:3, :3] = Rotation.from_rotvec([0, 0, size * rng.standard_normal()]).as_matrix()
    out[:2, 3] = size * rng.standard_normal(2)
    return out


def fields(M: np.ndarray) -> str:
    return words([*M[:3, 3], *Rotation.from_matrix(M[:3, :3]).as_quat()])


def fields2(M: np.ndarray) -> str:
    return words([*M[:2, 3], np.arctan2(M[1, 0], M[0, 0])])


def vector(M: np.ndarray) -> np.ndarray:
    """g2o's error of a motion, translation first, with the rotation vector."""
    return np.concatenate([M[:3, 3], Rotation.from_matrix(M[:3, :3]).as_rotvec()])


def potential(graph: PoseGraph, edge: int, at: dict[object, np.ndarray]) -> float:
    M = np.array([at.get(name, np.eye(4)) for name in graph.node_ids])
    poses = Poses(graph.node_ids, quat.from_matrix(M[:, :3, :3]), M[:, :3, 3])
    return float(Posterior(graph).energies(poses)[edge])


@pytest.mark.parametrize("seed", range(4))
def test_correlated_edges_are_the_gaussian_of_the_line(load, seed: int) -> None:
    """½ eᵀΩe with a dense 6×6 Ω: relative error falls with the size of the error, as it must for an expansion."""
    rng = np.random.default_rng(seed)
    Z, X, omega = pose(rng), pose(rng), spd(rng, 6)
    e = rng.standard_normal(6)
    for meaning, scale in (("rotation-vector", 1.0), ("quaternion-vector", 0.5)):
        graph = load(f"EDGE_SE3:QUAT 0 1 {fields(Z)} {upper(omega)}", rotation_information=meaning)
        assert graph.coupling is not None
        off = []
        for size in (1e-2, 1e-4):
            E = np.eye(4)
            E[:3, :3], E[:3, 3] = Rotation.from_rotvec(size * e[3:]).as_matrix(), size * e[:3]
            error = vector(E) * np.array([1, 1, 1, scale, scale, scale])
            off.append(potential(graph, 0, {0: X, 1: X @ Z @ E}) / (0.5 * error @ omega @ error) - 1.0)
        assert abs(off[0]) < 0.1 and abs(off[1]) < 1e-5
        dropped = load(
            f"EDGE_SE3:QUAT 0 1 {fields(Z)} {upper(omega)}", rotation_information=meaning, precision="se-sync"
        )
        control = potential(dropped, 0, {0: X, 1: X @ Z @ E})
        assert abs(control / (0.5 * error @ omega @ error) - 1.0) > 1e-2  # negative control


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_line_is_its_own_error(load, seed: int) -> None:
    """Each line with its error as the sources of g2o and hdl_graph_slam compute it, at poses slightly off."""
    rng = np.random.default_rng(seed)
    P, X, landmark = pose(rng), pose(rng), rng.standard_normal(3)
    D = pose(rng, SMALL)
    offset = f"PARAMS_SE3OFFSET 4 {fields(P)}\n"
    six, three, two = spd(rng, 6), spd(rng, 3), spd(rng, 2)
    off = SMALL * rng.standard_normal(3)

    Z = X @ P @ D  # the sensor's pose
    error = vector(np.linalg.inv(Z) @ X @ P)
    graph = load(f"{offset}{LINK}EDGE_SE3_PRIOR 0 4 {fields(Z)} {upper(six)}\n")
    assert graph.node_ids[-1] == WORLD and graph.is_absolute.tolist() == [False, True]
    assert potential(graph, 1, {0: X}) == pytest.approx(0.5 * error @ six @ error, rel=1e-3)
    half = load(
        f"{offset}{LINK}EDGE_SE3_PRIOR 0 4 {fields(Z)} {upper(six)}\n", rotation_information="quaternion-vector"
    )
    error[3:] /= 2
    assert potential(half, 1, {0: X}) == pytest.approx(0.5 * error @ six @ error, rel=1e-3)

    point = (X @ P)[:3, 3] + off
    for tag in ("EDGE_SE3_XYZPRIOR", "EDGE_SE3_XYZ_PRIOR"):
        graph = load(f"{offset}{LINK}{tag} 0 4 {words(point)} {upper(three)}\n")
        assert potential(graph, 1, {0: X}) == pytest.approx(0.5 * off @ three @ off, rel=1e-9)
        assert any("lever arms" in line for line in graph.notices)
    graph = load(f"{LINK}EDGE_SE3_PRIORXYZ 0 {words(X[:3, 3] + off)} {upper(three)}\n")
    assert potential(graph, 1, {0: X}) == pytest.approx(0.5 * off @ three @ off, rel=1e-9)
    graph = load(f"{LINK}EDGE_SE3_PRIORXY 0 {words(X[:2, 3] + off[:2])} {upper(two)}\n")
    assert potential(graph, 1, {0: X}) == pytest.approx(0.5 * off[:2] @ two @ off[:2], rel=1e-9)
    assert graph.freedom.tolist() == [6.0, 2.0]

    measured = Rotation.from_matrix((X @ D)[:3, :3]).as_quat()
    estimate = Rotation.from_matrix(X[:3, :3]).as_quat()
    difference = estimate[:3] * np.sign(estimate[3]) - measured[:3] * np.sign(measured[3])
    graph = load(f"{LINK}EDGE_SE3_PRIORQUAT 0 {words(measured[[3, 0, 1, 2]])} {upper(three)}\n")
    assert potential(graph, 1, {0: X}) == pytest.approx(0.5 * difference @ three @ difference, rel=1e-3)
    assert graph.has_translation.tolist() == [True, False]

    direction, seen = rng.standard_normal(3), rng.standard_normal(3)  # far apart: it is exact
    unit = [v / np.linalg.norm(v) for v in (direction, seen)]
    difference = X[:3, :3].T @ unit[0] - unit[1]
    graph = load(f"{LINK}EDGE_SE3_PRIORVEC 0 {words(direction)} {words(seen)} {upper(7.0 * np.eye(3))}\n")
    assert potential(graph, 1, {0: X}) == pytest.approx(3.5 * difference @ difference, rel=1e-12)
    assert graph.freedom[1] == 2.0 and not graph.has_rotation[1]

    sight = (np.linalg.inv(X @ P) @ [*landmark, 1.0])[:3] + off
    at = np.eye(4)
    at[:3, 3] = landmark
    graph = load(f"{offset}{LINK}EDGE_SE3_TRACKXYZ 0 9 4 {words(sight)} {upper(three)}\n")
    assert graph.landmarks == (9,)
    assert potential(graph, 1, {0: X, 9: at}) == pytest.approx(0.5 * off @ three @ off, rel=1e-9)
    graph = load(
        f"VERTEX_TRACKXYZ 9 {words(landmark)}\nPARAMS_SE3OFFSET 0 0 0 0 0 0 0 1\n{LINK}"
        f"EDGE_SE3_TRACKXYZ 0 9 0 {words(sight)} {upper(three)}\nEDGE_POINTXYZ_PRIOR 9 {words(landmark + off)} {upper(three)}\n"
    )
    assert potential(graph, 2, {9: at}) == pytest.approx(0.5 * off @ three @ off, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_every_planar_line_is_its_own_error(load, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, Z, D, landmark = flat(rng), flat(rng), flat(rng, SMALL), rng.standard_normal(2)
    three, two, off = spd(rng, 3), spd(rng, 2), SMALL * rng.standard_normal(2)

    def error2(M: np.ndarray) -> np.ndarray:
        return np.array([*M[:2, 3], np.arctan2(M[1, 0], M[0, 0])])

    e = error2(D)
    graph = load(f"EDGE_SE2 0 1 {fields2(Z)} {upper(three)}\n")
    assert graph.is_planar and graph.coupling is not None and not np.any(graph.coupling[:, :, :2])
    assert potential(graph, 0, {0: X, 1: X @ Z @ D}) == pytest.approx(0.5 * e @ three @ e, rel=1e-3)
    e = error2(np.linalg.inv(X @ D) @ X)
    graph = load(f"{LINK2}EDGE_PRIOR_SE2 0 {fields2(X @ D)} {upper(three)}\n")
    assert potential(graph, 1, {0: X}) == pytest.approx(0.5 * e @ three @ e, rel=1e-3)
    graph = load(f"{LINK2}EDGE_PRIOR_SE2_XY 0 {words(X[:2, 3] + off)} {upper(two)}\n")
    assert potential(graph, 1, {0: X}) == pytest.approx(0.5 * off @ two @ off, rel=1e-9)
    at = np.eye(4)
    at[:2, 3] = landmark
    sight = (np.linalg.inv(X) @ [*landmark, 0.0, 1.0])[:2] + off
    graph = load(
        f"{LINK2}EDGE_SE2_XY 0 9 {words(sight)} {upper(two)}\nEDGE_PRIOR_XY 9 {words(landmark + off)} {upper(two)}\n"
    )
    assert graph.landmarks == (9,) and graph.dimension == 2
    for k in (1, 2):
        assert potential(graph, k, {0: X, 9: at}) == pytest.approx(0.5 * off @ two @ off, rel=1e-9)


def test_a_scan_registration_is_as_unsure_as_it_is(load) -> None:
    """Twelve points 7–13 m to one side, 1 cm each: σ of the translation is 10.7 mm; 2.9 if correlations are dropped."""
    rng = np.random.default_rng(0)
    n, sigma = 12, 0.01
    points = np.column_stack([rng.uniform(7, 13, n), rng.uniform(-3, 3, n), rng.uniform(-1, 1, n)])
    J = np.zeros((3 * n, 6))  # of the points' coordinates by (translation, rotation vector)
    for k, (x, y, z) in enumerate(points):
        J[3 * k : 3 * k + 3] = np.hstack([np.eye(3), -np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])])
    omega = J.T @ J / sigma**2
    text = f"EDGE_SE3:QUAT 0 1 0 0 0 0 0 0 1 {upper(omega)}\n"
    sigma_t = np.sqrt(np.trace(np.linalg.inv(omega)[:3, :3]) / 3)
    assert sigma_t == pytest.approx(0.0107, abs=1e-4)
    marginal, blocks = load(text, precision="isotropic"), load(text, precision="se-sync")
    assert 1 / np.sqrt(marginal.translation_precision[0]) == pytest.approx(sigma_t, rel=1e-9)
    assert 1 / np.sqrt(blocks.translation_precision[0]) == pytest.approx(sigma / np.sqrt(n), rel=1e-9)
    full = np.linalg.inv(load(text).information[0])
    np.testing.assert_allclose(full[3:, 3:], np.linalg.inv(omega)[:3, :3], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(full[:3, :3], np.linalg.inv(omega)[3:, 3:], rtol=1e-7, atol=1e-12)


# ---------------------------------------------------------------------- there and back


def same(a: PoseGraph, b: PoseGraph, rtol: float = 1e-12) -> None:
    assert a.node_ids == b.node_ids and a.fixed == b.fixed and set(a.landmarks) == set(b.landmarks)
    assert a.dimension == b.dimension
    np.testing.assert_array_equal(a.edge_i, b.edge_i)
    np.testing.assert_array_equal(a.edge_j, b.edge_j)
    np.testing.assert_allclose(quat.angle_between(a.j_from_i_wxyz, b.j_from_i_wxyz), 0.0, atol=1e-15)
    np.testing.assert_allclose(a.j_from_i_t + a.world_origin, b.j_from_i_t + b.world_origin, rtol=0, atol=1e-14)
    scale = np.abs(a.information).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(a.information / scale, b.information / scale, rtol=0, atol=rtol)
    np.testing.assert_allclose(*(np.zeros((g.n_edges, 3)) if g.arm is None else g.arm for g in (a, b)))
    assert (a.initial is None) == (b.initial is None)
    for one, other in ((a.initial, b.initial), (a.fixed_at, b.fixed_at)):
        if one is not None and other is not None:
            np.testing.assert_allclose(one.position, other.position, atol=1e-14)
            np.testing.assert_allclose(quat.angle_between(one.wxyz, other.wxyz), 0, atol=1e-15)


def everything(rng: np.random.Generator, planar: bool) -> str:
    """A file with every kind of line, and vertices."""
    if planar:
        kinds = [f"VERTEX_SE2 {k} {fields2(flat(rng))}" for k in range(4)] + ["VERTEX_XY 7 1.5 -2", "FIX 2 3"]
        kinds += [f"EDGE_SE2 {k} {k + 1} {fields2(flat(rng))} {upper(spd(rng, 3))}" for k in range(3)]
        kinds += [f"EDGE_SE2_XY {k} 7 {words(rng.standard_normal(2))} {upper(spd(rng, 2))}" for k in range(2)]
        kinds += [f"EDGE_PRIOR_SE2 0 {fields2(flat(rng))} {upper(spd(rng, 3))}", "INLIER_PRIOR 0 0.5"]
        kinds += [f"EDGE_PRIOR_SE2_XY 1 {words(rng.standard_normal(2))} {upper(spd(rng, 2))}"]
        return "\n".join([*kinds, f"EDGE_PRIOR_XY 7 1 2 {upper(spd(rng, 2))}"])
    kinds = [f"VERTEX_SE3:QUAT {k} {fields(pose(rng))}" for k in range(4)]
    kinds += ["VERTEX_TRACKXYZ 7 1 2 3", f"PARAMS_SE3OFFSET 5 {fields(pose(rng))}", "FIX 2", "FIX 3"]
    kinds += [f"EDGE_SE3:QUAT {k} {k + 1} {fields(pose(rng))} {upper(spd(rng, 6))}" for k in range(3)]
    kinds += [f"EDGE_SE3_TRACKXYZ {k} 7 5 {words(rng.standard_normal(3))} {upper(spd(rng, 3))}" for k in range(2)]
    kinds += ["INLIER_PRIOR 1 7 0.75"]
    kinds += [f"EDGE_SE3_PRIOR 0 5 {fields(pose(rng))} {upper(spd(rng, 6))}"]
    kinds += [f"EDGE_SE3_XYZPRIOR 1 5 {words(rng.standard_normal(3))} {upper(spd(rng, 3))}"]
    kinds += [f"EDGE_SE3_PRIORXY 1 {words(rng.standard_normal(2))} {upper(spd(rng, 2))}"]
    kinds += [f"EDGE_SE3_PRIORQUAT 1 {words(Rotation.random(random_state=1).as_quat())} {upper(spd(rng, 3))}"]
    kinds += [f"EDGE_SE3_PRIORVEC 1 0 0 1 {words(rng.standard_normal(3))} {upper(4.0 * np.eye(3))}"]
    return "\n".join([*kinds, f"EDGE_POINTXYZ_PRIOR 7 1 2 3 {upper(spd(rng, 3))}"])


@pytest.mark.parametrize("meaning", ["rotation-vector", "quaternion-vector"])
@pytest.mark.parametrize("planar", [False, True])
def test_what_was_read_is_written_and_read_again(load, tmp_path: Path, planar: bool, meaning: str) -> None:
    rng = np.random.default_rng(3)
    graph = load(everything(rng, planar), rotation_information=meaning)
    assert graph.initial is not None and len(graph.fixed) == 2 and graph.landmarks == (7,)
    write_graph(tmp_path / "again.g2o", graph, rotation_information=meaning)
    text = (tmp_path / "again.g2o").read_text()
    assert ("SE3" in text) != planar and ("SE2" in text) == planar
    again = read_graph(tmp_path / "again.g2o", ReadOptions(rotation_information=meaning))
    same(graph, again)
    np.testing.assert_array_equal(graph.inlier_prior, again.inlier_prior)
    at = Poses(graph.node_ids, graph.initial.wxyz, graph.initial.position)
    energies = [Posterior(g).energies(at) for g in (graph, again)]
    np.testing.assert_allclose(energies[0], energies[1], rtol=1e-10)


@pytest.mark.parametrize("origin", [(691_000.0, 5_334_000.0, 0.0), (4_177_000.0, 855_000.0, 4_728_000.0)])
@pytest.mark.parametrize("planar", [False, True])
def test_millimetres_survive_map_coordinates(load, tmp_path: Path, origin, planar: bool) -> None:
    """Digit by digit: what is written at UTM or ECEF coordinates is read back to the last bit, and so is a file by others."""
    if planar:
        origin = (*origin[:2], 0.0)
    x, y, z = origin
    one, two = f"{x + 0.25:.4f}", f"{y + 12.0625:.4f}"
    if planar:
        text = f"VERTEX_SE2 0 {one} {two} 0.1\nVERTEX_SE2 1 {x + 1:.1f} {y:.1f} 0\nFIX 0\n{LINK2}"
        text += f"EDGE_PRIOR_SE2_XY 1 {x + 1.0625:.4f} {y + 0.5:.4f} 10000 0 10000\n"
    else:
        text = f"VERTEX_SE3:QUAT 0 {one} {two} {z + 3:.1f} 0 0 0 1\nVERTEX_SE3:QUAT 1 {x + 1} {y} {z} 0 0 0 1\nFIX 0\n{LINK}"
        text += f"EDGE_SE3_PRIORXYZ 1 {x + 1.0625:.4f} {y + 0.5:.4f} {z + 2} 10000 0 0 10000 0 10000\n"
    graph = load(text)
    assert np.all(graph.world_origin == np.round(graph.world_origin)) and graph.world_origin[0] != 0
    assert np.abs(graph.initial.position).max() < 100 and np.abs(graph.j_from_i_t).max() < 100
    np.testing.assert_array_equal(graph.initial.position[0, :2] + graph.world_origin[:2], [float(one), float(two)])
    np.testing.assert_array_equal(graph.fixed_at[0].position, graph.initial.position[0])
    rng = np.random.default_rng(0)
    moved = graph.initial.position + 0.3 * rng.standard_normal((3, 3)) * [1, 1, not planar]
    moved[graph.world] = 0.0
    poses = Poses(graph.node_ids, graph.initial.wxyz, moved)
    write_graph(tmp_path / "again.g2o", graph, poses)
    again = read_graph(tmp_path / "again.g2o")
    shift = again.world_origin - graph.world_origin
    np.testing.assert_allclose(again.initial.position[:2], moved[:2] - shift, rtol=0, atol=1e-14)
    np.testing.assert_allclose(again.j_from_i_t[1], graph.j_from_i_t[1] - shift, rtol=0, atol=1e-14)
    small = load(text.replace(LINK, "").replace(LINK2, "") + (LINK2 if planar else LINK))
    assert small.n_edges == 2
    near = load((PAIR2 + LINK2) if planar else (PAIR + LINK))
    assert not np.any(near.world_origin)


# ---------------------------------------------------------------------- what is odd


def test_planar_and_3d_do_not_mix(load) -> None:
    refused(load, PAIR + LINK + "EDGE_SE2 0 1 1 2 0.5 10 0 0 10 0 300\n", 4, "node 0 is planar here and 3D in line 1")
    refused(load, PAIR + LINK + "EDGE_SE2 5 6 1 2 0.5 10 0 0 10 0 300\n", 4, "planar", "line 1 is 3D", "split the file")
    refused(load, PAIR2 + LINK2 + "EDGE_SE3_PRIORXY 0 1 2 1 0 1\n", 4, "node 0 is 3D here and planar in line 1")


def test_landmarks_are_landmarks_everywhere(load) -> None:
    track = "PARAMS_SE3OFFSET 0 0 0 0 0 0 0 1\nEDGE_SE3_TRACKXYZ 0 9 0 1 2 3 1 0 0 1 0 1\n"
    refused(
        load,
        PAIR + track + LINK + LINK.replace(" 0 1 ", " 0 9 ", 1),
        6,
        "node 9 is a pose here and a landmark in line 4",
    )
    refused(load, PAIR + LINK + track.split("\n")[1], 4, "names offset 0", "PARAMS_SE3OFFSET")
    graph = load(PAIR + LINK + "VERTEX_TRACKXYZ 8 1 2 3\n" + "EDGE_BEARING_SE2_XY 0 8 1 1\n")
    assert graph.node_ids == (0, 1) and graph.initial is not None
    assert any("1 landmark that nothing measures" in n for n in graph.notices)
    assert any("a bearing without a distance is not in the model" in n for n in graph.notices)


def test_a_prior_needs_a_node_and_must_not_contradict_a_fixed_one(load) -> None:
    refused(load, PAIR + LINK + "EDGE_SE3_PRIORXY 5 1 2 1 0 1\n", 4, "prior is of node 5", "no VERTEX or EDGE")
    far = "EDGE_SE3_PRIORXYZ 1 1 2 4 10000 0 0 10000 0 10000\n"
    refused(load, PAIR + LINK + far + "FIX 1\n", 4, "node 1 is measured 100 σ from where FIX holds it")
    assert load(PAIR + LINK + far).n_edges == 2
    assert load(PAIR + LINK + far.replace(" 4 ", " 3.05 ") + "FIX 1\n").n_edges == 2
    refused(load, PAIR + LINK + "EDGE_SE3_PRIORXY 1 1 2 1 2 1\n", 4, "not positive definite")
    refused(load, PAIR + LINK + "EDGE_SE3_PRIORVEC 1 0 0 0 0 0 1 1 0 0 1 0 1\n", 4, "direction is zero")


def test_a_dump_of_hdl_graph_slam_is_read_and_its_planes_are_told(load) -> None:
    dump = (
        PAIR + "VERTEX_PLANE 2 0 0 1 0\nFIX 2\n" + LINK + "EDGE_SE3_PLANE 0 2 0 0 1 0 10 0 0 10 0 10\n"
        "EDGE_SE3_PRIORXY 0 0 0 1 0 1\nEDGE_SE3_PLANE 1 2 0 0 1 0 10 0 0 10 0 10\n"
    )
    graph = load(dump)
    assert graph.node_ids == (0, 1, WORLD) and graph.fixed == () and graph.n_edges == 2
    assert graph.notices == (
        "1 vertex of a kind that is not in the model left out, with 1 FIX",
        "3 lines with an unknown tag skipped: EDGE_SE3_PLANE (2), VERTEX_PLANE (1)",
    )


def test_what_g2o_cannot_hold_is_refused_by_edge(load, tmp_path: Path) -> None:
    graph = load(PAIR + LINK)
    with pytest.raises(GraphError, match=r"edge 0 \(0 → 1\) has a lever arm.*\.csv"):
        write_graph(tmp_path / "a.g2o", replace(graph, arm=[[1.0, 0, 0]]))
    flat_arm = load(PAIR2 + LINK2 + "EDGE_PRIOR_SE2_XY 1 1 2 100 0 100\n")
    with pytest.raises(GraphError, match=r"planar g2o files have no place.*\.csv"):
        write_graph(tmp_path / "a.g2o", replace(flat_arm, arm=[[0, 0, 0], [1.0, 0, 0]]))
    assert not (tmp_path / "a.g2o").exists()


def test_several_fixed_nodes_are_held_where_their_vertices_are(load, tmp_path: Path) -> None:
    graph = load(PAIR + LINK + LINK.replace(" 0 1 ", " 1 9 ", 1) + "FIX 0\nFIX 1\n")
    assert graph.initial is None and graph.fixed == (0, 1)
    np.testing.assert_array_equal(graph.fixed_at.position, [[0, 0, 0], [1, 2, 3]])
    write_graph(tmp_path / "again.g2o", graph)
    same(graph, read_graph(tmp_path / "again.g2o"))
    refused(load, LINK + "FIX 0 1\n", 2, "FIX holds node 0, and no VERTEX line says where")
    assert load(LINK + "FIX 1\n").fixed == (1,)


def test_a_translation_tied_to_an_unmeasured_rotation_is_told_by_line(load) -> None:
    text = PAIR + LINK + f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0.6 0.8 {upper(np.ones((6, 6)))}\n"
    refused(load, text, 4, "graph.g2o:4: the information matrix is singular", "a rotation that it does not measure")
