"""Moments of small posteriors by quadrature: rotations on a grid, positions, which are Gaussian given them, exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from helpers.every_graph import about_z
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior

Moments = dict[str, float]


def turns(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rotations about z and their weights."""
    return about_z(2.0 * np.pi * (np.arange(count) + 0.5) / count), np.full(count, 1.0 / count)


def rotations(count: int) -> tuple[np.ndarray, np.ndarray]:
    """All rotations and their weights: ``(cos χ e^{iα}, sin χ e^{iγ})``, volume sin χ cos χ dχ dα dγ, Gauss in cos 2χ."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    chi = 0.5 * np.arccos(nodes)
    angle = 2.0 * np.pi * np.arange(2 * count) / (2 * count)
    half = angle[:count]  # q and −q are one rotation
    grid = np.array(list(itertools.product(range(count), half, angle)))
    k = grid[:, 0].astype(int)
    c, s = np.cos(chi[k]), np.sin(chi[k])
    wxyz = np.stack(
        [c * np.cos(grid[:, 1]), c * np.sin(grid[:, 1]), s * np.cos(grid[:, 2]), s * np.sin(grid[:, 2])], axis=1
    )
    return wxyz, weights[k] / weights[k].sum()


def copies(graph: PoseGraph, count: int) -> PoseGraph:
    """So many independent copies of a graph, nothing held."""
    shift = graph.n_nodes * np.repeat(np.arange(count), graph.n_edges)

    def tiled(x: np.ndarray) -> np.ndarray:
        return np.tile(x, (count, *(1,) * (x.ndim - 1)))

    return PoseGraph(
        tuple(range(count * graph.n_nodes)), tiled(graph.edge_i) + shift, tiled(graph.edge_j) + shift,
        tiled(graph.j_from_i_wxyz), tiled(graph.j_from_i_t), tiled(graph.concentration), tiled(graph.translation_precision),
        coupling=None if graph.coupling is None else tiled(graph.coupling),
        arm=None if graph.arm is None else tiled(graph.arm),
    )  # fmt: skip


def features(wxyz: np.ndarray, position: np.ndarray, free: np.ndarray) -> dict[str, np.ndarray]:
    """Numbers (k,) whose means are compared, of draws (k, n, 4) and (k, n, 3): of rotations, then of positions."""
    out = {}
    for node in np.flatnonzero(free[:, :3].any(axis=1)):
        R = quat.to_matrix(wxyz[:, node])
        out |= {f"R{node}[{a}{b}]": R[:, a, b] for a, b in ((0, 0), (0, 1), (2, 0), (2, 1))}
        out[f"R{node}[00]²"] = R[:, 0, 0] ** 2
    for node, axis in zip(*np.nonzero(free[:, 3:]), strict=True):
        x = position[:, node, axis]
        out |= {f"p{node}[{axis}]": x, f"p{node}[{axis}]²": x**2}
    return out


def moments(graph: PoseGraph, base: Poses, beta: float, count: int) -> Moments:
    """Means of the :func:`features`, with ``count`` places along each rotation angle."""
    free = graph.free
    nodes, where = np.flatnonzero(free[:, :3].any(axis=1)), np.argwhere(free[:, 3:])
    grid, weight = turns(count) if graph.is_planar else rotations(count)
    places = list(itertools.product(range(len(grid)), repeat=len(nodes)))
    K, n = len(places), graph.n_nodes
    wxyz, position = np.tile(base.wxyz, (K, 1, 1)), np.tile(base.position, (K, 1, 1))
    wxyz[:, nodes] = grid[np.array(places)]
    log_weight = np.log(weight)[np.array(places)].sum(axis=1)
    posterior = Posterior(copies(graph, K))

    def gradient(p: np.ndarray) -> np.ndarray:
        g = posterior.gradient_at(wxyz.reshape(-1, 4), p.reshape(-1, 3))[1].reshape(K, n, 6)
        return np.asarray(g[:, where[:, 0], 3 + where[:, 1]])

    g = gradient(position)
    C = np.empty((K, len(where), len(where)))
    for row, (node, axis) in enumerate(where):
        moved = position.copy()
        moved[:, node, axis] += 1.0
        C[:, row] = gradient(moved) - g  # quadratic: a difference is exact
    poses = Poses(posterior.graph.node_ids, wxyz.reshape(-1, 4), position.reshape(-1, 3))
    energy = posterior.energies(poses).reshape(K, -1).sum(axis=1)
    step = np.linalg.solve(C, -g[:, :, None])[:, :, 0]
    energy += 0.5 * np.sum(g * step, axis=1)
    log_weight = log_weight - beta * energy - 0.5 * np.linalg.slogdet(C)[1]
    share = np.exp(log_weight - log_weight.max())
    share /= share.sum()
    position[:, where[:, 0], where[:, 1]] += step
    variance = np.einsum("kaa->ka", np.linalg.inv(C)) / beta
    out = {name: float(share @ x) for name, x in features(wxyz, position, free).items()}
    for row, (node, axis) in enumerate(where):
        out[f"p{node}[{axis}]²"] += float(share @ variance[:, row])
    return out


def compare(
    draws: dict[str, np.ndarray], exact: Moments, error_of: Callable[[np.ndarray], tuple[float, float]]
) -> float:
    """The farthest that a mean of draws is from the exact one, in standard errors."""
    worst = 0.0
    for name, x in draws.items():
        mean, error = error_of(x)
        worst = max(worst, abs(mean - exact[name]) / max(error, 1e-12))
    return worst
