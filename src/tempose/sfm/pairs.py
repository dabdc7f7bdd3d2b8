"""All pairs of a set: relative poses from their matches alone, and again guided by the poses of all cameras."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tempose._support.packages import require
from tempose._support.parallel import in_order
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.io.colmap.cameras import ColmapCamera
from tempose.model.poses import Poses
from tempose.sfm.two_views import PairCause, PairOptions, PairPose, Refusal, adjust_pair, degenerate, ransac_pair
from tempose.sfm.views import Views

T = TypeVar("T")

_RANSAC_MATCHES = 1000  # a random part of a pair's matches finds its pose as well as all of them, and sooner


@dataclass(frozen=True)
class RefusedPair:
    """Rows of two views whose pair is not used, and why."""

    first: int
    second: int
    why: Refusal


@dataclass(frozen=True, eq=False)
class Pairs:
    """Relative poses of the pairs that have one, and why the others do not.

    Attributes
    ----------
    views
        Rows of the two views (m, 2).
    poses
        One per pair.
    matches
        Per pair its inlier matches (k, 2), rows of keypoints.
    refused
        The others.
    """

    views: Index
    poses: tuple[PairPose, ...]
    matches: tuple[Index, ...]
    refused: tuple[RefusedPair, ...] = ()

    def __len__(self) -> int:
        return len(self.poses)

    def some(self, rows: Index) -> Pairs:
        """The pairs of these rows."""
        return Pairs(self.views[rows], tuple(self.poses[k] for k in rows), tuple(self.matches[k] for k in rows))

    @property
    def sigma_px(self) -> float:
        """Noise of an image coordinate, pixels: the median over matches of what their pair found."""
        sigma = np.array([pose.sigma_px for pose in self.poses])
        count = np.array([len(match) for match in self.matches])
        order = np.argsort(sigma)
        return float(sigma[order][np.searchsorted(np.cumsum(count[order]), 0.5 * count.sum())])

    @property
    def rotation(self) -> Array:
        """(m, 3, 3)."""
        return np.array([p.rotation for p in self.poses]).reshape(-1, 3, 3)

    @property
    def direction(self) -> Array:
        """(m, 3)."""
        return np.array([p.direction for p in self.poses]).reshape(-1, 3)

    @property
    def covariance(self) -> Array:
        """(m, 6, 6)."""
        return np.array([p.covariance for p in self.poses]).reshape(-1, 6, 6)


def estimate_pairs(
    views: Views,
    options: PairOptions | None = None,
    seed: int = 0,
    progress: ProgressHook = silent,
    executor: Executor | None = None,
) -> Pairs:
    """Every matched pair from its matches alone: RANSAC with the essential model, then robust bundle adjustment.

    With an ``executor`` pairs are worked on there, to the same bytes.
    """
    require("pycolmap", "two-view geometry")
    options = options or PairOptions()
    tasks = (
        _MatchedPair(
            _PairRays.of(views, i, j, match),
            (views.K[i], views.K[j]),
            (views.size[i], views.size[j]),
            (views.keypoints[i][match[:, 0]], views.keypoints[j][match[:, 1]]),
            (seed, i, j),
            options,
        )
        for (i, j), match in _listed(views)
    )
    return _all_pairs(views, _from_matches, tasks, progress, executor)


def guided_pairs(
    views: Views, poses: Poses, options: PairOptions | None = None, executor: Executor | None = None
) -> Pairs:
    """Every matched pair again, its inliers chosen by the pose that ``poses`` (one per view) predict for it."""
    options = options or PairOptions()
    q, _ = poses.node_from_world
    node_from_world = quat.to_matrix(q)
    tasks = (
        _GuidedPair(
            _PairRays.of(views, i, j, match),
            node_from_world[j] @ node_from_world[i].T,
            node_from_world[j],
            poses.position[i] - poses.position[j],
            options,
        )
        for (i, j), match in _listed(views)
    )
    return _all_pairs(views, _from_guess, tasks, silent, executor)


@dataclass(frozen=True, eq=False)
class _PairRays:
    """Normalised matches (k, 2) in two views, and their focal lengths (2,), pixels."""

    rays: tuple[Array, Array]
    focal: tuple[Array, Array]

    @classmethod
    def of(cls, views: Views, i: int, j: int, match: Index) -> _PairRays:
        return cls(views.match_rays(i, j, match), (views.focal[i], views.focal[j]))


@dataclass(frozen=True, eq=False)
class _MatchedPair:
    """A pair, and what RANSAC needs: pinholes, sizes, pixels (k, 2), and whose random numbers."""

    seen: _PairRays
    K: tuple[Array, Array]
    size: tuple[Index, Index]
    pixels: tuple[Array, Array]
    seed: tuple[int, int, int]
    options: PairOptions


def _from_matches(pair: _MatchedPair) -> PairPose | Refusal:
    pycolmap = require("pycolmap", "two-view geometry")
    first, second = (ColmapCamera.pinhole(K, size).pycolmap() for K, size in zip(pair.K, pair.size, strict=True))
    rays, options, count = pair.seen.rays, pair.options, len(pair.pixels[0])
    part = np.random.default_rng(list(pair.seed)).permutation(count)[:_RANSAC_MATCHES]
    pixels = pair.pixels[0][part], pair.pixels[1][part]
    start = ransac_pair(pycolmap, (first, second), pixels, options, pair.seed[0])
    if start is None:
        return Refusal(PairCause.NO_POSE, count)
    pose = adjust_pair(*start, pair.seen.focal, rays, options)
    if isinstance(pose, Refusal):
        return pose
    agreeing = rays[0][pose.inlier], rays[1][pose.inlier]
    cause = degenerate(agreeing, float(pair.seen.focal[1].mean()), options)
    return pose if cause is None else Refusal(cause, count, int(pose.inlier.sum()))


@dataclass(frozen=True, eq=False)
class _GuidedPair:
    """A pair, its predicted rotation (3, 3), that of its second view, and how far the first is from it in the world (3,)."""

    seen: _PairRays
    rotation: Array
    second_from_world: Array
    offset: Array
    options: PairOptions


def _from_guess(pair: _GuidedPair) -> PairPose | Refusal:
    length = float(np.linalg.norm(pair.offset))
    if not length > 0.0:
        return Refusal(PairCause.ONE_PLACE, len(pair.seen.rays[0]))
    t = pair.second_from_world @ pair.offset / length
    return adjust_pair(pair.rotation, t, pair.seen.focal, pair.seen.rays, pair.options, rounds=1)


def _listed(views: Views) -> Iterator[tuple[tuple[int, int], Index]]:
    return zip(map(tuple, views.pairs.tolist()), views.matches, strict=True)


def _all_pairs(
    views: Views,
    function: Callable[[T], PairPose | Refusal],
    tasks: Iterable[T],
    progress: ProgressHook,
    executor: Executor | None,
) -> Pairs:
    kept, poses, matches, refused = [], [], [], []
    all_found = in_order(function, tasks, executor)
    for row, (((i, j), match), found) in enumerate(zip(_listed(views), all_found, strict=True), 1):
        if isinstance(found, Refusal):
            refused.append(RefusedPair(i, j, found))
        else:
            kept.append((i, j))
            poses.append(found)
            matches.append(match[found.inlier])
        progress(Progress("pairs", row, len(views.pairs)))
    return Pairs(np.array(kept, dtype=np.int64).reshape(-1, 2), tuple(poses), tuple(matches), tuple(refused))


def pairs_of_posed(
    views: Views, poses: Poses, options: PairOptions | None = None, executor: Executor | None = None
) -> Pairs:
    """Guided pairs of the views that have a pose."""
    return guided_pairs(_of_part(views, poses), on_all(poses, views.names), options, executor)


def _of_part(views: Views, poses: Poses) -> Views:
    """The same views with only the pairs whose two cameras have a pose."""
    has = np.array([name in poses.index for name in views.names])
    keep = np.flatnonzero(has[views.pairs].all(axis=1))
    return replace(views, pairs=views.pairs[keep], matches=tuple(views.matches[k] for k in keep))


def on_all(poses: Poses, names: Sequence[str]) -> Poses:
    """Poses in the order of the views; those without one stand at the origin and take part in no pair."""
    everywhere = Poses.identity(names)
    rows = [everywhere.index[name] for name in poses.ids]
    wxyz, position = everywhere.wxyz.copy(), everywhere.position.copy()
    wxyz[rows], position[rows] = poses.wxyz, poses.position
    return Poses(tuple(names), wxyz, position)


def renumbered(pairs: Pairs, views: Views, part: Views) -> Pairs:
    """Pairs whose views are rows of ``part``; those outside it are left out."""
    new = {name: k for k, name in enumerate(part.names)}
    row = np.array([new.get(name, -1) for name in views.names])[pairs.views].reshape(-1, 2)
    keep = np.flatnonzero((row >= 0).all(axis=1))
    return replace(pairs.some(keep), views=row[keep])
