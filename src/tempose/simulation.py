"""Synthetic pose graphs with known truth: the paper's random graph, and sphere, torus, grid and trajectory shapes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempose._support import streams
from tempose._typing import Array, Index, Mask
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.bingham import Bingham, concentration_from_sigma
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

__all__ = ["SHAPES", "Corrupted", "Simulated", "ambiguous_loop", "ambiguous_loop_odds", "corrupt", "simulate"]

SHAPES = {
    "random": "the paper's: orientations uniform, positions normal, a random share of all pairs measured",
    "sphere": "a robot circling a sphere from pole to pole, closing loops with the round below",
    "torus": "rounds on a torus, closed both ways",
    "grid": "a walk through a cubic lattice, closing loops with random lattice neighbours",
    "trajectory": "a smooth wandering path with odometry and loop closures where it comes near itself",
}


@dataclass(frozen=True)
class Simulated:
    """A noisy graph and the poses it was made from."""

    graph: PoseGraph
    truth: Poses


def simulate(
    nodes: int = 50,
    *,
    shape: str = "random",
    completeness: float = 0.5,
    sigma_rot_deg: float = 3.0,
    sigma_trans: float = 0.05,
    seed: int = 0,
) -> Simulated:
    """Draw poses, choose edges, measure them with noise from the model's own likelihood.

    Parameters
    ----------
    nodes
        Number of poses (grids round to the nearest full lattice).
    shape
        One of :data:`SHAPES`.
    completeness
        Share of possible edges that are measured: of all ordered pairs ``e = |E|/N²`` for ``random``, where each
        measured pair is one edge (both directions count in e), of the shape's loop closures otherwise.
    sigma_rot_deg, sigma_trans
        Noise per axis: degrees of the rotation vector (λ = 2/σ², drawn from the Bingham distribution) and length.
    seed
        Same seed, same graph.
    """
    if nodes < 2:
        raise OptionError(f"a graph needs at least 2 nodes, not {nodes}")
    if shape not in SHAPES:
        raise OptionError(f"unknown shape {shape!r}: choose one of {', '.join(SHAPES)}")
    if not 0.0 < completeness <= 1.0:
        raise OptionError(f"completeness must be in (0, 1], not {completeness}")
    if not sigma_rot_deg >= 0.0 or not sigma_trans >= 0.0:
        raise OptionError("noise levels must not be negative")
    rng = streams.generator(seed, "simulate")
    make = {"random": _random, "sphere": _sphere, "torus": _torus, "grid": _grid, "trajectory": _trajectory}[shape]
    wxyz, position, pairs = make(nodes, completeness, rng)
    truth = Poses(tuple(range(len(position))), wxyz, position)
    graph = measure(truth, pairs, np.radians(sigma_rot_deg), sigma_trans, rng)
    return Simulated(graph, truth)


def measure(truth: Poses, pairs: Index, sigma_rad: float, sigma_trans: float, rng: np.random.Generator) -> PoseGraph:
    """Measure the motions between ``pairs`` (m, 2) of rows ``(i, j)`` with Bingham and Gaussian noise.

    Noise of zero is measured exactly, and declared as one micro-radian and a millionth of the scene.
    """
    i, j = pairs[:, 0], pairs[:, 1]
    q, t = truth.node_from_world
    wxyz, translation = se3.compose((q[j], t[j]), se3.inverse((q[i], t[i])))
    if sigma_rad > 0.0:
        noise = Bingham.from_mode(quat.IDENTITY, float(concentration_from_sigma(sigma_rad)))
        wxyz = quat.multiply(noise.sample(rng, len(pairs)), wxyz)
    if sigma_trans > 0.0:
        translation = translation + sigma_trans * rng.standard_normal(translation.shape)
    size = float(np.sqrt(np.mean(np.var(truth.position, axis=0)))) or 1.0
    return PoseGraph(
        truth.ids, i, j, quat.canonical(wxyz), translation,
        np.full(len(pairs), float(concentration_from_sigma(sigma_rad or 1e-6))),
        np.full(len(pairs), 1.0 / (sigma_trans or 1e-6 * size) ** 2),
    )  # fmt: skip


OUTLIER_DEG = (60.0, 80.0)  # the paper's outliers: how far they are turned,
OUTLIER_SHIFT = (0.0, 1.0)  # and shifted along each axis


@dataclass(frozen=True, eq=False)
class Corrupted:
    """A graph with wrong measurements, and which they are (m,)."""

    graph: PoseGraph
    is_wrong: Mask


def corrupt(graph: PoseGraph, share: float, *, seed: int = 0, kind: str = "paper") -> Corrupted:
    """Make a share of the measurements wrong.

    ``paper``, as in its appendix: each wrong ``j_from_i`` becomes ``wrong ∘ j_from_i``, where ``wrong`` turns by an angle
    uniform in :data:`OUTLIER_DEG` about an axis of uniform direction, and shifts by a vector whose three components are
    uniform in :data:`OUTLIER_SHIFT`. ``uniform``: it becomes any rotation, and a normal translation as long as the
    measured ones are.

    The stated precisions stay: nobody is told which edges are wrong. With one seed, the wrong edges of a smaller share are
    among those of a larger one.
    """
    if not 0.0 <= share <= 1.0:
        raise OptionError(f"the share of wrong edges must be in [0, 1], not {share}")
    if kind not in ("paper", "uniform"):
        raise OptionError(f"unknown kind of wrong edges {kind!r}: choose paper or uniform")
    rng, m = streams.generator(seed, "corrupt"), graph.n_edges
    axis = rng.standard_normal((m, 3))
    angle = np.radians(rng.uniform(*OUTLIER_DEG, (m, 1)))
    turn = quat.exp(angle * axis / np.linalg.norm(axis, axis=1, keepdims=True))
    shift = rng.uniform(*OUTLIER_SHIFT, (m, 3))
    is_wrong = np.zeros(m, dtype=bool)
    is_wrong[rng.permutation(m)[: round(share * m)]] = True
    wxyz, t = se3.compose((turn, shift), (graph.j_from_i_wxyz, graph.j_from_i_t))
    if kind == "uniform":
        size = (
            np.sqrt(np.mean(graph.j_from_i_t[graph.has_translation] ** 2)) if np.any(graph.has_translation) else np.nan
        )
        wxyz, t = quat.random_uniform(rng, m), size * rng.standard_normal((m, 3))
        t[~graph.has_translation] = np.nan
    wxyz = np.where(is_wrong[:, None], quat.canonical(wxyz), graph.j_from_i_wxyz)
    t = np.where(is_wrong[:, None], t, graph.j_from_i_t)
    return Corrupted(replace(graph, j_from_i_wxyz=wxyz, j_from_i_t=t), is_wrong)


def ambiguous_loop(
    nodes: int = 8, sigma_rot_deg: float = 15.0, closure_deg: float = 170.0, sigma_trans: float = 0.1
) -> PoseGraph:
    """A straight path whose last node, by one loop closure, faces another way than odometry says.

    Odometry goes straight ahead in unit steps; the closure measures the rotation from the last node to the first,
    ``closure_deg`` about the vertical axis, and no translation. All rotations have the same σ. There are two
    explanations, two minima of U: each of the n measurements errs by ``closure_deg/n``, or by ``(360° − closure_deg)/n`` the
    other way. Their odds are known: :func:`ambiguous_loop_odds`.
    """
    if nodes < 3:
        raise OptionError(f"an ambiguous loop needs at least 3 nodes, not {nodes}")
    if not 0.0 < closure_deg <= 180.0:
        raise OptionError(f"the closure must contradict odometry by an angle between 0 and 180°, not {closure_deg}")
    start = np.arange(nodes)
    wxyz, t = np.tile(quat.IDENTITY, (nodes, 1)), np.tile([-1.0, 0.0, 0.0], (nodes, 1))
    wxyz[-1], t[-1] = quat.exp([0.0, 0.0, np.radians(closure_deg)]), np.nan
    concentration = float(concentration_from_sigma(np.radians(sigma_rot_deg)))
    return PoseGraph(
        tuple(range(nodes)), start, (start + 1) % nodes, wxyz, t, np.full(nodes, concentration),
        np.full(nodes, sigma_trans**-2.0),
    )  # fmt: skip


def ambiguous_loop_odds(nodes: int = 8, sigma_rot_deg: float = 15.0, closure_deg: float = 170.0) -> float:
    r"""Exact posterior probability of the shorter way round an :func:`ambiguous_loop`.

    Translations chain the nodes up and say nothing about rotations, so the residuals :math:`r_k \in S^3`, each with
    :math:`w \ge 0`, are independent with density :math:`f(r) \propto e^{-\lambda(1 - w^2)}`, given that their product is +c (the
    shorter way) or −c (the longer), c the quaternion of the closure. f is a function of the angle alone, so the density of the
    product is the series of characters of SU(2), with :math:`w = \cos\psi`,

    .. math::  f^{*n}(\psi) = \sum_{m \ge 1} m \hat f_m^n \frac{\sin m\psi}{\sin\psi}, \qquad
               \hat f_m = \frac{1}{m} \int_0^{\pi/2} f(\psi) \sin(m\psi) \sin\psi \, d\psi .

    Its terms cancel; where nothing would be left of them, for small σ, it is refused.
    """
    concentration = float(concentration_from_sigma(np.radians(sigma_rot_deg)))
    node, weight = np.polynomial.legendre.leggauss(600)
    psi = 0.25 * np.pi * (node + 1.0)
    density = weight * np.exp(-concentration * np.sin(psi) ** 2) * np.sin(psi)
    m = np.arange(1, 400)
    transform = np.sin(np.outer(m, psi)) @ density / m
    transform /= transform[0]

    def at(angle: float) -> float:
        terms = m * transform**nodes * np.sin(m * angle) / np.sin(angle)
        if not np.sum(terms) > 1e-12 * np.sum(np.abs(terms)):
            raise NotApplicable(
                "these odds are beyond double precision: the noise is too small for such a contradiction"
            )
        return float(np.sum(terms))

    shorter, longer = at(0.5 * np.radians(closure_deg)), at(np.pi - 0.5 * np.radians(closure_deg))
    return shorter / (shorter + longer)


_Shape = tuple[Array, Array, Index]


def _random(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    wxyz, position = quat.random_uniform(rng, n), rng.standard_normal((n, 3))
    low, high = np.triu_indices(n, 1)
    wanted = max(n - 1, min(len(low), round(completeness * n * n / 2.0)))
    # a random spanning tree keeps the graph in one piece, whatever the completeness
    order = rng.permutation(n)
    attach = order[(rng.random(n - 1) * np.arange(1, n)).astype(np.int64)]
    tree = np.stack([np.minimum(order[1:], attach), np.maximum(order[1:], attach)], axis=1)
    in_tree = np.zeros(len(low), dtype=bool)
    a, b = tree[:, 0], tree[:, 1]
    in_tree[a * n - a * (a + 1) // 2 + b - a - 1] = True
    others = rng.permutation(np.flatnonzero(~in_tree))[: wanted - (n - 1)]
    chosen = np.sort(np.concatenate([np.flatnonzero(in_tree), others]))
    flip = rng.random(len(chosen)) < 0.5
    i, j = np.where(flip, high[chosen], low[chosen]), np.where(flip, low[chosen], high[chosen])
    return wxyz, position, np.stack([i, j], axis=1).astype(np.int64)


def _heading(position: Array) -> Array:
    """Orientations whose x axis follows the path, with z as near to up as it can be."""
    forward = np.gradient(position, axis=0)
    forward /= np.maximum(np.linalg.norm(forward, axis=1, keepdims=True), 1e-12)
    up = np.array([0.0, 0.0, 1.0]) - forward[:, 2:] * forward
    weak = np.linalg.norm(up, axis=1) < 1e-6
    up[weak] = np.cross(forward[weak], [0.0, 1.0, 0.0])
    up /= np.linalg.norm(up, axis=1, keepdims=True)
    return quat.from_matrix(np.stack([forward, np.cross(up, forward), up], axis=2))


def _chain_and_closures(n: int, closures: Index, completeness: float, rng: np.random.Generator) -> Index:
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    return np.concatenate([chain, closures[rng.random(len(closures)) < completeness]]).astype(np.int64)


def _sphere(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    around = max(3, round(np.sqrt(n)))
    k = np.arange(n)
    polar, azimuth = np.pi * (k + 0.5) / n, 2.0 * np.pi * k / around
    radius = around / (2.0 * np.pi)  # one unit of length between neighbours on the equator
    xyz = [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)]
    position = radius * np.stack(xyz, axis=1)
    closures = np.stack([k[:-around], k[around:]], axis=1)
    return _heading(position), position, _chain_and_closures(n, closures, completeness, rng)


def _torus(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    around = max(3, round(np.sqrt(n / 2.0)))
    k = np.arange(n)
    small, large = 2.0 * np.pi * k / around, 2.0 * np.pi * k / n
    minor = around / (2.0 * np.pi)
    ring = 2.5 * minor + minor * np.cos(small)
    position = np.stack([ring * np.cos(large), ring * np.sin(large), minor * np.sin(small)], axis=1)
    closures = np.concatenate([np.stack([k[:-around], k[around:]], axis=1), [[n - 1, 0]]])
    return _heading(position), position, _chain_and_closures(n, closures, completeness, rng)


def _grid(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    side = max(2, round(n ** (1.0 / 3.0)))
    grid = np.stack(np.meshgrid(*(np.arange(side),) * 3, indexing="ij"), axis=-1)
    grid[1::2] = grid[1::2, ::-1]  # walk back and forth, so that consecutive nodes are neighbours
    grid = grid.reshape(side * side, side, 3)
    grid[1::2] = grid[1::2, ::-1]
    cell = grid.reshape(-1, 3)
    number = np.empty((side,) * 3, dtype=np.int64)
    number[tuple(cell.T)] = np.arange(len(cell))
    closures = []
    for axis in range(3):
        ahead = cell[cell[:, axis] < side - 1]
        beyond = ahead + np.eye(3, dtype=np.int64)[axis]
        pair = np.stack([number[tuple(ahead.T)], number[tuple(beyond.T)]], axis=1)
        closures.append(pair[np.abs(pair[:, 0] - pair[:, 1]) > 1])
    wxyz = quat.random_uniform(rng, len(cell))
    pairs = _chain_and_closures(len(cell), np.concatenate(closures), completeness, rng)
    return wxyz, cell.astype(np.float64), pairs


def _trajectory(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    """A path that wanders smoothly inside a disc of constant density, so that every size has alike neighbourhoods."""
    from scipy.spatial import cKDTree

    radius, turn, heading = 0.6 * np.sqrt(n), 0.0, 0.0
    noise = rng.standard_normal(n)
    position = np.zeros((n, 3))
    for k in range(1, n):
        x, y, _ = position[k - 1]
        turn = 0.9 * turn + 0.06 * noise[k]
        if x * x + y * y > radius * radius:  # near the edge: steer towards the centre
            turn += 0.2 * np.sin(np.arctan2(-y, -x) - heading)
        heading += turn
        position[k] = x + np.cos(heading), y + np.sin(heading), 0.3 * np.sin(k / 40.0)
    near = cKDTree(position[:, :2]).query_pairs(1.0, output_type="ndarray").astype(np.int64)
    near = near[np.lexsort((near[:, 1], near[:, 0]))]
    closures = near[np.abs(near[:, 1] - near[:, 0]) > 10]
    return _heading(position), position, _chain_and_closures(n, closures, completeness, rng)
