"""Files of any format: which one it is, and what reads and writes it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from tempose._typing import Array, NodeId, PathLike
from tempose.errors import FileError, OptionError, ParseError
from tempose.io import (
    csvfile,
    epfl_cameras,
    epfl_rotations,
    euroc,
    g2o,
    kitti,
    onedsfm,
    open3d,
    pyfg,
    rosbag,
    threedmatch,
    times,
    toro,
    tum,
)
from tempose.io._held import refuse_all_but_motions
from tempose.io._text import content_lines, is_packed, read_text
from tempose.io.colmap.model import is_model, read_model_poses
from tempose.io.options import ReadOptions
from tempose.model.graph import PoseGraph
from tempose.model.measurements import Measures
from tempose.model.poses import Poses

FORMATS: dict[str, tuple[str, ...]] = {
    "g2o": (".g2o",),
    "csv": (".csv",),
    "toro": (".toro", ".graph"),
    "pyfg": (".pyfg",),
    "open3d": (".json",),
    "3dmatch": (".log",),
    "tum": (".tum",),
    "kitti": (".kitti",),
    "euroc": (".euroc",),
    "rosbag": rosbag.ENDINGS,
    "epfl-rotations": epfl_rotations.ENDINGS,
    "1dsfm": (onedsfm.EDGES, ".mat"),
}
_PHOTOGRAPHS = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".heic")
_NO_EDGES = {"tum": "TUM", "kitti": "KITTI", "euroc": "EuRoC", "rosbag": "ROS"}
"""Trajectories, by the names of their formats."""
_KNOWN = ", ".join(f"{name} ({' '.join(endings)})" for name, endings in FORMATS.items())


def read_graph(path: PathLike, options: ReadOptions | None = None, format: str | None = None) -> PoseGraph:
    """Read a pose graph.

    Parameters
    ----------
    path
        The file, or the folder of a data set that consists of several.
    options
        How to understand it; see :class:`ReadOptions`.
    format
        One of :data:`FORMATS`, if neither the file's ending nor its content tells.
    """
    if format is None and _solved(path) is not None and (Path(path) / "graph.csv").is_file():
        return csvfile.read_graph(Path(path) / "graph.csv", replace(options or ReadOptions(), precision="full"))
    if format is None and _is_colmap(path):
        raise ParseError(path, None, "a COLMAP model holds poses and no edges; tempose sfm makes a graph of it")
    kind = _format_of(path, format)
    if kind in _NO_EDGES:
        what = f"{_NO_EDGES[kind]} files hold poses and no edges; a graph needs g2o, csv or 3dmatch"
        raise ParseError(path, None, what)
    readers = {
        "g2o": g2o.read_graph,
        "csv": csvfile.read_graph,
        "toro": toro.read_graph,
        "pyfg": pyfg.read_graph,
        "open3d": open3d.read_graph,
        "3dmatch": threedmatch.read_graph,
        "epfl-rotations": epfl_rotations.read_graph,
        "1dsfm": onedsfm.read_graph,
    }
    return readers[kind](path, options or ReadOptions())


def read_poses(path: PathLike, format: str | None = None) -> Poses:
    """Read absolute poses, ``world_from_node``.

    g2o vertices, a TUM, KITTI or EuRoC trajectory, a bag of ROS, a CSV table, a trajectory log; of a data set in a folder its
    true poses; the directory of a solve or of ``tempose sfm``; a COLMAP model, by the names of its images; a folder of
    ``.camera`` files of the EPFL photographs.
    """
    if format is None and epfl_cameras.is_folder(path):
        return epfl_cameras.read_epfl_cameras(path)
    if format is None and (table := _solved(path)) is not None:
        return csvfile.read_poses(table)
    if format is None and _is_colmap(path):
        return read_model_poses(path)
    readers = {
        "g2o": g2o.read_poses,
        "csv": csvfile.read_poses,
        "toro": toro.read_poses,
        "pyfg": pyfg.read_poses,
        "open3d": open3d.read_poses,
        "3dmatch": threedmatch.read_poses,
        "tum": tum.read_poses,
        "kitti": kitti.read_poses,
        "euroc": euroc.read_poses,
        "rosbag": rosbag.read_poses,
        "epfl-rotations": epfl_rotations.read_poses,
        "1dsfm": onedsfm.read_poses,
    }
    return readers[_format_of(path, format)](path)


def time_stamps(path: PathLike, poses: Poses, format: str | None = None) -> Array | None:
    """Times (n,) in seconds of poses read from a file whose format names nodes by them: TUM and EuRoC; else ``None``."""
    if Path(path).is_dir() and not rosbag.is_bag(path):
        return None
    unit = {"tum": 1.0, "euroc": euroc.NANOSECOND, "rosbag": euroc.NANOSECOND}.get(_format_of(path, format))
    return None if unit is None else times.times_of_names(path, poses.ids, unit)


def read_vertices(path: PathLike, format: str | None = None) -> tuple[Poses, bool, tuple[NodeId, ...]]:
    """Absolute poses, whether they are planar, and which nodes are landmarks, without an orientation: g2o and CSV say so."""
    if format is None and (table := _solved(path)) is not None:
        return csvfile.read_vertices(table)
    if not epfl_cameras.is_folder(path) and not _is_colmap(path):
        kind = _format_of(path, format)
        if kind in ("g2o", "toro"):
            return g2o.read_vertices(path)
        if kind == "pyfg":
            return pyfg.read_vertices(path)
        if kind == "csv":
            return csvfile.read_vertices(path)
    return read_poses(path, format), False, ()


def write_graph(
    path: PathLike,
    graph: PoseGraph,
    poses: Poses | None = None,
    format: str | None = None,
    rotation_information: str = "rotation-vector",
) -> None:
    """Write a pose graph.

    Parameters
    ----------
    path
        The file; replaced only once the new one is complete.
    graph
        The graph. Formats other than CSV cannot hold all of it, see their modules.
    poses
        Poses to write as vertices in place of the graph's initial ones (g2o, csv), in the graph's own coordinates:
        ``graph.world_origin`` is added to both.
    format
        One of :data:`FORMATS`, if the file's ending does not tell.
    rotation_information
        What the rotation block of a g2o file shall mean, see :class:`ReadOptions`; the file cannot say.
    """
    kind = _format_to_write(path, format)
    if kind in ("3dmatch", "epfl-rotations"):
        refuse_all_but_motions(graph, f"files of the format {kind}")
    if kind == "g2o":
        g2o.write_graph(path, graph, poses, rotation_information)
    elif kind == "csv":
        csvfile.write_graph(path, graph, poses)
    elif kind == "toro":
        toro.write_graph(path, graph, poses)
    elif kind == "pyfg":
        pyfg.write_graph(path, graph, poses)
    elif kind == "open3d":
        open3d.write_graph(path, graph, poses)
    elif kind == "3dmatch":
        threedmatch.write_graph(path, graph)
    elif kind == "epfl-rotations":
        epfl_rotations.write_graph(path, graph)
    else:
        raise FileError(
            f"{path}: {_NO_EDGES[kind]} files hold poses and no edges; write a graph as g2o, csv or 3dmatch"
        )


def holds_no_edges(path: PathLike, *, to_read: bool) -> bool:
    """Whether the name of a file, or how one ``to_read`` begins, says that it is a trajectory, or a model of COLMAP's."""
    if to_read and _is_colmap(path):
        return True
    kind = _by_name(path, None)
    return kind in _NO_EDGES or (to_read and kind == "csv" and euroc.is_trajectory(path))


def edges_measure(path: PathLike, format: str | None = None) -> Measures:
    """How a file that is written names edges: ``a b`` for the pose of b seen from a; in CSV tables and Open3D files the inverse."""
    return "b_from_a" if _format_to_write(path, format) in ("csv", "open3d") else "a_from_b"


def left_out(graph: PoseGraph, path: PathLike, format: str | None = None) -> str | None:
    """What a file of relative poses alone will not say, in a line; ``None`` if it says all."""
    kind = _format_to_write(path, format)
    lost = ["precisions"] if kind in ("3dmatch", "epfl-rotations") else []
    lost += ["poses"] if lost and graph.initial is not None else []
    lost += ["which node is fixed"] if kind not in ("csv", "g2o") and graph.fixed else []
    prior = graph.inlier_prior
    if prior is not None and kind not in ("csv", "g2o"):
        kept = kind == "open3d" and bool(np.all(np.isnan(prior) | (prior == 1.0)))  # they say certain or not
        lost += [] if kept else ["inlier priors"]
    return f"files of the format {kind} have no place for {', '.join(lost)}: left out" if lost else None


def write_poses(
    path: PathLike,
    poses: Poses,
    format: str | None = None,
    *,
    planar: bool = False,
    landmarks: Iterable[NodeId] = (),
) -> None:
    """Write absolute poses, ``world_from_node``, in any of :data:`FORMATS`; other ``.txt`` files are TUM.

    ``planar`` poses are written as such in g2o, TORO and PyFactorGraph files, and ``landmarks``, which have no orientation, in g2o,
    CSV and PyFactorGraph files.
    """
    is_plain_text = _by_name(path, format) is None and _unpacked(path).endswith(".txt")
    kind = "tum" if is_plain_text else _format_to_write(path, format)
    if kind == "g2o":
        g2o.write_poses(path, poses, planar, landmarks)
        return
    if kind == "csv":
        csvfile.write_poses(path, poses, landmarks)
        return
    if kind == "pyfg":
        pyfg.write_poses(path, poses, planar, tuple(landmarks))
        return
    if kind == "toro":
        toro.write_poses(path, poses, planar)
        return
    writers: dict[str, Callable[[PathLike, Poses], None]] = {
        "3dmatch": threedmatch.write_poses,
        "open3d": open3d.write_poses,
        "tum": tum.write_poses,
        "kitti": kitti.write_poses,
        "euroc": euroc.write_poses,
        "epfl-rotations": epfl_rotations.write_poses,
    }
    writers[kind](path, poses)


def _solved(path: PathLike) -> Path | None:
    """The table of poses in the directory of ``tempose solve`` or ``tempose sfm``."""
    names = ("cameras.csv", "poses.csv") if Path(path).is_dir() else ()
    return next((Path(path) / name for name in names if (Path(path) / name).is_file()), None)


def _is_colmap(path: PathLike) -> bool:
    return Path(path).is_dir() and is_model(Path(path))


def _by_name(path: PathLike, format: str | None) -> str | None:
    if format is not None:
        if format not in FORMATS:
            like = difflib.get_close_matches(format, FORMATS, n=1)
            hint = f"did you mean {like[0]}?" if like else f"there are {', '.join(FORMATS)}"
            raise OptionError(f"there is no format {format!r}; {hint}")
        return format
    if rosbag.is_bag(path):
        return "rosbag"
    name = _unpacked(path)
    return next((kind for kind, endings in FORMATS.items() if name.endswith(tuple(map(str.lower, endings)))), None)


def _unpacked(path: PathLike) -> str:
    """The name of a file in lower case, without the ending ``.gz`` of one that is packed."""
    return Path(path).stem.lower() if is_packed(path) else Path(path).name.lower()


def _format_to_write(path: PathLike, format: str | None) -> str:
    kind = _by_name(path, format)
    if kind is None:
        raise FileError(f"{path}: the ending does not name a format; known are {_KNOWN}")
    if kind == "rosbag":
        raise FileError(
            f"{path}: poses are written to bags of ROS with their covariances: tempose export RESULT {path}"
        )
    if kind == "1dsfm":
        raise FileError(f"{path}: 1DSfM files are read and not written; write .csv")
    return kind


def _format_of(path: PathLike, format: str | None) -> str:
    kind = _by_name(path, format) or _by_files(path)
    is_photograph = kind is None and _unpacked(path).endswith(_PHOTOGRAPHS)
    if is_photograph and Path(path).is_file():
        raise ParseError(path, None, "is a photograph; tempose sfm FOLDER makes poses of a folder of them")
    kind = kind or _by_content(read_text(path))
    if kind == "csv" and format is None and euroc.is_trajectory(path):
        return "euroc"
    if kind is None:
        raise ParseError(path, None, f"is in none of the known formats, by its ending or its content: {_KNOWN}")
    return kind


def _by_files(path: PathLike) -> str | None:
    """Format of a data set that consists of several files, named by its folder or their common beginning."""
    if (Path(path) / onedsfm.EDGES).is_file():
        return "1dsfm"
    if any((Path(path) / name).is_file() for name in (threedmatch.MEASURED, threedmatch.TRUE)):
        return "3dmatch"
    return "epfl-rotations" if epfl_rotations.scene_of(path) is not None else None


def _by_content(text: str) -> str | None:
    if text.startswith(("#timestamp [ns]", "# timestamp [ns]")):
        return "euroc"
    if text.lstrip().startswith("{"):
        return "open3d"
    lines = [line.split() for _, line in content_lines(text[:10000])[:2]]
    if not lines:
        return None
    if lines[0][0].startswith(("VERTEX", "EDGE", "PARAMS")) or lines[0][0] == "FIX":
        return "g2o"
    if {"qw", "theta", "theta_deg"} & set(csvfile.header(text)[0]):
        return "csv"
    if all(map(_is_number, lines[0])):
        shape = [len(line) for line in lines]
        return {8: "tum", 12: "kitti"}.get(shape[0], "3dmatch" if shape == [3, 4] else None)
    return None


def _is_number(token: str) -> bool:
    try:
        float(token.replace(",", "."))
    except ValueError:
        return False
    return True
