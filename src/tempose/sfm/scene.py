"""A finished reconstruction: cameras and points with their error bars, saved, reloaded and handed to other programs."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._support.files import write_atomically
from tempose._support.tables import csv_text
from tempose._typing import Array, Index, PathLike
from tempose.errors import ParseError
from tempose.geometry import quaternion as quat
from tempose.io.colmap.model import ModelPoints, write_model
from tempose.io.csvfile import name_text
from tempose.io.ply import write_ply
from tempose.model.poses import Poses
from tempose.sfm.points import GOOD, STATUS, Observations, Structure, rms_sigma

FILE = "scene.npz"
_FORMAT = 1
LEFT_OUT = "what all image points have in common besides the error of the calibration, such as a rolling shutter"
"""What no error bar of a scene contains."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Cameras and points.

    Parameters
    ----------
    poses
        Camera poses, ids are image names.
    intrinsics, image_size
        Pinhole calibration (n, 3, 3) and width, height (n, 2) in pixels.
    camera_covariance
        Covariances of the poses (n, 6, 6), tangent order (rotation, position), radians and scene units, world frame; NaN
        where unknown.
    observations, structure
        What was seen and the points made of it.
    colour
        Photographic colours (p, 3), or ``None``.
    gauge
        In words: relative to what every σ is, and what fixes the scale.
    unit
        Of length: ``"m"`` if metric, else ``"units"``.
    """

    poses: Poses
    intrinsics: Array
    image_size: Index
    camera_covariance: Array
    observations: Observations
    structure: Structure
    colour: NDArray[np.uint8] | None
    gauge: str
    unit: str = "units"

    @property
    def camera_sigma(self) -> tuple[Array, Array]:
        """1σ per axis of the orientations (degrees) and of the positions (scene units), each (n,)."""
        return np.degrees(rms_sigma(self.camera_covariance[:, :3, :3])), rms_sigma(self.camera_covariance[:, 3:, 3:])

    @cached_property
    def middle(self) -> Array:
        """Median of the good points (3,)."""
        good = self.structure.position[self.structure.status == GOOD]
        return np.asarray(np.median(good if len(good) else self.poses.position, axis=0))

    @cached_property
    def bulk_radius(self) -> float:
        """Distance from the middle within which three quarters of the good points lie: what a first view shows."""
        good = self.structure.position[self.structure.status == GOOD]
        if len(good) == 0:
            return 1.0
        return max(float(np.quantile(np.linalg.norm(good - self.middle, axis=1), 0.75)), 1e-9)

    @property
    def viewing_direction(self) -> Array:
        """Where the cameras look on average, a unit vector; the first one's direction if they look all around."""
        forward = quat.rotate(self.poses.wxyz, np.array([0.0, 0.0, 1.0]))
        together = forward.mean(axis=0)
        if np.linalg.norm(together) < 0.2:
            together = forward[0]
        return np.asarray(together / np.linalg.norm(together))

    def save(self, path: PathLike) -> None:
        """Write everything to one file."""
        s = self.structure
        arrays: dict[str, Any] = {f"structure_{f.name}": getattr(s, f.name) for f in fields(s)}
        arrays |= {f"observations_{f.name}": getattr(self.observations, f.name) for f in fields(self.observations)}
        arrays |= {
            "wxyz": self.poses.wxyz,
            "position": self.poses.position,
            "intrinsics": self.intrinsics,
            "image_size": self.image_size,
            "camera_covariance": self.camera_covariance,
        }
        if self.colour is not None:
            arrays["colour"] = self.colour
        about = {
            "format": _FORMAT,
            "names": [str(name) for name in self.poses.ids],
            "gauge": self.gauge,
            "unit": self.unit,
        }
        buffer = io.BytesIO()
        np.savez_compressed(buffer, about=np.array(json.dumps(about)), **arrays)
        write_atomically(path, buffer.getvalue())

    @classmethod
    def load(cls, path: PathLike) -> Scene:
        """Read what :meth:`save` wrote; a directory stands for the ``scene.npz`` in it."""
        file = Path(path) / FILE if Path(path).is_dir() else Path(path)
        if not file.is_file():
            raise ParseError(file, None, "there is no reconstruction here; make one with 'tempose sfm IMAGES -o DIR'")
        try:
            with np.load(file, allow_pickle=False) as data:
                about = json.loads(str(data["about"]))
                if about["format"] != _FORMAT:
                    raise ParseError(file, None, f"format {about['format']} is not {_FORMAT}, which this version reads")
                return cls(
                    poses=Poses(tuple(about["names"]), data["wxyz"], data["position"]),
                    intrinsics=data["intrinsics"],
                    image_size=data["image_size"],
                    camera_covariance=data["camera_covariance"],
                    observations=Observations(**_part(data, "observations", Observations)),
                    structure=Structure(**_part(data, "structure", Structure)),
                    colour=data.get("colour"),
                    gauge=about["gauge"],
                    unit=about["unit"],
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            raise ParseError(file, None, "is cut off or not a reconstruction; run 'tempose sfm' again") from None

    def write_cameras(self, path: PathLike) -> None:
        """A table of the cameras with their error bars, in the gauge of the scene; ``tempose eval`` reads it as poses."""
        deviation = np.sqrt(np.diagonal(self.camera_covariance, axis1=1, axis2=2))
        columns = {
            "id": [name_text(name) for name in self.poses.ids],
            **{name: self.poses.position[:, k] for k, name in enumerate("xyz")},
            **{f"q{name}": self.poses.wxyz[:, k] for k, name in enumerate("wxyz")},
            "sigma_rot_deg": self.camera_sigma[0],
            "sigma_pos": self.camera_sigma[1],
            **{f"sigma_r{name}_deg": np.degrees(deviation[:, k]) for k, name in enumerate("xyz")},
            **{f"sigma_{name}": deviation[:, 3 + k] for k, name in enumerate("xyz")},
        }
        write_atomically(path, csv_text(list(columns), list(columns.values())).encode())

    def write_clouds(self, directory: PathLike) -> None:
        """``points.ply`` in the photographs' colours and ``points_sigma.ply`` in jet from sure (blue) to unsure (red).

        Both carry σ, its two shares, views, angle and status of every point as scalar fields; points of a status other
        than good are in the file and marked.
        """
        s = self.structure
        placed = np.all(np.isfinite(s.position), axis=1)
        base = {name: s.position[placed, k] for k, name in enumerate("xyz")}
        scalars = {
            "sigma": s.sigma[placed].astype("f4"),
            "sigma_image": rms_sigma(s.image_covariance)[placed].astype("f4"),
            "sigma_pose": rms_sigma(s.pose_covariance)[placed].astype("f4"),
            "views": s.n_views[placed],
            "angle_deg": s.angle_deg[placed].astype("f4"),
            "status": s.status[placed].astype("u1"),
        }
        comments = (
            f"unit of length: {self.unit}; sigma per axis (root mean square of three)",
            f"gauge: {self.gauge}",
            "status: " + ", ".join(f"{k} {name}" for k, name in enumerate(STATUS)),
        )
        photo = np.full((len(placed), 3), 160, np.uint8) if self.colour is None else self.colour
        for name, colour in (("points.ply", photo[placed]), ("points_sigma.ply", sigma_colours(s)[placed])):
            channels = {channel: colour[:, k] for k, channel in enumerate(("red", "green", "blue"))}
            write_ply(Path(directory) / name, {**base, **channels, **scalars}, comments)

    def write_colmap(self, directory: PathLike) -> None:
        """A COLMAP text model of the good points; the number of a point is its row + 1."""
        o, s = self.observations, self.structure
        good = np.flatnonzero(s.status == GOOD)
        kept = s.used & (s.status[o.point_of] == GOOD)
        points = ModelPoints(
            good + 1,
            s.position[good],
            s.rms_px[good] * np.sqrt(2.0),
            None if self.colour is None else self.colour[good],
            o.camera_of[kept],
            np.searchsorted(good, o.point_of[kept]),
            o.pixel[kept],
        )
        write_model(directory, self.poses, self.intrinsics, self.image_size, points)


def sigma_colours(structure: Structure) -> NDArray[np.uint8]:
    """Jet (p, 3) over log σ, from the 2% to the 98% quantile of the good points; grey where σ is unknown."""
    sigma = structure.sigma
    known = np.isfinite(sigma) & (sigma > 0.0)
    good = known & (structure.status == GOOD)
    out = np.full((len(sigma), 3), 128, np.uint8)
    if not good.any():
        return out
    low, high = np.quantile(np.log(sigma[good]), [0.02, 0.98])
    out[known] = jet((np.log(sigma[known]) - low) / max(high - low, 1e-12))
    return out


def jet(x: Array) -> NDArray[np.uint8]:
    """The colour map of the paper's pictures, (n, 3) bytes for values in [0, 1]: blue, cyan, yellow, red."""
    x = np.clip(x, 0.0, 1.0)[:, None]
    return np.asarray(np.rint(255 * np.clip(1.5 - np.abs(4.0 * x - [3.0, 2.0, 1.0]), 0.0, 1.0)), np.uint8)


def _part(data: Any, prefix: str, kind: type) -> dict[str, Any]:
    """Constructor arguments of one of the parts; single numbers come back as numbers."""
    values = {f.name: data[f"{prefix}_{f.name}"] for f in fields(kind)}
    return {name: value.item() if value.ndim == 0 else value for name, value in values.items()}
