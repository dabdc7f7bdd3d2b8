"""TUM, 3DMatch logs, CSV, and the choice between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tempose.errors import FileError, GraphError, OptionError, ParseError, TemposeError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io import ReadOptions, read_graph, read_poses, write_graph, write_poses
from tempose.io._text import number_rows, number_text
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior

FULL = ReadOptions(precision="full")
SIGMAS = ReadOptions(sigma_rot_deg=2.0, sigma_trans=0.05)
LOG = "0 1 3\n0 -1 0 1\n1 0 0 2\n0 0 1 3\n0 0 0 1\n"


@pytest.fixture
def put(tmp_path):
    def _put(name: str, text: str):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return _put


def refused(read, path, line: int | None, *words: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(path)
    assert caught.value.line == line, str(caught.value)
    for word in words:
        assert word in str(caught.value)


def random_poses(ids, seed: int = 0) -> Poses:
    rng = np.random.default_rng(seed)
    return Poses(tuple(ids), quat.random_uniform(rng, len(ids)), rng.standard_normal((len(ids), 3)))


def assert_same_poses(a: Poses, b: Poses) -> None:
    assert a.ids == b.ids
    assert [type(x) for x in a.ids] == [type(x) for x in b.ids]
    np.testing.assert_array_equal(a.position, b.position)
    np.testing.assert_array_equal(a.wxyz, b.wxyz)


# ---------------------------------------------------------------------- TUM


def test_tum_by_hand(put):
    path = put("t.tum", "# timestamp tx ty tz qx qy qz qw\n1305031102.175304 1 2 3 0 0 0.6 0.8\n7.000 4 5 6 0 0 0 1\n")
    p = read_poses(path)
    assert p.ids == ("1305031102.175304", 7)
    np.testing.assert_array_equal(p.position, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(p.wxyz, [[0.8, 0, 0, 0.6], [1, 0, 0, 0]])


def test_tum_round_trip(tmp_path):
    poses = random_poses([3, -1, "0.10", "1305031102.175304", 2**63 - 1])
    write_poses(tmp_path / "t.tum", poses)
    assert_same_poses(read_poses(tmp_path / "t.tum"), poses)
    write_poses(tmp_path / "t.txt", poses)  # .txt is TUM, and read back by its content
    assert_same_poses(read_poses(tmp_path / "t.txt"), poses)


def test_tum_defects(put, tmp_path):
    refused(read_poses, put("a.tum", "1 1 2 3 0 0 0\n"), 1, "7 fields", "expected 8")
    refused(read_poses, put("a.tum", "1 1 2 3 0 0 0 1\n\n1.0 1 2 3 0 0 0 1\n"), 3, "occurs in line 1 already")
    refused(read_poses, put("a.tum", "1 1 2 3 0 0 0 2\n"), 1, "length 2")
    refused(read_poses, put("a.tum", "1 1 nan 3 0 0 0 1\n"), 1, "ty is 'nan'")
    refused(read_poses, put("a.tum", "1e-99999999999999999999 1 2x 3 0 0 0 1\n"), 1, "2x")
    assert read_poses(put("a.tum", "1e-99999999999999999999 1 2 3 0 0 0 1\n")).ids[0] in ("1e-99999999999999999999", 0)
    refused(read_poses, put("a.tum", "\n"), None, "no poses found")
    refused(read_graph, put("a.tum", "1 1 2 3 0 0 0 1\n"), None, "no edges")
    for name in ("camera", "1,5", "1 2", "nan"):
        with pytest.raises(GraphError, match=r"\.csv"):
            write_poses(tmp_path / "b.tum", random_poses([name]))


# ---------------------------------------------------------------------- 3DMatch logs


def test_log_by_hand(put):
    g = read_graph(put("a.log", LOG.replace(" ", "\t ")), SIGMAS)
    # the matrix maps 1 into 0: source 1, target 0
    assert [g.node_ids[k] for k in (g.edge_i[0], g.edge_j[0])] == [1, 0]
    np.testing.assert_allclose(g.j_from_i_wxyz, [[np.sqrt(0.5), 0, 0, np.sqrt(0.5)]], atol=1e-15)
    np.testing.assert_array_equal(g.j_from_i_t, [[1, 2, 3]])
    np.testing.assert_allclose(g.concentration, 2 / np.radians(2.0) ** 2, rtol=1e-14)
    np.testing.assert_allclose(g.translation_precision, 400.0, rtol=1e-14)
    assert g.origin["format"] == "3dmatch"
    assert g.origin["sigma_rot_deg"] == "2.0"
    x_1 = np.array([0.3, -0.2, 0.7])
    x_0 = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]) @ x_1 + [1, 2, 3]
    np.testing.assert_allclose(quat.rotate(g.j_from_i_wxyz[0], x_1) + g.j_from_i_t[0], x_0, atol=1e-15)


def test_log_needs_sigmas(put):
    for options in (None, ReadOptions(sigma_rot_deg=1.0), ReadOptions(sigma_trans=1.0)):
        with pytest.raises(OptionError, match=r"sigma_rot_deg.*sigma_trans"):
            read_graph(put("a.log", LOG), options)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, ["empty"]),
        (LOG + "1 2\n", 6, ["2 fields", "expected 3"]),
        (LOG + LOG.replace("1 0 0 2", "1 0 0"), 8, ["3 fields", "expected 4"]),
        (LOG + "1 2 3\n1 0 0 0\n", 7, ["ends within a block"]),
        (LOG.replace("0 0 0 1", "0 0 0 2"), 5, ["0 0 0 1"]),
        (LOG.replace("1 0 0 2", "1.01 0 0 2"), 1, ["no rotation", "0.02"]),
        (LOG.replace("1 0 0 2", "1e99 0 0 2"), 1, ["no rotation"]),
        (LOG.replace("1 0 0 2", "-1 0 0 2"), 1, ["mirrors"]),
        (LOG.replace("1 0 0 2", "1 0 0 x"), 3, ["'x'"]),
        (LOG.replace("0 1 3", "0 1.5 3"), 1, ["j is '1.5'"]),
        (LOG + LOG.replace("0 1 3", "1 1 3", 1), 6, ["itself"]),
        (LOG.replace("0 1 3", "1 1 3", 1), None, ["read it as poses"]),
    ],
)
def test_log_defects(put, text, line, words):
    refused(lambda p: read_graph(p, SIGMAS), put("a.log", text), line, *words)


def test_log_rotations_are_made_orthonormal(put):
    g = read_graph(put("a.log", LOG.replace("1 0 0 2", "1.0002 0 0 2")), SIGMAS)
    np.testing.assert_allclose(np.linalg.norm(g.j_from_i_wxyz), 1.0, atol=1e-15)
    np.testing.assert_allclose(g.j_from_i_wxyz, [[np.sqrt(0.5), 0, 0, np.sqrt(0.5)]], atol=1e-15)
    assert any("1 rotation matrix made orthonormal" in n for n in g.notices)


def test_log_round_trips(tmp_path):
    rng = np.random.default_rng(0)
    ends = [(0, 1), (2, 1), (2, 0)]
    g = PoseGraph.from_concentrations(ends, quat.random_uniform(rng, 3), rng.standard_normal((3, 3)), concentration=1.0)
    write_graph(tmp_path / "a.log", g)
    back = read_graph(tmp_path / "a.log", SIGMAS)
    assert [(back.node_ids[i], back.node_ids[j]) for i, j in zip(back.edge_i, back.edge_j, strict=True)] == ends
    np.testing.assert_array_equal(back.j_from_i_t, g.j_from_i_t)
    np.testing.assert_allclose(quat.angle_between(back.j_from_i_wxyz, g.j_from_i_wxyz), 0, atol=1e-15)
    poses = random_poses([4, 2, 9])
    write_poses(tmp_path / "p.log", poses)
    seen = read_poses(tmp_path / "p.log")
    assert seen.ids == poses.ids
    np.testing.assert_array_equal(seen.position, poses.position)
    np.testing.assert_allclose(quat.angle_between(seen.wxyz, poses.wxyz), 0, atol=1e-15)
    refused(read_poses, tmp_path / "a.log", 1, "relative poses")
    rotation_only = PoseGraph.from_concentrations([(0, 1)], [[1, 0, 0, 0]], concentration=1.0)
    with pytest.raises(GraphError, match="rotation-only"):
        write_graph(tmp_path / "a.log", rotation_only)


# ---------------------------------------------------------------------- CSV graphs


HEAD = "i,j,qw,qx,qy,qz,tx,ty,tz,lambda,tau\n"


def test_csv_graph_by_hand(put):
    g = read_graph(put("a.csv", HEAD + "a,b,0.8,0,0,0.6,1,2,3,50,100\nb,7,1,0,0,0,,,,20,\n"))
    assert g.node_ids == ("a", "b", 7)
    # tempose's own convention: the row measures j_from_i
    assert (g.edge_i.tolist(), g.edge_j.tolist()) == ([0, 1], [1, 2])
    np.testing.assert_array_equal(g.j_from_i_wxyz, [[0.8, 0, 0, 0.6], [1, 0, 0, 0]])
    assert g.has_translation.tolist() == [True, False]
    assert g.concentration.tolist() == [50.0, 20.0]
    assert g.translation_precision[0] == 100.0
    assert g.notices == ()
    c_a, c_b = np.array([0.1, 0.2, 0.3]), np.array([1.0, -1.0, 2.0])
    poses = Poses(g.node_ids, np.tile([1.0, 0, 0, 0], (3, 1)), [c_a, c_b, [0, 0, 0]])
    r = np.array([1, 2, 3]) - (c_a - c_b)
    assert Posterior(g).reference_potential(poses) == pytest.approx(50 * 0.6**2 + 50 * r @ r, rel=1e-14)


def test_csv_and_g2o_agree_on_direction(put, tmp_path):
    """The same measurement in both formats: g2o's line ``0 1 Z`` is the row ``1,0,Z``."""
    info = "100 0 0 0 0 0 100 0 0 0 0 100 0 0 0 25 0 0 25 0 25"
    a = read_graph(put("a.g2o", f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0.6 0.8 {info}\n"))
    b = read_graph(put("b.csv", HEAD + "1,0,0.8,0,0,0.6,1,2,3,50,100\n"))
    poses = random_poses([0, 1])
    values = [Posterior(g).reference_potential(poses.select(g.node_ids)) for g in (a, b)]
    assert values[0] == pytest.approx(values[1], rel=1e-15)
    perfect = se3.compose((poses.wxyz[0], poses.position[0]), ([0.8, 0, 0, 0.6], [1.0, 2, 3]))
    exact = Poses((0, 1), np.stack([poses.wxyz[0], perfect[0]]), np.stack([poses.position[0], perfect[1]]))
    assert Posterior(b).reference_potential(exact.select(b.node_ids)) == pytest.approx(0, abs=1e-25)


def test_csv_defaults(put):
    text = "j,i,qw,qx,qy,qz,tx,ty,tz\n1,0,1,0,0,0,1,2,3\n"
    g = read_graph(put("a.csv", text), SIGMAS)
    np.testing.assert_allclose(g.concentration, 2 / np.radians(2.0) ** 2)
    np.testing.assert_allclose(g.translation_precision, 400.0)
    assert g.node_ids == (0, 1)
    with pytest.raises(ParseError, match=r"'lambda'.*sigma_rot_deg"):
        read_graph(put("a.csv", text))
    with pytest.raises(ParseError, match=r"'tau'.*sigma_trans"):
        read_graph(put("a.csv", text), ReadOptions(sigma_rot_deg=1.0))
    rotations = read_graph(put("a.csv", "i,j,qw,qx,qy,qz\n0,1,1,0,0,0\n"), ReadOptions(sigma_rot_deg=1.0))
    assert not rotations.has_translation.any()
    told = read_graph(put("a.csv", HEAD + "a,b,1,0,0,0,1,2,3,50,100\n"), SIGMAS)
    assert told.concentration.tolist() == [50.0]
    assert len([n for n in told.notices if "not used" in n]) == 2


def test_csv_european(put):
    g = read_graph(
        put("a.csv", "\ufeff" + (HEAD + "a,b,0.8,0,0,0.6,1,2,3,50.5,100\n").replace(",", ";").replace(".", ","))
    )
    assert g.concentration.tolist() == [50.5]
    np.testing.assert_array_equal(g.j_from_i_wxyz, [[0.8, 0, 0, 0.6]])
    assert any("decimal comma" in n for n in g.notices)


def test_csv_reduces_like_g2o_unless_full(put):
    text = "i,j,qw,qx,qy,qz,tx,ty,tz,lambda_1,lambda_2,lambda_3,tau\n0,1,1,0,0,0,1,2,3,1,2,4,9\n"
    g = read_graph(put("a.csv", text), ReadOptions(precision="isotropic"))
    np.testing.assert_allclose(g.concentration, 3 / (1 + 0.5 + 0.25))
    assert "4.00x between axes" in g.notices[0]
    assert read_graph(put("a.csv", text), FULL).concentration.tolist() == [[1, 2, 4]]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, ["no column 'i'"]),
        ("i,j,qw,qx,qy\n", None, ["no column 'qz'", "i,j,qw,qx,qy,qz"]),
        (HEAD, None, ["no edges found"]),
        (HEAD.replace("tau", "lambda"), None, ["'lambda' occurs twice"]),
        (HEAD.replace("tau", "lambda_1") + "a,b,1,0,0,0,1,2,3,50,9\n", None, ["do not fit together"]),
        (HEAD + "a,b,1,0,0,0,1,2,3,50\n", 2, ["10 cells", "11"]),
        (HEAD + "a,b,1,0,0,0,1,2,3,50,9\n\na,a,1,0,0,0,1,2,3,50,9\n", 4, ["'a' to itself"]),
        (HEAD + "a,b,1,0,0,0,1,,3,50,9\n", 2, ["ty is empty"]),
        (HEAD + "a,b,1,0,0,0,1,2,3,,9\n", 2, ["lambda is empty"]),
        (HEAD + "a,b,1,0,0,0,1,2,3,50,\n", 2, ["tau is empty"]),
        (HEAD + "a,b,1,0,0,0,1,2,3,-50,9\n", 2, ["lambda is negative"]),
        (HEAD + "a,b,1,0,0,0,1,2,inf,50,9\n", 2, ["tz is 'inf'"]),
        (HEAD + "a,b,1,0,0,0.5,1,2,3,50,9\n", 2, ["length 1.1"]),
        (HEAD + ",b,1,0,0,0,1,2,3,50,9\n", 2, ["i is empty"]),
        (HEAD + "99999999999999999999,b,1,0,0,0,1,2,3,50,9\n", 2, ["64 bits", "apostrophe"]),
        (HEAD + 'a,"b"c,1,0,0,0,1,2,3,50,9\n', 2, ["not valid CSV"]),
        (HEAD + "a,,,,,,,,,,\na,,,,,,,,,,\na,b,1,0,0,0,1,2,3,50,9\n", 3, ["declared twice"]),
        (HEAD + "a,,1,0,0,0,,,,,\na,b,1,0,0,0,1,2,3,50,9\n", 2, ["pose of the node is incomplete"]),
    ],
)
def test_csv_defects(put, text, line, words):
    refused(read_graph, put("a.csv", text), line, *words)


def test_csv_full_matrices_must_be_semidefinite(put):
    head = "i,j,qw,qx,qy,qz,lambda_xx,lambda_xy,lambda_xz,lambda_yy,lambda_yz,lambda_zz\n"
    refused(lambda p: read_graph(p, FULL), put("a.csv", head + "0,1,1,0,0,0,1,2,0,1,0,1\n"), 2, "indefinite")
    singular = put("a.csv", head + "0,1,1,0,0,0,1,0,0,1,0,0\n")
    assert read_graph(singular, FULL).concentration[0].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    refused(lambda p: read_graph(p, ReadOptions(precision="isotropic")), singular, 2, "precision full keeps it")


names = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), max_size=6),
    st.sampled_from(["7", "'7", "007", " a", "a ", "#x", "", "-0", "1.5", 'q"uote', "x,y", "x;y", "two\nlines", "é"]),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_csv_round_trips_every_graph(tmp_path, data):
    ids = data.draw(st.lists(names, min_size=2, max_size=6, unique_by=lambda x: (type(x), x)))
    m = data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    ends = np.array([rng.choice(len(ids), size=2, replace=False) for _ in range(m)])
    root = rng.standard_normal((2, m, 3, 3))
    full = root @ np.swapaxes(root, 2, 3)
    concentration = [rng.uniform(0, 9, m), rng.uniform(0, 9, (m, 3)), full[0]][data.draw(st.integers(0, 2))]
    precision = [rng.uniform(0, 9, m), full[1]][data.draw(st.integers(0, 1))]
    t = rng.standard_normal((m, 3))
    t[rng.random(m) < 0.3] = np.nan
    initial = random_poses(ids) if data.draw(st.booleans()) else None
    fixed = (ids[-1], ids[0]) if initial is not None else (ids[-1],)  # several are fixed somewhere
    g = PoseGraph(
        tuple(ids), ends[:, 0], ends[:, 1], quat.random_uniform(rng, m), t, concentration, precision,
        initial=initial, fixed=fixed if data.draw(st.booleans()) else (),
    )  # fmt: skip
    write_graph(tmp_path / "g.csv", g)
    back = read_graph(tmp_path / "g.csv", FULL)
    assert back.node_ids == g.node_ids
    assert [type(x) for x in back.node_ids] == [type(x) for x in g.node_ids]
    assert back.fixed == g.fixed
    np.testing.assert_array_equal(back.edge_i, g.edge_i)
    np.testing.assert_array_equal(back.edge_j, g.edge_j)
    np.testing.assert_allclose(back.j_from_i_wxyz, g.j_from_i_wxyz, rtol=0, atol=3e-16)
    np.testing.assert_array_equal(back.j_from_i_t, g.j_from_i_t)
    np.testing.assert_array_equal(back.concentration, g.concentration)
    np.testing.assert_array_equal(back.translation_precision_matrices, g.translation_precision_matrices)
    assert back.translation_precision.shape == g.translation_precision.shape
    assert (back.initial is None) == (g.initial is None)
    if g.initial is not None:
        assert_same_poses(back.initial, g.initial)


# ---------------------------------------------------------------------- CSV poses


def test_csv_poses(put, tmp_path):
    text = "id,x,y,z,qw,qx,qy,qz,sigma_x\ncam,1,2,3,0.8,0,0,0.6,0.1\n7,1,2,3,1,0,0,0,\n"
    p = read_poses(put("p.csv", text))
    assert p.ids == ("cam", 7)
    np.testing.assert_array_equal(p.position[0], [1, 2, 3])
    np.testing.assert_array_equal(p.wxyz[0], [0.8, 0, 0, 0.6])
    poses = random_poses(["a", 3, "3", "x,y", " "])
    write_poses(tmp_path / "q.csv", poses)
    assert_same_poses(read_poses(tmp_path / "q.csv"), poses)
    refused(read_poses, put("p.csv", text + "cam,1,2,3,1,0,0,0,\n"), 4, "'cam' is in line 2 already")
    refused(read_poses, put("p.csv", text.split("\n")[0]), None, "header only")
    refused(read_poses, put("p.csv", HEAD), None, "no column 'id'")


def test_names_that_no_text_file_can_hold(tmp_path):
    for name in ("a\0b", "a\rb", "\ud800", 2**63):
        with pytest.raises(TemposeError, match="rename"):
            write_poses(tmp_path / "q.csv", random_poses([name]))
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- choice of format


def test_format_by_content_and_by_name(put, tmp_path):
    info = "1 0 0 0 0 0 1 0 0 0 0 1 0 0 0 1 0 0 1 0 1"
    texts = {
        "g2o": f"EDGE_SE3:QUAT 0 1 1 2 3 0 0 0.6 0.8 {info}\n",
        "csv": HEAD + "0,1,1,0,0,0,1,2,3,1,1\n",
        "3dmatch": LOG,
    }
    for kind, text in texts.items():
        for path, format in (
            (put("graph.txt", text), None),
            (put("graph.tum", text), kind),
            (put("noending", text), None),
        ):
            assert read_graph(path, SIGMAS, format).origin["format"] == kind
    assert read_poses(put("poses.txt", "1 1 2 3 0 0 0 1\n")).ids == (1,)
    with pytest.raises(ParseError, match=r"known formats.*g2o.*csv.*3dmatch.*tum"):
        read_graph(put("graph.txt", "Copyright (c) somebody\n"))
    with pytest.raises(ParseError, match="known formats"):
        read_graph(put("graph.txt", ""))
    with pytest.raises(OptionError, match=r"'colmap'.*g2o, csv, .*3dmatch, tum"):
        read_graph(put("graph.txt", LOG), format="colmap")
    g = read_graph(put("a.csv", texts["csv"]))
    with pytest.raises(FileError, match="known are g2o"):
        write_graph(tmp_path / "out.xyz", g)
    with pytest.raises(FileError, match="no edges"):
        write_graph(tmp_path / "out.tum", g)
    write_graph(tmp_path / "out.xyz", g, format="g2o")
    assert "EDGE_SE3:QUAT 1 0" in (tmp_path / "out.xyz").read_text()


@pytest.mark.parametrize("width", [1, 3, 7])
def test_many_numbers_are_written_as_single_ones(width):
    rng = np.random.default_rng(width)
    bits = rng.integers(0, 1 << 63, 7000, dtype=np.uint64).view(np.float64)
    round_ones = np.array(
        [0.0, -0.0, 1.0, -10.0, 100.05, 1e15, 1e16, 1e22, -1e300, 5e-324, 0.1, np.nan, np.inf, -np.inf]
    )
    values = np.concatenate([bits, np.round(rng.normal(size=7000), 1), np.tile(round_ones, width)])
    values = values[: len(values) // width * width].reshape(-1, width)
    assert number_rows(values) == [[number_text(x) for x in row] for row in values.tolist()]
    assert number_rows(values[:0]) == [] and number_rows(values[:2, :0]) == [[], []]
