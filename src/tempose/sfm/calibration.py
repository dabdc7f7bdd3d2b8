r"""Which intrinsics photographs determine: the camera model, whether the principal point is free, and whether zooms differ.

Everything is decided by the data itself, and said:

* **Principal point**: freed if that leaves it known to better than :data:`CENTRE` of the focal length, noise and model together,
  which is what a held one is taken to be known to. Otherwise it stays in the middle.
* **Camera model**: one coefficient of radial distortion, two, then tangential ones and two focal lengths. A step is taken if its
  further parameters θ, to first order from where the last model stands, are far enough from nothing,

  .. math:: \theta^T C^{-1} \theta > q \log\frac{2k}{\kappa},

  C their covariance by noise *and camera model*, q their number, k image points, κ how many times the variance of independent noise
  neighbours that err together make: Schwarz's criterion for as many observations as are worth as much as independent ones, with
  what a lens is wrong by anyway counted. Only where each camera has taken at least :data:`FEWEST_FOR_A_LENS` photographs.
* **Zoom**: each photograph has a focal length of its own to first order. If they differ by more than :data:`ZOOM`, and by more than
  their error bars, the photographs of a camera were not taken with one focal length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tempose._typing import Array
from tempose.sfm.adjustment.lenses import lens_of
from tempose.sfm.adjustment.posterior import BundlePosterior, PosteriorOptions, posterior_of
from tempose.sfm.adjustment.problem import bundle_again, bundle_of, free_parameters
from tempose.sfm.adjustment.readjust import readjust
from tempose.sfm.adjustment.residual_fields import with_lens_error
from tempose.sfm.adjustment.systematic import LENS_ERROR, ModelError
from tempose.sfm.options import CALIBRATION_ERROR

LADDER = ("SIMPLE_RADIAL", "RADIAL", "OPENCV")
"""Camera models, each of which has the one before it as a special case."""
CENTRE = CALIBRATION_ERROR[False]
ZOOM = 0.03
# chosen on: reichstag, ten photographs by ten cameras
FEWEST_FOR_A_LENS = 3
"""Photographs that each camera must have for further distortion: that of fewer is made to fit the scene."""
_MANY_SIGMAS = 4.0
_FEWEST_ZOOMED = 2  # photographs


@dataclass(frozen=True)
class LensTrial:
    """A camera model that was tried.

    Attributes
    ----------
    model
        COLMAP's name.
    further
        Its parameters beyond those of the last model that was taken.
    gain
        Squared distance of its further parameters from 0, to first order, over their covariance.
    needed
        What that must be at least.
    """

    model: str
    further: tuple[str, ...]
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
    bundle = bundle_of(model, refined)

    def adjusted() -> tuple[float, BundlePosterior]:
        loss_px = readjust(model, refined, bundle=bundle)
        here = bundle_again(bundle, model, refined)
        return loss_px, posterior_of(here, PosteriorOptions(loss_px=loss_px, error=error, seed=seed))

    loss_px, found = adjusted()
    if not choose or "distortion" not in refined or "focal" not in refined:
        return Calibrated(with_lens_error(found), loss_px, refined, None, ())
    centre_sigma = None
    if "centre" not in refined:
        centre_sigma = centre_width(found)
        if centre_sigma < CENTRE:
            refined = (*refined, "centre")
            loss_px, found = adjusted()
    trials = lens_trials(found, refined)
    taken = [one.model for one in trials if one.is_taken]
    if taken:
        widen(model, taken[-1])
        loss_px, found = adjusted()
    return Calibrated(with_lens_error(found), loss_px, refined, centre_sigma, trials)


# ---------------------------------------------------------------------- the principal point


def centre_width(found: BundlePosterior) -> float:
    """1σ over the focal length that a free principal point would have, the worst of all cameras."""
    freed = tuple(
        replace(camera, free=camera.free | np.isin(np.arange(len(camera.free)), camera.lens.centre))
        for camera in found.bundle.cameras
    )
    bundle = replace(found.bundle, cameras=freed)
    wider = posterior_of(bundle, found.options)
    widths = []
    for row, camera in enumerate(bundle.cameras):
        places = [k for k, place in enumerate(np.flatnonzero(camera.free)) if place in camera.lens.centre]
        variance = np.diag(wider.intrinsics_covariance(row))[places]
        widths.append(float(np.sqrt(np.max(variance))) / camera.focal_px)
    return max(widths)


# ---------------------------------------------------------------------- camera models


def lens_trials(found: BundlePosterior, refined: tuple[str, ...]) -> tuple[LensTrial, ...]:
    """Further camera models, each against the last that was taken: how far from nothing their further parameters are."""
    names = {camera.model for camera in found.bundle.cameras}
    fewest = np.bincount(found.bundle.camera_of).min()
    if len(names) != 1 or not names <= set(LADDER) or fewest < FEWEST_FOR_A_LENS:
        return ()
    worth = 2.0 * len(found.bundle.point_of) / found.clustering
    last, trials = names.pop(), []
    for name in LADDER[LADDER.index(last) + 1 :]:
        cameras = tuple(
            replace(
                camera, model=name, parameters=widened(camera.parameters, name), free=free_parameters(name, refined)
            )
            for camera in found.bundle.cameras
        )
        wider = posterior_of(replace(found.bundle, cameras=cameras), found.options)
        further = further_names(last, name)
        contrast = further_parameters(name, further)
        gain = 0.0
        for row, camera in enumerate(cameras):
            A = contrast[:, camera.free]
            off = A @ wider.step[wider.linear.nodes.rows(row)]
            gain += float(off @ np.linalg.solve(A @ wider.intrinsics_covariance(row) @ A.T, off))
        trial = LensTrial(name, further, gain, len(cameras) * len(contrast) * float(np.log(max(worth, np.e))))
        trials.append(trial)
        if trial.is_taken:
            last = name
    return tuple(trials)


def further_names(before: str, name: str) -> tuple[str, ...]:
    """Parameters of a camera model of the ladder that an earlier one does not have; of two focal lengths the first."""
    return ("k2",) * (before == "SIMPLE_RADIAL") + ("p1", "p2", "fx") * (name == "OPENCV")


def further_parameters(name: str, further: tuple[str, ...]) -> Array:
    """Further parameters of a camera model as combinations (q, m) of all its parameters; 0 in the earlier model."""
    places = {parameter: k for k, parameter in enumerate(lens_of(name).names)}
    out = np.zeros((len(further), len(places)))
    for row, parameter in enumerate(further):
        out[row, places[parameter]] = 1.0
        if parameter == "fx":
            out[row, places["fy"]] = -1.0
    return out


def widened(parameters: Array, name: str) -> Array:
    """The same camera in a further camera model of the ladder."""
    if len(parameters) == len(lens_of(name).names):
        return parameters
    f, cx, cy, *k = parameters
    k1, k2 = (*k, 0.0)[:2]
    return np.array([f, cx, cy, k1, k2] if name == "RADIAL" else [f, f, cx, cy, k1, k2, 0.0, 0.0])


def widen(model: Any, name: str) -> None:
    """Give all cameras a further camera model of the ladder, at the same values."""
    for camera in model.cameras.values():
        if camera.model.name in LADDER:
            values = widened(np.array(camera.params), name)
            camera.model, camera.params = type(camera.model).__members__[name], values


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
    # what they have in common they were not taken to have; and residuals of zooms that differ are none of a lens
    lens = replace(found.options.error, lens=min(found.options.error.lens, LENS_ERROR), calibration=0.0)
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
