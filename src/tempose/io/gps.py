"""Measured positions of nodes, from a table of their own: GPS fixes, surveyed points.

The first row names the columns, in any order (separators and comments as in :mod:`tempose.io.csvfile`)::

    id, x, y, z, sigma                      metres, or whatever the graph's unit is
    id, lat, lon, height, sigma_h, sigma_v  degrees, and metres above the WGS84 ellipsoid

- ``latitude``, ``longitude`` and ``altitude``, ``alt``, ``elevation`` are other names of ``lat``, ``lon`` and ``height``.
- ``z`` or ``height`` may be missing, or empty: the height was not measured.
- ``sigma`` is one standard deviation per axis; ``sigma_h`` and ``sigma_v`` are those of each horizontal axis and of the vertical
  one; ``sigma_x, sigma_y, sigma_z`` one each. In the unit of lengths.
- ``arm_x, arm_y, arm_z``: where the antenna is in the frame of the node, if not in its origin.
- ``inlier_prior``: prior probability that the fix is right, for robust solves.
- Other columns are refused: what they say would be lost.

Latitudes and longitudes become metres east, north and up of the first of them, which is recorded in ``PoseGraph.origin`` as
``geodetic_origin``. Coordinates of maps keep their numbers (``world_origin``). A graph that nothing ties to the world but one
fixed node is released from it, and its poses are moved to where the fixes are, as a start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tempose._support.words import plural
from tempose._typing import Array, Mask, NodeId, PathLike
from tempose.errors import ArgumentError, ParseError
from tempose.geometry import align, geodesy
from tempose.geometry import quaternion as quat
from tempose.io import csvfile
from tempose.io._text import exact_difference
from tempose.io.exif import read_exif
from tempose.io.maps import geodetic_from_map
from tempose.model import absolute
from tempose.model.graph import PoseGraph
from tempose.model.measurements import LARGE, origin_of
from tempose.model.poses import Poses

_SIGMAS = (["sigma"], ["sigma_h", "sigma_v"], ["sigma_h"], ["sigma_x", "sigma_y", "sigma_z"], ["sigma_x", "sigma_y"])
_SIGMA_NAMES = tuple(dict.fromkeys(name for group in _SIGMAS for name in group))
_GEODETIC = (("lat", "latitude"), ("lon", "longitude"), ("height", "altitude", "alt", "elevation"))
_CARTESIAN = (("x",), ("y",), ("z",))
_OTHERS = ("arm_x", "arm_y", "arm_z", "inlier_prior")
_EDGE_OF_A_LINE = 1e-6
"""Fixes whose second spread is below this share of the first are on a line: they do not say how the graph is turned."""


@dataclass(frozen=True, eq=False)
class Fixes:
    """Measured positions of nodes.

    Attributes
    ----------
    ids, line
        Of the node, and where it stands in the file.
    position
        (k, 3), less ``origin``.
    has_height
        Which (k,) have one.
    sigma
        Standard deviations (k, 3) along x, y and z.
    arm
        Lever arms (k, 3) in the frame of the node.
    inlier_prior
        (k,), NaN where there is none.
    origin
        What was subtracted (3,), whole numbers.
    geodetic_origin
        Latitude, longitude and height of the frame's origin, if the file has these.
    """

    path: PathLike
    ids: tuple[NodeId, ...]
    line: tuple[int, ...]
    position: Array
    has_height: Mask
    sigma: Array
    arm: Array
    inlier_prior: Array
    origin: Array
    geodetic_origin: tuple[float, float, float] | None


def read_fixes(path: PathLike) -> Fixes:
    """Read a table of fixes; see the module for the columns."""
    table = csvfile.NamedColumns(path, "id")
    names = _GEODETIC if any(table.has(name) for names in _GEODETIC[:2] for name in names) else _CARTESIAN
    geodetic = names is _GEODETIC
    chosen = [_one_of(path, table, same) for same in names]
    for name in chosen[:2]:
        if not table.has(name):
            raise ParseError(
                path, None, f"there is no column {name!r}; expected id,x,y,z,sigma or id,lat,lon,height,sigma"
            )
    _refuse_unknown(path, table, chosen)
    points = table.words(chosen)
    has_height = np.array([bool(row[2]) for row in points])
    values = table.numbers(chosen[:2])
    height = table.optional(chosen[2], 0.0)
    given = next((group for group in _SIGMAS if all(table.has(name) for name in group)), None)
    if given is None:
        raise ParseError(
            path, None, "nothing says how sure the positions are: add a column sigma, or sigma_h and sigma_v"
        )
    spare = next((name for name in _SIGMA_NAMES if table.has(name) and name not in given), None)
    if spare is not None:
        raise ParseError(
            path, None, f"the column {spare!r} says again what {' and '.join(given)} say; keep one or the other"
        )
    sigma = _sigmas(table, given, has_height)
    arm = np.column_stack([table.optional(f"arm_{axis}", 0.0) for axis in "xyz"])
    prior = table.optional("inlier_prior", np.nan)
    table.refuse(
        ~np.isnan(prior) & ~((prior > 0.0) & (prior <= 1.0)), "inlier_prior is above 0 and at most 1, or empty"
    )
    origin, frame = np.zeros(3), None
    if geodetic:
        table.refuse(np.abs(values[:, 0]) > 90.0, "the latitude is beyond ±90 degrees")
        table.refuse(np.abs(values[:, 1]) > 360.0, "the longitude is beyond ±360 degrees")
        frame = (float(values[0, 0]), float(values[0, 1]), float(height[has_height][0]) if has_height.any() else 0.0)
        position = geodesy.enu_from_geodetic(values[:, 0], values[:, 1], np.where(has_height, height, frame[2]), frame)
    else:
        origin = origin_of(np.column_stack([values, height]))
        position = exact_difference(np.where(points == "", "0", points), origin)
    return Fixes(path, table.names, table.lines, position, has_height, sigma, arm, prior, origin, frame)


def exif_fixes(folder: PathLike, names: Sequence[str]) -> Fixes | None:
    """Fixes of photographs by their EXIF, metres east, north and up of the first; ``None`` if none has a place.

    Where the receiver says its horizontal error, the vertical one is taken to be twice that; else σ is NaN. Heights are as the
    camera wrote them, mostly above sea level.
    """
    found = [(k, name, e) for k, name in enumerate(names) if (e := read_exif(Path(folder) / name)) is not None]
    placed = [(k, name, e) for k, name, e in found if e.lat_deg is not None and e.lon_deg is not None]
    if not placed:
        return None
    lat, lon = (np.array([getattr(e, which) for _, _, e in placed], dtype=float) for which in ("lat_deg", "lon_deg"))
    height = np.array([np.nan if e.height is None else e.height for _, _, e in placed])
    has_height = np.isfinite(height)
    frame = (float(lat[0]), float(lon[0]), float(height[has_height][0]) if has_height.any() else 0.0)
    flat = np.array([np.nan if e.sigma_h is None else e.sigma_h for _, _, e in placed])
    return Fixes(
        folder,
        tuple(name for _, name, _ in placed),
        tuple(k + 1 for k, _, _ in placed),
        geodesy.enu_from_geodetic(lat, lon, np.where(has_height, height, frame[2]), frame),
        has_height,
        np.column_stack([flat, flat, 2.0 * flat]),
        np.zeros((len(placed), 3)),
        np.full(len(placed), np.nan),
        np.zeros(3),
        frame,
    )


def in_frame(fixes: Fixes, frame: tuple[float, float, float]) -> Fixes:
    """Fixes of latitude and longitude in metres east, north and up of another origin."""
    if fixes.geodetic_origin is None:
        raise ArgumentError(f"{fixes.path} has coordinates of a map; say of which (--crs EPSG:…)")
    lat, lon, height = geodesy.geodetic_from_enu(fixes.position, fixes.geodetic_origin).T
    return replace(fixes, position=geodesy.enu_from_geodetic(lat, lon, height, frame), geodetic_origin=frame)


def of_map(fixes: Fixes, crs: str) -> Fixes:
    """Fixes with coordinates of a map, as latitude and longitude (needs pyproj)."""
    if fixes.geodetic_origin is not None:
        return fixes
    lat, lon, height = geodetic_from_map(crs, fixes.position + fixes.origin).T
    frame = (float(lat[0]), float(lon[0]), float(height[fixes.has_height][0]) if fixes.has_height.any() else 0.0)
    position = geodesy.enu_from_geodetic(lat, lon, height, frame)
    return replace(fixes, position=position, origin=np.zeros(3), geodetic_origin=frame)


def _one_of(path: PathLike, table: csvfile.NamedColumns, names: tuple[str, ...]) -> str:
    """Which of a column's names the table has; the first if none."""
    found = [name for name in names if table.has(name)]
    if len(found) > 1:
        raise ParseError(path, None, f"the columns {found[0]!r} and {found[1]!r} mean the same; keep one of the two")
    return found[0] if found else names[0]


def _refuse_unknown(path: PathLike, table: csvfile.NamedColumns, coordinates: list[str]) -> None:
    """One line for a column that means nothing here, so that no measurement is lost without a word."""
    known = ["id", *coordinates, *_SIGMA_NAMES, *_OTHERS]
    unknown = next((name for name in table.columns if name and name not in known), None)
    if unknown is not None:
        raise ParseError(path, None, f"the column {unknown!r} is not known; known are {', '.join(known)}")


def _sigmas(table: csvfile.NamedColumns, names: list[str], has_height: Mask) -> Array:
    """Standard deviations (k, 3); infinite where no height was measured."""
    columns = [table.optional(name, np.nan) for name in names]
    x, y, z = {1: [0, 0, 0], 2: [0, 0, 1], 3: [0, 1, 2]}[len(names)]
    if names == ["sigma_x", "sigma_y"]:
        y = 1
    sigma = np.column_stack([columns[x], columns[y], columns[z]])
    if names[-1] in ("sigma_h", "sigma_y"):
        table.refuse(has_height, f"has a height and no {'sigma_v' if names[-1] == 'sigma_h' else 'sigma_z'}")
    sigma[:, 2] = np.where(has_height, sigma[:, 2], np.inf)
    table.refuse(~np.all(sigma > 1e-50, axis=1) | np.any(sigma[:, :2] > 1e50, axis=1), f"{names[0]} is not above zero")
    return sigma


def with_fixes(graph: PoseGraph, fixes: Fixes) -> PoseGraph:
    """The graph with measured positions of its nodes."""
    notices = list(graph.notices)
    for name, line in zip(fixes.ids, fixes.line, strict=True):
        if name not in graph.index:
            raise ParseError(fixes.path, line, f"there is no node {name!r} in the graph")
    tied = graph.world is not None or any(np.bincount(graph.component[graph.is_fixed], minlength=1) > 1)
    if tied and fixes.geodetic_origin is not None:
        why = "the graph is tied to a world of its own already; give the positions as x, y, z in its coordinates"
        raise ParseError(fixes.path, None, why)
    if graph.is_planar and fixes.has_height.any():
        notices.append("heights of positions not used: the graph is planar")
    position = fixes.position * [1.0, 1.0, not graph.is_planar]
    precision = fixes.sigma**-2.0 * [1.0, 1.0, not graph.is_planar]
    origin = graph.world_origin
    if not tied:
        if graph.fixed:
            nodes = plural(len(graph.fixed), "node")
            notices.append(f"{nodes} no longer fixed: the measured positions say where the graph is")
        graph = replace(
            graph, fixed=(), fixed_at=None, initial=_moved(graph, fixes, position), world_origin=fixes.origin
        )
        origin = fixes.origin * [1.0, 1.0, not graph.is_planar]
    elif np.abs(position + fixes.origin - origin).max(initial=0.0) > LARGE and not np.any(origin):
        notices.append(
            "the measured positions are far from where the graph is tied to the world: are they in its coordinates?"
        )
    rows = np.array([graph.index[name] for name in fixes.ids], dtype=np.int64)
    graph = absolute.with_positions(
        replace(graph, world_origin=origin),
        rows,
        position + (fixes.origin * [1.0, 1.0, not graph.is_planar] - origin),
        precision[:, :, None] * np.eye(3),
        fixes.arm * [1.0, 1.0, not graph.is_planar],
        fixes.inlier_prior,
    )
    where = {"positions": Path(fixes.path).name}
    if fixes.geodetic_origin is not None:
        where["geodetic_origin"] = " ".join(map(repr, fixes.geodetic_origin))
        lat, lon, height = fixes.geodetic_origin
        notices.append(
            f"positions are metres east, north and up of the first fix (latitude {lat!r}, longitude {lon!r}, height {height!r})"
        )
    graph = replace(graph, notices=tuple(notices), origin={**graph.origin, **where})
    first = graph.n_edges - len(rows)
    for k, sigmas in zip(*absolute.contradictions(graph), strict=True):
        if k >= first:
            why = f"the position is {sigmas:.3g} σ from where node {fixes.ids[k - first]!r} is fixed; one of the two is wrong"
            raise ParseError(fixes.path, fixes.line[k - first], why)
    return graph


def _moved(graph: PoseGraph, fixes: Fixes, position: Array) -> Poses | None:
    """The initial poses where the fixes are: turned too, if these say how."""
    if graph.initial is None:
        return None
    here = graph.initial.position[[graph.initial.row(name) for name in fixes.ids]]  # a node may have several
    spread = np.linalg.svd(here - here.mean(axis=0), compute_uv=False) if len(here) else np.zeros(3)
    wanted = 1 if graph.is_planar else 2  # directions that fixes must span
    shift = position.mean(axis=0) - here.mean(axis=0)
    if len(here) <= wanted or spread[wanted - 1] <= _EDGE_OF_A_LINE * spread[0] or not fixes.has_height.all():
        return graph.initial.shifted(shift if fixes.has_height.all() else shift * [1.0, 1.0, 0.0])
    still = np.tile(quat.IDENTITY, (len(here), 1))
    if not graph.is_planar:
        return graph.initial.moved(align((still, here), (still, position), "positions-se3"))
    a, b = (x[:, 0] + 1j * x[:, 1] for x in (here - here.mean(axis=0), position - position.mean(axis=0)))
    half = 0.5 * np.angle(np.sum(b * np.conj(a)))
    turn = np.array([np.cos(half), 0.0, 0.0, np.sin(half)])
    wxyz = quat.multiply(turn, graph.initial.wxyz)
    wxyz[graph.is_landmark] = quat.IDENTITY
    there = quat.rotate(turn, graph.initial.position - here.mean(axis=0)) + position.mean(axis=0)
    return Poses(graph.node_ids, wxyz, there)
