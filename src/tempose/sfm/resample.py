"""How much surer the pairs sound than they are together, found by making the image points again.

Pairs share image points: the noise of one keypoint moves every pair that uses it, and the lengths of baselines are averages
over all pairs. A pose graph takes its edges as independent, so draws from it would be too narrow. Image points where the
estimated cameras and points put them, with fresh noise of the same size, give cameras that are off from the estimate as
the estimate is off from the truth (parametric bootstrap); the pairs' own variances are multiplied until the graph's
posterior covers these errors as often as it should.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from tempose import streams
from tempose.geometry import align, se3
from tempose.graph import PoseGraph
from tempose.inference.summary import tangent
from tempose.optimum.covariance import Laplace
from tempose.optimum.curvature import Curvature
from tempose.optimum.newton import minimise
from tempose.poses import Poses
from tempose.posterior import Posterior
from tempose.sfm.motion import on_all
from tempose.sfm.structure import projections, reconstruct
from tempose.sfm.synchronise import Synchronised, SyncOptions
from tempose.sfm.tracks import keypoint_offsets, observed_keypoints
from tempose.sfm.twoview import Pairs, refine_pair
from tempose.sfm.views import Views

Array = NDArray[np.float64]

_GAUSSIAN_DRAWS = 200
_FITTING_ROUNDS = 6
_LEVELS = (0.5, 0.8, 0.95)
_FEWEST = 8  # matches of a pair that are made again; a pair with fewer keeps those it has
_TOLERANCE = 1e-6  # of the pairs' adjustment: a few thousandths of the noise


def image_noise(pairs: Pairs) -> float:
    """Noise of an image coordinate, pixels: the median over matches of what their pair found."""
    sigma = np.array([pose.sigma_px for pose in pairs.poses])
    count = np.array([len(match) for match in pairs.matches])
    order = np.argsort(sigma)
    return float(sigma[order][np.searchsorted(np.cumsum(count[order]), 0.5 * count.sum())])


def own_factors(
    views: Views, pairs: Pairs, found: Synchronised, scales: Callable[[Views, Pairs], Array], loss_px: float,
    sync: SyncOptions, *, replicates: int = 10, seed: int = 0, progress: Callable[[int], None] | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Factors on the own variances of rotations and of translations, so that the posterior is as wide as it should be.

    Parameters
    ----------
    scales
        From views and pairs to the lengths of their baselines (m,).
    loss_px
        Of the pairs' adjustment.
    sync
        Options that ``found`` was made with.
    replicates
        Sets of fresh noise.
    """
    sigma_px = image_noise(pairs)
    perfect, pairs = without_noise(views, pairs, found.poses)
    moved = []
    for k in range(replicates):
        rng = streams.generator(seed, "resample", k)
        noisy = replace(views, keypoints=tuple(x + sigma_px * rng.standard_normal(x.shape) for x in perfect.keypoints))
        again = _refined(noisy, pairs, loss_px)
        measured = found.edges.measured(again, scales(noisy, again))
        graph = replace(
            found.graph, j_from_i_wxyz=measured.j_from_i_wxyz[found.keep], j_from_i_t=measured.j_from_i_t[found.keep]
        )
        moved.append(_off(minimise(Curvature(Posterior(graph)), found.poses).poses, found.poses))
        if progress is not None:
            progress(k + 1)
    own = np.ones(2)
    for _ in range(_FITTING_ROUNDS):
        graph = found.graph_with((own[0], own[1]), sync, bare=True)
        own *= _excess_width(np.array(moved), _gaussian_covariance(graph, found.poses, seed))
    return float(own[0]), float(own[1])


def without_noise(views: Views, pairs: Pairs, poses: Poses) -> tuple[Views, Pairs]:
    """Keypoints where the poses and the points made with them put them, and the pairs with only such matches."""
    posed = np.array([name in poses.index for name in views.names])
    inside = np.flatnonzero(posed[pairs.views].all(axis=1))
    seen, at = observed_keypoints(views, _some(pairs, inside))
    everywhere = on_all(poses, views.names)
    structure = reconstruct(everywhere, views.K, seen)
    P = projections(views.K, everywhere.wxyz, everywhere.position)[seen.camera_of]
    image = np.einsum("kab,kb->ka", P[:, :, :3], structure.position[seen.point_of]) + P[:, :, 3]
    made = structure.used & np.isfinite(image).all(axis=1) & (image[:, 2] > 0.0)
    keypoint, offset = np.concatenate(views.keypoints), keypoint_offsets(views)
    keypoint[at[made]] = image[made, :2] / image[made, 2:]
    is_made = np.zeros(len(keypoint), dtype=bool)
    is_made[at[made]] = True
    matches = []
    for (i, j), match in zip(pairs.views.tolist(), pairs.matches, strict=True):
        both = is_made[offset[i] + match[:, 0]] & is_made[offset[j] + match[:, 1]]
        matches.append(match[both] if both.sum() >= _FEWEST else match)
    again = replace(views, keypoints=tuple(np.split(keypoint, offset[1:-1])))
    return again, replace(pairs, matches=tuple(matches))


def _some(pairs: Pairs, rows: NDArray[np.int64]) -> Pairs:
    return Pairs(pairs.views[rows], tuple(pairs.poses[k] for k in rows), tuple(pairs.matches[k] for k in rows))


def _refined(views: Views, pairs: Pairs, loss_px: float) -> Pairs:
    poses = []
    for (i, j), pose, match in zip(pairs.views.tolist(), pairs.poses, pairs.matches, strict=True):
        rays = views.rays(i, match[:, 0]), views.rays(j, match[:, 1])
        focal = views.focal[i], views.focal[j]
        R, t = refine_pair(pose.rotation, pose.direction, focal, rays, loss_px, _TOLERANCE)
        poses.append(replace(pose, rotation=R, direction=t))
    return replace(pairs, poses=tuple(poses))


def _off(poses: Poses, reference: Poses) -> Array:
    """How far poses (n, 6) are from a reference, in the gauge of the error bars."""
    return tangent(*aligned(poses.wxyz, poses.position, reference), reference)


def aligned(wxyz: Array, position: Array, reference: Poses) -> tuple[Array, Array]:
    """Poses in the gauge of the error bars: rotation from the orientations, scale and translation from the positions."""
    fit = align((wxyz, position), (reference.wxyz, reference.position), "sim3")
    return fit.apply(wxyz, position)


def _excess_width(off: Array, covariance: Array) -> Array:
    """Factors (2,) on the variances of rotations and of positions that make quantiles of ``off`` (r, n, 6) those of χ²."""
    factors = []
    for c in (slice(0, 3), slice(3, 6)):
        block = covariance[:, c, c]
        distance = np.einsum("rna,nab,rnb->rn", off[..., c], np.linalg.inv(block), off[..., c])
        factors.append(np.mean(np.quantile(distance, _LEVELS) / chi2.ppf(_LEVELS, 3)))
    return np.array(factors)


def _gaussian_covariance(graph: PoseGraph, poses: Poses, seed: int) -> Array:
    """Covariances (n, 6, 6) of the Gaussian approximation of a graph's posterior, in the gauge of the error bars."""
    wxyz, t = _exact_measurements(graph, poses)  # the Hessian of a perfect fit is positive definite
    laplace = Laplace(Curvature(Posterior(replace(graph, j_from_i_wxyz=wxyz, j_from_i_t=t))), poses)
    rng = streams.generator(seed, "resample", 1 << 20)  # the same draws for every graph
    off = np.array([_off(laplace.spread(rng), poses) for _ in range(_GAUSSIAN_DRAWS)])
    return np.asarray(np.einsum("dna,dnb->nab", off, off) / _GAUSSIAN_DRAWS)


def _exact_measurements(graph: PoseGraph, poses: Poses) -> tuple[Array, Array]:
    """Rotations and translations that the poses explain perfectly."""
    i, j = graph.edge_i, graph.edge_j
    q, t = poses.node_from_world
    wxyz, translation = se3.compose((q[j], t[j]), se3.inverse((q[i], t[i])))
    return wxyz, np.where(graph.has_translation[:, None], translation, np.nan)
