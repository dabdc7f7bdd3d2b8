"""Pose graphs and poses from and to files.

| format  | file           | graph | poses | precisions                        |
|---------|----------------|-------|-------|-----------------------------------|
| g2o     | ``.g2o``       | yes   | yes   | 6×6 information                   |
| csv     | ``.csv``       | yes   | yes   | anything a graph can hold         |
| 3dmatch | ``.log``       | yes   | yes   | none: ``sigma_rot_deg/trans``     |
| tum     | ``.tum``       | no    | yes   | –                                 |

The format follows from the file's ending, else from its content (``.txt``). Columns and equations of each are in the
module of its name. What a reader had to decide is in ``PoseGraph.notices`` and ``PoseGraph.origin``; what it cannot
read is a :class:`~tempose.errors.TemposeError` with file and line. Files are written whole or not at all.
"""

from __future__ import annotations

from pathlib import Path

from tempose.errors import OptionError, ParseError
from tempose.graph import PoseGraph
from tempose.io import csvfile, g2o, threedmatch, tum
from tempose.io._text import PathLike, content_lines, read_text
from tempose.io.options import ReadOptions
from tempose.poses import Poses

__all__ = ["FORMATS", "ReadOptions", "read_graph", "read_poses", "write_graph", "write_poses"]

FORMATS = {"g2o": (".g2o",), "csv": (".csv",), "3dmatch": (".log",), "tum": (".tum",)}
_KNOWN = ", ".join(f"{name} ({' '.join(endings)})" for name, endings in FORMATS.items())


def read_graph(path: PathLike, options: ReadOptions | None = None, format: str | None = None) -> PoseGraph:
    """Read a pose graph.

    Parameters
    ----------
    path
        The file.
    options
        How to understand it; see :class:`ReadOptions`.
    format
        One of :data:`FORMATS`, if neither the file's ending nor its content tells.
    """
    kind = _format_of(path, format)
    if kind == "tum":
        raise ParseError(path, None, "TUM files hold poses and no edges; a graph needs g2o, csv or 3dmatch")
    reader = {"g2o": g2o.read_graph, "csv": csvfile.read_graph, "3dmatch": threedmatch.read_graph}[kind]
    return reader(path, options or ReadOptions())


def read_poses(path: PathLike, format: str | None = None) -> Poses:
    """Read absolute poses, ``world_from_node``: g2o vertices, a TUM trajectory, a CSV table, a trajectory log."""
    readers = {
        "g2o": g2o.read_poses,
        "csv": csvfile.read_poses,
        "3dmatch": threedmatch.read_poses,
        "tum": tum.read_poses,
    }
    return readers[_format_of(path, format)](path)


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
        Poses to write as vertices in place of the graph's initial ones (g2o, csv).
    format
        One of :data:`FORMATS`, if the file's ending does not tell.
    rotation_information
        What the rotation block of a g2o file shall mean, see :class:`ReadOptions`; the file cannot say.
    """
    kind = _format_to_write(path, format)
    if kind == "g2o":
        g2o.write_graph(path, graph, poses, rotation_information)
    elif kind == "csv":
        csvfile.write_graph(path, graph, poses)
    elif kind == "3dmatch":
        threedmatch.write_graph(path, graph)
    else:
        raise OptionError(f"{path}: TUM files hold poses and no edges; write a graph as g2o, csv or 3dmatch")


def write_poses(path: PathLike, poses: Poses, format: str | None = None) -> None:
    """Write absolute poses, ``world_from_node``, in any of :data:`FORMATS`; ``.txt`` is TUM."""
    kind = "tum" if format is None and Path(path).suffix.lower() == ".txt" else _format_to_write(path, format)
    writers = {
        "g2o": g2o.write_poses,
        "csv": csvfile.write_poses,
        "3dmatch": threedmatch.write_poses,
        "tum": tum.write_poses,
    }
    writers[kind](path, poses)


def _by_name(path: PathLike, format: str | None) -> str | None:
    if format is not None:
        if format not in FORMATS:
            raise OptionError(f"format is {format!r}; expected one of {', '.join(FORMATS)}")
        return format
    ending = Path(path).suffix.lower()
    return next((name for name, endings in FORMATS.items() if ending in endings), None)


def _format_to_write(path: PathLike, format: str | None) -> str:
    kind = _by_name(path, format)
    if kind is None:
        raise OptionError(f"{path}: the ending does not name a format; known are {_KNOWN}")
    return kind


def _format_of(path: PathLike, format: str | None) -> str:
    kind = _by_name(path, format) or _by_content(read_text(path))
    if kind is None:
        raise ParseError(path, None, f"is in none of the known formats, by its ending or its content: {_KNOWN}")
    return kind


def _by_content(text: str) -> str | None:
    lines = [line.split() for _, line in content_lines(text[:10000])[:2]]
    if not lines:
        return None
    if lines[0][0].startswith(("VERTEX", "EDGE")) or lines[0][0] == "FIX":
        return "g2o"
    if "qw" in csvfile.header(text)[0]:
        return "csv"
    if all(map(_is_number, lines[0])):
        shape = [len(line) for line in lines]
        return "tum" if shape[0] == 8 else "3dmatch" if shape == [3, 4] else None
    return None


def _is_number(token: str) -> bool:
    try:
        float(token.replace(",", "."))
    except ValueError:
        return False
    return True
