"""Tracks: keypoints of several views that matches join into one point."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tempose._typing import Index
from tempose.sfm.pairs import Pairs
from tempose.sfm.points import Observations
from tempose.sfm.views import Views


def keypoint_tracks(views: Views, pairs: Pairs) -> Index:
    """Track number of every keypoint of every view, all views in a row; −1 without an inlier match.

    A track that has two keypoints of one view contradicts itself there; that is left to :func:`observations`.
    """
    offset = keypoint_offsets(views)
    total = int(offset[-1])
    if not len(pairs):
        return np.full(total, -1, dtype=np.int64)
    first = np.concatenate([offset[i] + m[:, 0] for (i, _), m in zip(pairs.views, pairs.matches, strict=True)])
    second = np.concatenate([offset[j] + m[:, 1] for (_, j), m in zip(pairs.views, pairs.matches, strict=True)])
    graph = sparse.csr_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(total, total))
    label = csgraph.connected_components(graph, directed=False)[1]
    matched = np.zeros(total, dtype=bool)
    matched[first] = matched[second] = True
    out = np.full(total, -1, dtype=np.int64)
    out[matched] = np.unique(label[matched], return_inverse=True)[1].reshape(-1)
    return out


def keypoint_offsets(views: Views) -> Index:
    """Where each view's keypoints start (n + 1,) when all views stand in a row."""
    return np.concatenate([[0], np.cumsum([len(k) for k in views.keypoints])]).astype(np.int64)


def observations(views: Views, pairs: Pairs) -> Observations:
    """Image points by track. Views in which a track has several places are left out of it, as none can be trusted."""
    return observed_keypoints(views, pairs)[0]


def observed_keypoints(views: Views, pairs: Pairs) -> tuple[Observations, Index]:
    """:func:`observations`, and which keypoint each of them is, all views in a row."""
    offset = keypoint_offsets(views)
    track = keypoint_tracks(views, pairs)
    at = np.flatnonzero(track >= 0)
    camera = np.searchsorted(offset, at, side="right") - 1
    key = track[at] * len(views) + camera
    _, inverse, count = np.unique(key, return_inverse=True, return_counts=True)
    alone = count[inverse.reshape(-1)] == 1
    at, camera = at[alone], camera[alone]
    seen = np.bincount(track[at], minlength=int(track.max(initial=-1)) + 1)
    several = seen[track[at]] >= 2
    at, camera = at[several], camera[several]
    point = np.unique(track[at], return_inverse=True)[1].reshape(-1)
    order = np.lexsort((camera, point))
    at, camera, point = at[order], camera[order], point[order]
    pixel = np.concatenate(views.keypoints)[at] if len(at) else np.empty((0, 2))
    return Observations.sorted_by_point(point, camera, pixel), at
