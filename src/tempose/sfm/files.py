"""A reconstruction on disk: ``scene.npz`` with all of it, and what other programs read (CSV, PLY, a COLMAP model)."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._support.files import write_atomically
from tempose._support.tables import csv_text
from tempose._typing import Array, PathLike
from tempose.errors import GraphError, ParseError
from tempose.io.colmap.model import ModelPoints, write_model
from tempose.io.csvfile import name_text
from tempose.io.ply import write_ply
from tempose.io.transforms import write_transforms
from tempose.model.poses import Poses
from tempose.sfm import words
from tempose.sfm.colours import sigma_colours, sigma_ends
from tempose.sfm.points import Observations, PointStatus, Structure, rms_sigma
from tempose.sfm.scene import Scene, SceneGauge

SCENE = "scene.npz"
CAMERAS = "cameras.csv"
_FORMAT = 2
_GREY = 160
_DAMAGED = "is cut off or not a reconstruction; run 'tempose sfm' again"


def save_scene(path: PathLike, scene: Scene) -> None:
    """Write everything to one file."""
    arrays: dict[str, Any] = {}
    for prefix, part in (("structure", scene.structure), ("observations", scene.observations)):
        arrays |= {f"{prefix}_{f.name}": getattr(part, f.name) for f in fields(part)}
    arrays |= {
        "wxyz": scene.poses.wxyz,
        "position": scene.poses.position,
        "intrinsics": scene.intrinsics,
        "image_size": scene.image_size,
        "camera_covariance": scene.camera_covariance,
    }
    if scene.colour is not None:
        arrays["colour"] = scene.colour
    about = {
        "format": _FORMAT,
        "names": [str(name) for name in scene.poses.ids],
        "gauge": asdict(scene.gauge),
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=np.array(json.dumps(about)), **arrays)
    write_atomically(path, buffer.getvalue())


def load_scene(path: PathLike) -> Scene:
    """Read what :func:`save_scene` wrote; a directory stands for the ``scene.npz`` in it."""
    file = Path(path) / SCENE if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise ParseError(file, None, "there is no reconstruction here; make one with 'tempose sfm IMAGES -o DIR'")
    try:
        with np.load(file, allow_pickle=False) as saved:
            data = {name: saved[name] for name in saved.files}
        if not all(isinstance(array, np.ndarray) for array in data.values()):
            raise ValueError("something else among the arrays")
    except Exception:  # a damaged file raises whatever zipfile, zlib or numpy happens to stumble on
        raise ParseError(file, None, _DAMAGED) from None
    try:
        about = json.loads(str(data["about"]))
        if about["format"] != _FORMAT:
            raise ParseError(file, None, f"format {about['format']!r} is not {_FORMAT}, which this version reads")
        _check_shapes(data, len(about["names"]))
        gauge = SceneGauge(**about["gauge"])
        error = gauge.calibration_error
        if not isinstance(gauge.metric, bool) or not (error is None or isinstance(error, int | float)):
            raise TypeError("not a gauge")
        return Scene(
            poses=Poses(tuple(about["names"]), data["wxyz"], data["position"]),
            intrinsics=data["intrinsics"],
            image_size=data["image_size"],
            camera_covariance=data["camera_covariance"],
            observations=Observations(**_part(data, "observations", Observations)),
            structure=Structure(**_part(data, "structure", Structure)),
            colour=data.get("colour"),
            gauge=gauge,
        )
    except (ValueError, KeyError, TypeError, RecursionError, GraphError):
        raise ParseError(file, None, _DAMAGED) from None


def _check_shapes(data: Mapping[str, NDArray[Any]], n: int) -> None:
    """Raise if arrays do not fit each other: n cameras, p points, k image points."""
    p, k = len(data["structure_position"]), len(data["observations_pixel"])
    shapes: dict[str, tuple[int, ...]] = {
        "wxyz": (n, 4), "position": (n, 3), "intrinsics": (n, 3, 3), "image_size": (n, 2), "camera_covariance": (n, 6, 6),
        "structure_position": (p, 3), "structure_mean": (p, 3), "structure_image_covariance": (p, 3, 3),
        "structure_pose_covariance": (p, 3, 3), "structure_used": (k,), "observations_pixel": (k, 2),
        **{f"structure_{name}": (p,) for name in ("status", "n_views", "angle_deg", "rms_px")},
        **{f"observations_{name}": (k,) for name in ("point_of", "camera_of")},
        **{name: () for name in ("structure_sigma_px", "structure_n_draws", "observations_n_points")},
    }  # fmt: skip
    if "colour" in data:
        shapes["colour"] = (p, 3)
    if any(data[name].shape != shape or data[name].dtype.kind not in "biuf" for name, shape in shapes.items()):
        raise ValueError("arrays do not fit each other")
    points, cameras = data["observations_point_of"], data["observations_camera_of"]
    outside = k and not (0 <= points.min() <= points.max() < p and 0 <= cameras.min() <= cameras.max() < n)
    K, size = data["intrinsics"], data["image_size"]
    calibrated = np.all(np.isfinite(K)) and np.all(K[:, (0, 1), (0, 1)] > 0.0) and np.all(size >= 0)
    if outside or not n or not calibrated or data["observations_n_points"] != p:
        raise ValueError("arrays do not fit each other")


def _part(data: Any, prefix: str, kind: type) -> dict[str, Any]:
    """Constructor arguments of one of the parts; single numbers come back as numbers."""
    values = {f.name: data[f"{prefix}_{f.name}"] for f in fields(kind)}
    return {name: value.item() if value.ndim == 0 else value for name, value in values.items()}


def write_cameras(path: PathLike, scene: Scene, shares: Mapping[str, Array] | None = None) -> None:
    """A table of the cameras with their error bars, in the gauge of the scene; ``tempose eval`` reads it as poses.

    ``shares`` are further columns (n,): what the error bars consist of.
    """
    sigma_rot_deg, sigma_pos = scene.camera_sigma
    deviation = np.sqrt(np.diagonal(scene.camera_covariance, axis1=1, axis2=2))
    columns = {
        "id": [name_text(name) for name in scene.poses.ids],
        **{name: scene.poses.position[:, k] for k, name in enumerate("xyz")},
        **{f"q{name}": scene.poses.wxyz[:, k] for k, name in enumerate("wxyz")},
        "sigma_rot_deg": sigma_rot_deg,
        "sigma_pos": sigma_pos,
        **{f"sigma_r{name}_deg": np.degrees(deviation[:, k]) for k, name in enumerate("xyz")},
        **{f"sigma_{name}": deviation[:, 3 + k] for k, name in enumerate("xyz")},
        **(shares or {}),
    }
    write_atomically(path, csv_text(list(columns), list(columns.values())).encode())


def cloud_columns(
    scene: Scene, colour: NDArray[np.uint8] | None = None, *, covariance: bool = False
) -> dict[str, NDArray[Any]]:
    """Points with everything known of each, by name: position, colour, σ, its shares, views, angle, status.

    Points of a status other than good are there and marked; those without a position are left out. With ``covariance`` there are
    six more columns, ``cov_xx`` to ``cov_zz``.
    """
    s = scene.structure
    placed = np.all(np.isfinite(s.position), axis=1)
    base = {name: s.position[placed, k] for k, name in enumerate("xyz")}
    if colour is None:
        colour = np.full((len(placed), 3), _GREY, np.uint8) if scene.colour is None else scene.colour
    channels = {channel: colour[placed][:, k] for k, channel in enumerate(("red", "green", "blue"))}
    own = np.sqrt(np.diagonal(s.covariance, axis1=1, axis2=2))[placed].astype("f4")
    scalars = {
        **{f"sigma_{name}": own[:, k] for k, name in enumerate("xyz")},
        "sigma": s.sigma[placed].astype("f4"),
        "sigma_image": rms_sigma(s.image_covariance)[placed].astype("f4"),
        "sigma_pose": rms_sigma(s.pose_covariance)[placed].astype("f4"),
        "views": s.n_views[placed],
        "angle_deg": s.angle_deg[placed].astype("f4"),
        "status": s.status[placed].astype("u1"),
    }
    if covariance:
        total = s.covariance[placed].astype("f4")
        pairs = [(i, j) for i in range(3) for j in range(i, 3)]
        scalars |= {f"cov_{'xyz'[i]}{'xyz'[j]}": np.ascontiguousarray(total[:, i, j]) for i, j in pairs}
    return {**base, **channels, **scalars}


def write_clouds(directory: PathLike, scene: Scene, colours: str = "viridis", *, covariance: bool = False) -> None:
    """``points.ply`` in the photographs' colours and ``points_sigma.ply`` in colours from sure to unsure.

    Both carry σ along the axes, σ, its two shares, views, angle and status of every point as scalar fields, and covariances if
    asked for. ``transforms.json`` has the cameras for NeRF and splat tools.
    """
    home = Path(directory)
    comments = (
        f"unit of length: {scene.unit}; sigma per axis (root mean square of three)",
        f"gauge: {words.gauge(scene.gauge)}",
        "status: " + ", ".join(f"{one.value} {one.label}" for one in PointStatus),
    )
    ends = sigma_ends(scene.structure)
    legend = () if ends is None else (f"colours: {colours}, sigma from {ends[0]:.3g} to {ends[1]:.3g} {scene.unit}",)
    write_ply(home / "points.ply", cloud_columns(scene, covariance=covariance), comments)
    by_sigma = cloud_columns(scene, sigma_colours(scene.structure, colours), covariance=covariance)
    write_ply(home / "points_sigma.ply", by_sigma, (*comments, *legend))
    write_transforms(home / "transforms.json", scene.poses, scene.intrinsics, scene.image_size, points="points.ply")


def write_colmap(directory: PathLike, scene: Scene) -> None:
    """A COLMAP text model of the good points; the number of a point is its row + 1."""
    o, s = scene.observations, scene.structure
    good = np.flatnonzero(s.good)
    kept = s.used & s.good[o.point_of]
    points = ModelPoints(
        good + 1,
        s.position[good],
        s.rms_px[good] * np.sqrt(2.0),
        None if scene.colour is None else scene.colour[good],
        o.camera_of[kept],
        np.searchsorted(good, o.point_of[kept]),
        o.pixel[kept],
    )
    write_model(directory, scene.poses, scene.intrinsics, scene.image_size, points)
