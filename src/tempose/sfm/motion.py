"""Pairs, scales and poses: cameras before any draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tempose._typing import Array
from tempose.errors import GraphError, OptionError
from tempose.model.poses import Poses
from tempose.sfm.features import Progress, silent
from tempose.sfm.lengths import ScaleOptions, Scales, average_scales, depths_of_pair, join, measure_ratios, scale_error
from tempose.sfm.options import SfmOptions
from tempose.sfm.pairs import PairOptions, Pairs, estimate_pairs, guided_pairs
from tempose.sfm.synchronise import Synchronised, synchronise
from tempose.sfm.views import Views

_TRUE_SCALE_SIGMA = 5e-4  # of the logarithm of a baseline that was given


@dataclass(frozen=True, eq=False)
class Motion:
    """Cameras before any draw: the last pairs, their scales, and the robust optimum of their graph.

    Attributes
    ----------
    first
        Pairs as they came from their matches alone.
    pairs
        Pairs of the last round.
    scale
        Length of each pair's baseline (m,), NaN where unknown.
    synchronised
        Poses and graph.
    notices
        One line each: what was left out and why.
    """

    first: Pairs
    pairs: Pairs
    scale: Array
    synchronised: Synchronised
    notices: tuple[str, ...]


def estimate_motion(
    views: Views, options: SfmOptions | None = None, truth: Poses | None = None, progress: Progress = silent,
    first: Pairs | None = None,
) -> Motion:  # fmt: skip
    """Pairs, scales and poses, in guided rounds; ``first`` are pairs that :func:`estimate_pairs` has made before."""
    options = options or SfmOptions()
    if options.scales == "truth" and truth is None:
        raise OptionError("scales from the truth need true positions of the cameras")
    total = len(views.pairs)
    if first is None:
        first = estimate_pairs(views, options.pairs, options.seed, lambda done: progress("pairs", done, total))
    pairs = first
    if not len(pairs):
        i, j, why = pairs.refused[0]
        raise GraphError(
            f"none of the {total} matched pairs has a usable relative pose; for instance {views.names[i]} and "
            f"{views.names[j]}: {why}"
        )
    found: Synchronised | None = None
    for k in range(options.rounds + 1):
        scale, sigma = lengths(views, pairs, options, truth)
        found = synchronise(views.names, pairs, scale, sigma, None if found is None else found.poses, options.sync)
        progress("rounds", k + 1, options.rounds + 1)
        if k < options.rounds:
            pairs = _or_before(pairs_of_posed(views, found.poses, options.pairs), pairs, found)
    assert found is not None
    return Motion(first, pairs, scale, found, _notices(views, first, pairs, found))


def lengths(
    views: Views, pairs: Pairs, options: SfmOptions, truth: Poses | None = None, own: Array | None = None
) -> tuple[Array, Array]:
    """Length of every baseline and σ of its logarithm; ``own`` as in :func:`scales_from_tracks`."""
    if options.scales == "truth":
        assert truth is not None
        place = truth.select(views.names).position
        length = np.linalg.norm(place[pairs.views[:, 0]] - place[pairs.views[:, 1]], axis=1)
        return length, np.full(len(pairs), _TRUE_SCALE_SIGMA)
    found = scales_from_tracks(views, pairs, options.scale, own)
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
        rays = views.rays(i, match[:, 0]), views.rays(j, match[:, 1])
        sigma = pose.sigma_px / float(views.focal[i].mean())
        parts.append(depths_of_pair(row, (i, j), match, pose.rotation, pose.direction, rays, sigma, options))
    return average_scales(len(pairs), measure_ratios(join(parts), options, own), own)


def own_scale_errors(views: Views, pairs: Pairs) -> Array:
    """σ (m,) of every pair's log-scale by the error of its own pose."""
    return np.array([
        scale_error(pose.rotation, pose.direction, pose.covariance, (views.rays(i, m[:, 0]), views.rays(j, m[:, 1])))
        for (i, j), pose, m in zip(pairs.views.tolist(), pairs.poses, pairs.matches, strict=True)
    ])  # fmt: skip


def _or_before(guided: Pairs, before: Pairs, found: Synchronised) -> Pairs:
    """Guided pairs, and those that fitted before but found too few matches by the predicted pose, as they were."""
    have = set(map(tuple, guided.views.tolist()))
    fitted = found.edges.row[found.keep]
    back = [k for k in fitted.tolist() if tuple(before.views[k].tolist()) not in have]
    return Pairs(
        np.concatenate([guided.views, before.views[back]]), (*guided.poses, *(before.poses[k] for k in back)),
        (*guided.matches, *(before.matches[k] for k in back)), guided.refused,
    )  # fmt: skip


def pairs_of_posed(views: Views, poses: Poses, options: PairOptions | None = None) -> Pairs:
    """Guided pairs of the views that have a pose."""
    return guided_pairs(_of_part(views, poses), on_all(poses, views.names), options)


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


def _notices(views: Views, first: Pairs, pairs: Pairs, found: Synchronised) -> tuple[str, ...]:
    out = list(views.notices)
    for i, j, why in first.refused:
        if "agree" not in why and "explains" not in why.split(",")[0]:
            out.append(f"pair {views.names[i]}, {views.names[j]}: {why}")
    lost = [name for name in views.names if name not in found.poses.index]
    if lost:
        listed = ", ".join(lost[:5]) + (", …" if len(lost) > 5 else "")
        out.append(
            f"{len(lost)} of {len(views)} views do not hang together with the rest and are left out: {listed}; "
            "photographs between them and the others would join them"
        )
    wrong = len(found.edges.row) - len(found.keep)
    if wrong:
        out.append(f"{wrong} of {len(pairs)} pairs contradict the others and are left out")
    return tuple(out)
