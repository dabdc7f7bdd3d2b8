"""Two views: the relative pose of a pair, and its precision, from the pair's matches alone.

The robust two-view bundle adjustment minimises ``Σ ½c² log(1 + d_k²/c²)`` over the rotation (3) and the direction of
the translation (2), where d_k is the least total displacement (pixels) of the two image points of match k that lets
their rays meet. That is bundle adjustment with the points eliminated: d_k and its derivative at the nearest meeting pair
are the residual and the Jacobian that a Schur complement of the points leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from tempose._typing import Array, Mask
from tempose.errors import OptionError

_MOST_STEPS = 100
_RANSAC_TRIALS = 100, 5000


@dataclass(frozen=True)
class PairOptions:
    """How a pair is estimated.

    Parameters
    ----------
    ransac_px
        Inlier threshold of RANSAC with the essential model, pixels.
    loss_px
        Scale c of the Cauchy loss, pixels.
    select_px
        Matches within this distance of a given pose take part in the adjustment, pixels. Where the noise is so large that
        this is less than four standard deviations, those within four do, up to twice the distance.
    fewest
        A pair with fewer inliers is refused.
    fewest_share
        And one where a smaller share of the matches agrees.
    planar_share, planar_px
        A pair is planar if one homography explains this share of its inliers to so many pixels.
    """

    ransac_px: float = 1.0
    loss_px: float = 0.5
    select_px: float = 2.0
    fewest: int = 30
    fewest_share: float = 0.1
    planar_share: float = 0.98
    planar_px: float = 1.0

    def __post_init__(self) -> None:
        if not min(self.ransac_px, self.loss_px, self.select_px, self.planar_px) > 0.0:
            raise OptionError("the thresholds of pairs must be positive numbers of pixels")
        if self.fewest < 8:
            raise OptionError(f"a relative pose with a covariance needs at least 8 matches, not {self.fewest}")


@dataclass(frozen=True, eq=False)
class PairPose:
    """Relative pose of a pair and its covariance.

    Attributes
    ----------
    rotation
        ``j_from_i`` rotation matrix (3, 3).
    direction
        Unit vector (3,): where i's centre lies, seen from j in j's frame (``t`` of ``x_j = R x_i + t``).
    covariance
        (6, 6) of rotation vector (radians, ``R → Exp(ω)R``, j's frame) and direction; rank 5, as the direction cannot
        move along itself.
    inlier
        Which matches (k,) took part.
    sigma_px
        Noise of one image coordinate, from the median epipolar distance.
    """

    rotation: Array
    direction: Array
    covariance: Array
    inlier: Mask
    sigma_px: float


class PairCause(StrEnum):
    """Why a pair of views has no relative pose to be used."""

    NO_POSE = "no pose"
    TOO_FEW = "too few agree"
    NO_BASELINE = "no baseline"
    ONE_PLANE = "one plane"
    ONE_PLACE = "one place"

    @property
    def is_degenerate(self) -> bool:
        """Whether the matches agree, on something that leaves the translation open."""
        return self not in (PairCause.NO_POSE, PairCause.TOO_FEW)


@dataclass(frozen=True)
class Refusal:
    """Why a pair is refused, and the numbers behind it.

    Attributes
    ----------
    cause
        What is wrong.
    n_matches, n_agree, n_needed
        Matches of the pair, those that agree on a relative pose, and how many would have to.
    """

    cause: PairCause
    n_matches: int
    n_agree: int = 0
    n_needed: int = 0


def ransac_pair(
    pycolmap: Any, cameras: tuple[Any, Any], pixels: tuple[Array, Array], options: PairOptions, seed: int
) -> tuple[Array, Array] | None:
    """Rotation and unit direction by RANSAC with the essential-matrix model, or ``None``."""
    ransac = pycolmap.RANSACOptions()
    ransac.max_error, ransac.random_seed = options.ransac_px, seed
    ransac.min_num_trials, ransac.max_num_trials = _RANSAC_TRIALS
    found = pycolmap.estimate_relative_pose(cameras[0], pixels[0], cameras[1], pixels[1], ransac)
    if found is None:
        return None
    t = np.array(found["cam2_from_cam1"].translation)
    length = float(np.linalg.norm(t))
    return (np.array(found["cam2_from_cam1"].rotation.matrix()), t / length) if length > 0.0 else None


def distances(rotation: Array, direction: Array, focal: tuple[Array, Array], rays: tuple[Array, Array]) -> Array:
    """Epipolar distance (k,) of matches, pixels; NaN where the point lies behind a camera."""
    from tempose.sfm import _epipolar as epipolar

    out = np.empty(len(rays[0]))
    epipolar.distances(rotation, direction, *focal, *rays, out)
    return out


def adjust_pair(
    rotation: Array,
    direction: Array,
    focal: tuple[Array, Array],
    rays: tuple[Array, Array],
    options: PairOptions | None = None,
    rounds: int = 2,
) -> PairPose | Refusal:
    """Robust two-view bundle adjustment from a start, or why there is none.

    Parameters
    ----------
    rotation, direction
        The start: ``j_from_i`` (3, 3) and the unit translation (3,).
    focal
        Focal lengths (2,) of i and of j, pixels.
    rays
        Normalised matches (k, 2) in i and in j.
    rounds
        How often the inliers are chosen anew.
    """
    from tempose.sfm import _epipolar as epipolar

    options = options or PairOptions()
    R, t = np.ascontiguousarray(rotation), np.ascontiguousarray(direction)
    n = len(rays[0])
    needed = max(options.fewest, math.ceil(options.fewest_share * n))
    inlier, used = np.ones(n, dtype=bool), rays
    for _ in range(rounds):
        inlier = _selected(np.abs(distances(R, t, focal, rays)), options.select_px)
        if inlier.sum() < needed:
            return Refusal(PairCause.TOO_FEW, n, int(inlier.sum()), needed)
        used = rays[0][inlier], rays[1][inlier]
        R, t = refine_pair(R, t, focal, used, options.loss_px)
    basis, k = epipolar.tangent_basis(t), int(inlier.sum())
    r, J = np.empty(k), np.empty((k, 5))
    epipolar.rows(R, t, basis, *focal, *used, r, J)
    covariance = m_estimator_covariance(r, J, options.loss_px)
    sigma = noise_within(float(np.median(np.abs(r))), max(options.select_px, float(np.abs(r).max())))
    # matches the fit bends to: 5 unknowns take of these
    heavy = max(k * float(np.mean(_cauchy(r, options.loss_px)[1])), 10.0)
    sigma *= math.sqrt(heavy / (heavy - 5.0))
    lift = np.zeros((6, 5))
    lift[:3, :3], lift[3:, 3:] = np.eye(3), basis
    return PairPose(R, t, lift @ covariance @ lift.T, inlier, sigma)


def _selected(distance: Array, select_px: float) -> Mask:
    """Matches that take part: a cut inside the noise would make estimates look surer than they are."""
    with np.errstate(invalid="ignore"):
        inlier = distance < select_px
        if not inlier.any():
            return inlier
        sigma = noise_within(float(np.median(distance[inlier])), select_px)
        return np.asarray(distance < min(max(select_px, 4.0 * sigma), 2.0 * select_px))


def noise_within(median: float, cut: float) -> float:
    """σ of Gaussian noise whose absolute values below ``cut`` have this median; at most ``cut``.

    ``median/0.6745`` if the noise is far below the cut, and more if the cut takes away part of it.
    """
    sigma = median / float(ndtri(0.75))
    for _ in range(50):
        inside = 2.0 * float(ndtr(cut / max(sigma, 1e-300))) - 1.0
        sigma = min(median / float(ndtri(0.5 + 0.25 * inside)), cut)
    return sigma


def refine_pair(
    rotation: Array,
    direction: Array,
    focal: tuple[Array, Array],
    rays: tuple[Array, Array],
    loss_px: float,
    tolerance: float = 1e-8,
) -> tuple[Array, Array]:
    """Levenberg–Marquardt on the rotation and the unit direction.

    It ends when a step can lower the cost by no more than ``tolerance · c²/2``: 1e-8 is less than a thousandth of the noise.
    """
    from tempose.sfm import _epipolar as epipolar

    start = np.ascontiguousarray(rotation, float), np.ascontiguousarray(direction, float)
    R, t = epipolar.refine(*start, *focal, *rays, loss_px, tolerance, _MOST_STEPS)
    return R, t


def m_estimator_covariance(r: Array, J: Array, scale: float) -> Array:
    """Covariance of an estimate under the Cauchy loss.

    Huber's: ``(n/(n−p)) · mean ψ² / (mean ψ')² · (JᵀJ)⁻¹`` with ``ψ = r/(1 + r²/c²)``. For Gaussian noise much smaller
    than c it is least squares' ``σ̂²(JᵀJ)⁻¹``.
    """
    psi, slope = _cauchy(r, scale)
    n, p = J.shape
    variance = n / max(n - p, 1) * np.mean(psi**2) / max(float(np.mean(slope)), 0.05) ** 2
    return np.asarray(variance * np.linalg.pinv(J.T @ J, hermitian=True))


def _cauchy(r: Array, scale: float) -> tuple[Array, Array]:
    """``ψ = r/(1 + r²/c²)``, the derivative of the Cauchy loss, and ψ'."""
    q = (r / scale) ** 2
    return r / (1.0 + q), (1.0 - q) / (1.0 + q) ** 2


# ---------------------------------------------------------------------- degenerate pairs


def degenerate(rays: tuple[Array, Array], focal_px: float, options: PairOptions) -> PairCause | None:
    """Why the translation cannot be trusted although the matches (their rays in i and in j) agree, or ``None``."""
    if _agrees(_rotation_residual(*rays) * focal_px, options):
        return PairCause.NO_BASELINE
    if _agrees(homography_residual(*rays) * focal_px, options):
        return PairCause.ONE_PLANE
    return None


def _agrees(residual_px: Array, options: PairOptions) -> bool:
    return bool(np.mean(residual_px < options.planar_px) >= options.planar_share)


def _rotation_residual(x: Array, y: Array) -> Array:
    """Angle (k,), radians, between rays y and rays x turned by the best rotation."""
    a, b = (np.column_stack([z, np.ones(len(z))]) for z in (x, y))
    a, b = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (a, b))
    u, _, vt = np.linalg.svd(b.T @ a)
    turn = u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt
    return np.asarray(np.linalg.norm(b - a @ turn.T, axis=1))


def homography_residual(x: Array, y: Array) -> Array:
    """Distance (k,) of normalised points y from x mapped by their homography (linear, reweighted for wrong matches)."""
    a, b = np.column_stack([x, np.ones(len(x))]), np.column_stack([y, np.ones(len(y))])
    zero = np.zeros_like(a)
    rows = np.stack(
        [np.hstack([a, zero, -b[:, :1] * a]), np.hstack([zero, a, -b[:, 1:2] * a])], axis=1
    )  # two equations a point
    weight, residual = np.ones(len(x)), np.zeros(len(x))
    for _ in range(5):
        weighted = (rows * weight[:, None, None]).reshape(-1, 9)
        H = np.linalg.svd(weighted.T @ weighted)[2][-1].reshape(3, 3)
        mapped = a @ H.T
        depth = np.where(np.abs(mapped[:, 2:]) > 1e-12, mapped[:, 2:], 1e-12)
        residual = np.linalg.norm(mapped[:, :2] / depth - y, axis=1)
        weight = 1.0 / np.maximum(np.abs(depth[:, 0]) * np.maximum(residual, 1e-4), 1e-9)
    return residual
