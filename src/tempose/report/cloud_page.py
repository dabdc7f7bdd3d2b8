"""The page of a reconstruction: points coloured by how uncertain they are, cameras with ellipsoids, a slider for the cut."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from tempose._support.files import write_atomically
from tempose._typing import Array, PathLike
from tempose.geometry import quaternion as quat
from tempose.report.widgets import VIEW_SCRIPTS, Fact, Histogram, PageFrame, banner, histogram_bins, pack, text
from tempose.sfm import words
from tempose.sfm.colours import colour_map
from tempose.sfm.points import PointStatus, rms_sigma
from tempose.sfm.scene import Scene

MAX_POINTS = 200_000
"""More points are thinned evenly: the page would grow beyond what a browser likes to open."""

MAX_PAIRS = 200
"""Rows of the table of pairs that are not used."""

_SCRIPTS = (*VIEW_SCRIPTS, "cloud_view.js", "cloud.js")
_STOPS = 33  # colours of the scale of σ
_FRUSTUM = 0.15  # depth of a drawn camera, in units of the first view's radius


@dataclass(frozen=True)
class PairNote:
    """A pair of photographs that is not used.

    Parameters
    ----------
    first, second
        Names of the photographs.
    why
        Why not.
    contradicts
        Whether it has a relative pose that contradicts the others; else it has none.
    """

    first: str
    second: str
    why: str
    contradicts: bool


@dataclass(frozen=True)
class CloudExtras:
    """What a page of a reconstruction may show beside its scene.

    Parameters
    ----------
    verdict
        Whether to trust it: stands on top.
    facts
        Tiles to put before those of the points.
    settings, notices, version
        As in the report of a pose graph.
    pairs
        Pairs that are not used.
    thumbnails
        JPEG files by the name of the photograph.
    files
        What lies beside the page and is linked, name and what it holds.
    colours
        Of σ, by the name of the colour map.
    """

    verdict: Fact | None = None
    facts: Sequence[Fact] = ()
    settings: Sequence[tuple[str, str]] = ()
    notices: Sequence[str] = ()
    version: str = ""
    pairs: Sequence[PairNote] = ()
    thumbnails: Mapping[str, bytes] = field(default_factory=dict)
    files: Sequence[tuple[str, str]] = ()
    colours: str = "viridis"


def write_cloud_page(path: PathLike, scene: Scene, title: str, extras: CloudExtras | None = None) -> None:
    """Write one self-contained HTML file that shows a reconstruction.

    Parameters
    ----------
    path
        The file.
    scene
        Cameras and points.
    title
        Of the page, e.g. the folder of photographs.
    extras
        What else there is to show.
    """
    extras = extras or CloudExtras()
    n_good = int(scene.structure.good.sum())
    subtitle = f"{len(scene.poses)} cameras, {n_good} points, {len(scene.observations)} image points"
    parts = {
        "gauge": text(
            f"1σ per axis (root mean square over three axes), {words.gauge(scene.gauge)}. Not in them: {words.LEFT_OUT}"
        ),
        "pairs": _pair_table(extras.pairs),
        "files": _file_list(extras.files),
    }
    frame = PageFrame(
        title, subtitle, extras.version, [*extras.facts, *_facts(scene)], extras.notices, extras.settings, _SCRIPTS,
        cloud_payload(scene, title, extras), banner(extras.verdict),
    )  # fmt: skip
    write_atomically(path, frame.around("cloud.html", parts).encode("utf-8", "replace"))


def cloud_payload(scene: Scene, title: str, extras: CloudExtras | None = None) -> dict[str, Any]:
    """The JSON object the page's script reads; positions relative to the middle of the good points."""
    extras = extras or CloudExtras()
    s = scene.structure
    rows = np.flatnonzero(np.all(np.isfinite(s.position), axis=1))
    rows = rows[:: -(-len(rows) // MAX_POINTS) or 1]
    middle, near = scene.middle, scene.bulk_radius
    sigmas = {"sigma": s.sigma, "image": rms_sigma(s.image_covariance), "pose": rms_sigma(s.pose_covariance)}
    photo = None if scene.colour is None else scene.colour[rows]
    return {
        "title": title,
        "unit": scene.unit,
        "near": near,
        "counts": {status.label: count for status, count in s.counts().items()},
        "positions": pack(s.position[rows] - middle, "<f4"),
        **{name: pack(values[rows], "<f4") for name, values in sigmas.items()},
        "limits": {name: log_limits(values[s.good]) for name, values in sigmas.items()},
        "views": pack(s.n_views[rows], "<f4"),
        "photo": pack(np.zeros((0, 3)) if photo is None else photo, "<i2"),
        "weak": pack((~s.good[rows]).astype(float), "<f4"),
        "stage": scene.upright.tolist(),
        "stops": [
            f"#{r:02x}{g:02x}{b:02x}" for r, g, b in colour_map(extras.colours)(np.linspace(0.0, 1.0, _STOPS)).tolist()
        ],
        "frusta": pack(_frusta(scene, _FRUSTUM * near) - middle, "<f4"),
        "centres": pack(scene.poses.position - middle, "<f4"),
        "covariance": pack(_upper(scene.camera_covariance[:, 3:, 3:]), "<f4"),
        "forward": pack(quat.rotate(scene.poses.wxyz, np.array([0.0, 0.0, 1.0])), "<f4"),
        "cameras": _cameras(scene, extras.thumbnails),
        "pairs": _contradicting(scene, extras.pairs),
        "histograms": [histogram_bins(h) for h in _histograms(scene)],
    }


def log_limits(sigma: Array) -> tuple[float, float]:
    """Ends of a logarithmic colour scale: the 2% and 98% quantiles, never equal."""
    known = sigma[np.isfinite(sigma) & (sigma > 0.0)]
    if len(known) == 0:
        return 0.1, 1.0
    low, high = (float(q) for q in np.quantile(known, [0.02, 0.98]))
    return (low, high) if high > 1.05 * low else (low / 1.5, low * 1.5)


def _facts(scene: Scene) -> list[Fact]:
    s = scene.structure
    good = s.good
    counts = s.counts()
    weak = ", ".join(f"{counts[one]} {one.label}" for one in counts if one is not PointStatus.GOOD and counts[one])
    facts = [Fact("points", str(counts[PointStatus.GOOD]), f"and marked: {weak}" if weak else "all well seen")]
    if not good.any():
        return facts
    sigma, total = float(np.median(s.sigma[good])), np.median(s.sigma[good] ** 2)
    share = float(np.median(rms_sigma(s.pose_covariance)[good] ** 2) / total) if total > 0 else 0.0
    facts.append(
        Fact("median point σ", f"{sigma:.3g} {scene.unit}", f"{100 * sigma / s.diameter:.2g}% of the scene's diameter")
    )
    if s.n_draws:
        facts.append(
            Fact("from the cameras", f"{100 * share:.0f}%", f"of the variance, calibration included; {s.n_draws} draws")
        )
    facts.append(Fact("image noise", f"{s.sigma_px:.2g} px", "per axis"))
    return facts


def _cameras(scene: Scene, thumbnails: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Of each photograph: its name, error bars, points, residual, half its field of view as a tangent, and a small picture."""
    rotation, position = scene.camera_sigma
    o, s = scene.observations, scene.structure
    used = s.used & np.isfinite(s.rms_px[o.point_of])
    count = np.bincount(o.camera_of[s.used], minlength=len(scene.poses))
    squares = np.bincount(o.camera_of[used], s.rms_px[o.point_of[used]] ** 2, minlength=len(scene.poses))
    with np.errstate(invalid="ignore", divide="ignore"):
        residual = np.sqrt(squares / np.bincount(o.camera_of[used], minlength=len(scene.poses)))
    wide = scene.image_size[:, 0] / (2.0 * scene.intrinsics[:, 0, 0])
    columns = {"rotation": rotation, "position": position, "residual": residual, "wide": wide}
    return [
        {
            "name": str(name),
            "points": int(count[k]),
            "picture": base64.b64encode(thumbnails.get(str(name), b"")).decode("ascii"),
            **{key: float(values[k]) if np.isfinite(values[k]) else None for key, values in columns.items()},
        }
        for k, name in enumerate(scene.poses.ids)
    ]


def _contradicting(scene: Scene, pairs: Sequence[PairNote]) -> list[list[int]]:
    """Rows of the cameras of each pair that contradicts the others."""
    row = {str(name): k for k, name in enumerate(scene.poses.ids)}
    wrong = [one for one in pairs if one.contradicts and one.first in row and one.second in row]
    return [[row[one.first], row[one.second]] for one in wrong]


def _pair_table(pairs: Sequence[PairNote]) -> str:
    """Pairs that are not used, those that contradict the others first; nothing if all are."""
    if not pairs:
        return ""
    wrong = sum(one.contradicts for one in pairs)
    counted = f"{wrong} contradict the others, {len(pairs) - wrong} have no relative pose"
    rows = "".join(
        f'<tr class="{"wrong" if one.contradicts else "missing"}"><td>{text(one.first)}</td><td>{text(one.second)}</td>'
        f"<td>{text(one.why)}</td></tr>"
        for one in sorted(pairs, key=lambda one: not one.contradicts)[:MAX_PAIRS]
    )
    left = f'<p class="fine">and {len(pairs) - MAX_PAIRS} more, in sfm.json</p>' if len(pairs) > MAX_PAIRS else ""
    return (
        f'<details class="card settings"{" open" if wrong else ""}><summary><h2>Pairs that are not used: {counted}</h2></summary>'
        f'<div class="scroll"><table class="pairs"><tbody>{rows}</tbody></table></div>{left}</details>'
    )


def _file_list(files: Sequence[tuple[str, str]]) -> str:
    """Links to what was written beside the page."""
    if not files:
        return ""
    rows = "".join(f'<li><a href="{text(quote(name))}">{text(name)}</a> {text(what)}</li>' for name, what in files)
    return f'<section class="card files"><h2>Files</h2><ul>{rows}</ul></section>'


def _frusta(scene: Scene, depth: float) -> Array:
    """Ends of the lines of all cameras (n · 16, 3): four edges from the centre, four around the image."""
    width, height = scene.image_size[:, 0].astype(float), scene.image_size[:, 1].astype(float)
    zero = np.zeros_like(width)
    corners = np.stack(
        [np.stack([x, y], 1) for x, y in ((zero, zero), (width, zero), (width, height), (zero, height))], 1
    )
    K = np.linalg.inv(scene.intrinsics)
    local = np.einsum("nab,nkb->nka", K, np.concatenate([corners, np.ones((*corners.shape[:2], 1))], axis=2))
    world = quat.rotate(scene.poses.wxyz[:, None], depth * local) + scene.poses.position[:, None]
    centre = np.repeat(scene.poses.position[:, None], 4, axis=1)
    lines = np.stack([np.stack([centre, world], 2), np.stack([world, np.roll(world, -1, axis=1)], 2)], axis=1)
    return lines.reshape(-1, 3)


def _upper(covariance: Array) -> Array:
    """Upper triangles (n, 6), xx, xy, xz, yy, yz, zz; empty if none is known."""
    if not np.isfinite(covariance).any():
        return np.zeros((0, 6))
    rows, columns = np.triu_indices(3)
    return np.asarray(np.nan_to_num(covariance)[:, rows, columns])


def _histograms(scene: Scene) -> list[Histogram]:
    s = scene.structure
    good = s.good
    charts = [
        Histogram("Point σ", s.sigma[good], scene.unit, things="points"),
        Histogram("Reprojection error per axis", s.rms_px[good], "px", things="points"),
        Histogram("Views", s.n_views[good], things="points"),
        Histogram("Widest angle of the rays", s.angle_deg[good], "°", things="points"),
    ]
    if s.n_draws:
        charts.insert(
            1, Histogram("Point σ from the cameras", rms_sigma(s.pose_covariance)[good], scene.unit, things="points")
        )
    return charts
