"""g2o: every number against its equation, every defect against its line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tempose.errors import GraphError, OptionError, ParseError, TemposeError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io import ReadOptions, read_graph, read_poses, write_graph, write_poses
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior

UPPER = np.triu_indices(6)
FULL = ReadOptions(precision="full")
ONE_NUMBER = ReadOptions(precision="isotropic")
INFO = "100 0 0 0 0 0 100 0 0 0 0 100 0 0 0 25 0 0 25 0 25"
VERTICES = "VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1\nVERTEX_SE3:QUAT 1 1 2 3 0 0 0.6 0.8\n"
EDGE = f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0.6 0.8 {INFO}\n"


def info_text(omega: np.ndarray) -> str:
    return " ".join(repr(float(v)) for v in omega[UPPER])


def random_spd(rng: np.random.Generator, d: int = 3) -> np.ndarray:
    a = rng.standard_normal((d, d))
    return a @ a.T + 0.3 * np.eye(d)


@pytest.fixture
def load(tmp_path):
    def _load(text: str | bytes, options: ReadOptions | None = None) -> PoseGraph:
        path = tmp_path / "graph.g2o"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_graph(path, options)

    return _load


def refused(load, text: str | bytes, line: int | None, *words: str, options: ReadOptions | None = None) -> ParseError:
    with pytest.raises(ParseError) as caught:
        load(text, options)
    message = str(caught.value)
    assert caught.value.line == line, message
    assert "graph.g2o" + (f":{line}:" if line else ":") in message
    for word in words:
        assert word in message
    assert "\n" not in message
    return caught.value


# ---------------------------------------------------------------------- meaning


def test_a_line_by_hand(load):
    g = load(VERTICES + EDGE)
    assert g.node_ids == (0, 1)
    # g2o's i=0 j=1 measures 0_from_1: source 1, target 0, no inversion
    assert (g.edge_i.tolist(), g.edge_j.tolist()) == ([1], [0])
    np.testing.assert_array_equal(g.j_from_i_wxyz, [[0.8, 0, 0, 0.6]])
    np.testing.assert_array_equal(g.j_from_i_t, [[1, 2, 3]])
    assert g.concentration.tolist() == [50.0]  # λ = 2Ω
    assert g.translation_precision.tolist() == [100.0]
    np.testing.assert_array_equal(g.initial.position, [[0, 0, 0], [1, 2, 3]])
    np.testing.assert_array_equal(g.initial.wxyz, [[1, 0, 0, 0], [0.8, 0, 0, 0.6]])
    assert g.notices == ()
    assert Posterior(g).reference_potential(g.initial) == pytest.approx(0.0, abs=1e-28)  # the vertices are the odometry


def test_quaternion_vector_is_a_quarter(load):
    g = load(VERTICES + EDGE, ReadOptions(rotation_information="quaternion-vector"))
    assert g.concentration.tolist() == [12.5]  # λ = Ω/2
    assert g.translation_precision.tolist() == [100.0]
    assert g.origin["rotation_information"] == "quaternion-vector"


def test_origin_records_how_the_file_was_read(load):
    g = load(VERTICES + EDGE)
    assert g.origin["file"] == "graph.g2o"
    assert g.origin["format"] == "g2o"
    assert g.origin["rotation_information"] == "rotation-vector"
    assert g.origin["precision"] == "full"
    assert g.origin["reduced_edges"] == g.origin["correlated_edges"] == "0"


@pytest.mark.parametrize("meaning", ["rotation-vector", "quaternion-vector"])
@pytest.mark.parametrize("seed", range(5))
def test_full_precision_is_the_quadratic_form_of_the_g2o_error(load, meaning, seed):
    """½ eᵀΩe with E = Z⁻¹ X_i⁻¹ X_j, written out here, equals tempose's U for small errors."""
    rng = np.random.default_rng(seed)
    z = (quat.random_uniform(rng), rng.standard_normal(3))
    x_i = (quat.random_uniform(rng), rng.standard_normal(3))
    small = 1e-5
    error = (quat.exp(small * rng.standard_normal(3)), small * rng.standard_normal(3))
    x_j = se3.compose(se3.compose(x_i, z), error)  # so that Z⁻¹ X_i⁻¹ X_j = error
    omega = np.zeros((6, 6))
    omega[:3, :3], omega[3:, 3:] = random_spd(rng), random_spd(rng)
    pose = [*z[1], *z[0][[1, 2, 3, 0]]]
    g = load(
        f"EDGE_SE3:QUAT 5 7 {' '.join(map(repr, map(float, pose)))} {info_text(omega)}",
        ReadOptions(precision="full", rotation_information=meaning),
    )
    e_rotation = quat.log(error[0]) if meaning == "rotation-vector" else error[0][1:]
    expected_r = 0.5 * e_rotation @ omega[3:, 3:] @ e_rotation
    expected_t = 0.5 * error[1] @ omega[:3, :3] @ error[1]
    poses = Poses((5, 7), np.stack([x_i[0], x_j[0]]), np.stack([x_i[1], x_j[1]])).select(g.node_ids)
    rotation, translation = Posterior(g).potential_by_edge(poses)
    np.testing.assert_allclose(rotation, [expected_r], rtol=1e-8)
    np.testing.assert_allclose(translation, [expected_t], rtol=1e-8)


def test_unrotated_blocks_would_be_wrong(load):
    """The rotation of the blocks matters: Λ = 2 R_Z Ω R_Zᵀ, here a quarter turn about z."""
    h = repr(float(np.sqrt(0.5)))
    omega = np.diag([1.0, 2, 3, 10, 20, 30])
    g = load(f"EDGE_SE3:QUAT 0 1 0 0 0 0 0 {h} {h} {info_text(omega)}", FULL)
    np.testing.assert_allclose(g.concentration[0], np.diag([40, 20, 60]), atol=1e-12)
    np.testing.assert_allclose(g.translation_precision[0], np.diag([2, 1, 3]), atol=1e-12)


def test_trace_rule_against_se_sync(load):
    rng = np.random.default_rng(3)
    omega = np.zeros((6, 6))
    omega[:3, :3], omega[3:, 3:] = random_spd(rng), random_spd(rng)
    text = f"EDGE_SE3:QUAT 0 1 1 2 3 0.5 0.5 -0.5 0.5 {info_text(omega)}"
    g = load(text, ONE_NUMBER)
    kappa = 3 / (2 * np.trace(np.linalg.inv(omega[3:, 3:])))
    np.testing.assert_allclose(g.concentration, 4 * kappa, rtol=1e-13)
    np.testing.assert_allclose(g.translation_precision, 3 / np.trace(np.linalg.inv(omega[:3, :3])), rtol=1e-13)
    quarter = load(text, ReadOptions(rotation_information="quaternion-vector", precision="isotropic"))
    np.testing.assert_allclose(quarter.concentration, kappa, rtol=1e-13)
    eig_r, eig_t = np.linalg.eigvalsh(omega[3:, 3:]), np.linalg.eigvalsh(omega[:3, :3])
    ratios = f"up to {eig_r[-1] / eig_r[0]:.2f}x between axes, translation by {eig_t[-1] / eig_t[0]:.2f}x"
    assert ratios in g.notices[-1]
    assert "--precision full" in g.notices[-1]
    assert g.origin["reduced_edges"] == "1"


def test_full_stays_scalar_where_every_block_is_isotropic(load):
    g = load(VERTICES + EDGE, FULL)
    assert g.is_isotropic
    mixed = np.diag([1.0, 1, 1, 1, 2, 3])
    g = load(EDGE + f"EDGE_SE3:QUAT 1 2 0 0 0 0 0 0 1 {info_text(mixed)}", FULL)
    assert g.translation_precision.shape == (2,)
    assert g.concentration.shape == (2, 3, 3)
    np.testing.assert_array_equal(g.concentration[0], 50 * np.eye(3))


def test_information_of_any_size_survives_the_trace_rule(load):
    omega = np.diag([1e-90, 1e90, 1, 1e-60, 1e-60, 1e60])
    g = load(f"EDGE_SE3:QUAT 0 1 0 0 0 0 0 0 1 {info_text(omega)}", ONE_NUMBER)
    np.testing.assert_allclose(g.translation_precision, 3e-90, rtol=1e-12)
    np.testing.assert_allclose(g.concentration, 3e-60, rtol=1e-12)


# ---------------------------------------------------------------------- planar and TORO lines


def test_planar_lines(load):
    text = "VERTEX_SE2 3 0 0 0\nVERTEX_SE2 4 1 2 0.5\nEDGE_SE2 3 4 1 2 0.5 10 1 0 20 0 300\n"
    g = load(text, ONE_NUMBER)
    assert g.dimension == 2
    np.testing.assert_allclose(g.j_from_i_wxyz, [[np.cos(0.25), 0, 0, np.sin(0.25)]], atol=1e-16)
    np.testing.assert_array_equal(g.j_from_i_t, [[1, 2, 0]])
    np.testing.assert_allclose(g.initial.wxyz[1], [np.cos(0.25), 0, 0, np.sin(0.25)])
    assert g.concentration.tolist() == [600.0]
    np.testing.assert_allclose(g.translation_precision, [2 / np.trace(np.linalg.inv([[10, 1], [1, 20]]))], rtol=1e-14)


def test_planar_full_keeps_the_plane_and_says_nothing_else(load):
    g = load(f"EDGE_SE2 3 4 1 2 {np.pi / 2!r} 10 1 0 20 0 300\n")
    np.testing.assert_allclose(g.translation_precision[0], [[20, -1, 0], [-1, 10, 0], [0, 0, 0]], atol=1e-12)
    assert g.concentration.tolist() == [600.0]
    assert g.freedom.tolist() == [3.0]
    assert load("EDGE_SE2 3 4 1 2 0.7 10 0 0 10 0 300\n").is_isotropic


def test_planar_angle_information_ignores_the_meaning_of_quaternion_blocks(load):
    text = "EDGE_SE2 3 4 1 2 0.5 10 0 0 10 0 300\n"
    assert load(text, ReadOptions(rotation_information="quaternion-vector")).concentration.tolist() == [600.0]


def test_planar_potential_is_the_g2o_error(load):
    """In the plane, U is ½ eᵀΩe of the line, for small errors, correlations included."""
    omega = np.array([[10.0, 1, 5], [1, 20, -7], [5, -7, 300]])
    g = load("EDGE_SE2 0 1 1 2 0.5 10 1 5 20 -7 300\n", FULL)
    e = np.array([1e-5, -2e-5, 3e-5])
    c, s = np.cos(0.5), np.sin(0.5)
    position = np.array([1, 2]) + np.array([[c, -s], [s, c]]) @ e[:2]
    theta = 0.5 + e[2]
    poses = Poses(
        (0, 1), [[1, 0, 0, 0], [np.cos(theta / 2), 0, 0, np.sin(theta / 2)]], [[0, 0, 0], [*position, 0]]
    ).select(g.node_ids)
    assert Posterior(g).reference_potential(poses) == pytest.approx(0.5 * e @ omega @ e, rel=1e-6)


def test_toro_angles(load):
    roll, pitch, yaw = 0.3, -0.4, 1.2
    g = load(f"EDGE3 0 1 1 2 3 {roll} {pitch} {yaw} {INFO}\n")

    def turn(axis, a):
        c, s = np.cos(a), np.sin(a)
        return {
            "x": np.array([[1, 0, 0], [0, c, -s], [0, s, c]]),
            "y": np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]),
            "z": np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]),
        }[axis]

    expected = turn("z", yaw) @ turn("y", pitch) @ turn("x", roll)
    np.testing.assert_allclose(quat.to_matrix(g.j_from_i_wxyz)[0], expected, atol=1e-15)
    assert g.concentration.tolist() == [50.0]
    quarter = load(f"EDGE3 0 1 1 2 3 0 0 0 {INFO}\n", ReadOptions(rotation_information="quaternion-vector"))
    assert quarter.concentration.tolist() == [50.0]


# ---------------------------------------------------------------------- information that is odd


def test_zero_translation_information_is_a_rotation_only_edge(load):
    g = load(f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0 1 {info_text(np.diag([0.0, 0, 0, 1, 1, 1]))}\n" + EDGE)
    assert g.has_translation.tolist() == [False, True]
    assert g.concentration.tolist() == [2.0, 50.0]
    assert any("1 edge with zero translation information" in n for n in g.notices)
    assert g.origin["rotation_only_edges"] == "1"


def test_zero_rotation_information_is_concentration_zero(load):
    g = load(f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0 1 {info_text(np.diag([4.0, 4, 4, 0, 0, 0]))}\n" + EDGE)
    assert g.concentration.tolist() == [0.0, 50.0]
    assert g.translation_precision.tolist() == [4.0, 100.0]
    assert any("1 edge with zero rotation information" in n for n in g.notices)


def test_edges_without_information_are_left_out(load):
    nothing = f"EDGE_SE3:QUAT 0 9 1 2 3 0 0 0 1 {info_text(np.zeros((6, 6)))}\n"
    g = load(nothing + EDGE)
    assert (g.n_edges, g.node_ids) == (1, (0, 1, 9))
    assert any("1 edge with zero information left out" in n for n in g.notices)
    refused(load, nothing, None, "no edge carries any information")


@pytest.mark.parametrize("options", [ReadOptions(), FULL])
@pytest.mark.parametrize(("block", "name"), [([1, 1, 1, 1, 1, -1], "rotation"), ([1, -2, 1, 1, 1, 1], "translation")])
def test_indefinite_blocks_are_refused_by_line(load, options, block, name):
    text = EDGE + f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0 1 {info_text(np.diag(np.array(block, float)))}\n"
    refused(load, text, 2, name, "not positive definite", options=options)


def test_blocks_that_are_zero_along_an_axis(load):
    text = EDGE + f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0 1 {info_text(np.diag([1.0, 1, 0, 1, 1, 1]))}\n"
    refused(load, text, 2, "--precision full accepts", options=ONE_NUMBER)
    g = load(text, FULL)
    np.testing.assert_array_equal(g.translation_precision[1], np.diag([1, 1, 0]))
    assert any("no information along some axis" in n for n in g.notices)


def test_correlations_are_kept_reduced_or_dropped_and_told(load):
    omega = np.diag([10.0, 10, 10, 10, 10, 10])
    omega[0, 5] = omega[5, 0] = 8.0
    text = EDGE + f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0 1 {info_text(omega)}\n"
    kept = load(text)
    assert kept.coupling is not None and not np.any(kept.coupling[0]) and kept.origin["correlated_edges"] == "1"
    sigma = np.linalg.inv(omega)
    marginal = load(text, ONE_NUMBER)
    np.testing.assert_allclose(marginal.translation_precision, [100.0, 3 / np.trace(sigma[:3, :3])])
    np.testing.assert_allclose(marginal.concentration, [50.0, 6 / np.trace(sigma[3:, 3:])])
    ratio = np.sqrt(np.trace(sigma[:3, :3]) / 0.3)
    (told,) = [n for n in marginal.notices if "marginal covariances" in n]
    assert f"1 edge with correlations: median σ ratio {ratio:.2f}x for rotations, {ratio:.2f}x for translations" in told
    dropped = load(text, ReadOptions(precision="se-sync"))
    assert (dropped.concentration.tolist(), dropped.translation_precision.tolist()) == ([50.0, 20.0], [100.0, 10.0])
    assert any("drops correlations" in n and f"{ratio:.2f}x" in n for n in dropped.notices)


def test_an_indefinite_whole_with_definite_blocks(load):
    omega = np.diag([10.0, 10, 10, 10, 10, 10])
    omega[0, 5] = omega[5, 0] = 30.0
    text = EDGE + f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0 1 {info_text(omega)}\n"
    for options in (FULL, ONE_NUMBER):
        refused(load, text, 2, "indefinite", "--precision se-sync", options=options)
    g = load(text, ReadOptions(precision="se-sync"))
    assert any("1 edge with an indefinite information" in n and "line 2" in n for n in g.notices)
    assert g.origin["indefinite_edges"] == "1"
    assert g.concentration.tolist() == [50.0, 20.0]


# ---------------------------------------------------------------------- lines that are odd


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (VERTICES + "EDGE_SE3:QUAT 0 1 1 2 3\n", 3, ["5 fields", "expected 30", "21 information"]),
        (VERTICES + EDGE.strip() + " 7\n", 3, ["31 fields", "expected 30"]),
        ("VERTEX_SE3:QUAT 0 0 0 0 0 0 0\n" + EDGE, 1, ["7 fields", "expected 8", "qx qy qz qw"]),
        ("EDGE_SE2 0 1 1 2 3 1 0 0 1 0\n", 1, ["10 fields", "expected 11"]),
        (EDGE + EDGE.replace("0.6", "zero.6"), 2, ["qz", "zero.6", "a number"]),
        (EDGE + EDGE.replace(" 25 0 0 25 ", " 25 0 0 nan "), 2, ["information 55", "finite"]),
        (EDGE + EDGE.replace(" 1 2 3 ", " 1 -inf 3 "), 2, ["y is '-inf'", "finite"]),
        (EDGE + EDGE.replace(" 1 2 3 ", " 1 1e400 3 "), 2, ["1e400", "finite"]),
        (EDGE + EDGE.replace(" 1 2 3 ", " 1 1_0 3 "), 2, ["1_0", "a number"]),
        (EDGE + EDGE.replace(" 1 2 3 ", " 1 ٣ 3 "), 2, ["٣", "a number"]),
        (EDGE + EDGE.replace("0.6 0.8", "0.6 0.7"), 2, ["length 0.921954"]),
        (EDGE + EDGE.replace("0.6 0.8", "0 0"), 2, ["quaternion is zero"]),
        (EDGE + EDGE.replace("0 1 1 2 3", "1 1 1 2 3"), 2, ["joins node 1 to itself"]),
        (EDGE.replace("0 1 1 2 3", "0.5 1 1 2 3"), 1, ["i is '0.5'", "integer"]),
        (EDGE.replace("0 1 1 2 3", "0 9223372036854775808 1 2 3"), 1, ["j is", "64-bit"]),
        (VERTICES + "VERTEX_SE3:QUAT 1 1 2 4 0 0 0.6 0.8\n" + EDGE, 3, ["another pose", "line 2"]),
        (EDGE + "FIX\n", 2, ["FIX names no node"]),
        (EDGE + "FIX 0 x\n", 2, ["'x'", "integer"]),
        (EDGE + "FIX 8\n", 2, ["node 8"]),
        (EDGE.replace(" ", ","), 1, ["separates by blanks"]),
        (EDGE.replace(" 1 2 3 ", " 1,2,3 "), 1, ["28 fields", "not commas"]),
        (EDGE.replace(" 1 2 3 ", " 1,5 2 3 "), 1, ["1,5", "decimal point"]),
        (EDGE + "\x00\x01", 2, ["binary"]),
        ("", None, ["no edges found", "EDGE_SE3:QUAT", "empty"]),
        ("# nothing\n\n", None, ["no edges found", "empty"]),
        (VERTICES, None, ["no edges found", "VERTEX_SE3:QUAT (2)"]),
        ("EDGE9 0 1 1 2 3 1 0 0 1 0 1\n", None, ["no edges found", "EDGE9 (1)"]),
    ],
)  # fmt: skip
def test_defects_are_refused_by_line(load, text, line, words):
    refused(load, text, line, *words)


def test_the_first_bad_line_of_many(load):
    bad = EDGE.replace(" 1 2 3 ", " 1 2 3x ")
    refused(load, VERTICES + EDGE * 500 + bad + EDGE * 500, 503, "z is '3x'")


def test_compressed_and_utf16_files_say_so(load):
    refused(load, b"\x1f\x8b\x08abc", None, "gzip")
    refused(load, EDGE.encode("utf-16"), None, "UTF-16")


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.replace("\n", "\r\n"),
        lambda s: s.replace("\n", "\r"),
        lambda s: s.replace(" ", "\t"),
        lambda s: "\ufeff" + s,
        lambda s: "# head\n\n" + s.replace("\n", " # tail\n"),
        lambda s: "  " + s.rstrip(),
    ],
)
def test_harmless_spellings(load, change):
    plain, other = load(VERTICES + EDGE), load(change(VERTICES + EDGE))
    assert other.notices == ()
    np.testing.assert_array_equal(plain.j_from_i_t, other.j_from_i_t)
    np.testing.assert_array_equal(plain.concentration, other.concentration)
    assert plain.node_ids == other.node_ids


def test_latin1_comments_do_not_matter(load):
    assert load(b"# caf\xe9\n" + EDGE.encode()).n_edges == 1


def test_decimal_commas(load):
    g = load("EDGE_SE3:QUAT 0 1 1,5 -,25 3e-1 0 0 0 1 " + INFO)
    np.testing.assert_array_equal(g.j_from_i_t, [[1.5, -0.25, 0.3]])
    assert any("2 numbers with a decimal comma (first: '1,5' in line 1)" in n for n in g.notices)


def test_quaternions_nearly_of_unit_length(load):
    g = load(EDGE + EDGE.replace("0.6 0.8", "0.6001 0.8"))
    np.testing.assert_allclose(np.linalg.norm(g.j_from_i_wxyz, axis=1), 1, atol=1e-15)
    assert any("1 quaternion of edges normalised, off unit length by up to 6.0e-05" in n for n in g.notices)
    assert load(EDGE.replace("0.6 0.8", "0.6000001 0.8")).notices[:-1] == ()  # below 1e-6: only the VERTEX notice


def test_sixty_four_bit_ids(load):
    g = load(EDGE.replace("0 1 1 2 3", "-9223372036854775808 9223372036854775807 1 2 3"))
    assert g.node_ids == (-(2**63), 2**63 - 1)


def test_vertices_missing_repeated_and_sparse(load):
    g = load(VERTICES + EDGE + EDGE.replace("0 1 1", "1 40 1"))
    assert g.node_ids == (0, 1, 40)
    assert g.initial is None
    assert any("1 node without a VERTEX line (first: 40 in line 4)" in n for n in g.notices)
    g = load(EDGE)
    assert g.initial is None
    assert g.notices == ("no VERTEX lines: 2 nodes taken from the edges",)
    g = load(VERTICES + VERTICES + EDGE)
    assert g.initial is not None
    assert g.notices == ("2 vertices repeated word for word; kept once",)


def test_fixed_and_unknown_tags(load):
    g = load(VERTICES + "FIX 1\nFIX 0 1\n" + EDGE + "VERTEX_CAM 9 1 2 3\nPARAMS_CAM 0\nVERTEX_CAM 8\n")
    assert g.fixed == (1, 0)
    np.testing.assert_array_equal(g.fixed_at.position, [[1, 2, 3], [0, 0, 0]])
    assert g.notices[1:] == ("3 lines with an unknown tag skipped: VERTEX_CAM (2), PARAMS_CAM (1)",)


def test_duplicate_edges_are_kept(load):
    assert load(EDGE * 3).n_edges == 3


def test_unused_sigmas_are_told(load):
    g = load(VERTICES + EDGE, ReadOptions(sigma_rot_deg=1.0))
    assert g.concentration.tolist() == [50.0]
    assert any("not used" in n for n in g.notices)


# ---------------------------------------------------------------------- files that are odd


def test_no_such_file_directory_and_permission(tmp_path, monkeypatch):
    with pytest.raises(TemposeError, match="no such file"):
        read_graph(tmp_path / "none.g2o")
    with pytest.raises(TemposeError, match="directory"):
        read_graph(tmp_path, format="g2o")
    with pytest.raises(TemposeError, match="cannot be read"):
        read_graph("a\0b.g2o")

    def deny(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", deny)
    with pytest.raises(TemposeError, match="permission denied"):
        read_graph(tmp_path / "x.g2o")


@pytest.mark.parametrize("values", [{"precision": "round"}, {"rotation_information": "euler"}, {"sigma_rot_deg": 0.0},
                                    {"sigma_trans": float("nan")}, {"sigma_trans": -1.0}])  # fmt: skip
def test_options_are_checked(values):
    with pytest.raises(OptionError, match=next(iter(values)).replace("_", ".")):
        ReadOptions(**values)


# ---------------------------------------------------------------------- writing


def random_graph(seed: int, kind: str, n: int = 5, m: int = 8) -> PoseGraph:
    rng = np.random.default_rng(seed)
    ends = [rng.choice(n, size=2, replace=False).tolist() for _ in range(m)]
    concentration = {
        "scalar": rng.uniform(1, 100, m),
        "three": rng.uniform(1, 100, (m, 3)),
        "full": np.stack([random_spd(rng) for _ in range(m)]),
    }[kind]
    precision = np.stack([random_spd(rng) for _ in range(m)]) if kind == "full" else rng.uniform(1, 100, m)
    t = rng.standard_normal((m, 3))
    t[rng.random(m) < 0.3] = np.nan
    graph = PoseGraph.from_concentrations(
        ends, quat.random_uniform(rng, m), t, concentration=concentration, translation_precision=precision
    )  # fmt: skip
    return graph


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["scalar", "three", "full"]),
       meaning=st.sampled_from(["rotation-vector", "quaternion-vector"]))  # fmt: skip
def test_round_trip(tmp_path, seed, kind, meaning):
    graph = random_graph(seed, kind)
    rng = np.random.default_rng(seed + 1)
    poses = Poses(graph.node_ids, quat.random_uniform(rng, graph.n_nodes), rng.standard_normal((graph.n_nodes, 3)))
    path = tmp_path / "out.g2o"
    write_graph(path, graph, poses, rotation_information=meaning)
    back = read_graph(path, ReadOptions(precision="full", rotation_information=meaning))
    assert back.node_ids == graph.node_ids
    np.testing.assert_array_equal(back.edge_i, graph.edge_i)
    np.testing.assert_array_equal(back.edge_j, graph.edge_j)
    np.testing.assert_array_equal(back.j_from_i_t, graph.j_from_i_t)
    np.testing.assert_allclose(back.j_from_i_wxyz, graph.j_from_i_wxyz, rtol=0, atol=3e-16)
    np.testing.assert_array_equal(back.initial.position, poses.position)
    np.testing.assert_array_equal(back.initial.wxyz, poses.wxyz)
    np.testing.assert_allclose(back.concentration_matrices, graph.concentration_matrices, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        back.translation_precision_matrices, graph.translation_precision_matrices, rtol=1e-12, atol=1e-12
    )
    if kind == "scalar":  # nothing is turned: the last bit survives
        np.testing.assert_array_equal(back.concentration, graph.concentration)
        given_t = graph.has_translation
        np.testing.assert_array_equal(back.translation_precision[given_t], graph.translation_precision[given_t])
    a, b = (Posterior(g).reference_potential(poses) for g in (graph, back))
    assert a == pytest.approx(b, rel=1e-10)


def test_written_poses_are_the_vertices(tmp_path):
    rng = np.random.default_rng(0)
    poses = Poses((7, -3, 10**15), quat.random_uniform(rng, 3), rng.standard_normal((3, 3)))
    write_poses(tmp_path / "p.g2o", poses)
    back = read_poses(tmp_path / "p.g2o")
    assert back.ids == poses.ids
    np.testing.assert_array_equal(back.wxyz, poses.wxyz)
    np.testing.assert_array_equal(back.position, poses.position)
    (tmp_path / "e.g2o").write_text(EDGE)
    with pytest.raises(ParseError, match="no vertices found"):
        read_poses(tmp_path / "e.g2o")


def test_fixed_and_initial_survive(tmp_path, load):
    g = load(VERTICES + "FIX 1 0\n" + EDGE)
    write_graph(tmp_path / "out.g2o", g)
    back = read_graph(tmp_path / "out.g2o")
    assert back.fixed == (1, 0)
    np.testing.assert_array_equal(back.initial.wxyz, g.initial.wxyz)


def test_inlier_priors_belong_to_the_edge_above_and_survive(tmp_path, load):
    text = f"{VERTICES}{EDGE}INLIER_PRIOR 0 1 0.25\n{EDGE}{EDGE.replace(' 0 1 ', ' 1 0 ', 1)}INLIER_PRIOR 1 0 1\n"
    graph = load(text)
    np.testing.assert_array_equal(graph.inlier_prior, [0.25, np.nan, 1.0])
    assert not any("unknown tag" in line for line in graph.notices)
    np.testing.assert_array_equal(load(f"{text}INLIER_PRIOR 0 1 0.5\n").inlier_prior, [0.25, 0.5, 1.0])
    write_graph(tmp_path / "again.g2o", graph)
    np.testing.assert_array_equal(read_graph(tmp_path / "again.g2o").inlier_prior, graph.inlier_prior)
    write_graph(tmp_path / "again.csv", graph)
    np.testing.assert_array_equal(read_graph(tmp_path / "again.csv").inlier_prior, graph.inlier_prior)
    assert load(f"{VERTICES}{EDGE}").inlier_prior is None


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        (f"INLIER_PRIOR 0 1 0.5\n{EDGE}", 3, "INLIER_PRIOR needs an edge line 0 1 above it"),
        (f"{EDGE}INLIER_PRIOR 1 0 0.5\n", 4, "needs an edge line 1 0 above it"),
        (f"{EDGE}INLIER_PRIOR 0 1 1.5\n", 4, "must be above 0 and at most 1, not 1.5"),
        (f"{EDGE}INLIER_PRIOR 0 1 0\n", 4, "must be above 0 and at most 1, not 0"),
        (f"{EDGE}INLIER_PRIOR 0 1\n", 4, "INLIER_PRIOR"),
        (f"{EDGE}INLIER_PRIOR 0 1 half\n", 4, "probability"),
        (f"{EDGE}INLIER_PRIOR 0 1 0.5\nINLIER_PRIOR 0 1 0.6\n", 5, "the edge in line 3 has an INLIER_PRIOR already"),
    ],
)
def test_defects_of_inlier_priors_are_refused_by_line(load, lines, line, words):
    refused(load, VERTICES + lines, line, words)


def test_names_are_refused_with_a_remedy(tmp_path):
    g = PoseGraph.from_concentrations([("a", "b")], [[1, 0, 0, 0]], concentration=1.0)
    with pytest.raises(GraphError, match=r"'a'.*\.csv"):
        write_graph(tmp_path / "out.g2o", g)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OptionError, match="rotation_information"):
        write_graph(tmp_path / "out.g2o", g, rotation_information="euler")


def test_writes_are_whole_or_not_at_all(tmp_path, load, monkeypatch):
    g = load(VERTICES + EDGE)
    target = tmp_path / "kept.g2o"
    target.write_text("precious")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda a, b: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(TemposeError, match="the disk is full: 155 bytes are needed"):
            write_graph(target, g)
    assert target.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["graph.g2o", "kept.g2o"]
    with pytest.raises(TemposeError, match="cannot be written"):
        write_graph(tmp_path / "no" / "such" / "dir.g2o", g)
    with pytest.raises(TemposeError, match="cannot be written"):
        write_graph(tmp_path, g, format="g2o")


def test_a_link_stays_a_link_and_modes_are_plain(tmp_path, load):
    g = load(VERTICES + EDGE)
    real, link = tmp_path / "real.g2o", tmp_path / "link.g2o"
    real.write_text("old")
    link.symlink_to(real)
    write_graph(link, g)
    assert link.is_symlink()
    assert "EDGE_SE3:QUAT" in real.read_text()
    plain = tmp_path / "plain"
    plain.touch()
    assert stat.S_IMODE(real.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
