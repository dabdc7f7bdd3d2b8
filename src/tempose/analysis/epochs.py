r"""Two solves of the same nodes at different times: which of them moved, judged with the joint covariance of all.

d holds the differences of the coordinates of all nodes that both have (rotation vector, position), Σ is the sum of the two full
covariances: the epochs are independent. Where both are tied to the world, :math:`P = \Sigma^{-1}`. Where they are not, each is
known up to a motion of everything, with the effect G: then :math:`P = N(N^T\Sigma N)^{-1}N^T` with N a basis of what G does not
touch, and no choice of datum enters.

- **Congruence**: :math:`d^TPd` is χ² if nothing moved.
- **A node i that moved**: :math:`T_i = (Pd)_i^T P_{ii}^{-1} (Pd)_i` is χ² with as many degrees of freedom as the node has
  coordinates.

The most significant node is taken out while its p-value, times the number of nodes left, is below the level: if nothing moved, the
chance that any node is called moved is at most the level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from tempose._typing import Array, Index, NodeId
from tempose.errors import ArgumentError, OptionError
from tempose.geometry import align
from tempose.geometry import quaternion as quat
from tempose.model.gauge import tied_components
from tempose.model.graph import WORLD
from tempose.optimum.hessian import motion_effect
from tempose.optimum.laplace import Laplace

LEVEL = 0.05
MOST_NODES = 600


@dataclass(frozen=True, eq=False)
class Changes:
    """What changed between two epochs.

    Attributes
    ----------
    ids
        Nodes that both have, and that are not held.
    moved
        Those that moved, the most significant first.
    displacement
        Rotation vector in radians and shift (n, 6) of every node from the first epoch to the second, seen from the nodes that did
        not move, in the world of the first.
    covariance
        Of it (n, 6, 6).
    p_value
        Probability (n,) of such a displacement if the node did not move; of those that moved when they were found.
    statistic, freedom
        Of the congruence of all nodes: χ² if nothing moved.
    level
        Of false alarms.
    common_frame
        Whether both epochs are tied to the world.
    """

    ids: tuple[NodeId, ...]
    moved: tuple[NodeId, ...]
    displacement: Array
    covariance: Array
    p_value: Array
    statistic: float
    freedom: int
    level: float
    common_frame: bool

    @property
    def congruence_p(self) -> float:
        """Probability of such a misfit of all nodes together if nothing moved."""
        return float(special.gammaincc(0.5 * self.freedom, 0.5 * self.statistic))


def changes(first: Laplace, second: Laplace, level: float = LEVEL) -> Changes:
    """Compare two epochs, given the Gaussian approximation of each."""
    if not 0.0 < level < 1.0:
        raise OptionError(f"level is {level!r}; expected a probability between 0 and 1")
    a, b = (one.curvature.posterior.graph for one in (first, second))
    if a.dimension != b.dimension:
        raise ArgumentError("one epoch is planar and the other is not: they cannot be compared")
    for one, name in ((first, "first"), (second, "second")):
        if one.curvature.free_motions(one.poses.position, one.poses.wxyz):
            raise ArgumentError(f"the {name} epoch does not determine all its poses: nothing can be compared with it")
    tied = [bool(np.all(tied_components(graph))) for graph in (a, b)]
    common = all(tied)
    if not common and max(a.n_components, b.n_components) > 1:
        raise ArgumentError("an epoch is in several parts that nothing ties to the world: compare them one by one")
    shared = [name for name in a.node_ids if name in b.index and name != WORLD]
    if set(a.landmarks) & set(shared) != set(b.landmarks) & set(shared):
        raise ArgumentError("a node is a landmark in one epoch and a pose in the other")
    if common:
        shared = [name for name in shared if not (a.is_fixed[a.index[name]] and b.is_fixed[b.index[name]])]
    if len(shared) < (1 if common else 2):
        raise ArgumentError("the two epochs share too few nodes to compare; check that their ids mean the same")
    if len(shared) > MOST_NODES:
        raise ArgumentError(
            f"the epochs share {len(shared)} nodes, and at most {MOST_NODES} are compared with all their covariances"
        )
    d, G, sigma, rows = _differences(first, second, shared, common)
    return _judged(tuple(shared), d, G, sigma, rows, level, common)


def _differences(
    first: Laplace, second: Laplace, shared: list[NodeId], common: bool
) -> tuple[Array, Array, Array, list[Index]]:
    """d, G, Σ of the coordinates that there are, and the rows of each node among them."""
    a, b = (one.curvature.posterior.graph for one in (first, second))
    one, two = (x.poses.select(shared) for x in (first, second))
    here, there = one.shifted(a.world_origin), two.shifted(b.world_origin)
    turn = quat.IDENTITY
    if not common:
        posed = np.array([name not in set(a.landmarks) for name in shared])
        fit = align((there.wxyz, there.position), (here.wxyz, here.position), robust=True, turned=posed)
        there, turn = there.moved(fit), fit.wxyz
    omega = quat.log(quat.multiply(there.wxyz, quat.conjugate(here.wxyz)))
    whole = np.concatenate([omega, there.position - here.position], axis=1).ravel()
    R = np.asarray(np.kron(np.eye(2), quat.to_matrix(turn)), dtype=np.float64)
    sigma = _full_covariance(first, shared) + _turned(_full_covariance(second, shared), R)
    exists = np.zeros((len(shared), 6), dtype=bool)
    exists[:, a.axes] = True
    exists[[name in set(a.landmarks) for name in shared], :3] = False
    kept = np.flatnonzero(exists.ravel())
    G = motion_effect(here.position - here.position.mean(axis=0)).reshape(-1, 6)[kept][:, a.axes]
    number = np.cumsum(exists.ravel()) - 1
    rows = [number[6 * k + np.flatnonzero(exists[k])] for k in range(len(shared))]
    return whole[kept], G, sigma[np.ix_(kept, kept)], rows


def _full_covariance(one: Laplace, names: list[NodeId]) -> Array:
    """Joint covariance (6k, 6k) of some nodes, in the gauge that is held."""
    rows = [one.poses.row(name) for name in names]
    right = np.zeros((len(one.poses), 6, 6 * len(rows)))
    for k, row in enumerate(rows):
        right[row, :, 6 * k : 6 * k + 6] = np.eye(6)
    columns = one.curvature.solve(one.factor, right)[rows]
    full = columns.reshape(6 * len(rows), -1) / one.beta
    return np.asarray(0.5 * (full + full.T), dtype=np.float64)


def _turned(sigma: Array, R: Array) -> Array:
    k = len(sigma) // 6
    blocks = sigma.reshape(k, 6, k, 6)
    return np.asarray(np.einsum("ab,kblc,dc->kald", R, blocks, R).reshape(6 * k, 6 * k), dtype=np.float64)


def _weight(sigma: Array, G: Array, common: bool) -> Array:
    """P (d, d)."""
    scale = np.sqrt(np.maximum(np.diag(sigma), 1e-12 * np.max(np.diag(sigma), initial=1e-300)))
    if common:
        inverse = linalg.pinvh(sigma / scale[:, None] / scale, rtol=1e-12)
        return np.asarray(inverse / scale[:, None] / scale)
    scaled = G / scale[:, None]
    Q = np.linalg.qr(scaled, mode="complete")[0][:, scaled.shape[1] :]
    inner = Q.T @ (sigma / scale[:, None] / scale) @ Q
    whole = Q @ linalg.cho_solve(linalg.cho_factor(inner), Q.T)
    return np.asarray(whole / scale[:, None] / scale)


def _tests(P: Array, d: Array, rows: list[Index]) -> tuple[Array, Array]:
    """T_i (k,) and p (k,) of each node."""
    pull = P @ d
    statistic = np.array([pull[r] @ np.linalg.solve(P[np.ix_(r, r)], pull[r]) for r in rows])
    freedom = np.array([len(r) for r in rows])
    return statistic, np.asarray(special.gammaincc(0.5 * freedom, 0.5 * np.maximum(statistic, 0.0)))


def _judged(
    ids: tuple[NodeId, ...], d: Array, G: Array, sigma: Array, rows: list[Index], level: float, common: bool
) -> Changes:
    fewest = G.shape[1]  # coordinates that the datum uses up
    P = _weight(sigma, G, common)
    statistic, freedom = float(d @ P @ d), len(d) - (0 if common else fewest)
    alive, moved, p_value = list(range(len(ids))), [], np.ones(len(ids))
    while True:
        kept = np.concatenate([rows[k] for k in alive])
        if len(kept) <= (0 if common else fewest) + max(len(rows[k]) for k in alive):
            break
        number = np.full(len(d), -1)
        number[kept] = np.arange(len(kept))
        weight = _weight(sigma[np.ix_(kept, kept)], G[kept], common)
        z2, p = _tests(weight, d[kept], [number[rows[k]] for k in alive])
        p_value[alive] = p
        worst = int(np.argmin(p - 1e-12 * z2 / (1.0 + z2)))  # where p underflows, the larger one
        worst = int(np.argmax(z2)) if p[worst] == 0.0 else worst
        if not p[worst] * len(alive) < level:
            break
        moved.append(alive.pop(worst))
        if len(alive) < (1 if common else 2):
            break
    displacement, covariance = _displacements(d, G, sigma, rows, moved, common)
    return Changes(
        ids, tuple(ids[k] for k in moved), displacement, covariance, p_value, statistic, freedom, level, common
    )


def _displacements(
    d: Array, G: Array, sigma: Array, rows: list[Index], moved: list[int], common: bool
) -> tuple[Array, Array]:
    """Displacements (k, 6) of all nodes and their covariances (k, 6, 6), seen from those that did not move."""
    k = len(rows)
    left, spread = d, sigma
    if not common:  # take back the motion that the stable nodes show
        stable = np.concatenate([rows[i] for i in range(k) if i not in set(moved)])
        ones = np.zeros(len(d))
        ones[stable] = 1.0
        scale = np.sqrt(np.maximum(np.diag(sigma), 1e-12 * np.max(np.diag(sigma))))
        A = (G / scale[:, None]) * ones[:, None]
        back = np.eye(len(d)) - G @ np.linalg.pinv(A) * (ones / scale)
        left, spread = back @ d, back @ sigma @ back.T
    out, covariance = np.zeros((k, 6)), np.zeros((k, 6, 6))
    for i, r in enumerate(rows):
        axes = _axes(len(r), G.shape[1])
        out[i, axes] = left[r]
        covariance[i][np.ix_(axes, axes)] = spread[np.ix_(r, r)]
    return out, covariance


def _axes(count: int, motions: int) -> list[int]:
    """Which of the six coordinates a node with ``count`` of them has, in a space with so many motions."""
    if motions == 3:
        return [2, 3, 4] if count == 3 else [3, 4]
    return [0, 1, 2, 3, 4, 5] if count == 6 else [3, 4, 5]
