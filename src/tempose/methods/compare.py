"""All methods on one graph: errors, consistency, U and time, in one table and one picture."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tempose._support.files import make_directory, write_atomically
from tempose._support.packages import require
from tempose._support.plain import json_text, plain
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._support.tables import csv_rows, text_table
from tempose.analysis.accuracy import graph_consistency, pose_errors
from tempose.errors import MissingPackage, NotApplicable, OptionError
from tempose.geometry import ALIGNMENTS
from tempose.io import write_poses
from tempose.methods.registry import METHODS, PEERS
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.simulation import simulate


@dataclass(frozen=True)
class MethodRow:
    """One method's result; numbers are ``None`` where there are none.

    Errors are in degrees and in the unit of the truth, after alignment. ``status`` is the method's own, or ``left out`` if
    it does not apply to the graph, with the reason in ``message``.
    """

    method: str
    status: str
    mean_rotation_deg: float | None = None
    median_rotation_deg: float | None = None
    mean_translation: float | None = None
    median_translation: float | None = None
    graph_consistency: float | None = None
    potential: float | None = None
    iterations: int | None = None
    seconds: float | None = None
    message: str = ""


KNOWN = {**METHODS, **PEERS}
COLUMNS = {
    "method": "method",
    "mean_rotation_deg": "MRE °",
    "median_rotation_deg": "median °",
    "mean_translation": "MTE",
    "median_translation": "median",
    "graph_consistency": "g_c",
    "potential": "U",
    "seconds": "seconds",
    "status": "status",
    "message": "",
}
_ERRORS = ("mean_rotation_deg", "median_rotation_deg", "mean_translation", "median_translation")


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found: the rows, the poses of each method that applied, and the alignment of the errors."""

    rows: tuple[MethodRow, ...]
    poses: dict[str, Poses]
    n_nodes: int
    n_edges: int
    alignment: str | None

    def facts(self) -> dict[str, Any]:
        """Plain dictionary for JSON."""
        return {
            "n_nodes": self.n_nodes,
            "n_edges": self.n_edges,
            "alignment": self.alignment,
            "alignment_in_words": None if self.alignment is None else ALIGNMENTS[self.alignment],
            "methods": {row.method: KNOWN[row.method][1] for row in self.rows},
            "rows": [plain(asdict(row)) for row in self.rows],
        }

    def table(self) -> str:
        """The rows as aligned text; without truth there are no columns of errors."""
        columns = [name for name in COLUMNS if self.alignment is not None or name not in _ERRORS]
        lines = [[COLUMNS[name] for name in columns]]
        lines += [[_cell(name, getattr(row, name)) for name in columns] for row in self.rows]
        return text_table(lines, [k for k, name in enumerate(columns) if name in ("method", "status", "message")])

    def save(self, directory: str | Path) -> list[Path]:
        """Write the table and the poses of each method; return what was written.

        ``table.json``, ``table.csv``, ``poses/METHOD.csv``, and ``compare.png`` if matplotlib is installed.
        """
        home = Path(directory)
        make_directory(home / "poses")
        write_atomically(home / "table.json", json_text(self.facts()).encode())
        write_atomically(home / "table.csv", csv_rows([asdict(row) for row in self.rows]).encode())
        for name, poses in self.poses.items():
            write_poses(home / "poses" / f"{name}.csv", poses)
        written = [home / "table.json", home / "table.csv", home / "poses"]
        with contextlib.suppress(MissingPackage):
            written.append(self.picture(home / "compare.png"))
        return written

    def picture(self, path: Path) -> Path:
        """Bars of every number, one panel each; needs matplotlib."""
        require("matplotlib", "pictures")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        panels = {
            "mean_rotation_deg": "mean rotation error, degrees",
            "mean_translation": "mean translation error",
            "graph_consistency": "1 − graph consistency",
            "potential": "U",
            "seconds": "seconds",
        }
        shown = [name for name in panels if self.alignment is not None or name not in _ERRORS]
        rows = [row for row in self.rows if row.potential is not None]
        figure = Figure(figsize=(2.6 * len(shown) + 1.2, 0.32 * max(len(rows), 1) + 1.2), layout="constrained")
        FigureCanvasAgg(figure)
        for k, name in enumerate(shown):
            ax = figure.add_subplot(1, len(shown), k + 1)
            values = [getattr(row, name) for row in rows]
            values = [math.nan if v is None else 1.0 - v if name == "graph_consistency" else v for v in values]
            colours = ["#c8781e" if row.method == "tempose" else "#5b7bb0" for row in rows]
            ax.barh(range(len(rows)), values, color=colours)
            positive = [v for v in values if v > 0.0]
            if positive and max(positive) > 20.0 * min(positive):
                ax.set_xscale("log")
            ax.set_yticks(range(len(rows)), [row.method for row in rows] if k == 0 else [""] * len(rows))
            ax.invert_yaxis()
            ax.set_title(panels[name], fontsize=9)
            ax.tick_params(labelsize=8)
        figure.savefig(path, dpi=150)
        return path


def compare(
    graph: PoseGraph,
    truth: Poses | None = None,
    methods: Sequence[str] | None = None,
    *,
    alignment: str = "se3",
    progress: ProgressHook = silent,
) -> Comparison:
    """Run synchronisation methods on a graph.

    Parameters
    ----------
    truth
        True poses of (some of) the nodes; without them there are no errors in the table.
    methods
        Names from :data:`tempose.methods.METHODS`, all by default, or from :data:`tempose.methods.PEERS`.
    alignment
        How estimates are moved on the truth, one of :data:`tempose.geometry.ALIGNMENTS`.
    progress
        Called before each method, and at the end.

    Returns
    -------
    Comparison
        One row per method. A method that does not apply to the graph is there, too, with the reason.
    """
    names = list(METHODS) if methods is None else list(methods)
    for name in names:
        if name not in KNOWN:
            raise OptionError(f"unknown method {name!r}: choose from {', '.join(KNOWN)}")
    if not names:
        raise OptionError(f"no method to compare: choose from {', '.join(KNOWN)}")
    posterior = Posterior(graph)
    rows: list[MethodRow] = []
    found: dict[str, Poses] = {}
    # a first run on a tiny graph, so that loading compiled code is not counted
    warm_up = simulate(6, completeness=1.0, sigma_rot_deg=1.0, sigma_trans=0.01).graph
    for k, name in enumerate(names):
        progress(Progress("comparing", k, len(names)))
        with contextlib.suppress(NotApplicable, MissingPackage):  # said again, with its reason, by the measurement
            KNOWN[name][0](warm_up)
        row, poses = _evaluate(name, graph, truth, alignment, posterior)
        rows.append(row)
        if poses is not None:
            found[name] = poses
    progress(Progress("comparing", len(names), len(names)))
    return Comparison(tuple(rows), found, graph.n_nodes, graph.n_edges, None if truth is None else alignment)


def evaluate(
    method: str, graph: PoseGraph, truth: Poses | None = None, *, alignment: str = "se3", **options: Any
) -> MethodRow:
    """Run one method on a graph, with options of its own, and measure the result as :func:`compare` does."""
    return _evaluate(method, graph, truth, alignment, Posterior(graph), **options)[0]


def _evaluate(
    method: str, graph: PoseGraph, truth: Poses | None, alignment: str, posterior: Posterior, **options: Any
) -> tuple[MethodRow, Poses | None]:
    try:
        estimate = KNOWN[method][0](graph, **options)
    except (NotApplicable, MissingPackage) as why:
        return MethodRow(method, "left out", message=str(why)), None
    errors = None
    if truth is not None:  # in the coordinates the graph came in
        there = estimate.poses.shifted(graph.world_origin)
        errors = pose_errors(there, truth, alignment, landmarks=graph.landmarks)
    # the truth of a rotation-only graph may have positions, but nothing here could find them
    metric = bool(graph.has_translation.any())
    row = MethodRow(
        method,
        estimate.status,
        None if errors is None else errors.mean_rotation_deg,
        None if errors is None else errors.median_rotation_deg,
        None if errors is None or not metric else errors.mean_translation,
        None if errors is None or not metric else errors.median_translation,
        graph_consistency(graph, estimate.poses),
        posterior.potential(estimate.poses),
        estimate.iterations,
        estimate.seconds,
        estimate.message,
    )
    return row, estimate.poses


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name == "graph_consistency":
        return f"{value:.5f}"
    if name == "seconds":
        return f"{value:.3f}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
