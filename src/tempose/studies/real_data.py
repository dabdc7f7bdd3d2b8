"""What the experiments on real data share: every method on a graph whose truth is known, under two alignments; dots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tempose.analysis.accuracy import pose_errors
from tempose.errors import MissingPackage, NotApplicable
from tempose.methods import METHODS
from tempose.methods.base import Estimate
from tempose.methods.external import colmap_rotation_averaging, gtsam_gnc
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.outliers import Robust
from tempose.studies import figures
from tempose.studies.experiment import RunOptions
from tempose.studies.store import Cell, Row

# chosen on: 3DMatch, all five scenes
TRUST = 0.95
"""Share of consecutive fragments whose registration is right, for ``robust+odometry``."""

Method = Callable[[PoseGraph, Poses], Estimate]


def method_cells(options: RunOptions, data: Sequence[str], extra: Sequence[str] = ()) -> list[Cell]:
    """Data × methods; ``extra`` ones are there unless the user has chosen. The seed is that of random starts."""
    methods = options.method_list([*METHODS, *extra])
    return [{"data": name, "seed": options.seed, "method": method} for name in data for method in methods]


def method(cell: Cell, oracle: Method | None = None, **options: Any) -> Method:
    """The method of a cell: one of the registry, or ``oracle``, ``colmap``, ``gnc``, ``robust+odometry``."""
    name = cell["method"]
    if name == "oracle":
        assert oracle is not None
        return oracle
    if name == "colmap":
        return lambda graph, truth: colmap_rotation_averaging(graph, **options)
    if name == "gnc":
        return lambda graph, truth: gtsam_gnc(graph, **options)
    if name == "robust+odometry":
        return lambda graph, truth: METHODS["robust"][0](graph, robust=Robust(trust_odometry=TRUST), **options)
    if name == "tg-mcmc":
        options["seed"] = cell["seed"]
    return lambda graph, truth: METHODS[name][0](graph, **options)


def measure(run: Method, graph: PoseGraph, truth: Poses, *, timed: bool = False) -> Row:
    """Errors of a method on the nodes whose truth is known.

    ``…_rotation_deg`` and ``…_translation`` are after robust (L1) alignment, in which a few nodes that are far off do not
    drag the others; ``…_rotation_deg_l2`` after least squares. Both take the rotation from the orientations.
    """
    try:
        estimate = run(graph, truth)
    except (NotApplicable, MissingPackage) as why:
        return {"status": "left out", "message": str(why)}
    robust, squares = (pose_errors(estimate.poses, truth, robust=robust) for robust in (True, False))
    row: Row = {
        "n_compared": robust.n_nodes,
        "mean_rotation_deg": robust.mean_rotation_deg,
        "median_rotation_deg": robust.median_rotation_deg,
        "mean_rotation_deg_l2": squares.mean_rotation_deg,
        "median_rotation_deg_l2": squares.median_rotation_deg,
    }
    if graph.has_translation.any():
        row |= {"mean_translation": robust.mean_translation, "median_translation": robust.median_translation}
    if timed:
        row |= {"seconds": estimate.seconds, "cpu_seconds": estimate.cpu_seconds}
    return {**row, "iterations": estimate.iterations, "status": estimate.status, "message": estimate.message}


def oracle(within_deg: float, within: float | None = None, **options: Any) -> Method:
    """What a perfect rejection of wrong edges gives: the minimum of U on the edges that agree with the truth.

    In their largest connected part, that is; the others have no common frame with it.

    Parameters
    ----------
    within_deg, within
        How far from the truth an edge may be, in degrees and in the unit of the translations.
    """

    def run(graph: PoseGraph, truth: Poses) -> Estimate:
        known = graph.subgraph([k for k, name in enumerate(graph.node_ids) if name in truth.index])
        left = residuals(known, truth.select(known.node_ids))
        right = np.degrees(left.angle) < within_deg
        if within is not None:
            right &= np.linalg.norm(left.translation, axis=1) < within
        inliers = known.with_edges(right)
        largest = int(np.bincount(inliers.component).argmax())
        return METHODS["tempose"][0](inliers.subgraph(np.flatnonzero(inliers.component == largest)), **options)

    return run


def columns(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """The rows with these columns only, ``None`` where one has no such number."""
    return [{name: row.get(name) for name in names} for row in rows]


# ---------------------------------------------------------------------- figures


def dots(ax: Any, rows: Sequence[Row], values: dict[str, str], *, names: bool) -> None:
    """One line per method, its values as dots on a logarithmic axis; those left out have none.

    Parameters
    ----------
    values
        Marker of each column to draw.
    names
        Whether to write the names of the methods.
    """
    for value, marker in values.items():
        for place, row in enumerate(rows):
            if row.get(value):
                name = row["method"].partition("+")[0]
                colour = figures.style(name)["color"] if name in METHODS else "#000000"
                ax.plot(row[value], place, marker, color=colour, markersize=5, clip_on=False)
    ax.set_yticks(range(len(rows)), [row["method"] for row in rows] if names else [""] * len(rows), fontsize=8)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xscale("log")
    _plain_ticks(ax)


def _plain_ticks(ax: Any) -> None:
    """Numbers as people write them, few enough to be read."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = ax.get_xlim()
    decade = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0) if high < 6.0 * low else (1.0, 2.0, 5.0) if high < 50.0 * low else (1.0,)
    ax.xaxis.set_major_locator(LogLocator(subs=decade))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def of(table: Sequence[Row], name: str) -> list[Row]:
    """The rows of one data set."""
    return [row for row in table if row["data"] == name]
