"""Where simulated nodes are, and which pairs of them are measured."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
    "manhattan": "a robot in a square grid of streets, turning by 90° at random, with loop closures near earlier places",
}
PLANAR = ("random", "grid", "trajectory", "manhattan")
"""Shapes that exist in the plane."""
LOOP_REACH = {"trajectory": 1.0, "manhattan": 2.0}
"""Shapes that close loops where the path comes near itself, and how near that is; steps have length 1."""
FEWEST_STEPS = 10
"""A loop closure spans more steps than these."""
LOOPS_PER_NODE = 0.6
"""Of a Manhattan world, where nothing else is asked for: about as many as manhattanOlson3500 has."""
COMPLETENESS = 0.5
"""Of the other shapes."""

_Shape = tuple[Array, Array, Index]


def make(
    shape: str,
    n: int,
    completeness: float | None,
    planar: bool,
    rng: np.random.Generator,
    *,
    loops_per_node: float | None = None,
    loop_reach: float | None = None,
) -> _Shape:
    """Orientations (n, 4), positions (n, 3) and measured pairs (m, 2) of one of :data:`SHAPES`."""
    if shape not in SHAPES:
        raise OptionError(f"unknown shape {shape!r}: choose one of {', '.join(SHAPES)}")
    if planar and shape not in PLANAR:
        raise OptionError(f"a {shape} does not lie in a plane: planar graphs are {', '.join(PLANAR)}")
    if completeness is not None and loops_per_node is not None:
        raise OptionError("give the completeness or the loop closures per node, not both")
    if loops_per_node is not None and shape == "random":
        raise OptionError("a random graph has no odometry and so no loops: give its completeness")
    if loop_reach is not None and not (shape in LOOP_REACH and loop_reach > 0.0):
        raise OptionError(f"a positive reach of loop closures is for the shapes {', '.join(LOOP_REACH)}")
    makers: dict[str, Callable[..., _Shape]] = {
        "random": random, "sphere": sphere, "torus": torus, "grid": grid, "trajectory": trajectory, "manhattan": manhattan,
    }  # fmt: skip
    if planar:
        makers |= {
            "random": planar_random, "grid": planar_grid, "trajectory": planar_trajectory, "manhattan": planar_manhattan,
        }  # fmt: skip
    maker = makers[shape] if loop_reach is None else partial(makers[shape], reach=loop_reach)
    if completeness is None and (loops_per_node is not None or shape == "manhattan"):
        wxyz, position, pairs = maker(n, 1.0, rng)
        return wxyz, position, _thinned(pairs, len(position), loops_per_node, rng)
    return maker(n, COMPLETENESS if completeness is None else completeness, rng)


def _thinned(pairs: Index, n: int, per_node: float | None, rng: np.random.Generator) -> Index:
    """The chain and so many of its closures per node."""
    wanted, there = round((LOOPS_PER_NODE if per_node is None else per_node) * n), len(pairs) - (n - 1)
    if per_node is not None and not 0 <= wanted <= there:
        raise OptionError(f"0 to {there / n:.3g} loop closures per node are possible here, not {per_node:g}")
    return np.concatenate([pairs[: n - 1], pairs[n - 1 :][np.sort(rng.permutation(there)[:wanted])]])


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
    return _facing(np.gradient(position, axis=0))


def _facing(forward: Array) -> Array:
    """Orientations whose x axis has these directions (n, 3), with z as near to up as it can be."""
    forward = forward / np.maximum(np.linalg.norm(forward, axis=1, keepdims=True), 1e-12)
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


def trajectory(
    n: int, completeness: float, rng: np.random.Generator, reach: float = LOOP_REACH["trajectory"]
) -> _Shape:
    """A path that wanders smoothly inside a disc of constant density, so that every size has alike neighbourhoods."""
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
    return _heading(position), position, _chain_and_closures(n, _near_itself(position, reach), completeness, rng)


def _near_itself(position: Array, reach: float) -> Index:
    """Pairs (m, 2) of nodes that are within reach of each other on the map, but many steps apart."""
    from scipy.spatial import cKDTree

    near = cKDTree(position[:, :2]).query_pairs(reach, output_type="ndarray").astype(np.int64).reshape(-1, 2)
    near = near[np.lexsort((near[:, 1], near[:, 0]))]
    return np.asarray(near[np.abs(near[:, 1] - near[:, 0]) > FEWEST_STEPS])


def planar_trajectory(
    n: int, completeness: float, rng: np.random.Generator, reach: float = LOOP_REACH["trajectory"]
) -> _Shape:
    """The same path without its hills."""
    _, position, pairs = trajectory(n, completeness, rng, reach)
    position[:, 2] = 0.0
    forward = np.gradient(position, axis=0)
    return about_z(np.arctan2(forward[:, 1], forward[:, 0])), position, pairs


_BLOCK = 4  # steps from one crossing to the next
_VISITS = 3.0  # how often the walk comes by a place, roughly
_STRAIGHT = 0.5  # of the robots at a crossing go straight ahead, if they can
_STEPS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])  # east, north, west, south


def manhattan(n: int, completeness: float, rng: np.random.Generator, reach: float = LOOP_REACH["manhattan"]) -> _Shape:
    """A walk through streets over gentle hills, a place always at the same height."""
    cell, way = _streets(n, rng)
    position = np.zeros((n, 3))
    position[:, :2] = cell
    wave = 2.0 * np.pi / (6.0 * _BLOCK)
    position[:, 2] = np.sin(wave * position[:, 0]) * np.sin(wave * position[:, 1])
    forward = np.zeros((n, 3))
    forward[:, :2] = _STEPS[way]
    slope = wave * np.stack(
        [
            np.cos(wave * position[:, 0]) * np.sin(wave * position[:, 1]),
            np.sin(wave * position[:, 0]) * np.cos(wave * position[:, 1]),
        ],
        axis=1,
    )
    forward[:, 2] = np.sum(slope * forward[:, :2], axis=1)
    return _facing(forward), position, _chain_and_closures(n, _near_itself(position, reach), completeness, rng)


def planar_manhattan(
    n: int, completeness: float, rng: np.random.Generator, reach: float = LOOP_REACH["manhattan"]
) -> _Shape:
    """The same streets without hills."""
    cell, way = _streets(n, rng)
    position = np.zeros((n, 3))
    position[:, :2] = cell
    closures = _near_itself(position, reach)
    return about_z(0.5 * np.pi * way.astype(np.float64)), position, _chain_and_closures(n, closures, completeness, rng)


def _streets(n: int, rng: np.random.Generator) -> tuple[Index, Index]:
    """Cells (n, 2) of a walk in unit steps, and which way (n,) the robot faces, in quarter turns from east.

    The robot turns at crossings only, never back, and stays within a square that it sees a few times over.
    """
    side = _BLOCK * max(2, round(np.sqrt(n / (2.0 * _BLOCK * _VISITS))))
    cell, way = np.zeros((n, 2), dtype=np.int64), np.zeros(n, dtype=np.int64)
    dice = rng.random((n, 2))
    for k in range(n):
        if k:
            cell[k], way[k] = cell[k - 1] + _STEPS[way[k - 1]], way[k - 1]
        if not np.any(cell[k] % _BLOCK):
            left, right = (way[k] + 1) % 4, (way[k] - 1) % 4
            turns = [left, right] if dice[k, 1] < 0.5 else [right, left]
            order = [way[k], *turns] if dice[k, 0] < _STRAIGHT else [*turns, way[k]]
            ahead = [w for w in order if np.all((cell[k] + _STEPS[w] >= 0) & (cell[k] + _STEPS[w] <= side))]
            way[k] = ahead[0]
    return cell, way
