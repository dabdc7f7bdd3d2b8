r"""Ladders: cycles of two loop closures between neighbouring nodes, and the links between their ends.

They are the shortest cycles of a chain with loop closures, and close within the noise of three or four edges if both loop closures
are right, and just as well if both are wrong by one mistake. So they tell the noise without knowing which edges are right, where
there are too few triangles. Longer cycles do not: one that is thought to be right and is not, opens them all, and what
fits then is noise that is many times too wide.

Ladders that do not close may still agree in turn: rooms along one corridor look alike and stand alike. So there are three ways not
to close, in place, in turn, and in both, each with a share of its own.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.model.topology import components
from tempose.optimum.trees import rotation_weights
from tempose.outliers.sequence import Sequence

_STEPS = ((0, 1), (1, -1), (1, 0), (1, 1))  # ids from the ends of one loop closure to those of its neighbour
_TAIL = 4.0  # ν of the errors of ladders, as in growth
_CLOSES = np.array([[True, True], [True, False], [False, True], [False, False]])  # in turn, in place
_STARTS = (0.1, 0.25, 0.5)  # quantiles of the squares with which the estimate begins
_FEWEST = 4  # ladders
_FEWEST_NUMBERS = 6.0  # of rotations, and of translations, that ladders check, for them to limit the noise
_RARELY = 1e-3  # how often they close so well by chance at that limit
_ROUNDS = 100


def ladder_noise(sequence: Sequence, fewest_spare: float) -> tuple[float, float] | None:
    """Noise of an edge of median certainty, σ per axis in radians and length; None if ladders tell too little.

    Errors are Student's, as far as ladders close; others are anywhere. The scale is the most probable one, by EM.

    Parameters
    ----------
    fewest_spare
        Numbers of each kind, rotations and translations, that have to check it.
    """
    found = _closing(sequence)
    return None if found is None or found[1].min() < fewest_spare else (float(found[0][0]), float(found[0][1]))


def ladder_limit(sequence: Sequence) -> tuple[float, float]:
    """The most that the noise may be, σ per axis in radians and length: ladders would close as well once in a thousand.

    Infinite if fewer than :data:`_FEWEST_NUMBERS` check it. Look-alikes close ladders as well as right edges do; the noise at which
    they fit a chain that they contradict is often many times wider.
    """
    found = _closing(sequence)
    if found is None or found[1].min() < _FEWEST_NUMBERS:
        return math.inf, math.inf
    most = found[0] * np.sqrt(found[1] / special.chdtri(found[1], 1.0 - _RARELY))
    return float(most[0]), float(most[1])


def _closing(sequence: Sequence) -> tuple[Array, Array] | None:
    """σ of rotations and translations (2,) at which ladders close, and how many numbers (2,) check each."""
    graph = sequence.graph
    first, second = _neighbours(sequence)
    if len(first) < _FEWEST or not graph.has_translation[np.concatenate([first, second])].all():
        return None
    turn2, move2 = _closures(sequence, first, second)
    stated = np.einsum("maa->m", graph.translation_precision_matrices)
    squares = np.stack([
        turn2 / _relative_variance(sequence, first, second, rotation_weights(graph)),
        move2 / _relative_variance(sequence, first, second, stated),
    ])  # fmt: skip
    numbers = np.array([float(np.sum(graph.axes < 3)), float(graph.dimension)])
    widest = np.array([1.0, float(np.mean(np.var(sequence.chain_poses.position, axis=0))) or 1.0])
    least = 1e-6 * np.array(graph.median_sigmas) ** 2
    found = [
        _most_probable(squares, numbers, np.maximum(np.quantile(squares, q, axis=1) / numbers, least), widest, least)
        for q in _STARTS
    ]
    _, variance, closing = max(found, key=lambda one: one[0])
    inside = closing > 0.5
    used = np.unique(np.concatenate([first[inside], second[inside]]))
    if not len(used):
        return None
    parts = components(len(used), np.searchsorted(used, first[inside]), np.searchsorted(used, second[inside]))
    spare = len(used) - (int(parts.max()) + 1)  # what a tree of ladders checks
    return np.sqrt(variance), spare * numbers


def _most_probable(
    squares: Array, numbers: Array, variance: Array, widest: Array, least: Array
) -> tuple[float, Array, Array]:
    """Log likelihood, variances (2,) and probabilities (k,) that ladders close, from variances to begin with.

    ``squares`` (2, k) and ``numbers`` (2,) are of rotations and translations; ``widest`` are the variances of what does not close.
    """
    share = np.full(len(_CLOSES), 1.0 / len(_CLOSES))
    broad = -0.5 * (numbers * np.log(widest))[:, None] - 0.5 * squares / widest[:, None]
    likelihood, ways = -math.inf, np.zeros((len(_CLOSES), squares.shape[1]))
    for _ in range(_ROUNDS):
        energy = squares / variance[:, None]
        logs = np.stack([
            _core(closes @ energy, float(closes @ numbers)) - 0.5 * float(closes @ (numbers * np.log(variance))) + ~closes @ broad
            for closes in _CLOSES
        ])  # fmt: skip
        logs += np.log(share)[:, None]
        each = special.logsumexp(logs, axis=0)
        ways = np.exp(logs - each)
        before, likelihood = likelihood, float(each.sum())
        if likelihood - before < 1e-6:
            break
        sums = np.zeros((2, 2))  # of squares and of their number, by weight
        for closes, way in zip(_CLOSES, ways, strict=True):
            d = float(closes @ numbers)
            weight = way * (_TAIL + d) / (_TAIL + closes @ energy)
            sums += closes * np.array([squares @ weight, numbers * max(float(way.sum()), 1e-9)])
        variance = np.maximum(sums[0] / sums[1], least)
        share = np.clip(ways.mean(axis=1), 0.01, 0.99)
    return likelihood, variance, ways[0]


def _core(energy: Array, d: float) -> Array:
    """Logarithm of Student's density of d numbers of variance 1, at squares (k,), but for (2π)^(−d/2)."""
    if d == 0.0:
        return np.zeros_like(energy)
    constant = special.gammaln(0.5 * (_TAIL + d)) - special.gammaln(0.5 * _TAIL) - 0.5 * d * math.log(0.5 * _TAIL)
    return np.asarray(constant - 0.5 * (_TAIL + d) * np.log1p(energy / _TAIL))


def _neighbours(sequence: Sequence) -> tuple[Index, Index]:
    """Pairs of loop closures whose ends are at most one id apart; none that the chain has in place of a missing link."""
    place = sequence.place
    loops = np.flatnonzero(~sequence.is_link & ~sequence.chain)
    width = int(place.max()) + 3
    a, b = (place[end[loops]] + 1 for end in (sequence.earlier, sequence.later))
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
    place = sequence.place
    steps = sum(np.abs(place[end[first]] - place[end[second]]) for end in (sequence.earlier, sequence.later))
    return np.asarray(variance[first] + variance[second] + links * steps)
