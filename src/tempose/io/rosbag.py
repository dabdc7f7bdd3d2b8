"""Bags of ROS 1 (``.bag``) and ROS 2 (a folder with ``metadata.yaml``, ``.db3``, ``.mcap``), by the package rosbags.

Read are topics of ``nav_msgs/Odometry``, ``geometry_msgs/PoseWithCovarianceStamped``, ``geometry_msgs/PoseStamped`` and
``nav_msgs/Path`` (its last message). A bag with one such topic is read as it is; of several one is named after a ``#``:
``run.mcap#/odom``.

The pose of a message is ``world_from_node``, the world being ``header.frame_id``. Its time in nanoseconds, an integer, names the
node. The 36 numbers of a covariance are by rows, in the order ``x y z``, rotation about the **fixed** axes X, Y, Z of ``frame_id``:
tempose's own covariance with position and rotation exchanged. One that is zero, or has a negative variance, is not known.

Written are ``geometry_msgs/PoseWithCovarianceStamped``, to one topic, as ROS 1 (``.bag``) or ROS 2 (``.mcap``).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import reason
from tempose._support.packages import require
from tempose._typing import Array, NodeId, PathLike
from tempose.errors import FileError, GraphError, ParseError, TemposeError
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses

FORMAT = "rosbag"
ENDINGS = (".bag", ".mcap", ".db3")
WITH_COVARIANCE = "geometry_msgs/msg/PoseWithCovarianceStamped"
_TYPES = ("nav_msgs/msg/Odometry", WITH_COVARIANCE, "geometry_msgs/msg/PoseStamped", "nav_msgs/msg/Path")
_EXCHANGED = np.array([3, 4, 5, 0, 1, 2])


@dataclass(frozen=True, eq=False)
class RosPoses:
    """Poses of a topic.

    Attributes
    ----------
    poses
        ``world_from_node``, nodes named by their times in nanoseconds.
    covariance
        (n, 6, 6), tempose's order (rotation first, radians), axes of ``frame_id``; NaN where it is not known.
    frame_id, topic
        Of the messages.
    """

    poses: Poses
    covariance: Array
    frame_id: str
    topic: str


def split_topic(path: PathLike) -> tuple[str, str | None]:
    """A path without the topic that may stand after a ``#`` behind the name of a bag, and the topic."""
    text = str(path)
    name, mark, topic = text.rpartition("#/")
    if mark and (Path(name).suffix.lower() in ENDINGS or (Path(name) / "metadata.yaml").is_file()):
        return name, f"/{topic}"
    return text, None


def is_bag(path: PathLike) -> bool:
    """Whether a name is that of a bag, by its ending or by what is in the folder."""
    name, _ = split_topic(path)
    return Path(name).suffix.lower() in ENDINGS or (Path(name) / "metadata.yaml").is_file()


def read_poses(path: PathLike) -> Poses:
    """Read the poses of a topic; see the module."""
    return read_bag(path).poses


def read_bag(path: PathLike, topic: str | None = None) -> RosPoses:
    """Read the poses of a topic with their covariances; see the module."""
    name, named = split_topic(path)
    topic = topic or named
    highlevel = require("rosbags.highlevel", "bags of ROS")
    typesys = require("rosbags.typesys", "bags of ROS")
    if not Path(name).exists():
        raise ParseError(name, None, "there is no such file")
    try:
        store = typesys.get_typestore(typesys.Stores.LATEST)
        with highlevel.AnyReader([Path(name)], default_typestore=store) as reader:
            chosen = _topic(name, reader.connections, topic)
            of_topic = [one for one in reader.connections if one.topic == chosen]
            messages = [
                reader.deserialize(raw, connection.msgtype)
                for connection, _, raw in reader.messages(connections=of_topic)
            ]
            return _poses(name, chosen, of_topic[0].msgtype, messages)  # a bag brings its own definition of messages
    except TemposeError:
        raise
    except Exception as error:  # whatever a reader of foreign binary files may raise for one that is damaged
        said = " ".join(reason(error).split())[:200]
        raise ParseError(name, None, f"cannot be read as a bag of ROS: {said or type(error).__name__}") from None


def _topic(path: str, connections: list[Any], topic: str | None) -> str:
    """The topic to read: the one that is named, or the only one that has poses."""
    known: dict[str, str] = {one.topic: one.msgtype for one in connections}
    posed = sorted(name for name, kind in known.items() if kind in _TYPES)
    if topic is not None:
        if topic not in known:
            raise ParseError(
                path, None, f"there is no topic {topic}; topics with poses are {', '.join(posed) or 'none'}"
            )
        if known[topic] not in _TYPES:
            raise ParseError(path, None, f"topic {topic} is of {known[topic]}; expected one of {', '.join(_TYPES)}")
        return topic
    if not posed:
        raise ParseError(path, None, f"no topic has poses; expected one of {', '.join(_TYPES)}")
    if len(posed) > 1:
        raise ParseError(
            path, None, f"several topics have poses: {', '.join(posed)}; name one, as in {path}#{posed[0]}"
        )
    return posed[0]


def _poses(path: str, topic: str, kind: str, messages: list[Any]) -> RosPoses:
    if kind.endswith("/Path"):
        messages = list(messages[-1].poses) if messages else []
    if not messages:
        raise ParseError(path, None, f"topic {topic} has no poses")
    covariances = kind.endswith(("/Odometry", "/PoseWithCovarianceStamped"))
    names: dict[NodeId, int] = {}
    wxyz, position = np.empty((len(messages), 4)), np.empty((len(messages), 3))
    sigma = np.full((len(messages), 6, 6), np.nan)
    for k, message in enumerate(messages):
        stamp = int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)
        if names.setdefault(stamp, k) != k:
            raise ParseError(path, None, f"messages {names[stamp]} and {k} of {topic} have one time, {stamp} ns")
        pose = message.pose.pose if covariances else message.pose
        q, p = pose.orientation, pose.position
        wxyz[k], position[k] = (q.w, q.x, q.y, q.z), (p.x, p.y, p.z)
        if covariances:
            given = np.asarray(message.pose.covariance, dtype=float).reshape(6, 6)
            if np.any(given) and np.all(np.isfinite(given)) and np.all(np.diag(given) >= 0.0):
                sigma[k] = given[np.ix_(_EXCHANGED, _EXCHANGED)]
    with np.errstate(all="ignore"):
        off = np.abs(np.linalg.norm(wxyz, axis=1) - 1.0)
    bad = np.flatnonzero(~(off <= 1e-3) | ~np.all(np.isfinite(position), axis=1))
    if len(bad):
        raise ParseError(
            path,
            None,
            f"message {bad[0]} of {topic} has no pose: its quaternion is not of unit length, or it is not finite",
        )
    return RosPoses(Poses(tuple(names), quat.normalize(wxyz), position), sigma, str(messages[0].header.frame_id), topic)


# ---------------------------------------------------------------------- writing


def write_bag(
    path: PathLike,
    poses: Poses,
    covariance: Array,
    times_ns: list[int],
    *,
    frame_id: str = "map",
    topic: str = "/tempose/poses",
) -> None:
    """Write poses with covariance to a bag.

    Parameters
    ----------
    path
        ``.mcap`` (ROS 2) or ``.bag`` (ROS 1); a file that is there is replaced.
    poses
        ``world_from_node``.
    covariance
        (n, 6, 6) in **ROS** order, position first (:func:`tempose.model.conventions.converted`); NaN becomes zero, "not known".
    times_ns
        Time of each pose, nanoseconds, from 0.
    frame_id, topic
        What ROS calls the world, and where the messages are.
    """
    typesys = require("rosbags.typesys", "bags of ROS")
    ending = Path(path).suffix.lower()
    if ending not in (".mcap", ".bag"):
        raise FileError(f"{path}: poses are written to bags that end with .mcap (ROS 2) or .bag (ROS 1)")
    for name, when in zip(poses.ids, times_ns, strict=True):
        if not 0 <= when < 2**31 * 10**9:
            raise GraphError(f"the time of node {name!r} is {when} ns, which messages of ROS cannot hold")
    is_ros1 = ending == ".bag"
    store = typesys.get_typestore(typesys.Stores.ROS1_NOETIC if is_ros1 else typesys.Stores.ROS2_HUMBLE)
    order = np.argsort(np.array(times_ns, dtype=np.int64), kind="stable").tolist()
    known = np.nan_to_num(covariance)
    messages = [(times_ns[k], _message(store.types, poses, k, known[k], times_ns[k], frame_id, is_ros1)) for k in order]
    target = Path(os.path.realpath(path))
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".tempose-") as folder:
            made = Path(folder) / ("poses.bag" if is_ros1 else "poses")
            _write(made, store, topic, messages, is_ros1)
            shutil.move(str(made if is_ros1 else made / "poses.mcap"), target)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {reason(error)}") from None


def _write(path: Path, store: Any, topic: str, messages: list[tuple[int, Any]], is_ros1: bool) -> None:
    if is_ros1:
        writer = require("rosbags.rosbag1", "bags of ROS").Writer(path)
    else:
        rosbag2 = require("rosbags.rosbag2", "bags of ROS")
        writer = rosbag2.Writer(path, version=9, storage_plugin=rosbag2.StoragePlugin.MCAP)
    with writer:
        connection = writer.add_connection(topic, WITH_COVARIANCE, typestore=store)
        serialize = store.serialize_ros1 if is_ros1 else store.serialize_cdr
        for when, message in messages:
            writer.write(connection, when, serialize(message, WITH_COVARIANCE))


def _message(types: Any, poses: Poses, k: int, covariance: Array, when: int, frame_id: str, is_ros1: bool) -> Any:
    stamp = types["builtin_interfaces/msg/Time"](sec=when // 10**9, nanosec=when % 10**9)
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id=frame_id, **({"seq": k} if is_ros1 else {}))
    w, x, y, z = poses.wxyz[k].tolist()
    px, py, pz = poses.position[k].tolist()
    pose = types["geometry_msgs/msg/Pose"](
        position=types["geometry_msgs/msg/Point"](x=px, y=py, z=pz),
        orientation=types["geometry_msgs/msg/Quaternion"](x=x, y=y, z=z, w=w),
    )
    whole = types["geometry_msgs/msg/PoseWithCovariance"](
        pose=pose, covariance=np.array(covariance, dtype=float).ravel()
    )
    return types[WITH_COVARIANCE](header=header, pose=whole)
