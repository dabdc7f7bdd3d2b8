"""The directory of a solve: one way to write it, to read it back, and to go on from it.

=====================  =====================================================================================
``result.json``        facts: what was solved, with which options, and what came of it; written last
``poses.csv``          the estimate, in the coordinates the graph came in, with all its digits, and the error bars
                       (orientations of landmarks, and their error bars, are empty)
``poses.g2o, .tum``    the estimate for other programs, if all ids are integers (planar as planar; landmarks not in TUM)
``poses.mode-2.csv``   other modes, each with its own error bars
``minima.npz``         other minima of U that were found from other starts
``edges.csv``          residuals and verdicts of the measurements
``graph.csv``          the measurements with the noise that was used
``trace.npy``          U along the optimisation
``likelihood.npz``     of a robust solve
``explanations.npz``   ways to read the measurements, with their probabilities; ``poses.explanation-2.csv`` has the
                       second one's poses and error bars, and so on
``draws/``             the draws (:mod:`tempose.sampling.draws`)
=====================  =====================================================================================

A run that is killed while it samples has left the same files, ``result.json`` with the status ``optimised`` and
``poses.csv`` without error bars: what a later run of the same solve goes on from, and what can be loaded meanwhile.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import write_atomically
from tempose._support.plain import json_text
from tempose._support.tables import csv_text
from tempose._typing import Array, Mask
from tempose.errors import DrawsError, TemposeError
from tempose.io import csvfile, g2o, tum
from tempose.io.options import ReadOptions
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import POSE_COLUMNS, Poses
from tempose.model.robust import RobustLikelihood

Table = tuple[Sequence[str], Sequence[Any]]
"""Header and columns."""

_ORIENTATION = ("qw", "qx", "qy", "qz", "theta_deg")
_FILES = (
    "result.json", "poses.csv", "poses.g2o", "poses.tum", "edges.csv", "graph.csv", "trace.npy", "minima.npz",
    "priors.npz", "likelihood.npz", "explanations.npz", "report.html",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class StoredResult:
    """What a directory holds, apart from draws and from tables for people.

    Attributes
    ----------
    facts
        The content of ``result.json``.
    others
        Other minima of U.
    explanations
        Arrays of :class:`tempose.outliers.solutions.Weighing`, if there are any.
    """

    facts: Mapping[str, Any]
    graph: PoseGraph
    likelihood: RobustLikelihood | None
    estimate: Poses
    trace: Array
    others: tuple[Poses, ...] = field(default=())
    explanations: Mapping[str, Any] = field(default_factory=dict)


def write_result(
    home: Path, result: StoredResult, pose_columns: Table = ((), ()), tables: Mapping[str, Table] | None = None
) -> None:
    """Write a result; ``pose_columns`` stand beside the poses, ``tables`` are further files by their names."""
    home.mkdir(parents=True, exist_ok=True)
    graph = result.graph
    shown = result.estimate.select(graph.reported)
    if all(isinstance(name, int) for name in graph.reported):
        g2o.write_poses(home / "poses.g2o", shown, graph.is_planar, graph.landmarks, graph.world_origin)
        points = set(graph.landmarks)  # have no orientation, and TUM files have no place for what has none
        posed = shown.select([name for name in shown.ids if name not in points])
        tum.write_poses(home / "poses.tum", posed, graph.world_origin)
    for old in _numbered(home):
        old.unlink()
    poses = with_poses(shown, pose_columns, graph.is_planar, graph.world_origin)
    is_point = graph.is_landmark[[graph.index[name] for name in graph.reported]]
    for name, table in {"poses.csv": poses, **(tables or {})}.items():
        if name.startswith("poses") and np.any(is_point):
            table = _without_orientations(table, is_point)
        write_atomically(home / name, csv_text(*table).encode())
    csvfile.write_graph(home / "graph.csv", graph)
    buffer = BytesIO()
    np.save(buffer, result.trace)
    write_atomically(home / "trace.npy", buffer.getvalue())
    _write_arrays(home / "minima.npz", _minima(result.others))
    _write_arrays(home / "explanations.npz", result.explanations)
    (home / "priors.npz").unlink(missing_ok=True)
    _write_arrays(home / "likelihood.npz", {} if result.likelihood is None else asdict(result.likelihood))
    write_atomically(home / "result.json", json_text(result.facts).encode())


def read_facts(home: Path) -> dict[str, Any]:
    """The content of ``result.json``."""
    try:
        facts = json.loads((home / "result.json").read_text())
    except FileNotFoundError:
        raise DrawsError(f"{home}: no result here (there is no result.json)") from None
    except (OSError, ValueError) as error:
        raise DrawsError(f"{home / 'result.json'}: cannot be read ({error})") from None
    if not isinstance(facts, dict):
        raise DrawsError(f"{home / 'result.json'}: not the record of a solve")
    return facts


def read_result(home: Path) -> StoredResult:
    """The inverse of :func:`write_result`, to the bit."""
    facts = read_facts(home)
    if (home / "priors.npz").exists():
        raise DrawsError(f"{home}: of an earlier version, which kept priors apart from the graph; solve it again")
    graph = csvfile.read_graph(home / "graph.csv", ReadOptions(precision="full"), trusted=True)
    estimate = csvfile.read_poses(home / "poses.csv", exact=True, origin=graph.world_origin)
    estimate = estimate.with_identity(WORLD).select(graph.node_ids)
    others = _read_arrays(home / "minima.npz")
    likelihood = _read_arrays(home / "likelihood.npz")
    return StoredResult(
        facts,
        graph,
        RobustLikelihood(**{**likelihood, "tail": float(likelihood["tail"])}) if likelihood else None,
        estimate,
        np.load(home / "trace.npy"),
        tuple(Poses(estimate.ids, *one) for one in zip(*others.values(), strict=True)) if others else (),
        _read_arrays(home / "explanations.npz"),
    )


def read_unfinished(home: Path, fingerprint: str) -> StoredResult | None:
    """What an earlier run of the same solve has left; ``None`` if there is nothing, or nothing of this solve."""
    try:
        if read_facts(home).get("fingerprint") != fingerprint:
            return None
        return read_result(home)
    except (TemposeError, OSError, ValueError, KeyError, EOFError, TypeError):
        return None  # cut off, or of another version: computed anew


def _numbered(home: Path) -> list[Path]:
    """Tables of other modes and explanations, of which there may have been more."""
    return [*home.glob("poses.mode-*.csv"), *home.glob("poses.explanation-*.csv")]


def discard(home: Path) -> None:
    """Take away what an earlier solve has left in a directory; what is not ours stays."""
    shutil.rmtree(home / "draws", ignore_errors=True)
    for path in [*(home / name for name in _FILES), *_numbered(home)]:
        path.unlink(missing_ok=True)


def with_poses(poses: Poses, more: Table = ((), ()), planar: bool = False, world_origin: Array | None = None) -> Table:
    """A table of poses with further columns, the angle ``theta_deg`` of planar ones among them.

    ``world_origin`` (3,) is added to the positions, with all digits of both.
    """
    header = ["id", *POSE_COLUMNS, *(["theta_deg"] if planar else []), *more[0]]
    w, z = poses.wxyz[:, 0], poses.wxyz[:, 3]
    theta = [np.degrees(2.0 * np.arctan2(np.where(w < 0.0, -z, z), np.abs(w)))] if planar else []
    position: list[Any] = list(poses.position.T)
    if world_origin is not None and np.any(world_origin):
        position = [list(column) for column in zip(*csvfile.point_texts(poses.position, world_origin), strict=True)]
    return header, [list(map(csvfile.name_text, poses.ids)), *position, *poses.wxyz.T, *theta, *more[1]]


def _without_orientations(table: Table, is_point: Mask) -> Table:
    """A table of poses whose cells on orientations are empty for landmarks (n,)."""
    header, columns = table
    turns = [
        name in _ORIENTATION or name.removeprefix("mcse_").startswith(("sigma_rot", "sigma_rx", "sigma_ry", "sigma_rz"))
        for name in header
    ]
    empty = is_point.tolist()
    return header, [
        [None if e else x for x, e in zip(column, empty, strict=True)] if turn else column
        for column, turn in zip(columns, turns, strict=True)
    ]


def _write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """An ``.npz`` file, whole or not at all; without arrays there is none."""
    if not arrays:
        path.unlink(missing_ok=True)
        return
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


def _read_arrays(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    with np.load(path) as saved:
        return {name: saved[name] for name in saved.files}


def _minima(others: tuple[Poses, ...]) -> dict[str, Array]:
    return {name: np.array([getattr(one, name) for one in others]) for name in ("wxyz", "position")} if others else {}
