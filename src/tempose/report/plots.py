"""The static figure of a posterior, for papers and slides (needs matplotlib)."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tempose._support.files import write_atomically
from tempose._support.packages import require
from tempose._typing import Array, Index
from tempose.errors import ArgumentError, FileError, OptionError
from tempose.report.page import ReportData, display_positions
from tempose.report.widgets import colour_limits

Axes: TypeAlias = Any
"""matplotlib's axes, three-dimensional ones (which have no types) unless the graph is planar; it may not be installed."""

MAX_ELLIPSOIDS = 150
_RING = np.linspace(0.0, 2 * np.pi, 49)
_CIRCLE = np.stack([np.cos(_RING), np.sin(_RING)], axis=1)
_EDGE_GREY, _EDGE_RED = (0.52, 0.56, 0.64), (0.78, 0.13, 0.2)


def plot_graph(data: ReportData, ax: Axes | None = None, *, level: float = 2.0, factor: float | None = None) -> Axes:
    """Draw the graph: nodes coloured by σ, error ellipsoids as three rings, surprising edges in red.

    A planar graph is drawn flat, with error ellipses.

    Parameters
    ----------
    data
        What the report shows.
    ax
        Axes to draw into, three-dimensional ones unless the graph is planar; ``None`` makes a new figure.
    level
        Size of the ellipsoids in σ.
    factor
        Enlargement of the ellipsoids; ``None`` chooses 1, 2, 5, … 100 so that they can be seen. A factor other
        than 1 is told in the figure.

    Returns
    -------
    Axes
        The axes; ``ax.figure`` is the figure.

    Raises
    ------
    OptionError
        If matplotlib is not installed, ``ax`` has the wrong dimension, or ``level`` or ``factor`` is not positive.
    """
    if level <= 0 or (factor is not None and factor <= 0):
        raise OptionError(f"level and factor of the ellipsoids must be positive, got {level} and {factor}")
    positions, layout = display_positions(data)
    flat = data.planar and layout == "positions"
    axes = _new_axes(flat) if ax is None else ax
    if (getattr(axes, "name", "") == "3d") == flat:
        needed = "flat axes, as the graph is planar: plt.subplot()"
        if not flat:
            needed = "three-dimensional axes: plt.subplot(projection='3d')"
        raise ArgumentError(f"plot_graph needs {needed}")
    _draw_edges(axes, data, positions)
    notes = []
    if layout == "directions":
        notes.append("no positions: viewing directions on the unit sphere")
    elif data.position_covariance is not None:
        factor = fitting_factor(positions, data.position_covariance, level, flat) if factor is None else factor
        nodes = _ellipsoid_nodes(data.position_covariance)
        _draw_ellipsoids(axes, positions, data.position_covariance, nodes, level * factor, _node_colours(data)[0])
        if len(nodes):
            notes.append(
                f"{level:g}σ {'ellipses' if flat else 'ellipsoids'}"
                + (f", enlarged ×{factor:g}" if factor != 1 else "")
            )
    if data.explanations is not None:
        notes.append(f"explanation 1 of {len(data.explanations.cards)}, {data.explanations.cards[0].share}")
    _draw_fixes(axes, data, positions)
    _draw_nodes(axes, data, positions)
    _label(axes, data, positions, layout == "positions", notes)
    return axes


def save_picture(data: ReportData, path: str | Path, *, dpi: int = 200) -> None:
    """Save the figure of :func:`plot_graph`.

    Parameters
    ----------
    data
        What the report shows.
    path
        The file; its ending chooses the format (png, pdf, svg).
    dpi
        Resolution of pixel formats.

    Raises
    ------
    MissingPackage
        If matplotlib is not installed.
    FileError
        If it does not know the format.
    """
    figure = plot_graph(data).figure
    known = figure.canvas.get_supported_filetypes()
    ending = Path(path).suffix.lstrip(".").lower()
    if ending not in known:
        raise FileError(f"{path}: pictures can be {', '.join(sorted(known))}, not {ending or 'without an ending'!r}")
    picture = BytesIO()
    figure.savefig(picture, format=ending, dpi=dpi, bbox_inches="tight", pad_inches=0.15)
    write_atomically(path, picture.getvalue())


def fitting_factor(positions: Array, covariance: Array, level: float, flat: bool = False) -> float:
    """Return the round factor (1 … 100) that makes a typical ellipsoid about 1/50 of the graph, if it is smaller.

    Parameters
    ----------
    positions
        Shape (n, 3).
    covariance
        Shape (n, 3, 3).
    level
        Size of the ellipsoids in σ.
    flat
        Whether there are two axes, not three.
    """
    sigma = np.sqrt(np.maximum(np.trace(covariance, axis1=1, axis2=2), 0.0) / (2 if flat else 3))
    sigma = sigma[np.isfinite(sigma) & (sigma > 0)]
    radius = float(np.linalg.norm(np.ptp(positions, axis=0))) / 2
    if sigma.size == 0 or radius == 0:
        return 1.0
    wanted = 0.02 * radius / (level * float(np.median(sigma)))
    return max((f for f in (2.0, 5.0, 10.0, 20.0, 50.0, 100.0) if f <= wanted), default=1.0)


def _new_axes(flat: bool) -> Axes:
    require("matplotlib", "pictures")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # no pyplot: a library neither opens windows nor keeps figures alive
    figure = Figure(figsize=(7.2, 6.0), layout="constrained")
    FigureCanvasAgg(figure)
    with rc_context({"grid.color": "#dfe3ea", "grid.linewidth": 0.6}):
        return figure.add_subplot(projection=None if flat else "3d")


def _node_colours(data: ReportData) -> tuple[Any, Any, str]:
    """Return one RGBA per node, the colour scale (``None`` if there is none) and its label."""
    from matplotlib import colormaps, colors
    from matplotlib.cm import ScalarMappable

    n = len(data.node_ids)
    unit = f" [{data.length_unit}]" if data.length_unit else ""
    sigma_pos = data.sigma_pos if display_positions(data)[1] == "positions" else None
    for values, label in ((sigma_pos, f"position σ{unit}"), (data.sigma_rot_deg, "rotation σ [°]")):
        limits = colour_limits(values)
        if values is not None and limits is not None:
            cmap = colormaps["viridis"].with_extremes(bad="#8b93a3")
            scale = ScalarMappable(colors.Normalize(*limits), cmap)
            return scale.to_rgba(np.ma.masked_invalid(values)), scale, label
    if len(np.unique(data.component)) > 1:
        return colormaps["tab10"](np.asarray(data.component) % 10), None, "component"
    return np.tile(colors.to_rgba("#3a5bd0"), (n, 1)), None, ""


def _draw_edges(axes: Axes, data: ReportData, positions: Array) -> None:
    if len(data.edges) == 0:
        return
    heat = np.zeros(len(data.edges))
    if data.edge_surprise is not None:  # grey up to 1, red from 3, as on the page
        heat = np.clip(np.nan_to_num((np.asarray(data.edge_surprise) - 1) / 2), 0, 1)
    if data.edge_outlier is not None:
        heat = np.clip(np.asarray(data.edge_outlier, float), 0, 1)
    colours = np.ones((len(heat), 4))
    colours[:, :3] = (1 - heat[:, None]) * _EDGE_GREY + heat[:, None] * _EDGE_RED
    colours[:, 3] = 0.45 + 0.5 * heat
    order = np.argsort(heat, kind="stable")
    width = 0.5 if len(heat) > 1000 else 0.9
    _draw_lines(axes, positions[data.edges[order]], colours[order], width + 0.9 * heat[order])


def _draw_nodes(axes: Axes, data: ReportData, positions: Array) -> None:
    colours, scale, label = _node_colours(data)
    size = float(np.clip(2500 / len(positions), 3, 36))
    kind = np.zeros(len(positions), dtype=int) if data.kind is None else np.asarray(data.kind)
    for code, marker in ((0, "o"), (1, "D"), (2, "s")):
        here = kind == code
        if np.any(here):
            style: dict[str, Any] = {"edgecolors": (0, 0, 0, 0.35), "linewidths": 0.3, "marker": marker}
            style |= {"zorder": 3} if _is_flat(axes) else {"depthshade": False}
            axes.scatter(*_shown(axes, positions[here]).T, c=colours[here], s=size, **style)
    if scale is not None:
        axes.figure.colorbar(scale, ax=axes, label=label, shrink=0.55, pad=0.08)


def _draw_fixes(axes: Axes, data: ReportData, positions: Array) -> None:
    """A cross at each measured position, and a line to the node it is about."""
    if data.fix_nodes is None or data.fix_positions is None or not len(data.fix_nodes):
        return
    green = (0.12, 0.52, 0.32, 0.8)
    lines = np.stack([positions[data.fix_nodes], data.fix_positions], axis=1)
    _draw_lines(axes, lines, np.tile(green, (len(lines), 1)), 0.8)
    axes.scatter(*_shown(axes, data.fix_positions).T, marker="+", s=24, color=green, linewidths=0.9)


def _is_flat(axes: Axes) -> bool:
    return getattr(axes, "name", "") != "3d"


def _shown(axes: Axes, points: Array) -> Array:
    """The coordinates (…, 2 or 3) that the axes have."""
    return points[..., :2] if _is_flat(axes) else points


def _ellipsoid_nodes(covariance: Array) -> Index:
    """Return the nodes whose ellipsoids are drawn, spread evenly over those that have one."""
    known = np.flatnonzero(np.isfinite(covariance).all(axis=(1, 2)) & (np.trace(covariance, axis1=1, axis2=2) > 0))
    return known[:: -(-len(known) // MAX_ELLIPSOIDS) or 1]


def _draw_ellipsoids(axes: Axes, positions: Array, covariance: Array, nodes: Index, size: float, colours: Any) -> None:
    if len(nodes) == 0:
        return
    values, vectors = np.linalg.eigh(covariance[nodes])
    half_axes = size * vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    planes = [[1, 2]] if _is_flat(axes) else [[0, 1], [0, 2], [1, 2]]  # in the plane the first half axis is zero
    pairs = half_axes[:, :, planes]  # node, coordinate, ring, half axis
    rings = np.einsum("ncrh,th->nrtc", pairs, _CIRCLE) + positions[nodes][:, None, None, :]
    faded = np.array(colours)[nodes].repeat(len(planes), axis=0)
    faded[:, 3] = 0.75
    _draw_lines(axes, rings.reshape(-1, len(_RING), 3), faded, 0.6)


def _draw_lines(axes: Axes, lines: Array, colours: Array, widths: Array | float) -> None:
    if _is_flat(axes):
        from matplotlib.collections import LineCollection

        axes.add_collection(LineCollection(list(lines[..., :2]), colors=colours, linewidths=widths))
        return
    collection = import_module("mpl_toolkits.mplot3d.art3d").Line3DCollection
    axes.add_collection3d(collection(lines, colors=colours, linewidths=widths))


def _label(axes: Axes, data: ReportData, positions: Array, placed: bool, notes: list[str]) -> None:
    """Set equal scales, axis labels with units, title and the note on the ellipsoids."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    span = np.maximum(high - low, max(0.25 * float((high - low).max()), 1e-9))
    flat = _is_flat(axes)
    for axis, middle, length in zip("xy" if flat else "xyz", (low + high) / 2, span, strict=False):
        getattr(axes, f"set_{axis}lim")(middle - 0.54 * length, middle + 0.54 * length)
        unit = f" [{data.length_unit}]" if placed and data.length_unit else ""
        getattr(axes, f"set_{axis}label")(axis + unit)
        if flat:
            continue
        pane = getattr(axes, f"{axis}axis")
        pane.set_pane_color((0.97, 0.975, 0.985, 1.0))
        pane.line.set_color("#b5bcc9")
        pane.set_tick_params(labelsize=8)
    if flat:
        axes.set_aspect("equal", adjustable="box")
        axes.grid(color="#e4e7ec", linewidth=0.6)
    else:
        axes.set_box_aspect(span)
    # the "$" of a file name is not mathematics
    subtitle = f"\n{data.subtitle}" if data.subtitle else ""
    axes.set_title(f"{data.title}{subtitle}", fontsize=11, parse_math=False)
    if notes:
        write, below = (axes.text, -0.13) if flat else (axes.text2D, -0.04)
        write(0.5, below, " · ".join(notes), transform=axes.transAxes, ha="center", fontsize=8.5, color="#5a6375")
