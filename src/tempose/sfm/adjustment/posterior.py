r"""The posterior of an adjusted bundle: what image noise leaves open, what the camera model does, and draws.

**Noise.** With the loss ρ of the adjustment (least squares, or Cauchy), weights :math:`w = \rho'`, the estimate scatters with
:math:`S^{-1} M S^{-1}`; S has the curvature of the loss, which over directions of a residual averages to :math:`w^2` for
Cauchy's. M is estimated twice. *Plain*: residuals independent and alike, :math:`M = s^2 S`. *Cluster-robust*:
:math:`M = \sum_c g_c g_c^T` over neighbourhoods c of points, whatever their residuals have in common. Few neighbourhoods know well
how uncertain each camera is, but not all directions, so the two are mixed,

.. math:: \Sigma = \frac{p\, \kappa s^2 S^{-1} + C \sum_c x_c x_c^T}{p + C}, \quad x_c = S^{-1} g_c,

where κ makes the plain part as wide as the other, C counts the neighbourhoods, and p = 10.

**Model**: the columns of :mod:`.systematic`. The two are reported apart; the total is their sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tempose._support import streams
from tempose._typing import Array, Index, Mask
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.sfm.adjustment.covariance import Covariance, Inverse
from tempose.sfm.adjustment.gauges import TwoFrames, image_from_frame
from tempose.sfm.adjustment.linear import BLOCK, Linear, linearise
from tempose.sfm.adjustment.problem import Bundle
from tempose.sfm.adjustment.reduced import reduce
from tempose.sfm.adjustment.systematic import ModelError, displacements
from tempose.sfm.uncertainty import NEIGHBOURHOODS, neighbourhoods

PLAIN_WORTH = 10.0
"""How many neighbourhoods the plain covariance is worth."""
_POINTS_PER_CELL = 8  # fewer and larger neighbourhoods in a small model
_COLUMNS_AT_ONCE = 16
WIDE = {"focal": 1.0, "centre": 1.0, "distortion": 10.0}
"""1σ of the weak prior on intrinsics: of a focal length in itself, of the principal point in image sizes, of coefficients."""


@dataclass(frozen=True)
class PosteriorOptions:
    """How error bars are made.

    Parameters
    ----------
    loss_px
        Scale of the Cauchy loss that the bundle was adjusted with, pixels; ``None``: least squares.
    sigma_px
        Image noise per axis; ``None`` estimates it from the residuals, and what neighbours share with it.
    error
        How well the camera model is known.
    gauge
        What is held still; ``None`` aligns by all photographs.
    prior
        Whether free intrinsics have a prior, so weak that it matters only for what the photographs do not determine.
    seed
        Same seed, same draws.
    """

    loss_px: float | None = None
    sigma_px: float | None = None
    error: ModelError = field(default_factory=ModelError)
    gauge: TwoFrames | None = None
    prior: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value in (("loss_px", self.loss_px), ("sigma_px", self.sigma_px)):
            if value is not None and not value > 0.0:
                raise OptionError(f"{name} must be positive, not {value}")


class BundleDraw(NamedTuple):
    """One draw: ``world_from_camera`` of the photographs, parameters of each camera, points (p, 3)."""

    wxyz: Array
    position: Array
    parameters: tuple[Array, ...]
    points: Array


@dataclass(frozen=True, eq=False)
class BundlePosterior:
    """Cameras, calibration and points with what is uncertain about them.

    Attributes
    ----------
    linear
        The bundle, its residuals and derivatives.
    sigma_px
        Image noise per axis, as it acts on the estimate.
    clustering
        κ: how many times the variance of independent noise neighbours that err together make; 1 if noise was given.
    n_cells
        Neighbourhoods of points behind it.
    noise, model
        Covariances of frames and cameras by image noise, and by errors of the camera model.
    step, removed, decrease
        Displacements (6 n,) to where the cost would be least, to first order, and the share of the cost that they and the points
        would remove; how much that is, squared pixels.
    options
        How it was made.
    """

    linear: Linear
    sigma_px: float
    clustering: float
    n_cells: int
    noise: Covariance
    model: Covariance
    step: Array
    removed: float
    decrease: float
    options: PosteriorOptions

    @property
    def bundle(self) -> Bundle:
        """What was adjusted."""
        return self.linear.bundle

    @cached_property
    def camera_covariance(self) -> Array:
        """Of the poses (n, 6, 6): (rotation, position), radians and the model's unit, world frame, noise and model."""
        return self.noise.of_images + self.model.of_images

    def pair_covariance(self, i: Index, j: Index) -> Array:
        """Between the poses of photographs i and j (m,), (m, 6, 6)."""
        return self.noise.image_blocks(i, j) + self.model.image_blocks(i, j)

    def intrinsics_covariance(self, row: int) -> Array:
        """Of the free parameters of a camera (m, m), noise and model."""
        return self.noise.of_camera(row) + self.model.of_camera(row)

    @cached_property
    def point_own(self) -> Array:
        """Covariances (p, 3, 3) of points by their own image noise; infinite where a depth is unknown."""
        reduced = self.noise.inverse.reduced
        own = self.sigma_px**2 * reduced.point_inverse
        own[reduced.unknown] = np.inf
        return own

    @property
    def point_inherited(self) -> Array:
        """Covariances (p, 3, 3) that points have from the noise of cameras and calibration."""
        return self.noise.of_points

    @property
    def point_model(self) -> Array:
        """Covariances (p, 3, 3) that points have from errors of the camera model."""
        return self.model.of_points

    @property
    def known(self) -> Mask:
        """Points (p,) with a finite covariance."""
        return ~self.noise.inverse.reduced.unknown

    @cached_property
    def step_sigmas(self) -> Array:
        """How far (n,) each photograph is from where the cost is least, in units of the noise that would be left there."""
        bundle = self.bundle
        x = self.step.reshape(-1, BLOCK)[bundle.frame_of]
        x = np.einsum("nab,nb->na", image_from_frame(bundle), x)
        inverse = np.linalg.pinv(self.noise.of_images, hermitian=True)
        squared = np.maximum(np.einsum("na,nab,nb->n", x, inverse, x), 0.0) / BLOCK
        return np.asarray(np.sqrt(squared / max(1.0 - self.removed, 1e-6)))

    def draws(self, count: int) -> Iterator[BundleDraw]:
        """Draws of everything together, noise and model."""
        reduced = self.noise.inverse.reduced
        value, vector = np.linalg.eigh(reduced.point_inverse)
        root = self.sigma_px * vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]
        for k in range(count):
            rng = streams.generator(self.options.seed, "resample", (1 << 23) + k)
            x = np.sqrt(self.noise.scale) * self.noise.inverse.draw(rng, 1)
            x = x + self.noise.columns @ rng.standard_normal((self.noise.columns.shape[1], 1))
            weight = rng.standard_normal((self.model.columns.shape[1], 1))
            x = x + self.model.columns @ weight
            points = reduced.follow(x)[..., 0] + np.einsum("pab,pb->pa", root, rng.standard_normal((len(root), 3)))
            if self.model.point_columns is not None:
                points += (self.model.point_columns @ weight)[..., 0]
            yield self._at(x[:, 0], points)

    def _at(self, x: Array, points: Array) -> BundleDraw:
        bundle, nodes = self.bundle, self.linear.nodes
        step = np.einsum("nab,nb->na", image_from_frame(bundle), x.reshape(-1, BLOCK)[bundle.frame_of])
        parameters = []
        for row, camera in enumerate(bundle.cameras):
            changed = camera.parameters.copy()
            changed[nodes.free[row]] += x[nodes.rows(row)]
            parameters.append(changed)
        return BundleDraw(
            quat.multiply(quat.exp(step[:, :3]), bundle.poses.wxyz),
            bundle.poses.position + step[:, 3:],
            tuple(parameters),
            bundle.position + points,
        )


def posterior_of(bundle: Bundle, options: PosteriorOptions | None = None) -> BundlePosterior:
    """Error bars of a bundle where it stands; nothing is moved."""
    options = options or PosteriorOptions()
    lin = linearise(bundle)
    curvature, pull, scatter, fitted = pulls(lin, options.loss_px)
    sigma_px = options.sigma_px or float(np.sqrt(scatter / (2.0 * curvature.sum())))
    reduced = reduce(lin, curvature, sigma_px**2 * _prior(lin) if options.prior else None)
    inverse = Inverse.of(reduced, options.gauge)
    gradient = reduced.gradient(pull, np.zeros(len(pull), dtype=np.int64), 1)
    step = -inverse.solve(gradient)[:, 0]
    decrease = -float(gradient[:, 0] @ step) + reduced.own_decrease(pull)
    nothing = np.zeros((len(step), 0))
    noise, kappa, cells = Covariance(inverse, sigma_px**2, nothing), 1.0, 0
    if options.sigma_px is None:
        cell, cells = cells_of(bundle, reduced.unknown)
    if cells >= 2:
        rest = pull * (cell[bundle.point_of] >= 0)[:, None]
        group = np.maximum(cell[bundle.point_of], 0)
        columns = inverse.solve(reduced.gradient(rest, group, cells)) * np.sqrt(
            scatter / fitted * cells / (cells - 1.0)
        )
        together = Covariance(inverse, 0.0, columns)
        kappa = _ratio(together.of_images, noise.of_images)
        share = PLAIN_WORTH / (PLAIN_WORTH + cells)
        noise = Covariance(inverse, share * kappa * sigma_px**2, np.sqrt(1.0 - share) * columns)
    removed, model = decrease / float(np.sum(curvature[:, None] * pull**2)), _model(lin, inverse, options)
    return BundlePosterior(lin, sigma_px, kappa, cells, noise, model, step, removed, decrease, options)


class Pulls(NamedTuple):
    """How image points pull at the estimate.

    Attributes
    ----------
    curvature
        Of the loss at each image point (k,); 0 where it takes no part.
    pull
        (k, 2), pixels; times the curvature: the derivative of the loss.
    scatter, fitted
        Sums of squared derivatives, with residuals as large as the noise, and as they are after the fit.
    """

    curvature: Array
    pull: Array
    scatter: float
    fitted: float


def pulls(lin: Linear, loss_px: float | None) -> Pulls:
    """Curvature and derivative of the loss.

    Residuals of a fit are smaller than the noise: curvature and scatter are those of residuals as large as the noise.
    """
    noisy = lin.residual * np.sqrt(2.0 * lin.kept.sum() / _freedom(lin))
    weight, weight_noisy = _weights(lin.residual, loss_px), _weights(noisy, loss_px)
    scatter, fitted = (
        float(np.sum((w**2 * np.sum(r**2, axis=1))[lin.kept]))
        for w, r in ((weight_noisy, noisy), (weight, lin.residual))
    )
    pull = lin.residual * (weight / weight_noisy**2)[:, None]
    return Pulls(np.where(lin.kept, weight_noisy**2, 0.0), pull, scatter, fitted)


def cells_of(bundle: Bundle, unknown: Mask) -> tuple[Index, int]:
    """The neighbourhood of each point (p,), −1 of those that are unknown (p,), and how many there are."""
    count = _n_cells(int(np.sum(~unknown)))
    if count < 2:
        return np.full(len(unknown), -1), count
    return neighbourhoods(np.where(unknown[:, None], np.nan, bundle.position), count), count


def with_error(found: BundlePosterior, error: ModelError) -> BundlePosterior:
    """The same with another error of the camera model."""
    options = replace(found.options, error=error)
    return replace(found, model=_model(found.linear, found.noise.inverse, options), options=options)


def robust_sigma_px(lin: Linear) -> float:
    """Image noise per axis by the median distance of residuals, which wrong matches hardly move."""
    return float(np.median(np.linalg.norm(lin.residual[lin.kept], axis=1)) / np.sqrt(2.0 * np.log(2.0)))


def _weights(residual: Array, loss_px: float | None) -> Array:
    if loss_px is None:
        return np.ones(len(residual))
    return np.asarray(1.0 / (1.0 + np.sum(residual**2, axis=1) / loss_px**2))


def _freedom(lin: Linear) -> float:
    """Numbers observed beyond unknowns."""
    bundle, nodes = lin.bundle, lin.nodes
    unknowns = 3 * len(np.unique(bundle.point_of[lin.kept])) + BLOCK * nodes.count - len(nodes.unused)
    freedom = 2 * int(lin.kept.sum()) - unknowns + (6 if bundle.metric else 7)
    if freedom <= 0:
        raise NotApplicable(
            f"{int(lin.kept.sum())} observations of {len(bundle.position)} points do not determine {len(bundle.names)} photographs"
            ": there is nothing to estimate the image noise from; more points in three and more photographs are needed"
        )
    return float(freedom)


def _prior(lin: Linear) -> Array:
    """Information (6 n,) of the weak prior on free intrinsics, per squared unit of each."""
    out = np.zeros(BLOCK * lin.nodes.count)
    for row, camera in enumerate(lin.bundle.cameras):
        width = np.full(len(camera.parameters), WIDE["distortion"])
        width[list(camera.lens.focal)] = WIDE["focal"] * camera.focal_px
        width[list(camera.lens.centre)] = WIDE["centre"] * max(camera.size)
        out[lin.nodes.rows(row)] = 1.0 / width[lin.nodes.free[row]] ** 2
    return out


def _n_cells(n_points: int) -> int:
    """Neighbourhoods, a power of 2."""
    most = max(n_points // _POINTS_PER_CELL, 1)
    return min(NEIGHBOURHOODS, 1 << (most.bit_length() - 1))


def _ratio(C: Array, plain: Array) -> float:
    """How many times as large covariances (n, 6, 6) are, by the mean over rotations and positions of all photographs."""
    parts = (slice(0, 3), slice(3, 6))
    return float(np.mean([np.einsum("naa->", C[:, c, c]) / np.einsum("naa->", plain[:, c, c]) for c in parts]))


def _model(lin: Linear, inverse: Inverse, options: PosteriorOptions) -> Covariance:
    """What errors of the camera model move."""
    moved = displacements(lin.bundle, options.error, options.seed)
    columns, points = [np.zeros((BLOCK * lin.nodes.count, 0))], [np.zeros((len(lin.bundle.position), 3, 0))]
    for start in range(0, moved.shape[2], _COLUMNS_AT_ONCE):
        sides, own = inverse.reduced.pull(moved[:, :, start : start + _COLUMNS_AT_ONCE])
        columns.append(inverse.solve(sides))
        points.append(own)
    return Covariance(inverse, 0.0, np.concatenate(columns, axis=1), np.concatenate(points, axis=2))
