"""Finished reconstructions: saved, reloaded, and read by other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.browser import BROWSER, HOSTILE, shown, title_after
from helpers.ring import K, ring, seen
from tempose.cli import main
from tempose.errors import GraphError, OptionError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io import read_poses
from tempose.io.ply import read_ply, write_ply
from tempose.model.poses import Poses
from tempose.report import cloud_page as cloud
from tempose.report.cloud_page import CloudExtras, PairNote, cloud_payload, write_cloud_page
from tempose.report.live import ellipsoid_mesh, refusal, serve
from tempose.report.widgets import Fact
from tempose.sfm.colours import jet, sigma_colours, sigma_ends, viridis
from tempose.sfm.files import load_scene, save_scene, write_cameras, write_clouds, write_colmap
from tempose.sfm.points import reconstruct
from tempose.sfm.scene import Scene, SceneGauge


def make_scene() -> Scene:
    rng = np.random.default_rng(1)
    poses, points = ring(rng)
    poses = Poses(tuple(f"{k:04d}.jpg" for k in range(len(poses))), poses.wxyz, poses.position)
    obs = seen(poses, points, 0.5, rng)
    n = len(poses)
    draws = [(poses.wxyz, poses.position + 0.01 * rng.normal(size=(n, 3))) for _ in range(5)]
    return Scene(
        poses=poses,
        intrinsics=np.tile(np.where(K == 1.0, 0.0, K) + np.diag([0.0, 0.0, 1.0]), (n, 1, 1)),
        image_size=np.tile([640, 480], (n, 1)),
        camera_covariance=np.tile(1e-4 * np.eye(6), (n, 1, 1)),
        observations=obs,
        structure=reconstruct(poses, K, obs, draws),
        colour=rng.integers(0, 255, size=(obs.n_points, 3)).astype(np.uint8),
        gauge=SceneGauge(metric=True, calibration_error=0.001),
    )


def test_a_saved_scene_comes_back_whole(tmp_path: Path) -> None:
    scene = make_scene()
    save_scene(tmp_path / "scene.npz", scene)
    again = load_scene(tmp_path)
    assert again.poses.ids == scene.poses.ids and again.gauge == scene.gauge and again.unit == "m"
    assert np.array_equal(again.structure.covariance, scene.structure.covariance)
    assert again.structure.sigma_px == scene.structure.sigma_px and again.structure.n_draws == 5
    assert np.array_equal(again.observations.pixel, scene.observations.pixel)
    assert again.colour is not None and np.array_equal(again.colour, scene.colour)


def test_the_table_of_cameras_is_read_as_poses(tmp_path: Path) -> None:
    scene = make_scene()
    write_cameras(tmp_path / "cameras.csv", scene)
    again = read_poses(tmp_path / "cameras.csv")
    assert again.ids == scene.poses.ids and np.array_equal(again.position, scene.poses.position)
    table = np.genfromtxt(tmp_path / "cameras.csv", delimiter=",", names=True)
    np.testing.assert_allclose(table["sigma_rz_deg"], np.degrees(0.01))
    np.testing.assert_allclose(table["sigma_pos"], scene.camera_sigma[1])
    numbers = tuple(str(k) for k in range(len(scene.poses)))
    numbered = replace(scene, poses=Poses(numbers, scene.poses.wxyz, scene.poses.position))
    write_cameras(tmp_path / "cameras.csv", numbered)
    assert read_poses(tmp_path / "cameras.csv").ids == numbered.poses.ids  # text that looks like a number stays text


def test_missing_and_broken_scenes_are_told(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="tempose sfm"):
        load_scene(tmp_path)
    save_scene(tmp_path / "scene.npz", make_scene())
    data = (tmp_path / "scene.npz").read_bytes()
    (tmp_path / "scene.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(ParseError, match="cut off"):
        load_scene(tmp_path)


def test_clouds_carry_the_sigmas(tmp_path: Path) -> None:
    scene = make_scene()
    write_clouds(tmp_path, scene)
    photo, coloured = read_ply(tmp_path / "points.ply"), read_ply(tmp_path / "points_sigma.ply")
    assert np.allclose(photo["sigma"], scene.structure.sigma, rtol=1e-6)
    assert np.allclose(photo["sigma"] ** 2, photo["sigma_image"] ** 2 + photo["sigma_pose"] ** 2, rtol=1e-5)
    assert np.array_equal(np.stack([photo["x"], photo["y"], photo["z"]], axis=1), scene.structure.position)
    surest, worst = np.argmin(coloured["sigma"]), np.argmax(coloured["sigma"])
    assert coloured["blue"][surest] > coloured["red"][surest]
    assert coloured["red"][worst] > coloured["blue"][worst]
    assert np.array_equal(sigma_colours(scene.structure)[:, 0], coloured["red"])


def test_jet_is_the_colour_map_of_the_paper() -> None:
    ends = jet(np.array([0.0, 0.375, 0.5, 0.625, 1.0]))
    assert ends.tolist() == [[0, 0, 128], [0, 255, 255], [128, 255, 128], [255, 255, 0], [128, 0, 0]]


def test_equal_steps_of_the_usual_colours_look_equal() -> None:
    """Lightness (CIE L*) rises evenly, which that of jet does not."""

    def lightness(rgb: np.ndarray) -> np.ndarray:
        linear = np.where(rgb / 255 <= 0.04045, rgb / 255 / 12.92, ((rgb / 255 + 0.055) / 1.055) ** 2.4)
        return 116.0 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16.0

    x = np.linspace(0.0, 1.0, 33)
    steps = np.diff(lightness(viridis(x)))
    assert steps.min() > 0.5 * steps.mean() and steps.max() < 1.6 * steps.mean()
    assert viridis(np.array([-1.0, 2.0])).tolist() == [[0x44, 0x01, 0x54], [0xFD, 0xE7, 0x25]]
    assert np.diff(lightness(jet(x))).min() < 0.0  # negative control


def test_covariances_of_points_are_written_on_request(tmp_path: Path) -> None:
    scene = make_scene()
    write_clouds(tmp_path, scene, "jet", covariance=True)
    cloud = read_ply(tmp_path / "points_sigma.ply")
    np.testing.assert_allclose(cloud["cov_xz"], scene.structure.covariance[:, 0, 2], rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(cloud["cov_yy"], cloud["sigma_y"] ** 2, rtol=1e-5)
    assert np.array_equal(sigma_colours(scene.structure, "jet")[:, 0], cloud["red"])
    low, high = sigma_ends(scene.structure)
    said = (tmp_path / "points_sigma.ply").read_bytes()[:2000]
    assert f"colours: jet, sigma from {low:.3g} to {high:.3g} m".encode() in said
    write_clouds(tmp_path, scene)
    assert "cov_xx" not in read_ply(tmp_path / "points.ply")
    with pytest.raises(OptionError, match="unknown colours 'grey'"):
        write_clouds(tmp_path, scene, "grey")


def test_a_scene_that_is_placed_stands_upright() -> None:
    scene = make_scene()
    placed = replace(scene, gauge=replace(scene.gauge, placed=True))
    assert np.allclose(placed.upright[2], [0.0, 0.0, 1.0]) and not np.allclose(scene.upright[2], [0.0, 0.0, 1.0])
    np.testing.assert_allclose(placed.upright @ placed.upright.T, np.eye(3), atol=1e-12)


def test_ply_refusals(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="x, y and z"):
        write_ply(tmp_path / "a.ply", {"x": np.zeros(1)})
    with pytest.raises(GraphError, match="one length"):
        write_ply(tmp_path / "a.ply", {"x": np.zeros(1), "y": np.zeros(2), "z": np.zeros(1)})
    write_ply(tmp_path / "a.ply", {c: np.arange(3.0) for c in "xyz"}, ("two\nlines",))
    data = (tmp_path / "a.ply").read_bytes()
    (tmp_path / "a.ply").write_bytes(data[:-1])
    with pytest.raises(ParseError, match="cut off"):
        read_ply(tmp_path / "a.ply")
    (tmp_path / "b.ply").write_text("solid\n")
    with pytest.raises(ParseError, match="not a PLY"):
        read_ply(tmp_path / "b.ply")
    (tmp_path / "c.ply").write_text("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\nnan?\n")
    with pytest.raises(ParseError, match="1 rows of 1 numbers"):
        read_ply(tmp_path / "c.ply")
    (tmp_path / "c.ply").write_text("ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nend_header\n2.5\n")
    assert read_ply(tmp_path / "c.ply")["x"].tolist() == [2.5]


def test_colmap_opens_the_model_and_agrees_with_its_errors(tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")
    scene = make_scene()
    write_colmap(tmp_path, scene)
    model = pycolmap.Reconstruction(str(tmp_path))
    assert model.num_images() == len(scene.poses) and model.num_points3D() == scene.structure.good.sum()
    for image in model.images.values():
        pose = image.cam_from_world()
        row = scene.poses.index[image.name]
        q, t = scene.poses.node_from_world
        turned = quat.angle_between(np.roll(pose.rotation.quat, 1), q[row])
        assert turned < 1e-7 and np.allclose(pose.translation, t[row])
    plain = scene.intrinsics[0]
    P = plain @ np.hstack(
        [quat.to_matrix(scene.poses.node_from_world[0][0]), scene.poses.node_from_world[1][0][:, None]]
    )
    for index, point in list(model.points3D.items())[:5]:
        assert np.allclose(point.xyz, scene.structure.position[index - 1])
        element = next(e for e in point.track.elements if e.image_id == 1)
        seen_at = model.images[1].points2D[element.point2D_idx].xy
        h = P @ np.append(point.xyz, 1.0)
        assert np.linalg.norm(h[:2] / h[2] - seen_at) < 5.0


def test_the_page_is_whole_and_its_numbers_come_back(tmp_path: Path) -> None:
    scene = make_scene()
    names = [str(name) for name in scene.poses.ids]
    pairs = [PairNote(names[0], names[1], "is off", True), PairNote(names[0], names[2], "has <i>few", False)]
    extras = CloudExtras(
        verdict=Fact("verdict", "Trust it", "all is well", "good"), notices=["one <b>"], version="1", pairs=pairs,
        thumbnails={names[1]: b"\xff\xd8"}, files=[("points.ply", "points"), ("a b?.csv", "odd")],
    )  # fmt: skip
    payload = cloud_payload(scene, "a <title>", extras)
    write_cloud_page(tmp_path / "cloud.html", scene, "a <title>", extras)
    text = (tmp_path / "cloud.html").read_text()
    assert "{{" not in text and "a &lt;title&gt;" in text and "one &lt;b&gt;" in text
    assert payload["counts"]["good"] == scene.structure.good.sum() and payload["unit"] == "m"
    low, high = payload["limits"]["sigma"]
    assert np.min(scene.structure.sigma) <= low < high <= np.max(scene.structure.sigma)
    assert payload["frusta"]["shape"] == [16 * len(scene.poses), 3]
    assert payload["pairs"] == [[0, 1]] and [bool(c["picture"]) for c in payload["cameras"][:3]] == [False, True, False]
    assert text.index("all is well") < text.index('id="viewer"') < text.index('<ul class="tiles">')
    assert "has &lt;i&gt;few" in text and "1 contradict the others, 1 have no relative pose" in text
    assert '<a href="points.ply">' in text and '<a href="a%20b%3F.csv">' in text
    camera = payload["cameras"][0]
    rotation, position = scene.camera_sigma
    assert camera["rotation"] == rotation[0] and camera["position"] == position[0]
    seen = scene.structure.used & (scene.observations.camera_of == 0)
    assert camera["points"] == seen.sum()
    squares = scene.structure.rms_px[scene.observations.point_of[seen]] ** 2
    assert camera["residual"] == pytest.approx(np.sqrt(np.nanmean(squares)))
    bare = cloud_payload(scene, "x")  # negative control
    assert bare["pairs"] == [] and not any(camera["picture"] for camera in bare["cameras"])


@pytest.mark.parametrize("looking", ["ahead", "down", "round"])
def test_the_scene_stands_upright_however_the_world_is_turned(looking: str) -> None:
    """Level cameras in a world where z is up, turned by any rotation: what was up is up again."""
    rng = np.random.default_rng(3)
    spread = {"ahead": 0.3, "down": 0.05}
    heading = np.linspace(0.0, 2.0 * np.pi, 12) if looking == "round" else rng.normal(0.0, spread[looking], 12)
    pitch = np.full(12, -np.pi / 2 if looking == "down" else -0.2)
    forward = np.stack([np.cos(pitch) * np.sin(heading), np.cos(pitch) * np.cos(heading), np.sin(pitch)], axis=1)
    right = np.stack([np.cos(heading), -np.sin(heading), np.zeros(12)], axis=1)
    world_from_camera = np.stack([right, np.cross(forward, right), forward], axis=2)
    turn = quat.to_matrix(quat.normalize(rng.normal(size=4)))
    wxyz = quat.from_matrix(turn @ world_from_camera)
    scene = make_scene()
    turned = Scene.upright.func(replace(scene, poses=Poses(tuple(map(str, range(12))), wxyz, rng.normal(size=(12, 3)))))
    np.testing.assert_allclose(turned @ turned.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(turned) == pytest.approx(1.0)
    up = (
        turn[:, 1] if looking == "down" else turn[:, 2]
    )  # aerial photographs are a map: up is where their upper edges are
    assert turned[2] @ up > 0.99


def test_frusta_end_where_the_image_corners_are() -> None:
    scene = make_scene()
    lines = cloud._frusta(scene, 2.0).reshape(len(scene.poses), 8, 2, 3)
    corner = lines[0, 2, 1]  # the third edge from the centre ends at the corner of full width and height
    q, t = scene.poses.node_from_world
    h = scene.intrinsics[0] @ (quat.rotate(q[0], corner) + t[0])
    assert h[2] == pytest.approx(2.0) and h[:2] / h[2] == pytest.approx([640, 480])


def test_the_ellipsoid_has_its_level() -> None:
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])
    vertices, faces = ellipsoid_mesh(covariance, 2.0)
    squared = np.einsum("va,ab,vb->v", vertices, np.linalg.inv(covariance), vertices)
    assert np.allclose(squared, 4.0) and faces.max() < len(vertices)


def test_the_viewer_answers() -> None:
    pytest.importorskip("viser", reason="needs the extra view")
    viewer = serve(make_scene(), port=8123)
    base, token = viewer.address.rstrip("/").rsplit("/", 1)
    host = base.removeprefix("http://")
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": viser_protocol()}  # fmt: skip
    try:
        assert get(base, f"/{token}/", {})[0] == 200 and b"<html" in get(base, f"/{token}/", {})[1].lower()
        assert get(base, f"/{token}", {**upgrade, "Origin": base})[0] == 101
        for path, headers in [
            ("/", {}),
            (f"/{token}x/", {}),
            (f"/{token}/", {"Host": "evil.example"}),
            (f"/{token}/", {"Host": f"{host}.evil.example"}),
            (f"/{token}/", {"Origin": "http://evil.example"}),
            ("/", {**upgrade, "Origin": base}),
            (f"/{token}", {**upgrade, "Origin": "null"}),
            (f"/{token}", {**upgrade, "Origin": "http://evil.example"}),
            (f"/{token}", {**upgrade, "Origin": "http://localhost:3000"}),
        ]:
            assert get(base, path, headers)[0] == 403, (path, headers)
    finally:
        viewer.stop()


def hostile_scene() -> Scene:
    scene = make_scene()
    names = tuple(f"{HOSTILE[k % len(HOSTILE)]}{k}.jpg" for k in range(len(scene.poses)))
    return replace(scene, poses=Poses(names, scene.poses.wxyz, scene.poses.position))


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_names_of_photographs_do_not_run_on_the_page(tmp_path: Path) -> None:
    scene = hostile_scene()
    names = [str(name) for name in scene.poses.ids]
    pairs = [PairNote(names[0], names[1], HOSTILE[0], True)]
    files = [(name, name) for name in HOSTILE]
    extras = CloudExtras(notices=HOSTILE, pairs=pairs, files=files, verdict=Fact(HOSTILE[0], HOSTILE[1], HOSTILE[2]))
    write_cloud_page(tmp_path / "cloud.html", scene, HOSTILE[1], extras)
    document, said = shown((tmp_path / "cloud.html").as_uri(), tmp_path / "profile")
    assert "<title>hit" not in document and "<title>1" not in document
    assert 'data-ready="yes"' in document and "CONSOLE" not in said  # no warning of WebGL either


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_names_of_photographs_do_not_run_in_the_viewer(tmp_path: Path) -> None:
    pytest.importorskip("viser", reason="needs the extra view")
    viewer = serve(hostile_scene(), port=8223)
    try:
        title = title_after(viewer.address, tmp_path / "profile", lambda: len(viewer.server.get_clients()) == 1)
    finally:
        viewer.stop()
    if title is None:
        pytest.skip("the browser does not start here")
    assert "viser" in title.lower()


def get(base: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """Status and body of an answer."""
    from http.client import HTTPConnection

    connection = HTTPConnection(base.removeprefix("http://"), timeout=20)
    try:
        connection.putrequest("GET", path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, b"" if answer.status == 101 else answer.read()
    finally:
        connection.close()


def viser_protocol() -> str:
    import viser

    return f"viser-v{viser.__version__}"


@pytest.mark.parametrize(
    ("path", "host", "origin", "fine"),
    [
        ("/word/", "127.0.0.1:8080", None, True),
        ("/word", "localhost:9000", "http://localhost:9000", True),  # forwarded from another port
        ("/word/?a=b", "[::1]:8080", "http://[::1]:8080", True),
        ("/", "127.0.0.1:8080", None, False),
        ("/other/word", "127.0.0.1:8080", None, False),
        ("/wordx", "127.0.0.1:8080", None, False),
        ("/wörd", "127.0.0.1:8080", None, False),
        ("/word/", "evil.example:8080", "http://evil.example:8080", False),  # a name that was made to mean this machine
        ("/word/", "127.0.0.1.evil.example", None, False),
        ("/word/", "evil.example@127.0.0.1", None, False),
        ("/word/", "127.0.0.1:8080.evil.example", None, False),
        ("/word/", None, None, False),
        ("/word/", "127.0.0.1:8080", "http://evil.example", False),
        ("/word/", "127.0.0.1:8080", "null", False),
        ("/word/", "127.0.0.1:8080", "http://127.0.0.1:3000", False),
        ("/word/", "127.0.0.1:8080", "https://127.0.0.1:8080", False),
        ("/word/", "[::1", None, False),
    ],
)
def test_who_the_viewer_answers(path: str, host: str | None, origin: str | None, fine: bool) -> None:
    assert (refusal("word", path, host, origin) is None) == fine


def test_view_without_a_reconstruction_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path)]) == 1
    assert "tempose sfm IMAGES" in capsys.readouterr().err
