"""How far the cameras may be off, found by estimating them again from one half of the points and from the other.

Pairs share image points, and the lengths of baselines are averages over all pairs; a pose graph takes its edges as
independent. Some matches are wrong, and neighbours have errors in common; a pair's covariance takes matches as
independent and Gaussian. Both make the posterior of the graph too narrow. Two halves of the points, each
put through the same steps, see all of it: an estimate from a half has twice the variance, so that half the difference of
two scatters as the estimate does about the truth. The halves are made of whole neighbourhoods of points, which keeps
errors that neighbours share together. What all points share, an error of the calibration above all, no halves show; it is
given to one half and taken from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from tempose._support import streams
from tempose._support.parallel import in_order
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import Array, Index, Mask
from tempose.analysis.regions import LEVELS, squared_radius
from tempose.analysis.summary import tangent
from tempose.geometry import align, se3
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.sfm.lengths import baseline_lengths, own_scale_errors
from tempose.sfm.options import SfmOptions
from tempose.sfm.pairs import Pairs, on_all
from tempose.sfm.points import CameraDraw, reconstruct
from tempose.sfm.synchronise import Synchronised
from tempose.sfm.tracks import keypoint_offsets, observed_keypoints
from tempose.sfm.two_views import refine_pair
from tempose.sfm.views import Views, recalibrated

# chosen on: EPFL photographs, all six scenes
NEIGHBOURHOODS = 64
"""Cells of about equally many points that the scene is cut into; a half has half of them, drawn at random."""
_GAUSSIAN_DRAWS = 200
_HALVINGS_A_TASK = 5  # all views and matches travel with each task
_FEWEST = 12  # matches of a pair in each half; a pair with fewer is not split
_TOLERANCE = 1e-6  # of the pairs' adjustment: a few thousandths of the noise
_PRIOR_WORTH = 10.0  # how many observations the posterior's covariance is worth
# chosen on: COLMAP's synthetic data sets, seeds from 0, 100, 300 and 400
_SPENT = 2.0  # see mixed()


# ---------------------------------------------------------------------- halves


@dataclass(frozen=True, eq=False)
class Halves:
    """What the cameras from one half of the points differ by from those of the other.

    Attributes
    ----------
    off
        Half the differences (r, n, 6), in the gauge of the error bars: they scatter as the estimate does about the truth.
    calibration
        The errors of the calibration (r, n, 4) that are in them, as :func:`~tempose.sfm.views.recalibrated` has them.
    """

    off: Array
    calibration: Array

    def __len__(self) -> int:
        return len(self.off)


def half_differences(
    views: Views,
    pairs: Pairs,
    found: Synchronised,
    options: SfmOptions,
    true_poses: Poses | None = None,
    progress: ProgressHook = silent,
    executor: Executor | None = None,
) -> Halves:
    """Cameras again from halves of the points, as often as ``options.replicates`` says.

    Parameters
    ----------
    views, pairs, found
        The cameras, and what they were made of.
    options
        Those they were made with. The errors of the calibration that they assume are shared by views with the same
        calibration.
    true_poses
        As in :func:`~tempose.sfm.lengths.baseline_lengths`.
    progress
        Told of the halvings.
    executor
        Where they are made instead, to the same bytes: any pool of the standard library, or the workers of a cluster.
    """
    error = options.error_of(views.calibrated)
    # hardly other for a half, and long to find
    own = own_scale_errors(views, pairs) if true_poses is None else None
    split = _Split.of(views, pairs, found.poses)
    made = _Halving(views, pairs, found, options, true_poses, error, own, split)
    off, calibration = [], []
    with ThreadPoolExecutor(2) as pool:
        if executor is None:
            differences: Iterator[tuple[Array, Array]] = (made.of(k, pool) for k in range(options.replicates))
        else:
            first = range(0, options.replicates, _HALVINGS_A_TASK)
            tasks = [(made, range(k, min(k + _HALVINGS_A_TASK, options.replicates))) for k in first]
            differences = chain.from_iterable(in_order(_halvings, tasks, executor))
        for k, (half, change) in enumerate(differences):
            off.append(half)
            calibration.append(change)
            progress(Progress("noise", k + 1, options.replicates))
    return Halves(np.array(off), np.array(calibration))


@dataclass(frozen=True, eq=False)
class _Halving:
    """What halvings are made of; see :func:`half_differences`."""

    views: Views
    pairs: Pairs
    found: Synchronised
    options: SfmOptions
    true_poses: Poses | None
    error: float
    own: Array | None
    split: _Split

    def of(self, k: int, pool: Executor | None = None) -> tuple[Array, Array]:
        """Half the difference (n, 6) of halving ``k``, and the errors of the calibration (n, 4) in it."""
        found, rng = self.found, streams.generator(self.options.seed, "resample", k)
        chosen = rng.permutation(NEIGHBOURHOODS) < NEIGHBOURHOODS // 2
        halves = self.split.part(chosen), self.split.part(~chosen)
        whole = np.array([min(map(len, both)) < _FEWEST for both in zip(*halves, strict=True)])
        noise = _Jitter.of(found, whole[found.edges.row], rng)
        change = _calibration_errors(self.views.K, self.error, rng)
        each = map if pool is None else pool.map
        first, second = each(self.measure, halves, (whole, whole), (change, -change))
        graphs = _with_measurements(found, *first, noise, 1.0), _with_measurements(found, *second, noise, -1.0)
        a, b = (_off(minimise(Curvature(Posterior(g)), found.poses).poses, found.poses) for g in graphs)
        rows = [self.views.names.index(str(name)) for name in found.poses.ids]
        return 0.5 * (a - b), change[rows]

    def measure(self, matches: list[Index], whole: Mask, change: Array) -> tuple[Pairs, Array]:
        """Pairs, and the lengths of their baselines, from some of the matches."""
        pairs, options = self.pairs, self.options
        kept = tuple(m if keep else part for m, part, keep in zip(pairs.matches, matches, whole, strict=True))
        seen = _recalibrated(self.views, change)
        again = _refined(seen, replace(pairs, matches=kept), options.pairs.loss_px)
        return again, baseline_lengths(seen, again, options.scale, self.true_poses, self.own)[0]


def _halvings(task: tuple[_Halving, range]) -> list[tuple[Array, Array]]:
    """Some halvings, one after the other."""
    made, numbers = task
    return [made.of(k) for k in numbers]


def _calibration_errors(K: Array, sigma: float, rng: np.random.Generator) -> Array:
    """Random changes (n, 4) of the calibration, the same for views with the same ``K``."""
    which = np.unique(K.reshape(len(K), 9), axis=0, return_inverse=True)[1].reshape(-1)
    return np.asarray(sigma * rng.standard_normal((int(which.max()) + 1, 4))[which])


def _recalibrated(views: Views, change: Array) -> Views:
    if not change.any():
        return views
    count = [len(x) for x in views.keypoints]
    K, pixel = recalibrated(views.K, np.repeat(np.arange(len(views)), count), np.concatenate(views.keypoints), change)
    return replace(views, K=K, keypoints=tuple(np.split(pixel, np.cumsum(count)[:-1])))


@dataclass(frozen=True, eq=False)
class _Split:
    """Matches of all pairs, and the neighbourhood of each; −1 where it belongs to no point."""

    matches: tuple[Index, ...]
    cell: tuple[Index, ...]

    @classmethod
    def of(cls, views: Views, pairs: Pairs, poses: Poses) -> _Split:
        posed = np.array([name in poses.index for name in views.names])
        inside = np.flatnonzero(posed[pairs.views].all(axis=1))
        seen, at = observed_keypoints(views, pairs.some(inside))
        position = reconstruct(on_all(poses, views.names), views.K, seen).position
        offset = keypoint_offsets(views)
        cell_of = np.full(int(offset[-1]), -1)
        cell_of[at] = neighbourhoods(position, NEIGHBOURHOODS)[seen.point_of]
        first = offset[pairs.views[:, 0]]
        return cls(pairs.matches, tuple(cell_of[o + m[:, 0]] for o, m in zip(first, pairs.matches, strict=True)))

    def part(self, chosen: Mask) -> list[Index]:
        """The matches in some neighbourhoods."""
        chosen = np.append(chosen, False)  # cell −1
        return [m[chosen[cell]] for m, cell in zip(self.matches, self.cell, strict=True)]


def neighbourhoods(points: Array, count: int) -> Index:
    """Cell (p,) of every point, ``count`` (a power of 2) of about equally many; −1 where a point is not finite.

    Cells are halved at the median across their longest side.
    """
    cell = np.full(len(points), -1)
    parts = [np.flatnonzero(np.isfinite(points).all(axis=1))]
    while len(parts) < count:
        parts = [half for rows in parts for half in _halved(points, rows)]
    for k, rows in enumerate(parts):
        cell[rows] = k
    return cell


def _halved(points: Array, rows: Index) -> tuple[Index, Index]:
    if len(rows) < 2:
        return rows, rows[:0]
    low, high = np.quantile(points[rows], [0.1, 0.9], axis=0)
    order = np.argsort(points[rows, np.argmax(high - low)], kind="stable")
    return rows[order[: len(rows) // 2]], rows[order[len(rows) // 2 :]]


def _refined(views: Views, pairs: Pairs, loss_px: float) -> Pairs:
    """Pairs adjusted to their matches."""
    poses = []
    for (i, j), pose, match in zip(pairs.views.tolist(), pairs.poses, pairs.matches, strict=True):
        rays = views.match_rays(i, j, match)
        focal = views.focal[i], views.focal[j]
        R, t = refine_pair(pose.rotation, pose.direction, focal, rays, loss_px, _TOLERANCE)
        poses.append(replace(pose, rotation=R, direction=t))
    return replace(pairs, poses=tuple(poses))


@dataclass(frozen=True, eq=False)
class _Jitter:
    """Noise of edges that were not split: rotations and directions (m, 3); for lengths (m,) standard normal numbers."""

    rotation: Array
    direction: Array
    length: Array

    @classmethod
    def of(cls, found: Synchronised, whole: Mask, rng: np.random.Generator) -> _Jitter:
        """By the own covariance of the edges that are ``whole``; none of the others."""
        value, vector = np.linalg.eigh(found.edges.own)
        own = np.einsum("mab,mb->ma", vector, np.sqrt(np.maximum(value, 0.0)) * rng.standard_normal((len(whole), 6)))
        own[~whole] = 0.0
        return cls(own[:, :3], own[:, 3:], rng.standard_normal(len(whole)))


def _with_measurements(found: Synchronised, pairs: Pairs, scale: Array, noise: _Jitter, sign: float) -> PoseGraph:
    """The graph with measurements from other matches; a length that they do not give is as it was, with noise."""
    edges, here = found.edges, scale[found.edges.row]
    known = np.isfinite(here) & np.isfinite(edges.scale)
    unit = np.exp(np.median(np.log(here[known] / edges.scale[known]))) if known.any() else 1.0
    before = unit * edges.scale * np.exp(sign * noise.length * edges.sigma_log_scale)
    length = np.where(known, here, before)[:, None]
    wxyz = quat.multiply(quat.exp(sign * noise.rotation), quat.from_matrix(pairs.rotation[edges.row]))
    t = length * (pairs.direction[edges.row] + sign * noise.direction)
    return replace(found.graph, j_from_i_wxyz=wxyz[found.keep], j_from_i_t=t[found.keep])


# ---------------------------------------------------------------------- width of the posterior


def widening(found: Synchronised, halves: Halves, seed: int = 0) -> float:
    """Factor on all variances of the graph for which its posterior is as wide as the halves say."""
    return float(np.mean(_excess_width(halves.off, _gaussian_covariance(found.graph, found.poses, seed))))


def mixed(draws: Iterable[tuple[Array, Array]], halves: Halves, poses: Poses, seed: int = 0) -> list[CameraDraw]:
    """Draws of the graph's posterior, mixed with random combinations of what halves differ by.

    Their covariance, over all cameras together, is ``(p·C + r·S)/(p + r − 2)`` where C is that of the posterior, its
    orientations and its positions made as wide as S, which is that of the halvings; p and r are how many independent
    observations C and S are worth. Few halvings know how uncertain each camera is and which move together, but not all
    directions. The 2 widens regions because a covariance from few observations is itself uncertain (an inverse Wishart
    distribution would have 4), less what halves differ by too much, as each has fewer points; it was set on synthetic data.
    """
    own = np.array([tangent(*aligned(wxyz, position, poses), poses) for wxyz, position in draws])
    if len(own) < 2:
        return []
    own *= np.sqrt(np.repeat(_excess_width(halves.off, np.einsum("dna,dnb->nab", own, own) / len(own)), 3))
    worth = 1.0 / (1.0 / len(halves) + 1.0 / NEIGHBOURHOODS)
    freedom = _PRIOR_WORTH + worth - _SPENT
    weight = streams.generator(seed, "resample", 1 << 21).standard_normal((len(own), len(halves)))
    weight *= np.sqrt(worth / (freedom * len(halves)))
    moved = np.sqrt(_PRIOR_WORTH / freedom) * own + np.tensordot(weight, halves.off, axes=1)
    calibration = np.tensordot(weight, halves.calibration, axes=1)
    return [CameraDraw(*_moved(poses, x), change) for x, change in zip(moved, calibration, strict=True)]


def camera_covariance(draws: Sequence[CameraDraw], reference: Poses) -> Array:
    """Covariances (n, 6, 6) of cameras over draws, tangent order (rotation, position); NaN without draws."""
    if len(draws) < 2:
        return np.full((len(reference), 6, 6), np.nan)
    off = np.array([tangent(draw.world_from_node_wxyz, draw.position, reference) for draw in draws])
    off -= off.mean(axis=0)
    return np.asarray(np.einsum("dna,dnb->nab", off, off) / (len(draws) - 1))


def _moved(poses: Poses, x: Array) -> tuple[Array, Array]:
    """Poses at the tangent coordinates (n, 6), as :func:`~tempose.analysis.summary.tangent` has them."""
    return quat.multiply(quat.exp(x[:, :3]), poses.wxyz), poses.position + x[:, 3:]


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
        factors.append(np.mean(np.quantile(distance, LEVELS) / squared_radius(LEVELS, 3)))
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
