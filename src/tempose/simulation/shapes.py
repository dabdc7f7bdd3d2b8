"""Where simulated nodes are, and which pairs of them are measured."""

from __future__ import annotations

import numpy as np

from tempose._typing import Array, Index
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat

SHAPES = {
    "random": "the paper's: orientations uniform, positions normal, a random share of all pairs measured",
    "sphere": "a robot circling a sphere from pole to pole, closing loops with the round below",
    "torus": "rounds on a torus, closed both ways",
    "grid": "a walk through a cubic lattice, closing loops with random lattice neighbours",
    "trajectory": "a smooth wandering path with odometry and loop closures where it comes near itself",
}
PLANAR = ("random", "grid", "trajectory")
"""Shapes that exist in the plane."""

_Shape = tuple[Array, Array, Index]


def make(shape: str, n: int, completeness: float, planar: bool, rng: np.random.Generator) -> _Shape:
    """Orientations (n, 4), positions (n, 3) and measured pairs (m, 2) of one of :data:`SHAPES`."""
    if shape not in SHAPES:
        raise OptionError(f"unknown shape {shape!r}: choose one of {', '.join(SHAPES)}")
    if planar and shape not in PLANAR:
        raise OptionError(f"a {shape} does not lie in a plane: planar graphs are {', '.join(PLANAR)}")
    makers = {"random": random, "sphere": sphere, "torus": torus, "grid": grid, "trajectory": trajectory}
    if planar:
        makers |= {"random": planar_random, "grid": planar_grid, "trajectory": planar_trajectory}
    return makers[shape](n, completeness, rng)


def random(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    """The paper's random graph."""
    return quat.random_uniform(rng, n), rng.standard_normal((n, 3)), _random_pairs(n, completeness, rng)


def planar_random(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    """The same in the plane."""
    position = np.zeros((n, 3))
    position[:, :2] = rng.standard_normal((n, 2))
    return about_z(rng.uniform(-np.pi, np.pi, n)), position, _random_pairs(n, completeness, rng)


def about_z(angle: Array) -> Array:
    """Quaternions (n, 4) of rotations by angles (n,) about z."""
    turn = np.zeros((len(angle), 4))
    turn[:, 0], turn[:, 3] = np.cos(0.5 * angle), np.sin(0.5 * angle)
    return turn


def _random_pairs(n: int, completeness: float, rng: np.random.Generator) -> Index:
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
    return np.stack([i, j], axis=1).astype(np.int64)


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


def sphere(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    """Rounds from pole to pole."""
    around = max(3, round(np.sqrt(n)))
    k = np.arange(n)
    polar, azimuth = np.pi * (k + 0.5) / n, 2.0 * np.pi * k / around
    radius = around / (2.0 * np.pi)  # one unit of length between neighbours on the equator
    xyz = [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)]
    position = radius * np.stack(xyz, axis=1)
    closures = np.stack([k[:-around], k[around:]], axis=1)
    return _heading(position), position, _chain_and_closures(n, closures, completeness, rng)


def torus(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    """Rounds on a torus."""
    around = max(3, round(np.sqrt(n / 2.0)))
    k = np.arange(n)
    small, large = 2.0 * np.pi * k / around, 2.0 * np.pi * k / n
    minor = around / (2.0 * np.pi)
    ring = 2.5 * minor + minor * np.cos(small)
    position = np.stack([ring * np.cos(large), ring * np.sin(large), minor * np.sin(small)], axis=1)
    closures = np.concatenate([np.stack([k[:-around], k[around:]], axis=1), [[n - 1, 0]]])
    return _heading(position), position, _chain_and_closures(n, closures, completeness, rng)


def grid(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    """A walk through a cubic lattice."""
    side = max(2, round(n ** (1.0 / 3.0)))
    cell, closures = _lattice(side, 3)
    wxyz = quat.random_uniform(rng, len(cell))
    return wxyz, cell.astype(np.float64), _chain_and_closures(len(cell), closures, completeness, rng)


def planar_grid(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    """A walk through a square lattice, facing along the axes."""
    cell, closures = _lattice(max(2, round(n**0.5)), 2)
    position = np.zeros((len(cell), 3))
    position[:, :2] = cell
    wxyz = about_z(0.5 * np.pi * rng.integers(0, 4, len(cell)).astype(np.float64))
    return wxyz, position, _chain_and_closures(len(cell), closures, completeness, rng)


def _lattice(side: int, dimension: int) -> tuple[Index, Index]:
    """Cells (side^d, d) in the order of a walk back and forth, so that consecutive ones are neighbours; the other neighbours."""
    grid = np.stack(np.meshgrid(*(np.arange(side),) * dimension, indexing="ij"), axis=-1)
    grid[1::2] = grid[1::2, ::-1]
    if dimension == 3:
        grid = grid.reshape(side * side, side, 3)
        grid[1::2] = grid[1::2, ::-1]
    cell = grid.reshape(-1, dimension)
    number = np.empty((side,) * dimension, dtype=np.int64)
    number[tuple(cell.T)] = np.arange(len(cell))
    closures = []
    for axis in range(dimension):
        ahead = cell[cell[:, axis] < side - 1]
        beyond = ahead + np.eye(dimension, dtype=np.int64)[axis]
        pair = np.stack([number[tuple(ahead.T)], number[tuple(beyond.T)]], axis=1)
        closures.append(pair[np.abs(pair[:, 0] - pair[:, 1]) > 1])
    return cell, np.concatenate(closures)


def trajectory(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
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


def planar_trajectory(n: int, completeness: float, rng: np.random.Generator) -> _Shape:
    """The same path without its hills."""
    _, position, pairs = trajectory(n, completeness, rng)
    position[:, 2] = 0.0
    forward = np.gradient(position, axis=0)
    return about_z(np.arctan2(forward[:, 1], forward[:, 0])), position, pairs
