r"""Ladders: cycles of two loop closures between neighbouring nodes, and the links between their ends.

They are the shortest cycles of a chain with loop closures, and close within the noise of three or four edges if both loop closures
are right, and just as well if both are wrong by one mistake. So they tell the noise without knowing which edges are right, where
there are too few triangles. Longer cycles do not: one that is thought to be right and is not, opens them all, and what
fits then is noise that is many times too wide.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.model.topology import components
from tempose.optimum.trees import rotation_weights
from tempose.outliers.sequence import Sequence

_STEPS = ((0, 1), (1, -1), (1, 0), (1, 1))  # ids from the ends of one loop closure to those of its neighbour
_START = 0.25  # share of the ladders, those that close best, with which the estimate begins
_LEVEL = 0.99  # of the region beyond which a ladder is not one
_FEWEST = 4  # ladders
_ROUNDS = 50


def ladder_noise(sequence: Sequence, fewest_spare: float) -> tuple[float, float] | None:
    """Noise of an edge of median certainty, σ per axis in radians and length; None if ladders tell too little.

    Parameters
    ----------
    fewest_spare
        Numbers of each kind, rotations and translations, that have to check it.
    """
    graph = sequence.graph
    first, second = _neighbours(sequence)
    if len(first) < _FEWEST or not graph.has_translation[np.concatenate([first, second])].all():
        return None
    turns, moves = int(np.sum(graph.axes < 3)), graph.dimension
    turn2, move2 = _closures(sequence, first, second)
    rot = turn2 / _relative_variance(sequence, first, second, rotation_weights(graph)) / turns
    stated = np.einsum("maa->m", graph.translation_precision_matrices)
    trans = move2 / _relative_variance(sequence, first, second, stated) / moves
    reach = float(stats.chi2.ppf(_LEVEL, turns + moves))
    misfit = rot / max(np.quantile(rot, _START), 1e-30) + trans / max(np.quantile(trans, _START), 1e-30)
    inside = misfit <= np.sort(misfit)[max(_FEWEST, round(_START * len(misfit))) - 1]
    for _ in range(_ROUNDS):
        rot2, trans2 = max(float(rot[inside].mean()), 1e-30), max(float(trans[inside].mean()), 1e-30)
        before, inside = inside, turns * rot / rot2 + moves * trans / trans2 < reach
        if inside.sum() < _FEWEST:
            return None
        if np.array_equal(before, inside):
            break
    used = np.unique(np.concatenate([first[inside], second[inside]]))
    parts = components(len(used), np.searchsorted(used, first[inside]), np.searchsorted(used, second[inside]))
    spare = len(used) - (int(parts.max()) + 1)  # what a tree of ladders checks
    if spare * min(turns, moves) < fewest_spare:
        return None
    return math.sqrt(rot2), math.sqrt(trans2)


def _neighbours(sequence: Sequence) -> tuple[Index, Index]:
    """Pairs of loop closures whose ends are at most one id apart."""
    number = np.array(sequence.graph.node_ids, dtype=np.int64)
    loops = np.flatnonzero(~sequence.is_link)
    width = int(number.max() - number.min()) + 3
    a, b = (number[end[loops]] - number.min() + 1 for end in (sequence.earlier, sequence.later))
    key = a * width + b
    order = np.argsort(key, kind="stable")
    known = key[order]
    first, second = [], []
    for da, db in _STEPS:
        wanted = key + da * width + db
        at = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        hit = known[at] == wanted if len(known) else np.zeros(0, dtype=bool)
        first.append(loops[hit])
        second.append(loops[order[at[hit]]])
    return np.concatenate(first), np.concatenate(second)


def _closures(sequence: Sequence, first: Index, second: Index) -> tuple[Array, Array]:
    """Squared angle and length by which ladders (k,) do not close, at that later end where it is less."""
    position = sequence.chain_poses.position
    wxyz, t = sequence.displacements(sequence.chain_poses)
    angle = quat.angle_between(wxyz[first], wxyz[second])
    move2 = np.full(len(first), np.inf)
    for end in (sequence.later[first], sequence.later[second]):
        here = [quat.rotate(wxyz[k], position[end]) + t[k] for k in (first, second)]
        move2 = np.minimum(move2, np.sum((here[0] - here[1]) ** 2, axis=1))
    return np.asarray(angle**2), move2


def _relative_variance(sequence: Sequence, first: Index, second: Index, weight: Array) -> Array:
    """Sum of the variances (k,) of the edges of ladders, that of an edge of median certainty being 1."""
    variance = np.median(weight) / np.maximum(weight, 1e-12 * weight.max())
    links = float(np.median(variance[sequence.is_link]))
    number = np.array(sequence.graph.node_ids, dtype=np.int64)
    steps = sum(np.abs(number[end[first]] - number[end[second]]) for end in (sequence.earlier, sequence.later))
    return np.asarray(variance[first] + variance[second] + links * steps)
