"""Lengths of the pairs' baselines from the points they share, or from true positions.

A pair alone knows its baseline's direction, not its length. Two pairs that share a camera and see the same points there
know the ratio of their lengths: the depth of a point in the shared camera is ``s_a z_a = s_b z_b``, where z is the depth
in units of the pair's own baseline. Every such ratio is one measurement ``log s_b − log s_a`` on the graph whose nodes are
the pairs; the log-scales are its robust average.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.pairs import Pairs
from tempose.sfm.views import Views

_TRUE_SIGMA = 5e-4  # of the logarithm of a baseline that was given
_L1_ROUNDS = 30
_REDESCENDING_ROUNDS = 20


@dataclass(frozen=True)
class ScaleOptions:
    """How ratios of baselines are measured and averaged.

    Parameters
    ----------
    min_parallax_deg
        Rays that meet at a smaller angle say too little about depth.
    fewest_shared
        Two pairs need this many points in common.
    floor
        Error of a log-ratio that does not average out over points (the pairs' own poses are not exact).
    """

    min_parallax_deg: float = 1.0
    fewest_shared: int = 8
    floor: float = 0.01


@dataclass(frozen=True, eq=False)
class Depths:
    """Depths of matched keypoints in the two cameras of their pair, in units of its baseline.

    Attributes
    ----------
    pair, view, keypoint
        Where each depth (k,) was measured.
    log_depth
        Logarithm (k,) of the depth along the camera's axis.
    sigma
        Its standard deviation (k,) by image noise.
    """

    pair: Index
    view: Index
    keypoint: Index
    log_depth: Array
    sigma: Array


@dataclass(frozen=True, eq=False)
class Ratios:
    """Measured ``log s[second] − log s[first]`` (k,) of pairs that share a camera and points, with σ and point counts."""

    first: Index
    second: Index
    log_ratio: Array
    sigma: Array
    shared: Index


@dataclass(frozen=True, eq=False)
class Scales:
    """Averaged scales of m pairs.

    Attributes
    ----------
    log_scale
        (m,), NaN where a pair shares too few points with the others; the median of the rest is 0, which is the gauge.
    sigma
        Standard deviation (m,) of the log-scale in that gauge.
    weight
        Weight in [0, 1] that the robust average gave each ratio.
    """

    log_scale: Array
    sigma: Array
    weight: Array

    @property
    def known(self) -> Mask:
        """Which pairs (m,) have a scale."""
        return np.isfinite(self.log_scale)


def baseline_lengths(
    views: Views,
    pairs: Pairs,
    options: ScaleOptions | None = None,
    true_poses: Poses | None = None,
    own: Array | None = None,
) -> tuple[Array, Array]:
    """Length (m,) of every pair's baseline, NaN where it is unknown, and σ of its logarithm.

    Parameters
    ----------
    views, pairs
        The pairs and what they see.
    options
        How ratios are measured and averaged.
    true_poses
        Where the cameras are, if that is to give the lengths; by default the points that pairs share do.
    own
        As in :func:`scales_from_tracks`.
    """
    if true_poses is not None:
        place = true_poses.select(views.names).position
        length = np.linalg.norm(place[pairs.views[:, 0]] - place[pairs.views[:, 1]], axis=1)
        return length, np.full(len(pairs), _TRUE_SIGMA)
    found = scales_from_tracks(views, pairs, options, own)
    return np.exp(found.log_scale), found.sigma


def scales_from_tracks(
    views: Views, pairs: Pairs, options: ScaleOptions | None = None, own: Array | None = None
) -> Scales:
    """Relative scales of all pairs from the depths of the points they share; the median baseline is 1.

    ``own`` (m,) is what :func:`own_scale_errors` says of these pairs, if it is known already.
    """
    if len(pairs) == 1:  # two views: nothing to compare with, the baseline is the unit
        return Scales(np.zeros(1), np.zeros(1), np.ones(0))
    options = options or ScaleOptions()
    own = own_scale_errors(views, pairs) if own is None else own
    parts = []
    for row, ((i, j), pose, match) in enumerate(zip(pairs.views.tolist(), pairs.poses, pairs.matches, strict=True)):
        rays = views.match_rays(i, j, match)
        sigma = pose.sigma_px / float(views.focal[i].mean())
        parts.append(depths_of_pair(row, (i, j), match, pose.rotation, pose.direction, rays, sigma, options))
    return average_scales(len(pairs), measure_ratios(join(parts), options, own), own)


def own_scale_errors(views: Views, pairs: Pairs) -> Array:
    """σ (m,) of every pair's log-scale by the error of its own pose."""
    each = zip(pairs.views.tolist(), pairs.poses, pairs.matches, strict=True)
    return np.array(
        [scale_error(p.rotation, p.direction, p.covariance, views.match_rays(i, j, m)) for (i, j), p, m in each]
    )


def pair_depths(rotation: Array, direction: Array, ray_i: Array, ray_j: Array) -> tuple[Array, Array, Array]:
    """Depths (k,) in i and in j, in units of the baseline, and the angle (k,) at which the rays meet, radians.

    The two points of closest approach of the rays ``z_i R x_i + t`` and ``z_j x_j``.
    """
    y = np.column_stack([ray_i, np.ones(len(ray_i))]) @ rotation.T
    x = np.column_stack([ray_j, np.ones(len(ray_j))])
    yy, xy, xx = np.sum(y * y, 1), np.sum(x * y, 1), np.sum(x * x, 1)
    yt, xt = y @ direction, x @ direction
    det = np.maximum(yy * xx - xy * xy, 1e-300)
    angle = np.arctan2(np.sqrt(det), xy)
    return (xy * xt - xx * yt) / det, (yy * xt - xy * yt) / det, angle


def scale_error(rotation: Array, direction: Array, covariance: Array, rays: tuple[Array, Array]) -> float:
    """σ of a pair's log-scale by the error of its own pose: how far that moves all depths together.

    Along each principal direction of the pose's covariance (6, 6), the median change of log-depth over the points.
    """
    value, vector = np.linalg.eigh(covariance)
    before = np.concatenate(pair_depths(rotation, direction, *rays)[:2])
    total = 0.0
    for variance, axis in zip(value[1:], vector.T[1:], strict=True):  # the first is the direction along itself: none
        step = np.sqrt(max(float(variance), 0.0)) * axis
        moved = direction + step[3:]
        turned = quat.to_matrix(quat.exp(step[:3])) @ rotation
        after = np.concatenate(pair_depths(turned, moved / np.linalg.norm(moved), *rays)[:2])
        both = (before > 0.0) & (after > 0.0)
        total += float(np.median(np.log(after[both] / before[both]))) ** 2 if both.any() else 1.0
    return float(np.sqrt(total))


def depths_of_pair(
    pair: int,
    views: tuple[int, int],
    match: Index,
    rotation: Array,
    direction: Array,
    rays: tuple[Array, Array],
    sigma_rad: float,
    options: ScaleOptions,
) -> Depths:
    """Usable depths of one pair's inlier matches (k, 2); ``sigma_rad`` is the noise of a ray."""
    z_i, z_j, angle = pair_depths(rotation, direction, *rays)
    good = (z_i > 0) & (z_j > 0) & (angle > np.radians(options.min_parallax_deg))
    sigma = np.sqrt(2.0) * sigma_rad / np.sin(np.minimum(angle[good], 0.5 * np.pi))
    ones = np.ones(int(good.sum()), dtype=np.int64)
    return Depths(
        np.concatenate([pair * ones, pair * ones]),
        np.concatenate([views[0] * ones, views[1] * ones]),
        np.concatenate([match[good, 0], match[good, 1]]),
        np.log(np.concatenate([z_i[good], z_j[good]])),
        np.concatenate([sigma, sigma]),
    )


def join(parts: list[Depths]) -> Depths:
    """All pairs' depths in one."""
    names = ("pair", "view", "keypoint", "log_depth", "sigma")
    return Depths(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))


def measure_ratios(depths: Depths, options: ScaleOptions, own: Array | None = None) -> Ratios:
    """Weighted median of the log-depth differences of every two pairs that share a view and enough keypoints.

    ``own`` (m,) is what :func:`scale_error` says of each pair.
    """
    order = np.lexsort((depths.pair, depths.keypoint, depths.view))
    pair, view, keypoint = depths.pair[order], depths.view[order], depths.keypoint[order]
    log_depth, variance = depths.log_depth[order], depths.sigma[order] ** 2
    found: list[tuple[Index, Index, Array, Array]] = []
    for lag in range(1, len(order)):
        same = np.flatnonzero((view[lag:] == view[:-lag]) & (keypoint[lag:] == keypoint[:-lag]))
        if not len(same):
            break
        same = same[pair[same] != pair[same + lag]]
        ratio = log_depth[same] - log_depth[same + lag]
        found.append((pair[same], pair[same + lag], ratio, variance[same] + variance[same + lag]))
    if not found:
        empty = np.empty(0, dtype=np.int64)
        return Ratios(empty, empty, np.empty(0), np.empty(0), empty)
    a, b, ratio, variance = (np.concatenate(column) for column in zip(*found, strict=True))
    found_ratios = _medians(a, b, ratio, variance, options)
    if own is None:
        return found_ratios
    pairs = own[found_ratios.first] ** 2 + own[found_ratios.second] ** 2
    return replace(found_ratios, sigma=np.sqrt(found_ratios.sigma**2 + pairs))


def _medians(a: Index, b: Index, ratio: Array, variance: Array, options: ScaleOptions) -> Ratios:
    order = np.lexsort((ratio, b, a))
    a, b, ratio, weight = a[order], b[order], ratio[order], 1.0 / variance[order]
    start = np.flatnonzero(np.concatenate([[True], (np.diff(a) != 0) | (np.diff(b) != 0)]))
    count = np.diff(np.append(start, len(a)))
    total = np.add.reduceat(weight, start)
    below = np.cumsum(weight) - np.repeat(np.cumsum(total) - total, count)  # weight up to here, within the group
    middle = start + np.add.reduceat((below < 0.5 * np.repeat(total, count)).astype(np.int64), start)
    median = ratio[middle]
    # noise of the median: the larger of what image noise says and what the scatter of the ratios says
    off = np.abs(ratio - np.repeat(median, count))
    by_size = np.lexsort((off, np.repeat(np.arange(len(start)), count)))
    scatter = 1.4826 * off[by_size][start + count // 2]
    own = np.sqrt(0.5 * np.pi / total)
    sigma = np.sqrt(np.maximum(own**2, 0.5 * np.pi * scatter**2 / count) + options.floor**2)
    keep = count >= options.fewest_shared
    return Ratios(a[start][keep], b[start][keep], median[keep], sigma[keep], count[keep])


def average_scales(n_pairs: int, ratios: Ratios, own: Array | None = None) -> Scales:
    """Robust average of log-ratios: the least sum of absolute errors (convex), then Geman–McClure from there.

    The error ``own`` (m,) of a pair's pose is in all its ratios, so that no average takes it away.
    """
    k = len(ratios.first)
    label = _components(n_pairs, ratios)
    largest = np.argmax(np.bincount(label))
    inside = label == largest
    if k == 0 or inside.sum() < 2:
        return Scales(np.full(n_pairs, np.nan), np.full(n_pairs, np.nan), np.ones(k))
    use = inside[ratios.first]
    row = np.cumsum(inside) - 1
    data = np.repeat([[-1.0, 1.0]], use.sum(), axis=0)
    column = row[np.stack([ratios.first[use], ratios.second[use]], axis=1)]
    at = np.repeat(np.arange(use.sum()), 2)
    B = sparse.csr_array((data.ravel(), (at, column.ravel())), shape=(int(use.sum()), int(inside.sum())))
    y, sigma = ratios.log_ratio[use], ratios.sigma[use]
    x, weight = _robust_average(B, y, sigma)
    factor = _factor(B, weight / sigma**2)
    variance = np.diag(factor.solve(np.eye(B.shape[1] - 1)))
    out = Scales(np.full(n_pairs, np.nan), np.full(n_pairs, np.nan), np.zeros(k))
    freedom = max(float(weight.sum()) - B.shape[1], 1.0)
    misfit = max(1.0, float(np.sum(weight * ((B @ x - y) / sigma) ** 2)) / freedom)
    out.log_scale[inside] = x - np.median(x)
    lasting = 0.0 if own is None else own[inside] ** 2
    out.sigma[inside] = np.sqrt(misfit * np.append(variance, np.min(variance)) + lasting)
    out.weight[use] = weight
    return out


def _components(n_pairs: int, ratios: Ratios) -> Index:
    ones = np.ones(len(ratios.first))
    graph = sparse.csr_array((ones, (ratios.first, ratios.second)), shape=(n_pairs, n_pairs))
    return np.asarray(csgraph.connected_components(graph, directed=False)[1], dtype=np.int64)


def _factor(B: Any, precision: Any) -> Any:
    """Factor of the normal matrix with the last pair held."""
    weighted = B * precision[:, None]
    return splu(sparse.csc_array((B.T @ weighted)[:-1, :-1]))


def _robust_average(B: sparse.csr_array, y: Array, sigma: Array) -> tuple[Array, Array]:
    def solve(weight: Array) -> Array:
        precision = weight / sigma**2
        return np.append(_factor(B, precision).solve((B.T @ (precision * y))[:-1]), 0.0)

    x = solve(np.ones(len(y)))
    for _ in range(_L1_ROUNDS):
        x = solve(1.0 / np.maximum(np.abs(B @ x - y) / sigma, 1e-3))
    weight = np.ones(len(y))
    for k in range(_REDESCENDING_ROUNDS):
        width = 3.0 * max(1.0, 4.0 * 0.7**k)
        weight = np.maximum(1.0 / (1.0 + ((B @ x - y) / (width * sigma)) ** 2) ** 2, 1e-6)
        x = solve(weight)
    return x, weight
