"""The page of a reconstruction: points coloured by how uncertain they are, cameras with ellipsoids, a slider for the cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tempose._support.files import write_atomically
from tempose._typing import Array, PathLike
from tempose.geometry import quaternion as quat
from tempose.report.widgets import Fact, Histogram, PageFrame, histogram_bins, pack, text
from tempose.sfm import words
from tempose.sfm.points import PointStatus, rms_sigma
from tempose.sfm.scene import Scene

MAX_POINTS = 200_000
"""More points are thinned evenly: the page would grow beyond what a browser likes to open."""

_SCRIPTS = ("util.js", "charts.js", "cloud.js")
_FRUSTUM = 0.15  # depth of a drawn camera, in units of the first view's radius


def write_cloud_page(
    path: PathLike,
    scene: Scene,
    title: str,
    facts: Sequence[Fact] = (),
    settings: Sequence[tuple[str, str]] = (),
    notices: Sequence[str] = (),
    version: str = "",
) -> None:
    """Write one self-contained HTML file that shows a reconstruction.

    Parameters
    ----------
    path
        The file.
    scene
        Cameras and points.
    title
        Of the page, e.g. the folder of photographs.
    facts
        Headline tiles to put before those of the points.
    settings, notices, version
        As in the report of a pose graph.
    """
    n_good = int(scene.structure.good.sum())
    subtitle = f"{len(scene.poses)} cameras, {n_good} points, {len(scene.observations)} image points"
    parts = {
        "gauge": text(
            f"1σ per axis (root mean square over three axes), {words.gauge(scene.gauge)}. Not in them: {words.LEFT_OUT}"
        ),
        "unit": text(scene.unit),
        "cameras": _camera_rows(scene),
    }
    frame = PageFrame(
        title, subtitle, version, [*facts, *_facts(scene)], notices, settings, _SCRIPTS, cloud_payload(scene, title)
    )
    write_atomically(path, frame.around("cloud.html", parts).encode("utf-8", "replace"))


def cloud_payload(scene: Scene, title: str) -> dict[str, Any]:
    """The JSON object the page's script reads; positions relative to the middle of the good points."""
    s = scene.structure
    rows = np.flatnonzero(np.all(np.isfinite(s.position), axis=1))
    rows = rows[:: -(-len(rows) // MAX_POINTS) or 1]
    middle, near = scene.middle, scene.bulk_radius
    sigmas = {"sigma": s.sigma, "image": rms_sigma(s.image_covariance), "pose": rms_sigma(s.pose_covariance)}
    photo = None if scene.colour is None else scene.colour[rows] / 255.0
    diameter = s.diameter if np.isfinite(s.diameter) else 1.0
    return {
        "title": title,
        "unit": scene.unit,
        "radius": max(0.5 * diameter, 1e-9),
        "near": near,
        "counts": {status.label: count for status, count in s.counts().items()},
        "positions": pack(s.position[rows] - middle, "<f4"),
        **{name: pack(values[rows], "<f4") for name, values in sigmas.items()},
        "limits": {name: log_limits(values[s.good]) for name, values in sigmas.items()},
        "photo": pack(np.zeros((0, 3)) if photo is None else photo, "<f4"),
        "weak": pack((~s.good[rows]).astype(float), "<f4"),
        "frusta": pack(_frusta(scene, _FRUSTUM * near) - middle, "<f4"),
        "centres": pack(scene.poses.position - middle, "<f4"),
        "axes": pack(_half_axes(scene.camera_covariance[:, 3:, 3:]), "<f4"),
        "home": pack(_home(scene), "<f4"),
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


def _camera_rows(scene: Scene) -> str:
    rotation, position = scene.camera_sigma
    used = np.bincount(scene.observations.camera_of[scene.structure.used], minlength=len(scene.poses))
    cells = zip(scene.poses.ids, rotation.tolist(), position.tolist(), used.tolist(), strict=True)
    return "".join(
        f"<tr><td>{text(str(name))}</td><td>{_figure(r)}</td><td>{_figure(p)}</td><td>{k}</td></tr>"
        for name, r, p, k in cells
    )


def _figure(x: float) -> str:
    return f"{x:.3g}" if np.isfinite(x) else "–"


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


def _half_axes(covariance: Array) -> Array:
    """1σ half-axes (n, 3, 3), one per row, of covariances (n, 3, 3); empty if none is known."""
    if not np.isfinite(covariance).any():
        return np.zeros((0, 3, 3))
    values, vectors = np.linalg.eigh(np.nan_to_num(covariance))
    return np.swapaxes(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :], 1, 2)


def _home(scene: Scene) -> Array:
    """First camera's position and viewing direction, and where the cameras look on average; relative to the middle."""
    first = quat.rotate(scene.poses.wxyz[0], np.array([0.0, 0.0, 1.0]))
    return np.concatenate([scene.poses.position[0] - scene.middle, first, scene.viewing_direction])


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
