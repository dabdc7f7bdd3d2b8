"""The directory of a solve: one way to write it, to read it back, and to go on from it.

=====================  =====================================================================================
``result.json``        facts: what was solved, with which options, and what came of it; written last, with its own
                       checksum and those of the files that are read back
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
``covariances.npz``    of all nodes, as arrays, so that the first question of a result that was loaded is answered at once
``draws/``             the draws (:mod:`tempose.sampling.draws`), those of other explanations in ``draws/explanation-2``, …
=====================  =====================================================================================

A run that is killed while it samples has left the same files, ``result.json`` with the status ``optimised`` and
``poses.csv`` without error bars: what a later run of the same solve goes on from, and what can be loaded meanwhile. All files
belong to one solve: those of another one are taken away before the first of them is replaced, and while files of the same
solve are replaced ``result.json`` has the checksums of the old and the new ones, so that a run may end at any instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np

from tempose._support.files import make_directory, reason, write_atomically
from tempose._support.sealed import array_bytes, array_of, arrays_of, checksum, read_sealed, sealed_text
from tempose._support.tables import csv_text
from tempose._typing import Array, Mask
from tempose.errors import DrawsError, FileError, GraphError, TemposeError
from tempose.io import csvfile, g2o, tum
from tempose.io._text import LARGEST, point_rows, utf8
from tempose.io.options import ReadOptions
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import POSE_COLUMNS, Poses
from tempose.model.robust import RobustLikelihood

Table = tuple[Sequence[str], Sequence[Any]]
"""Header and columns."""

_ORIENTATION = ("qw", "qx", "qy", "qz", "theta_deg")
_CHECKSUMS = "files"
_ANEW = "solve the graph again"
_FILES = (
    "result.json", "poses.csv", "poses.g2o", "poses.tum", "edges.csv", "graph.csv", "trace.npy", "minima.npz",
    "priors.npz", "likelihood.npz", "explanations.npz", "covariances.npz", "report.html",
)  # fmt: skip


_NUMBERS = ("tail", "least_weight")  # of a likelihood: one for all edges
_POSSIBLE = {"prior": (0.0, 1.0), "freedom": (0.0, 6.0), "tail": (1e-6, np.inf), "least_weight": (1e-6, 1.0)}


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
    nodes
        Arrays of :class:`tempose.analysis.summary.NodeSummary`, if they have been computed.
    """

    facts: Mapping[str, Any]
    graph: PoseGraph
    likelihood: RobustLikelihood | None
    estimate: Poses
    trace: Array
    others: tuple[Poses, ...] = field(default=())
    explanations: Mapping[str, Any] = field(default_factory=dict)
    nodes: Mapping[str, Any] = field(default_factory=dict)


class _Written:
    """Graphs that this process has written, and where: a graph cannot change, and its table takes longest of all files."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[PoseGraph, tuple[Path, tuple[int, ...], str]] = WeakKeyDictionary()

    def note(self, path: Path, graph: PoseGraph, content: str) -> None:
        """Remember a file that has just been written, and the checksum of its content."""
        self._of[graph] = path.resolve(), self._state(path), content

    def checksum(self, path: Path, graph: PoseGraph) -> str | None:
        """Of a file that holds this graph and that nobody has touched since it was written; else ``None``."""
        there, state, content = self._of.get(graph, (None, (), ""))
        return content if there == path.resolve() and path.exists() and self._state(path) == state else None

    @staticmethod
    def _state(path: Path) -> tuple[int, ...]:
        found = path.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


_written = _Written()


def write_result(
    home: Path,
    result: StoredResult,
    pose_columns: Table = ((), ()),
    tables: Mapping[str, Table] | None = None,
    for_others: bool = True,
) -> None:
    """Write a result; ``pose_columns`` stand beside the poses, ``tables`` are further files by their names.

    ``for_others``: with the estimate in formats of other programs, which nobody reads back.
    """
    make_directory(home)
    graph = result.graph
    shown = result.estimate.select(graph.reported)
    poses = with_poses(shown, pose_columns, graph.is_planar, graph.world_origin)
    is_point = graph.is_landmark[[graph.index[name] for name in graph.reported]]
    texts = {
        name: utf8(csv_text(*(_without_orientations(table, is_point) if name.startswith("poses") else table)))
        for name, table in {"poses.csv": poses, **(tables or {})}.items()
    }
    trace = BytesIO()
    np.save(trace, result.trace)
    arrays = {
        "minima.npz": _minima(result.others),
        "explanations.npz": result.explanations,
        "covariances.npz": result.nodes,
        "likelihood.npz": {} if result.likelihood is None else _likelihood_arrays(result.likelihood),
    }
    graph_file = home / "graph.csv"
    unchanged = _written.checksum(graph_file, graph)
    read_back = {
        **({"graph.csv": utf8(csvfile.graph_text(graph))} if unchanged is None else {}),
        "poses.csv": texts["poses.csv"],
        "trace.npy": trace.getvalue(),
        **{name: array_bytes(saved) for name, saved in arrays.items() if saved},
    }
    checksums = {name: [checksum(data)] for name, data in read_back.items()}
    if unchanged is not None:
        checksums = {"graph.csv": [unchanged], **checksums}
    try:
        _make_way(home, result.facts.get("fingerprint"), checksums)
        if for_others:
            _write_for_others(home, shown, graph)
        if unchanged is not None and not graph_file.exists():  # taken away as that of another solve
            read_back["graph.csv"] = utf8(csvfile.graph_text(graph))
        for name, data in {**read_back, **texts}.items():
            write_atomically(home / name, data)
        if "graph.csv" in read_back:
            _written.note(graph_file, graph, checksums["graph.csv"][0])
        for old in [home / name for name in arrays if name not in read_back] + _numbered(home):
            if old.name not in texts:
                old.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"{home}: cannot be written to: {reason(error)}") from None
    _write_facts(home, result.facts, checksums)


def _make_way(home: Path, fingerprint: object, checksums: Mapping[str, list[str]]) -> None:
    """Prepare for files to be replaced: those of the same solve may be the old or the new ones, those of another go."""
    if not (home / "result.json").exists():
        return
    try:
        old = read_facts(home)
    except DrawsError:
        old = {}
    if not fingerprint or old.get("fingerprint") != fingerprint or not _are_checksums(old.get(_CHECKSUMS)):
        discard_tables(home)
        return
    before = old[_CHECKSUMS]
    if any(before.get(name) != sums for name, sums in checksums.items()):
        names = sorted({*before, *checksums})
        both = {name: sorted({*before.get(name, []), *checksums.get(name, [])}) for name in names}
        _write_facts(home, old, both)


def _write_facts(home: Path, facts: Mapping[str, Any], checksums: Mapping[str, list[str]]) -> None:
    write_atomically(home / "result.json", sealed_text({**facts, _CHECKSUMS: checksums}).encode())


def _write_for_others(home: Path, poses: Poses, graph: PoseGraph) -> None:
    """The estimate for other programs, whose formats have integers only."""
    if not all(isinstance(name, int) for name in graph.reported):
        return
    g2o.write_poses(home / "poses.g2o", poses, graph.is_planar, graph.landmarks, graph.world_origin)
    points = set(graph.landmarks)  # have no orientation, and TUM files have no place for what has none
    posed = poses.select([name for name in poses.ids if name not in points])
    tum.write_poses(home / "poses.tum", posed, graph.world_origin)


def read_facts(home: Path) -> dict[str, Any]:
    """The content of ``result.json``."""
    try:
        return read_sealed(home / "result.json", "the record of a solve", _ANEW)
    except FileNotFoundError:
        raise DrawsError(f"{home}: no result here (there is no result.json)") from None


def read_result(home: Path) -> StoredResult:
    """The inverse of :func:`write_result`, to the bit."""
    facts = read_facts(home)
    if (home / "priors.npz").exists():
        raise DrawsError(f"{home}: of an earlier version, which kept priors apart from the graph; solve it again")
    read = _ReadBack(home, facts.get(_CHECKSUMS))
    graph_file, poses_file = read.checked("graph.csv"), read.checked("poses.csv")
    graph = csvfile.read_graph(graph_file, ReadOptions(precision="full"), trusted=True)
    estimate = csvfile.read_poses(poses_file, exact=True, origin=graph.world_origin)
    estimate = estimate.with_identity(WORLD).select(graph.node_ids)
    try:
        graph = replace(graph, measures=facts["edges_measure"])
        others, likelihood = read.arrays("minima.npz"), read.arrays("likelihood.npz")
        explanations = read.arrays("explanations.npz")
        nodes = read.arrays("covariances.npz") if (home / "covariances.npz").exists() else {}
        _check_shapes(graph, likelihood, explanations, nodes)
        return StoredResult(
            facts,
            graph,
            RobustLikelihood(**{**likelihood, **{k: float(likelihood[k]) for k in _NUMBERS if k in likelihood}})
            if likelihood
            else None,
            estimate,
            array_of(read.content("trace.npy"), home / "trace.npy", _ANEW),
            tuple(Poses(estimate.ids, *one) for one in zip(*others.values(), strict=True)) if others else (),
            explanations,
            nodes,
        )
    except (KeyError, TypeError, ValueError, GraphError):
        raise DrawsError(f"{home}: not a result of this version of tempose; {_ANEW}") from None


def _likelihood_arrays(likelihood: RobustLikelihood) -> dict[str, Any]:
    """What is kept of a likelihood; ε only where it is not that of all edges."""
    arrays = asdict(likelihood)
    if not likelihood.is_precise_only:
        del arrays["least_weight"]
    return arrays


def _check_shapes(
    graph: PoseGraph, likelihood: Mapping[str, Any], explanations: Mapping[str, Any], nodes: Mapping[str, Any]
) -> None:
    """Raise if arrays are not those of this graph."""
    n, m = graph.n_nodes, graph.n_edges
    for name, array in likelihood.items():
        least, most = _POSSIBLE.get(name, (-1e9, 1e9))
        if array.dtype != np.float64 or array.shape != (() if name in _NUMBERS else (m,)):
            raise ValueError(f"{name} is not of this graph")
        if not np.all((array >= least) & (array <= most)):
            raise ValueError(f"{name} is not possible")
    if likelihood and not np.array_equal(likelihood["freedom"], sum(graph.ranks)):
        raise ValueError("freedom counts the numbers of each edge")
    if nodes:
        shown = len(graph.reported)
        wanted_of_nodes = {
            "wxyz": (shown, 4), "position": (shown, 3), "covariance": (shown, 6, 6), "sigma_rot_deg": (shown,),
            "sigma_pos": (shown,), "entropy": (shown,), "determined": (shown,), "n_draws": (), "all_draws": (),
        }  # fmt: skip
        if {name: array.shape for name, array in nodes.items()} != wanted_of_nodes:
            raise ValueError("covariances are not of this graph")
    if explanations:
        count = len(explanations["probability"])
        if "loose" in explanations and explanations["loose"].shape != (n,):
            raise ValueError("loose is not of this graph")
        wanted = {
            "probability": (count,), "wxyz": (count, n, 4), "position": (count, n, 3), "prior": (count, m),
            "moved": (count, n), "given_up": (count, m), "or_instead": (count, m), "share": (m,), "rest": (m,),
        }  # fmt: skip
        for name, shape in wanted.items():
            if explanations[name].shape != shape or not np.all(np.abs(explanations[name].astype(float)) <= LARGEST):
                raise ValueError(f"{name} is not of this graph")


def _are_checksums(value: object) -> TypeGuard[dict[str, list[str]]]:
    lists = value.values() if isinstance(value, dict) else [None]
    return all(isinstance(sums, list) and all(isinstance(one, str) for one in sums) for sums in lists)


class _ReadBack:
    """Files of a result that ``result.json`` vouches for."""

    def __init__(self, home: Path, checksums: object) -> None:
        if not _are_checksums(checksums):
            raise DrawsError(f"{home / 'result.json'}: does not say which files belong to it; {_ANEW}")
        self.home, self.checksums = home, checksums

    def content(self, name: str) -> bytes:
        """The bytes of a file, if they are what was written."""
        path = self.home / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise DrawsError(f"{path}: cannot be read: {reason(error)}; {_ANEW}") from None
        if checksum(data) not in self.checksums.get(name, ()):
            raise DrawsError(
                f"{path}: is not the file that belongs to result.json (its checksum does not fit); {_ANEW}"
            )
        return data

    def checked(self, name: str) -> Path:
        """The path of a file that is what was written."""
        self.content(name)
        return self.home / name

    def arrays(self, name: str) -> dict[str, Any]:
        """The arrays of a file; none if there is no such file."""
        if name not in self.checksums:
            return {}
        arrays = arrays_of(self.content(name), self.home / name, _ANEW)
        if any(array.dtype not in (np.bool_, np.int64, np.float64) for array in arrays.values()):
            raise ValueError(f"{name} does not hold the numbers that are written")
        return arrays


def read_unfinished(home: Path, fingerprint: str) -> StoredResult | None:
    """What an earlier run of the same solve has left; ``None`` if there is nothing, or nothing of this solve."""
    try:
        if read_facts(home).get("fingerprint") != fingerprint:
            return None
        return read_result(home)
    except TemposeError:
        return None  # cut off, changed, or of another version: computed anew


def _numbered(home: Path) -> list[Path]:
    """Tables of other modes and explanations, of which there may have been more."""
    return [*home.glob("poses.mode-*.csv"), *home.glob("poses.explanation-*.csv")]


def discard_tables(home: Path) -> None:
    """Take away what an earlier solve has left in a directory, its draws apart; what is not ours stays."""
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
        position = [list(column) for column in zip(*point_rows(poses.position, world_origin), strict=True)]
    return header, [list(map(csvfile.name_text, poses.ids)), *position, *poses.wxyz.T, *theta, *more[1]]


def _without_orientations(table: Table, is_point: Mask) -> Table:
    """A table of poses whose cells on orientations are empty for landmarks (n,)."""
    if not np.any(is_point):
        return table
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


def _minima(others: tuple[Poses, ...]) -> dict[str, Array]:
    return {name: np.array([getattr(one, name) for one in others]) for name in ("wxyz", "position")} if others else {}
