r"""Which intrinsics photographs determine: the camera model, whether the principal point is free, and whether zooms differ.

Everything is decided by the data itself, and said:

* **Principal point**: freed if that leaves it known to better than :data:`CENTRE` of the focal length, noise and model together,
  which is what a held one is taken to be known to. Otherwise it stays in the middle.
* **Camera model**: one coefficient of radial distortion, two, then tangential ones and two focal lengths. A step is taken if

  .. math:: \frac{D_0 - D_1}{\kappa} > q \log\frac{2k}{\kappa},

  D the loss over the noise's variance, κ how many times the variance of independent noise neighbours that err together make,
  k image points and q further parameters: Schwarz's criterion for as many observations as are worth as much as independent ones.
* **Zoom**: each photograph has a focal length of its own to first order. If they differ by more than :data:`ZOOM`, and by more than
  their error bars, the photographs of a camera were not taken with one focal length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tempose._typing import Array
from tempose.sfm.adjustment.linear import linearise
from tempose.sfm.adjustment.posterior import BundlePosterior, PosteriorOptions, posterior_of
from tempose.sfm.adjustment.problem import Bundle, bundle_of
from tempose.sfm.adjustment.readjust import readjust
from tempose.sfm.adjustment.systematic import ModelError
from tempose.sfm.options import CALIBRATION_ERROR

LADDER = ("SIMPLE_RADIAL", "RADIAL", "OPENCV")
"""Camera models, each of which has the one before it as a special case."""
CENTRE = CALIBRATION_ERROR[False]
ZOOM = 0.03
_MANY_SIGMAS = 4.0
_FEWEST_ZOOMED = 2  # photographs


@dataclass(frozen=True)
class LensTrial:
    """A camera model that was tried.

    Attributes
    ----------
    model
        COLMAP's name.
    gain
        Loss that it takes away, in units of the noise's variance and κ.
    needed
        What its parameters must gain at least.
    """

    model: str
    gain: float
    needed: float

    @property
    def is_taken(self) -> bool:
        """Whether it was taken."""
        return self.gain > self.needed


@dataclass(frozen=True, eq=False)
class Calibrated:
    """An adjusted model with the intrinsics that its photographs determine.

    Attributes
    ----------
    posterior
        What is uncertain.
    loss_px
        Scale of the Cauchy loss.
    refined
        Groups of intrinsics that were estimated.
    centre_sigma
        1σ of a free principal point over the focal length, the worst of all cameras; ``None``: it was not tried.
    trials
        Camera models beyond the first.
    """

    posterior: BundlePosterior
    loss_px: float
    refined: tuple[str, ...]
    centre_sigma: float | None
    trials: tuple[LensTrial, ...]


def calibrate(
    model: Any, refined: tuple[str, ...], error: ModelError, *, choose: bool = True, seed: int = 0
) -> Calibrated:
    """Adjust a pycolmap ``Reconstruction`` in place, and choose what of its cameras is free.

    Parameters
    ----------
    model
        With poses and points.
    refined
        Groups of intrinsics to estimate.
    error
        How well the camera model is known.
    choose
        Whether camera model and principal point are to be chosen; else ``refined`` is taken as it is.
    seed
        Of the error bars.
    """
    loss_px = readjust(model, refined)
    found = _posterior(model, refined, loss_px, error, seed)
    if not choose or "distortion" not in refined or "focal" not in refined:
        return Calibrated(found, loss_px, refined, None, ())
    centre_sigma = None
    if "centre" not in refined:
        centre_sigma = centre_width(found, error)
        if centre_sigma < CENTRE:
            refined = (*refined, "centre")
            loss_px = readjust(model, refined)
            found = _posterior(model, refined, loss_px, error, seed)
    trials: list[LensTrial] = []
    for following in further_lenses(model):
        before, loss = _values(model), _loss(found.bundle, loss_px)
        widen(model, following)
        readjust(model, refined, loss_px)
        bundle = bundle_of(model, refined)
        trial = _trial(following, found, loss - _loss(bundle, loss_px), bundle)
        trials.append(trial)
        if not trial.is_taken:
            _restore(model, before)
            continue
        loss_px = readjust(model, refined)
        found = _posterior(model, refined, loss_px, error, seed)
    return Calibrated(found, loss_px, refined, centre_sigma, tuple(trials))


def _posterior(model: Any, refined: tuple[str, ...], loss_px: float, error: ModelError, seed: int) -> BundlePosterior:
    return posterior_of(bundle_of(model, refined), PosteriorOptions(loss_px=loss_px, error=error, seed=seed))


# ---------------------------------------------------------------------- the principal point


def centre_width(found: BundlePosterior, error: ModelError) -> float:
    """1σ over the focal length that a free principal point would have, the worst of all cameras."""
    freed = tuple(
        replace(camera, free=camera.free | np.isin(np.arange(len(camera.free)), camera.lens.centre))
        for camera in found.bundle.cameras
    )
    bundle = replace(found.bundle, cameras=freed)
    wider = posterior_of(bundle, replace(found.options, error=error))
    widths = []
    for row, camera in enumerate(bundle.cameras):
        places = [k for k, place in enumerate(np.flatnonzero(camera.free)) if place in camera.lens.centre]
        variance = np.diag(wider.intrinsics_covariance(row))[places]
        widths.append(float(np.sqrt(np.max(variance))) / camera.focal_px)
    return max(widths)


# ---------------------------------------------------------------------- camera models


def further_lenses(model: Any) -> tuple[str, ...]:
    """Camera models after that of all cameras; none if they have several, or one that is not of the ladder."""
    names = {model.cameras[image.camera_id].model.name for image in model.images.values() if image.has_pose}
    if len(names) != 1 or not names <= set(LADDER):
        return ()
    return LADDER[LADDER.index(names.pop()) + 1 :]


def widen(model: Any, name: str) -> None:
    """Give all cameras a further camera model of the ladder, at the same values."""
    for camera in model.cameras.values():
        f, cx, cy, *k = camera.params
        k1, k2 = (*k, 0.0)[:2]
        values = [f, cx, cy, k1, k2] if name == "RADIAL" else [f, f, cx, cy, k1, k2, 0.0, 0.0]
        camera.model, camera.params = type(camera.model).__members__[name], values


def _trial(name: str, before: BundlePosterior, decrease: float, after: Bundle) -> LensTrial:
    """What a camera model gained, and what it had to."""
    count = sum(int(c.free.sum()) for c in after.cameras) - sum(int(c.free.sum()) for c in before.bundle.cameras)
    worth = 2.0 * len(before.bundle.point_of) / before.clustering
    return LensTrial(
        name,
        decrease / (before.sigma_px**2 * before.clustering),
        count * float(np.log(max(worth, np.e))),
    )


def _loss(bundle: Bundle, loss_px: float) -> float:
    """Cauchy's loss of all residuals, squared pixels."""
    lin = linearise(bundle)
    squared = np.sum(lin.residual[lin.kept] ** 2, axis=1)
    return float(loss_px**2 * np.sum(np.log1p(squared / loss_px**2)))


def _values(model: Any) -> Any:
    """All values of a model, to go back to."""
    return (
        {number: (camera.model, list(camera.params)) for number, camera in model.cameras.items()},
        {number: frame.rig_from_world for number, frame in model.frames.items() if frame.has_pose()},
        {number: np.array(point.xyz) for number, point in model.points3D.items()},
    )


def _restore(model: Any, values: Any) -> None:
    cameras, frames, points = values
    for number, (kind, params) in cameras.items():
        model.cameras[number].model, model.cameras[number].params = kind, params
    for number, pose in frames.items():
        model.frames[number].rig_from_world = pose
    for number, xyz in points.items():
        model.points3D[number].xyz = xyz
    model.update_point_3d_errors()


# ---------------------------------------------------------------------- zoom


def zooms(found: BundlePosterior) -> Array:
    """Relative differences (n,) of each photograph's own focal length from its camera's, 0 where they are within error bars.

    To first order from where the model stands: no adjustment is made.
    """
    bundle = found.bundle
    cameras = []
    for row in bundle.camera_of:
        camera = bundle.cameras[row]
        own = np.isin(np.arange(len(camera.free)), camera.lens.focal) & camera.free
        cameras.append(replace(camera, free=own))
    apart = replace(bundle, cameras=tuple(cameras), camera_of=np.arange(len(bundle.names)))
    lens = replace(found.options.error, calibration=0.0)  # what they have in common they were not taken to have
    own = posterior_of(apart, replace(found.options, error=lens))
    out = np.zeros(len(bundle.names))
    sigma = np.full(len(out), np.inf)
    for row, camera in enumerate(apart.cameras):
        rows = own.linear.nodes.rows(row)
        if len(rows):
            out[row] = np.mean(own.step[rows]) / camera.focal_px
            sigma[row] = np.sqrt(np.mean(np.diag(own.intrinsics_covariance(row)))) / camera.focal_px
    for row in range(len(bundle.cameras)):
        here = bundle.camera_of == row
        out[here] -= np.median(out[here])
    return np.where(np.abs(out) > _MANY_SIGMAS * sigma, out, 0.0)


def zoomed(found: BundlePosterior) -> int:
    """How many photographs have another focal length than their camera's others."""
    if not any(camera.free[list(camera.lens.focal)].any() for camera in found.bundle.cameras if camera.lens.focal):
        return 0
    if len(found.bundle.cameras) == len(found.bundle.names):
        return 0
    count = int(np.sum(np.abs(zooms(found)) > ZOOM))
    return count if count >= _FEWEST_ZOOMED else 0
