"""The report: one HTML page that carries its own code, style and data.

The page loads nothing from anywhere (its content security policy forbids it), so that it can be mailed, archived
and opened years later. Numbers travel as little-endian binary arrays (:func:`pack`), strings as escaped JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tempose._support.files import write_atomically
from tempose._typing import Array, Index
from tempose.errors import ArgumentError, GraphError
from tempose.geometry import quaternion as quat
from tempose.report.explanation_cards import Explanations
from tempose.report.widgets import (
    VIEW_SCRIPTS,
    Fact,
    Histogram,
    PageFrame,
    banner,
    colour_limits,
    details_box,
    histogram_bins,
    pack,
    pack_optional,
    quantise,
    text,
)

Layout = Literal["positions", "directions"]

_SCRIPTS = (*VIEW_SCRIPTS, "scene.js", "graph_view.js", "main.js")

MAX_ELLIPSOIDS = 20_000
"""Position covariances beyond this many nodes are thinned: the page could not draw them anyway."""

MAX_DRAWS = 40
MAX_DRAW_POINTS = 400_000
"""Draws × nodes kept for the ghost trajectories (6 bytes each before compression)."""

MAX_TRACE_POINTS = 2_000


@dataclass(frozen=True)
class Trace:
    """One curve over the steps of a run.

    Parameters
    ----------
    label
        Title of the chart.
    steps, values
        The curve, each of shape (s,); values that are not finite leave a gap.
    ylabel
        Label of the vertical axis, with its unit.
    log
        Logarithmic vertical axis; values ≤ 0 are then left out.
    marks
        Vertical lines ``(step, label)``, e.g. where sampling begins.
    """

    label: str
    steps: ArrayLike
    values: ArrayLike
    ylabel: str = ""
    log: bool = False
    marks: Sequence[tuple[float, str]] = ()

    def __post_init__(self) -> None:
        steps, values = np.asarray(self.steps), np.asarray(self.values)
        if steps.ndim != 1 or steps.shape != values.shape:
            raise ArgumentError(
                f"trace {self.label!r}: steps {steps.shape} and values {values.shape} must be (s,) alike"
            )


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Another explanation of the same measurements, or another mode: what differs from the first, shaped as in :class:`ReportData`.

    Parameters
    ----------
    label
        What it is called, with its probability.
    """

    label: str
    positions: Array
    world_from_node_wxyz: Array
    sigma_rot_deg: Array | None = None
    sigma_pos: Array | None = None
    position_covariance: Array | None = None
    edge_rotation_deg: Array
    edge_translation: Array
    edge_surprise: Array | None = None
    edge_outlier: Array | None = None


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """All that the page shows: plain arrays and strings.

    Parameters
    ----------
    title, subtitle
        E.g. ``"garage.g2o"`` and ``"1661 nodes, 6275 edges, 1 component"``.
    verdict
        Whether to trust all this: stands on top.
    headline
        The tiles below the picture.
    details
        Tiles at the end of the page.
    explanations
        Competing explanations, below the picture; ``None`` if there is nothing to choose between.
    settings
        The settings of the run, name and value.
    notices
        Warnings and notices, one sentence each.
    node_ids
        The n names of the nodes, as in the file.
    positions
        Node positions in the world frame, shape (n, 3), in ``length_unit``. All equal or all NaN means that the
        graph has no positions (rotation-only edges); the page then shows viewing directions on a unit sphere.
    world_from_node_wxyz
        Orientations, unit quaternions, scalar first, shape (n, 4).
    component
        Number of the connected component of each node, shape (n,).
    sigma_rot_deg, sigma_pos
        Standard deviation of each orientation (degrees) and position (``length_unit``), shape (n,), NaN where
        unknown; ``None`` if not computed. ``gauge`` tells what they are relative to.
    position_covariance
        Position covariances in the world frame, shape (n, 3, 3), ``length_unit`` squared.
    gauge
        One sentence: relative to what the sigmas are, and how one number is made of three.
    length_unit
        E.g. ``"m"``; may be empty if the scale is unknown.
    edges
        Node indices of each edge, shape (m, 2).
    edge_rotation_deg, edge_translation
        Residual angle (degrees) and residual length of each edge, shape (m,); a NaN length is a rotation-only edge.
    edge_surprise
        Normalised residual of each edge, about 1 if the edge errs as much as its noise model says.
    edge_outlier
        Probability that each edge is wrong, shape (m,), of a robust solve.
    draw_positions
        Posterior draws aligned to ``positions``, shape (k, n, 3); the page keeps at most ``MAX_DRAWS``.
    truth_positions
        Known positions in the same frame, shape (n, 3).
    planar
        All is in the plane z = 0: the page shows it from above, with ellipses.
    kind
        What each node is, shape (n,): 0 a pose, 1 a landmark (a position without an orientation), 2 a fixed pose;
        ``None`` if all are poses.
    fix_nodes, fix_positions
        Positions measured in the world, shape (k, 3), and the nodes they are about, shape (k,).
    label, variants
        What the poses above are called where there are others to switch to, and these.
    traces, histograms
        Curves over the run, and histograms beyond those of residuals and sigmas.
    version
        Version of tempose that wrote the page.

    Raises
    ------
    GraphError
        If shapes disagree, an edge names a node that does not exist, or a pose is not finite.
    """

    title: str
    subtitle: str = ""
    verdict: Fact | None = None
    headline: Sequence[Fact] = ()
    details: Sequence[Fact] = ()
    explanations: Explanations | None = None
    settings: Sequence[tuple[str, str]] = ()
    notices: Sequence[str] = ()
    node_ids: Sequence[str]
    positions: Array
    world_from_node_wxyz: Array
    component: Index
    sigma_rot_deg: Array | None = None
    sigma_pos: Array | None = None
    position_covariance: Array | None = None
    gauge: str = ""
    length_unit: str = ""
    edges: Index
    edge_rotation_deg: Array
    edge_translation: Array
    edge_surprise: Array | None = None
    edge_outlier: Array | None = None
    draw_positions: Array | None = None
    truth_positions: Array | None = None
    planar: bool = False
    kind: Index | None = None
    fix_nodes: Index | None = None
    fix_positions: Array | None = None
    label: str = ""
    variants: Sequence[Variant] = ()
    traces: Sequence[Trace] = ()
    histograms: Sequence[Histogram] = ()
    version: str = ""

    def __post_init__(self) -> None:
        n, m = len(self.node_ids), len(self.edges)
        if n == 0:
            raise GraphError("a report needs at least one node")
        expected: dict[str, tuple[int, ...]] = {
            "positions": (n, 3),
            "world_from_node_wxyz": (n, 4),
            "component": (n,),
            "sigma_rot_deg": (n,),
            "sigma_pos": (n,),
            "position_covariance": (n, 3, 3),
            "edges": (m, 2),
            "edge_rotation_deg": (m,),
            "edge_translation": (m,),
            "edge_surprise": (m,),
            "edge_outlier": (m,),
            "truth_positions": (n, 3),
            "kind": (n,),
            "fix_positions": (0 if self.fix_nodes is None else len(self.fix_nodes), 3),
        }
        for name, shape in expected.items():
            value = getattr(self, name)
            if value is not None and np.shape(value) != shape:
                raise GraphError(f"report: {name} has shape {np.shape(value)}, expected {shape}")
        draws = self.draw_positions
        if draws is not None and (draws.ndim != 3 or draws.shape[1:] != (n, 3)):
            raise GraphError(f"report: draw_positions has shape {draws.shape}, expected (k, {n}, 3)")
        for variant in self.variants:
            for name in ("positions", "world_from_node_wxyz", "edge_rotation_deg", "edge_translation"):
                if np.shape(getattr(variant, name)) != expected[name]:
                    raise GraphError(f"report: {name} of {variant.label!r} is not of shape {expected[name]}")
        self._check_values(n, m)

    def _check_values(self, n: int, m: int) -> None:
        """Raise if an edge points nowhere or a pose cannot be drawn."""
        if m and (self.edges.min() < 0 or self.edges.max() >= n):
            worst = int(np.argmax(np.any((self.edges < 0) | (self.edges >= n), axis=1)))
            raise GraphError(f"report: edge {worst} is {tuple(self.edges[worst])}, nodes are 0…{n - 1}")
        for name in ("positions", "world_from_node_wxyz"):
            value = getattr(self, name)
            finite = np.isfinite(value).all(axis=1)
            if not finite.all() and not (name == "positions" and np.isnan(value).all()):
                node = self.node_ids[int(np.argmin(finite))]
                raise GraphError(f"report: {name} of node {node!r} is not finite")


def write_page(path: str | Path, data: ReportData) -> None:
    """Write the report.

    Parameters
    ----------
    path
        The HTML file, overwritten if it exists.
    data
        What to show.
    """
    write_atomically(path, render_page(data).encode("utf-8", "replace"))


def render_page(data: ReportData) -> str:
    """Return the page as text; the same data gives the same text.

    Parameters
    ----------
    data
        What to show.
    """
    frame = PageFrame(
        data.title,
        data.subtitle,
        data.version,
        data.headline,
        data.notices,
        data.settings,
        _SCRIPTS,
        page_payload(data),
        banner(data.verdict),
    )
    parts = {
        "gauge": text(data.gauge),
        "explanations": "" if data.explanations is None else data.explanations.html(),
        "details": details_box(data.details),
    }
    return frame.around("page.html", parts)


def page_payload(data: ReportData) -> dict[str, Any]:
    """Return the JSON object the page's script reads.

    Positions are stored relative to ``origin``: single precision would lose centimetres on map coordinates.

    Parameters
    ----------
    data
        What to show.
    """
    positions, layout = display_positions(data)
    origin = positions.mean(axis=0)
    placed = layout == "positions"
    return {
        "title": data.title,
        "unit": data.length_unit,
        "layout": layout,
        "planar": data.planar,
        "origin": origin.tolist(),
        "ids": list(data.node_ids),
        "positions": pack(positions - origin, "<f4"),
        "wxyz": pack(quantise(data.world_from_node_wxyz, 1 / 32767), "<i2"),
        "component": pack(data.component, "<u4"),
        "sigma_pos": pack_optional(data.sigma_pos if placed else None),
        "sigma_rot_deg": pack_optional(data.sigma_rot_deg),
        "limits": {
            "sigma_pos": colour_limits(data.sigma_pos),
            "sigma_rot_deg": colour_limits(data.sigma_rot_deg),
            "edge_rotation_deg": colour_limits(data.edge_rotation_deg),
            "edge_translation": colour_limits(data.edge_translation),
        },
        "ellipsoids": _ellipsoids(data.position_covariance) if placed else None,
        "edges": pack(data.edges, "<u4"),
        "edge_rotation_deg": pack(data.edge_rotation_deg, "<f4"),
        "edge_translation": pack(data.edge_translation, "<f4"),
        "edge_surprise": pack_optional(data.edge_surprise),
        "edge_outlier": pack_optional(data.edge_outlier),
        "draws": _ghosts(data) if placed else None,
        "truth": pack_optional(None if data.truth_positions is None else data.truth_positions - origin)
        if placed
        else None,
        "kind": None if data.kind is None else pack(data.kind, "<u4"),
        "fixes": _fixes(data, origin) if placed else None,
        "label": data.label,
        "variants": [_variant(one, origin, placed) for one in data.variants],
        "histograms": [histogram_bins(h) for h in _all_histograms(data)],
        "traces": [_trace(t) for t in data.traces],
    }


def display_positions(data: ReportData) -> tuple[Array, Layout]:
    """Return where to draw the nodes, shape (n, 3), and what these places mean.

    Parameters
    ----------
    data
        The report; if its positions all coincide (or are NaN) while there are several nodes, each node is placed at
        its viewing direction, the third column of its rotation, on the unit sphere.
    """
    return places(data.positions, data.world_from_node_wxyz)


def places(positions: Array, world_from_node_wxyz: Array) -> tuple[Array, Layout]:
    """The same of poses alone."""
    positions = np.asarray(positions, dtype=np.float64)
    missing = bool(np.isnan(positions).all())
    if len(positions) > 1 and (missing or not np.ptp(positions, axis=0).any()):
        return quat.rotate(quat.normalize(world_from_node_wxyz), [0.0, 0.0, 1.0]), "directions"
    return (np.zeros_like(positions) if missing else positions), "positions"


def _fixes(data: ReportData, origin: Array) -> dict[str, Any] | None:
    """Return the measured positions and whose they are."""
    if data.fix_nodes is None or data.fix_positions is None or not len(data.fix_nodes):
        return None
    return {"nodes": pack(data.fix_nodes, "<u4"), "positions": pack(data.fix_positions - origin, "<f4")}


def _variant(variant: Variant, origin: Array, placed: bool) -> dict[str, Any]:
    """Return what differs from the first, under the same names."""
    where = places(variant.positions, variant.world_from_node_wxyz)[0]
    return {
        "label": variant.label,
        "positions": pack(where - origin, "<f4"),
        "wxyz": pack(quantise(variant.world_from_node_wxyz, 1 / 32767), "<i2"),
        "sigma_pos": pack_optional(variant.sigma_pos if placed else None),
        "sigma_rot_deg": pack_optional(variant.sigma_rot_deg),
        "ellipsoids": _ellipsoids(variant.position_covariance) if placed else None,
        "edge_rotation_deg": pack(variant.edge_rotation_deg, "<f4"),
        "edge_translation": pack(variant.edge_translation, "<f4"),
        "edge_surprise": pack_optional(variant.edge_surprise),
        "edge_outlier": pack_optional(variant.edge_outlier),
    }


def _ellipsoids(position_covariance: Array | None) -> dict[str, Any] | None:
    """Return the position covariances (xx, xy, xz, yy, yz, zz) of the nodes that have one."""
    if position_covariance is None:
        return None
    covariance = np.asarray(position_covariance, dtype=np.float64)
    nodes = np.flatnonzero(np.isfinite(covariance).all(axis=(1, 2)))
    nodes = nodes[_spread(len(nodes), MAX_ELLIPSOIDS)]
    rows, columns = np.triu_indices(3)
    # variances of 1e-40 would vanish in single precision: store them in units of the largest
    scale = float(np.abs(covariance[nodes]).max(initial=0.0)) or 1.0
    upper = covariance[nodes][:, rows, columns] / scale
    return {"nodes": pack(nodes, "<u4"), "covariance": pack(upper, "<f4"), "scale": scale}


def _ghosts(data: ReportData) -> dict[str, Any] | None:
    """Return the draws as 16-bit steps away from the estimate, thinned to ``MAX_DRAW_POINTS``."""
    if data.draw_positions is None or len(data.draw_positions) == 0:
        return None
    draws = data.draw_positions[_spread(len(data.draw_positions), MAX_DRAWS)]
    n = len(data.node_ids)
    if n * len(draws) > MAX_DRAW_POINTS:
        draws = draws[_spread(len(draws), max(10, MAX_DRAW_POINTS // n))]
    stride = -(-n * len(draws) // MAX_DRAW_POINTS)
    nodes = np.arange(0, n, stride)
    offset = np.nan_to_num(np.asarray(draws, dtype=np.float64)[:, nodes] - data.positions[nodes])
    step = float(np.abs(offset).max()) / 32767 or 1.0
    return {"stride": stride, "step": step, "offset": pack(quantise(offset, step), "<i2")}


def _spread(available: int, wanted: int) -> Index:
    """Return at most ``wanted`` indices spread evenly over ``range(available)``."""
    if available <= wanted:
        return np.arange(available)
    return np.linspace(0, available - 1, wanted).round().astype(np.int64)


def _all_histograms(data: ReportData) -> list[Histogram]:
    """Return the histograms of residuals and sigmas that exist, then the caller's own."""
    charts: list[Histogram] = []
    if len(data.edges):
        charts.append(Histogram("Rotation residuals", data.edge_rotation_deg, "°", things="edges"))
        if np.isfinite(data.edge_translation).any():
            charts.append(Histogram("Translation residuals", data.edge_translation, data.length_unit, things="edges"))
        if data.edge_surprise is not None:
            charts.append(Histogram("Normalised residuals", data.edge_surprise, "", 1.0, "edges"))
    if data.sigma_pos is not None and display_positions(data)[1] == "positions":
        charts.append(Histogram("Position σ", data.sigma_pos, data.length_unit, things="nodes"))
    if data.sigma_rot_deg is not None:
        charts.append(Histogram("Rotation σ", data.sigma_rot_deg, "°", things="nodes"))
    return charts + list(data.histograms)


def _trace(trace: Trace) -> dict[str, Any]:
    steps = np.asarray(trace.steps, dtype=np.float64)
    values = np.asarray(trace.values, dtype=np.float64)
    log = trace.log and bool(np.any(values > 0))
    usable = np.isfinite(values) & ((values > 0) | (not log))
    keep = _envelope(np.where(usable, values, np.nan), MAX_TRACE_POINTS)
    return {
        "label": trace.label,
        "ylabel": trace.ylabel,
        "log": log,
        "steps": steps[keep].tolist(),
        "values": [float(v) if ok else None for v, ok in zip(values[keep], usable[keep], strict=True)],
        "marks": [[float(step), label] for step, label in trace.marks],
    }


def _envelope(values: Array, limit: int) -> Index:
    """Return indices that keep the ends and the extremes of ``limit / 2`` stretches: no spike is lost."""
    if len(values) <= limit:
        return np.arange(len(values))
    keep = {0, len(values) - 1}
    for stretch in np.array_split(np.arange(len(values)), limit // 2 - 1):
        part = values[stretch]
        if np.isfinite(part).any():
            keep |= {int(stretch[np.nanargmin(part)]), int(stretch[np.nanargmax(part)])}
        else:
            keep.add(int(stretch[0]))
    return np.array(sorted(keep), dtype=np.int64)
