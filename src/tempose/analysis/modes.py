r"""Separate modes: which there are, how probable each is, and which draw belongs to which.

A mode is a strict minimum of U together with all poses from which the way down leads there. Draws are told apart by

.. math:: D_k(x) = \sum_{ij} \nu^T \Lambda_{ij} \nu + \tfrac12 r^T P_{ij} r,

the potential of x if the relative poses of mode k had been measured: no gauge enters, and every edge counts as much as it is
sure. Of two modes k and m the nearer is the one with the smaller D; :math:`(D_m - D_k) / D_k(x_m)` is 1 at mode k and −1 at m.
Only draws in between are followed down, and some of the others, in order to find all modes.

Where edges may be wrong each counts in :math:`D_k` with its weight at mode k, so that D has the unit of U, and the share of the way
is :math:`D_m / D_m(x_k) - D_k / D_k(x_m)`, the same where all edges are right. With heavy tails U is rugged: nearly every set of
edges that may be right has a minimum of its own, and hardly two draws lead down to the same one. No draws belong to such a dent.
So if there are more than :data:`MOST_MODES` of them, all draws are one mode, and whether the chains agree is R-hat's to say.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import Array, Index, Mask
from tempose.analysis.diagnostics import ESS_BAD, RHAT_BAD, ess_mean, rhat
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import predicted
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.starts import random_poses
from tempose.optimum.trees import tree_poses
from tempose.outliers.estimate import kept_problem
from tempose.sampling.draws import Draws

PROBES = 100  # draws that are followed down to find the modes
BETWEEN = 0.5  # share of the way from one mode to another where a draw is followed down
SEPARATE = 4.5  # β D between modes: three standard deviations, less is one mode with a dent
ROUNDING = 1e-9  # D per measured number within which Newton's method ends at one minimum, however large β is
LEAST_ODDS = 1e-4  # of a mode worth going to
MOST_MODES = 20
_MOST_STEPS = 100  # of Newton's method


@dataclass(frozen=True, eq=False)
class Mode:
    """One mode.

    Attributes
    ----------
    poses, potential
        Its best poses, and U there.
    probability, error
        Share of the draws, and its Monte Carlo standard error (NaN if no chain ever crossed).
    ess
        Effective number of draws behind the probability.
    n_draws
        Draws in it.
    """

    poses: Poses
    potential: float
    probability: float
    error: float
    ess: float
    n_draws: int


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes that draws lie in, the most probable first.

    Attributes
    ----------
    labels
        Per chain the mode of each draw (draws,), counted from 0.
    home
        The mode that the estimate belongs to.
    crossings
        How often successive draws of a chain lie in different modes.
    rhat
        Largest R-hat of "is in mode k": whether the chains agree on the probabilities.
    """

    modes: tuple[Mode, ...]
    labels: tuple[Index, ...]
    home: int
    crossings: int
    rhat: float

    def __len__(self) -> int:
        return len(self.modes)

    def __getitem__(self, k: int) -> Mode:
        return self.modes[k]

    @property
    def weighed(self) -> bool:
        """Whether the chains have gone to and fro often enough for the probabilities to mean something."""
        ess = min((mode.ess for mode in self.modes), default=math.inf)
        return len(self) == 1 or bool(self.rhat <= RHAT_BAD and ess >= ESS_BAD)

    def draws(self, draws: Draws, k: int) -> Draws:
        """The draws that lie in mode k; chains that never were there are left out."""
        return draws.select([label == k for label in self.labels])

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "count": len(self),
            "estimate_in": self.home + 1,
            "crossings": self.crossings,
            "weighed": self.weighed,
            "modes": [
                {
                    "probability": mode.probability, "error": plain(mode.error), "ess": plain(mode.ess),
                    "draws": mode.n_draws, "potential": mode.potential,
                }
                for mode in self.modes
            ],
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Well:
    """A minimum of U: poses, U there, and the posterior of a graph that measured its relative poses."""

    poses: Poses
    potential: float
    distance: Posterior

    @classmethod
    def at(cls, posterior: Posterior, poses: Poses) -> Well:
        """Of a posterior, at poses."""
        graph = kept_problem(posterior, poses).graph
        wxyz, translation = predicted(graph, poses)
        measured = np.where(graph.has_translation[:, None], translation, np.nan)
        ideal = replace(graph, j_from_i_wxyz=quat.normalize(wxyz), j_from_i_t=measured)
        return cls(poses, posterior.potential(poses), Posterior(ideal))


class Minima:
    """Minima of U that are apart from one another, and which of them poses are nearest to.

    Parameters
    ----------
    curvature, beta
        Of the posterior, and the inverse temperature at which they are to be apart.
    first
        A minimum; it keeps the number 0.
    """

    def __init__(self, curvature: Curvature, beta: float, first: Poses) -> None:
        self.curvature, self.beta = curvature, beta
        self.found = [Well.at(curvature.posterior, first)]
        measured = float(curvature.posterior.graph.freedom.sum())
        self.separate = max(SEPARATE / beta, ROUNDING * measured)  # least D between two minima

    def add(self, poses: Poses) -> int:
        """Take up a minimum, or find the one it is the same as; return its number."""
        new = Well.at(self.curvature.posterior, poses)
        apart = self.distances(poses.wxyz, poses.position)
        k = int(apart.argmin())
        if apart[k] >= self.separate:
            self.found.append(new)
            return len(self.found) - 1
        if k > 0 and new.potential < self.found[k].potential:  # the deeper of two dents stands for both
            self.found[k] = new
        return k

    def distances(self, wxyz: Array, position: Array) -> Array:
        """D of poses to every minimum."""
        return np.array([minimum.distance.gradient_at(wxyz, position)[0] for minimum in self.found])

    @property
    def apart(self) -> Array:
        """D between minima (k, k): from that of the row to that of the column."""
        return np.stack([self.distances(one.poses.wxyz, one.poses.position) for one in self.found], axis=1)

    def descend(self, wxyz: Array, position: Array) -> int | None:
        """Follow poses down; return the number of the minimum found, or ``None`` if it is not a strict one."""
        start = Poses(self.curvature.posterior.graph.node_ids, wxyz, position)
        try:
            found = minimise(self.curvature, start, max_steps=_MOST_STEPS)
        except NotPositiveDefiniteError:  # nothing holds a node there
            return None
        return self.add(found.poses) if found.status == "converged" and found.is_minimum else None


class Labels:
    """Which of the minima each draw belongs to: the nearest, or where the way down leads if it is between two.

    No draw is followed down twice, and a minimum that turns up on the way is compared with every draw once. Where edges may
    be wrong the way down is long: at most :data:`PROBES` draws in between are followed, the others belong to the nearest.
    """

    def __init__(self, minima: Minima, draws: Draws) -> None:
        self.minima, self.sizes = minima, [len(array) for array in draws.arrays]
        self.is_robust = minima.curvature.posterior.likelihood is not None
        self.rows = [np.asarray(row) for array in draws.arrays for row in array]
        self.followed = np.full(len(self.rows), -1)  # where the way down led; -1 for the others
        self.wells: list[Well] = []
        self.distance = np.empty((0, len(self.rows)))  # D of each draw to each minimum

    def follow(self, row: int) -> None:
        """Follow a draw down, unless that was done."""
        if self.followed[row] < 0 and not self.is_rugged:
            found = self.minima.descend(self.rows[row][:, :4], self.rows[row][:, 4:])
            self.followed[row] = -1 if found is None else found

    @property
    def is_rugged(self) -> bool:
        """Whether the minima are dents, too many to be modes."""
        return self.is_robust and len(self.minima.found) > MOST_MODES

    def measure(self) -> None:
        """Distances to the minima that are new, or have become deeper."""
        found = self.minima.found
        known = [k < len(self.wells) and self.wells[k] is well for k, well in enumerate(found)]
        self.distance = np.stack(
            [
                self.distance[k] if known[k] else [well.distance.gradient_at(x[:, :4], x[:, 4:])[0] for x in self.rows]
                for k, well in enumerate(found)
            ]
        )
        self.wells = list(found)

    def nearest(self) -> tuple[Index, Mask]:
        """The nearest minimum of every draw, and whether it is between that and another."""
        columns = np.arange(len(self.rows))
        k = self.distance.argmin(axis=0)
        apart = self.minima.apart
        np.fill_diagonal(apart, 1.0)
        # 1 at minimum k, −1 at the other; D to both has the same unit only where all edges are right
        lead = self.distance / apart.T[k].T - self.distance[k, columns] / apart[k].T
        lead[k, columns] = 1.0
        return k, lead.min(axis=0) < BETWEEN

    def of_chains(self) -> list[Index]:
        """Per chain the number of each draw's minimum; 0 for all if U is rugged."""
        n = len(self.rows)
        label, left, tried = np.zeros(n, dtype=np.int64), PROBES if self.is_robust else n, np.zeros(n, dtype=bool)
        while len(self.minima.found) > 1 and not self.is_rugged:
            self.measure()
            nearest, between = self.nearest()
            for row in np.flatnonzero(between & ~tried)[:left]:
                tried[row] = True
                left -= 1
                self.follow(int(row))
                if len(self.minima.found) > len(self.wells):
                    break
            else:
                label = np.where(between & (self.followed >= 0), self.followed, nearest)
                break
        return np.split(label, np.cumsum(self.sizes)[:-1])


def find_modes(
    curvature: Curvature, draws: Draws, estimate: Poses, *, probes: int = PROBES, known: Sequence[Poses] = ()
) -> Modes:
    """The modes that draws lie in.

    Parameters
    ----------
    curvature
        Of the posterior they were drawn from.
    estimate
        A minimum of U; the modes say which of them it belongs to.
    probes
        Draws that are followed down, evenly spaced over each chain, the last ones among them.
    known
        Minima found otherwise.
    """
    minima = Minima(curvature, draws.beta, estimate)
    for poses in known:
        minima.add(poses)
    labels, first = Labels(minima, draws), 0
    for array in draws.arrays:
        count = min(len(array), -(-probes // max(draws.n_chains, 1)))
        for row in np.linspace(len(array) - 1, 0, count, endpoint=False).round().astype(int):
            labels.follow(first + int(row))
        first += len(array)
    return _weigh(minima, labels.of_chains())


def _weigh(minima: Minima, labels: list[Index]) -> Modes:
    """Probabilities from labels."""
    total = np.bincount(np.concatenate(labels), minlength=len(minima.found)) if labels else np.ones(1)
    order = [int(k) for k in np.argsort(-total, kind="stable") if total[k] > 0]
    home = order.index(0) if 0 in order else -1
    if home < 0:  # no draw is where the estimate is
        home = len(order)
        order.append(0)
    rank = np.full(len(minima.found), -1)
    rank[order] = np.arange(len(order))
    labels = [rank[label] for label in labels]
    crossings = sum(int(np.sum(np.diff(label) != 0)) for label in labels)
    length = min((len(label) for label in labels), default=0)
    together = np.stack([label[-length:] for label in labels]) if length >= 4 else np.zeros((1, 0))
    worst, modes = math.nan, []
    for k, minimum in enumerate(order):
        share = float(total[minimum] / max(total.sum(), 1))
        ess = error = math.nan
        inside = (together == k).astype(float)
        if crossings and inside.size and np.ptp(inside):
            ess = float(ess_mean(inside))
            error = math.sqrt(share * (1.0 - share) / ess)
            worst = float(np.fmax(worst, rhat(inside)))
        one = minima.found[minimum]
        modes.append(Mode(one.poses, one.potential, share, error, ess, int(total[minimum])))
    return Modes(tuple(modes), tuple(labels), home, crossings, worst)


def search(
    curvature: Curvature,
    beta: float,
    first: Poses,
    starts: int,
    rng: np.random.Generator,
    progress: ProgressHook = silent,
    stop: threading.Event | None = None,
) -> list[Poses]:
    """Strict minima of U, ``first`` and those found from random spanning trees and random poses in turn, the deepest first.

    Those less probable by their Gaussian approximation than :data:`LEAST_ODDS` are left out. ``stop`` ends the search
    before the next start.
    """
    minima, graph = Minima(curvature, beta, first), curvature.posterior.graph
    for k in range(starts):
        progress(Progress("other starts", k, starts))
        if stop is not None and stop.is_set():
            break
        tree = graph.spanning_tree(rng.random(graph.n_edges)) if k % 2 == 0 else None
        start = random_poses(graph, rng) if tree is None else tree_poses(graph, tree)
        minima.descend(start.wxyz, start.position)
    progress(Progress("other starts", starts, starts))
    laplaces = []
    for minimum in sorted(minima.found, key=lambda minimum: minimum.potential):
        with contextlib.suppress(NotPositiveDefiniteError):  # the first may be a saddle
            laplaces.append(Laplace(curvature, minimum.poses, beta))
    odds = gaussian_odds(laplaces) if laplaces else ()
    return [one.poses for one, share in zip(laplaces, odds, strict=True) if share >= LEAST_ODDS][:MOST_MODES]


def gaussian_odds(laplaces: Sequence[Laplace]) -> Array:
    """Probability of each mode by its Gaussian approximation, ``e^(−βU) / √det H``, normalised."""
    log_weight = np.array(
        [
            -one.beta * one.curvature.posterior.potential(one.poses) - 0.5 * one.factor.log_determinant()
            for one in laplaces
        ]
    )
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())
