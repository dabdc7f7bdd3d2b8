r"""What the camera model is wrong by: errors that every photograph of a camera shares and that no number of points averages out.

Two kinds, both as smooth displacements :math:`\Phi a` of the image points with random amplitudes a, independent of the image noise.
The estimate follows by :math:`x = -S^{-1} J^T W \Phi a`, as it would if the points were seen there; so these are columns of a
covariance, without fitting a:

* **the lens**: for each camera, products :math:`P_i(u) P_j(v)` of Legendre polynomials over the image, :math:`i + j \le 4`, in x
  and in y, each of the same root mean square displacement, ``lens`` times the larger side of the image. What the free
  parameters of the camera can express, they absorb in part; the rest bends cameras and points.
* **intrinsics that were held**: focal length, principal point and radial distortion, each known to ``calibration`` (relative to
  the focal length, as :attr:`tempose.sfm.options.SfmOptions.calibration_error`), for those groups that were not estimated. A
  principal point in the very middle of the image was not calibrated.

Where many cameras would make many columns, random combinations of them stand for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import legvander

from tempose._support import streams
from tempose._typing import Array
from tempose.errors import OptionError
from tempose.sfm.adjustment.problem import Bundle, Camera
from tempose.sfm.options import CALIBRATION_ERROR

DEGREE = 4
"""Of the lens fields: what a lens does beyond it is nearly independent from one part of the image to the next."""
MOST_COLUMNS = 150
# chosen on: EPFL photographs, all six scenes
LENS_ERROR = 5e-5
"""Root mean square displacement of one field, relative to the larger side of the image."""
MOST_LENS = 0.009
"""More is not an error of a lens."""


@dataclass(frozen=True)
class ModelError:
    """How well the camera model is known.

    Parameters
    ----------
    lens
        Root mean square displacement of each smooth field, relative to the larger side of the image; 0: the camera model is
        perfect.
    calibration
        Of intrinsics that are held, as :attr:`tempose.sfm.options.SfmOptions.calibration_error`; ``None``: 0.001, or 0.005 for a
        principal point that is in the very middle of the image.
    estimate
        Whether the error of the lens is, in the end, what residuals show (:mod:`.residual_fields`).
    """

    lens: float = LENS_ERROR
    calibration: float | None = None
    estimate: bool = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.lens < 0.01:
            raise OptionError(
                f"the error of the lens is relative to the image's size, from 0 to below 0.01, not {self.lens:g}"
            )
        if self.calibration is not None and not 0.0 <= self.calibration < 0.1:
            raise OptionError(
                f"the error of the calibration is relative, from 0 (perfect) to below 0.1, not {self.calibration:g}"
            )

    def of_held(self, camera: Camera) -> dict[str, float]:
        """1σ, relative to the focal length, of the groups of intrinsics that are held."""
        lens = camera.lens
        known = CALIBRATION_ERROR[True] if self.calibration is None else self.calibration
        held = {
            "focal": bool(lens.focal) and not camera.free[list(lens.focal)].any(),
            "centre": bool(lens.centre) and not camera.free[list(lens.centre)].any(),
            "distortion": bool(lens.focal) and not camera.free[list(lens.further)].any(),
        }
        out = {name: known for name, is_held in held.items() if is_held}
        if "centre" in out and self.calibration is None and is_middle(camera):
            out["centre"] = CALIBRATION_ERROR[False]
        return out


def is_middle(camera: Camera) -> bool:
    """Whether the principal point is the middle of the image: nobody has measured it."""
    centre = camera.parameters[list(camera.lens.centre)]
    return bool(np.allclose(centre, 0.5 * np.array(camera.size), atol=1e-6))


def displacements(bundle: Bundle, error: ModelError, seed: int = 0) -> Array:
    """Displacements (k, 2, m) of all image points; a covariance is the sum over the columns."""
    fields = [_fields(bundle, row, error) for row in range(len(bundle.cameras))]
    seen_by = bundle.camera_of[bundle.image_of]
    count = [field.shape[2] for field in fields]
    total = sum(count)
    thinned = total > MOST_COLUMNS
    out = np.zeros((len(seen_by), 2, min(total, MOST_COLUMNS)))
    rng = streams.generator(seed, "resample", 1 << 22)
    start = 0
    for row, field in enumerate(fields):
        here = np.flatnonzero(seen_by == row)
        if thinned:
            out[here] = field @ (rng.standard_normal((count[row], MOST_COLUMNS)) / np.sqrt(MOST_COLUMNS))
        else:
            out[here, :, start : start + count[row]] = field
        start += count[row]
    return out


def lens_fields(pixel: Array, size: tuple[int, int]) -> Array:
    """Displacements (k, 2, m) of image points (k, 2) by smooth fields, each of root mean square the image's larger side."""
    half = 0.5 * np.array(size, dtype=float)
    at = (pixel - half) / half
    # of unit mean square over the image's square, whatever part of it has points
    u, v = (legvander(np.clip(x, -1.0, 1.0), DEGREE) * np.sqrt(2.0 * np.arange(DEGREE + 1) + 1.0) for x in at.T)
    smooth = [u[:, i] * v[:, j] for i in range(DEGREE + 1) for j in range(DEGREE + 1 - i)]
    one = max(size) * np.stack(smooth, axis=1)
    zero = np.zeros_like(one)
    return np.concatenate([np.stack([one, zero], axis=1), np.stack([zero, one], axis=1)], axis=2)


def _fields(bundle: Bundle, row: int, error: ModelError) -> Array:
    """Displacements (k', 2, m) of the image points of one camera."""
    camera = bundle.cameras[row]
    pixel = bundle.pixel[bundle.camera_of[bundle.image_of] == row]
    columns = [held_fields(camera, pixel, error)]
    if error.lens > 0.0:
        columns.insert(0, error.lens * lens_fields(pixel, camera.size))
    return np.concatenate(columns, axis=2)


def held_fields(camera: Camera, pixel: Array, error: ModelError) -> Array:
    """Displacements (k, 2, m) of image points (k, 2) by 1σ of each of the intrinsics that were held."""
    held = error.of_held(camera)
    if not any(held.values()):
        return np.zeros((len(pixel), 2, 0))
    ray = (pixel - camera.parameters[list(camera.lens.centre)]) / camera.focal_px
    shapes = {
        "focal": [ray],
        "centre": [np.tile([1.0, 0.0], (len(ray), 1)), np.tile([0.0, 1.0], (len(ray), 1))],
        "distortion": [ray * np.sum(ray**2, axis=1, keepdims=True)],
    }
    return np.concatenate(
        [camera.focal_px * sigma * np.stack(shapes[name], axis=2) for name, sigma in held.items() if sigma > 0.0],
        axis=2,
    )
