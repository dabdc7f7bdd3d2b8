"""Bags of ROS 1 and 2, made and opened by rosbags itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tempose
from helpers.trajectories import pair, write_tum
from tempose.cli import main
from tempose.errors import FileError, MissingPackage, ParseError
from tempose.geometry import quaternion as quat
from tempose.io import read_poses, write_poses
from tempose.io.rosbag import is_bag, read_bag, split_topic, write_bag
from tempose.model.conventions import converted


def test_a_topic_stands_behind_a_bag(tmp_path: Path) -> None:
    assert split_topic("run.mcap#/robot/odom") == ("run.mcap", "/robot/odom")
    assert split_topic("a#/b.g2o") == ("a#/b.g2o", None)
    assert is_bag("x.BAG") and is_bag("x.db3#/a") and not is_bag(tmp_path)


def test_without_the_package_the_line_that_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("tempose._support.packages.import_module", missing)
    with pytest.raises(MissingPackage, match=r"rosbags is needed for bags of ROS: pip install 'tempose\[ros\]'"):
        read_poses(tmp_path / "a.bag")


def foreign(path: Path, kinds: dict[str, str], ros1: bool = False) -> None:
    """A bag with topics of the given types, three messages each, written in the plainest way."""
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    types = store.types
    writer = rosbag1.Writer(path) if ros1 else rosbag2.Writer(path, version=9)

    def header(k: int):
        stamp = types["builtin_interfaces/msg/Time"](sec=100 + k, nanosec=7)
        return types["std_msgs/msg/Header"](stamp=stamp, frame_id="odom", **({"seq": k} if ros1 else {}))

    def pose(k: int):
        return types["geometry_msgs/msg/Pose"](
            position=types["geometry_msgs/msg/Point"](x=float(k), y=2.0, z=3.0),
            orientation=types["geometry_msgs/msg/Quaternion"](x=0.0, y=0.0, z=0.6, w=0.8),
        )

    def vector():
        return types["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=0.0)

    covariance = np.diag([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    covariance[0, 5] = covariance[5, 0] = 0.5

    def message(kind: str, k: int):
        whole = types["geometry_msgs/msg/PoseWithCovariance"](pose=pose(k), covariance=covariance.ravel())
        stamped = types["geometry_msgs/msg/PoseStamped"]
        if kind == "nav_msgs/msg/Odometry":
            twist = types["geometry_msgs/msg/TwistWithCovariance"](
                twist=types["geometry_msgs/msg/Twist"](linear=vector(), angular=vector()), covariance=np.zeros(36)
            )
            return types[kind](header=header(k), child_frame_id="base", pose=whole, twist=twist)
        if kind == "nav_msgs/msg/Path":
            return types[kind](header=header(k), poses=[stamped(header=header(i), pose=pose(i)) for i in range(k + 1)])
        if kind == "std_msgs/msg/String":
            return types[kind](data="hello")
        return types[kind](header=header(k), pose=pose(k) if kind.endswith("PoseStamped") else whole)

    with writer:
        for topic, kind in kinds.items():
            connection = writer.add_connection(topic, kind, typestore=store)
            for k in range(3):
                data = message(kind, k)
                raw = store.serialize_ros1(data, kind) if ros1 else store.serialize_cdr(data, kind)
                writer.write(connection, (100 + k) * 10**9, raw)


ALL = {
    "/odom": "nav_msgs/msg/Odometry",
    "/path": "nav_msgs/msg/Path",
    "/amcl": "geometry_msgs/msg/PoseWithCovarianceStamped",
    "/pose": "geometry_msgs/msg/PoseStamped",
    "/words": "std_msgs/msg/String",
}


@pytest.mark.parametrize("ros1", [True, False])
def test_every_kind_of_message_is_read(tmp_path: Path, ros1: bool) -> None:
    pytest.importorskip("rosbags")
    path = tmp_path / ("a.bag" if ros1 else "bag")
    foreign(path, ALL, ros1)
    for topic, kind in ALL.items():
        if kind.endswith("String"):
            continue
        found = read_bag(path, topic)
        assert found.poses.ids == tuple((100 + k) * 10**9 + 7 for k in range(3)) and found.frame_id == "odom"
        np.testing.assert_allclose(found.poses.position, [[k, 2, 3] for k in range(3)])
        np.testing.assert_allclose(found.poses.wxyz, [[0.8, 0, 0, 0.6]] * 3)
        known = kind.endswith(("Odometry", "WithCovarianceStamped"))
        assert np.isnan(found.covariance).all() != known
        if known:  # rotation first, so that x with rotation about z is the sixth with the first of the other block
            np.testing.assert_allclose(np.diag(found.covariance[0]), [4, 5, 6, 1, 2, 3])
            assert found.covariance[0, 3, 2] == 0.5
    with pytest.raises(ParseError, match="several topics have poses: /amcl, /odom, /path, /pose; name one"):
        read_poses(path)
    assert len(read_poses(f"{path}#/odom")) == 3
    with pytest.raises(ParseError, match="there is no topic /nowhere"):
        read_bag(path, "/nowhere")
    with pytest.raises(ParseError, match="is of std_msgs/msg/String"):
        read_bag(path, "/words")


@pytest.mark.parametrize("ending", [".mcap", ".bag"])
def test_what_is_written_is_opened_by_rosbags_and_read_again(tmp_path: Path, ending: str) -> None:
    highlevel = pytest.importorskip("rosbags.highlevel")
    made = tempose.simulate(6, shape="trajectory", seed=1)
    solution = tempose.solve(made.graph, draws=0)
    solution.save(tmp_path / "out")
    (tmp_path / "t.csv").write_text("id,time\n" + "".join(f"{k},{10.5 + k}\n" for k in solution.poses.ids))
    path = tmp_path / f"poses{ending}"
    given = [
        "export",
        str(tmp_path / "out"),
        str(path),
        "--times",
        str(tmp_path / "t.csv"),
        "--frame-id",
        "site",
        "--quiet",
    ]
    assert main(given) == 0
    with highlevel.AnyReader([path]) as reader:
        messages = [reader.deserialize(raw, one.msgtype) for one, _, raw in reader.messages()]
    assert [m.header.frame_id for m in messages] == ["site"] * 6 and messages[2].header.stamp.nanosec == 500_000_000
    sigma = solution.covariance(2)
    theirs = np.asarray(messages[2].pose.covariance).reshape(6, 6)
    np.testing.assert_allclose(theirs[:3, :3], sigma[3:, 3:], rtol=1e-9)
    np.testing.assert_allclose(theirs[3:, 3:], sigma[:3, :3], rtol=1e-9)
    np.testing.assert_allclose(theirs[:3, 3:], sigma[3:, :3], rtol=1e-9, atol=1e-15)
    found = read_bag(path)
    np.testing.assert_allclose(found.covariance[2], sigma, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.poses.position, solution.poses.position)
    assert np.max(quat.angle_between(found.poses.wxyz, solution.poses.wxyz)) < 1e-7
    assert main(["export", str(tmp_path / "out"), str(path), "--quiet"]) == 0  # replaces it
    assert read_poses(path).ids == tuple(k * 10**9 for k in range(6))
    assert list(tmp_path.glob(".tempose-*")) == []


def test_a_bag_is_matched_by_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rosbags")
    estimate, times, truth, _ = pair()
    when = [round(t * 1e9) for t in times.tolist()]
    write_bag(tmp_path / "e.mcap", estimate, np.zeros((len(estimate), 6, 6)), when)
    write_tum(tmp_path / "truth.tum", truth)
    files = [str(tmp_path / "e.mcap"), str(tmp_path / "truth.tum")]
    assert main(["eval", *files, "--max-difference", "0.02", "--alignment", "positions-se3", "--json"]) == 0
    assert f"{json.loads(capsys.readouterr().out)['ate_rmse']:.5f}" == "0.13819"  # evo's, of the same poses as text
    assert np.isnan(read_bag(tmp_path / "e.mcap").covariance).all()  # zero is: not known
    assert main(["convert", files[0], str(tmp_path / "e.tum"), "--quiet"]) == 0


def test_damaged_bags_say_so(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    poses = tempose.Poses.identity([0, 1, 2])
    sigma = converted(np.tile(np.eye(6), (3, 1, 1)), poses.wxyz, poses.position, "ros")
    for ending in (".mcap", ".bag"):
        path = tmp_path / f"a{ending}"
        write_bag(path, poses, sigma, [0, 1, 2])
        whole = path.read_bytes()
        rng = np.random.default_rng(5)
        refused = 0
        for k in range(60):
            data = bytearray(whole)
            if k % 3 == 0:
                data = data[: rng.integers(len(data))]
            else:
                for at in rng.integers(len(data), size=4):
                    data[at] = rng.integers(256)
            path.write_bytes(bytes(data))
            try:
                read_poses(path)
            except ParseError as error:
                refused += 1
                told = str(error)
                if "\n" in told:
                    raise AssertionError(told) from error
        assert refused > 10
    with pytest.raises(ParseError, match="no such file"):
        read_poses(tmp_path / "nowhere.bag")
    with pytest.raises(FileError, match="tempose export"):
        write_poses(tmp_path / "a.bag", poses)
    with pytest.raises(FileError, match=r"\.mcap \(ROS 2\) or \.bag"):
        write_bag(tmp_path / "a.db3", poses, sigma, [0, 1, 2])
