"""Cameras before any draw: pairs, lengths and synchronisation, in guided rounds."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import Array
from tempose.errors import GraphError
from tempose.model.poses import Poses
from tempose.sfm import words
from tempose.sfm.lengths import baseline_lengths
from tempose.sfm.options import SfmOptions
from tempose.sfm.pairs import Pairs, estimate_pairs, pairs_of_posed
from tempose.sfm.synchronise import Synchronised, synchronise
from tempose.sfm.views import Views


@dataclass(frozen=True, eq=False)
class Motion:
    """Cameras before any draw: the last pairs, their lengths, and the robust optimum of their graph.

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
    """

    first: Pairs
    pairs: Pairs
    scale: Array
    synchronised: Synchronised


def estimate_motion(
    views: Views,
    options: SfmOptions | None = None,
    truth: Poses | None = None,
    progress: ProgressHook = silent,
    first: Pairs | None = None,
    executor: Executor | None = None,
) -> Motion:
    """Pairs, lengths and poses, in guided rounds; ``first`` are pairs that :func:`estimate_pairs` has made before.

    With an ``executor`` pairs are worked on there, to the same bytes.
    """
    options = options or SfmOptions()
    true_poses = options.true_poses(truth)
    if first is None:
        first = estimate_pairs(views, options.pairs, options.seed, progress, executor)
    pairs = first
    if not len(pairs):
        raise GraphError(words.no_usable_pair(views, first))
    found: Synchronised | None = None
    for k in range(options.rounds + 1):
        scale, sigma = baseline_lengths(views, pairs, options.scale, true_poses)
        found = synchronise(views.names, pairs, scale, sigma, None if found is None else found.poses, options.sync)
        progress(Progress("rounds", k + 1, options.rounds + 1))
        if k < options.rounds:
            pairs = _or_before(pairs_of_posed(views, found.poses, options.pairs, executor), pairs, found)
    assert found is not None
    return Motion(first, pairs, scale, found)


def _or_before(guided: Pairs, before: Pairs, found: Synchronised) -> Pairs:
    """Guided pairs, and those that fitted before but found too few matches by the predicted pose, as they were."""
    have = set(map(tuple, guided.views.tolist()))
    fitted = found.edges.row[found.keep]
    back = [k for k in fitted.tolist() if tuple(before.views[k].tolist()) not in have]
    return Pairs(
        np.concatenate([guided.views, before.views[back]]),
        (*guided.poses, *(before.poses[k] for k in back)),
        (*guided.matches, *(before.matches[k] for k in back)),
        guided.refused,
    )
