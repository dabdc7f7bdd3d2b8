r"""Places that look like others: many wrong measurements that agree with each other.

A stretch of the path, *there*, looks like an earlier one, *here*. Whoever is there is taken to be here: by one false motion M of
the world, the same for all nodes there, so that an edge from a node i here to a node j there measures

.. math::  (M \circ x_j)^{-1} \circ x_i ,

with noise as any other. M puts the middle of the one stretch near the middle of the other, and turns about the vertical as rooms
and streets do: mostly by nothing, a half or a quarter of a turn. Some of the places lie far from each other, some next door.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempose._support import streams
from tempose._typing import Array, Index
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.order import known_order
from tempose.model.poses import Poses
from tempose.simulation.measuring import measure_again, with_world
from tempose.simulation.shapes import FEWEST_STEPS, about_z
from tempose.simulation.wrong import Corrupted, corrupt, is_loop

ALIAS_NODES = 8
"""Nodes of a stretch that looks like another."""
ALIAS_EDGES = (2, 30)
"""Fewest and most wrong edges of a look-alike; their logarithm is uniform."""
TURNS_DEG = {0.0: 0.4, 90.0: 0.1, 180.0: 0.3, 270.0: 0.1}
"""How often M turns by what; any angle otherwise."""
NEXT_DOOR = 0.5
"""Share of the look-alikes that lie within :data:`NEAR` of each other, if there are such places."""
NEAR = (2.0, 8.0)
"""Steps from the middle of a place to one next door."""
LOOP_KINDS = ("independent", "lookalikes")

_OFFSET = 0.5  # steps by which M misses the middle
_TRIES = 200


@dataclass(frozen=True, eq=False)
class Alias:
    """A place that looks like an earlier one.

    Attributes
    ----------
    here, there
        Rows of the nodes of the earlier stretch and of the later one.
    wxyz, t
        The false motion M of the world (4,) and (3,): where nodes there seem to be, from where they are.
    pairs
        Rows (k, 2) of the nodes between which there are wrong edges, from here to there.
    """

    here: Index
    there: Index
    wxyz: Array
    t: Array
    pairs: Index


def draw_aliases(
    poses: Poses,
    count: int,
    rng: np.random.Generator,
    *,
    planar: bool,
    reach: float,
    nodes: int = ALIAS_NODES,
    taken: Index | None = None,
) -> list[Alias]:
    """Places that look like others, along a path whose nodes are in order.

    Parameters
    ----------
    reach
        How near a node here and a node there seem to be, if they are measured: as for loop closures.
    nodes
        Of a stretch.
    taken
        Pairs of rows (k, 2) that are measured already, and stay so.
    """
    path = _Path(poses, reach, planar, set() if taken is None else {_key(pair) for pair in taken.tolist()})
    return [path.alias(nodes, _edge_count(rng), rng) for _ in range(count)]


def see_displaced(graph: PoseGraph, poses: Poses, rows: Index, wxyz: Array, t: Array) -> PoseGraph:
    """Edges ``rows`` as if the world of their nodes j had been moved, each with the error that it has.

    Parameters
    ----------
    rows
        Edges (k,), motions between poses.
    wxyz, t
        False motions (k, 4) and (k, 3) of the world.
    """
    q, p = with_world(graph, poses).node_from_world
    i, j = graph.edge_i[rows], graph.edge_j[rows]
    to_i = se3.inverse((q[i], p[i]))
    true = se3.compose((q[j], p[j]), to_i)
    false = se3.compose(se3.compose((q[j], p[j]), se3.inverse((wxyz, t))), to_i)
    error = quat.multiply(graph.j_from_i_wxyz[rows], quat.conjugate(true[0]))
    changed_wxyz, changed_t = graph.j_from_i_wxyz.copy(), graph.j_from_i_t.copy()
    changed_wxyz[rows] = quat.canonical(quat.multiply(error, false[0]))
    changed_t[rows] += false[1] - true[1]  # the noise of a translation is added
    return replace(graph, j_from_i_wxyz=changed_wxyz, j_from_i_t=changed_t)


def replace_loops(
    graph: PoseGraph,
    poses: Poses,
    share: float,
    kind: str = "independent",
    *,
    seed: int = 0,
    places: int | None = None,
) -> Corrupted:
    """Replace a share of a graph's loop closures by wrong ones; odometry and the other loops stay as they are.

    Parameters
    ----------
    poses
        Where the nodes are, truly or by an estimate.
    share
        Of the loop closures: the motions between ids that do not follow each other.
    kind
        ``independent``: the same pairs of nodes, any rotation, and a translation from one random place of the scene to another.
        ``lookalikes``: other pairs of nodes, which are far from each other or next door and measured as if they were at one
        place; those of a place agree with each other. They have the precisions of the loops that they replace, and such noise.
    places
        How many places look like others; by default as many as it takes with :data:`ALIAS_EDGES` each.
    """
    if kind not in LOOP_KINDS:
        raise OptionError(f"unknown kind of wrong loops {kind!r}: choose {' or '.join(LOOP_KINDS)}")
    if kind == "independent":
        return corrupt(graph, share, seed=seed, kind="scene", edges="loops", poses=poses)
    if not 0.0 <= share <= 1.0:
        raise OptionError(f"the share of wrong loops must be in [0, 1], not {share}")
    rng = streams.generator(seed, "corrupt", 4)
    loops = np.flatnonzero(is_loop(graph))
    chosen = np.sort(rng.permutation(loops)[: round(share * len(loops))])
    is_wrong, alias = np.zeros(graph.n_edges, dtype=bool), np.full(graph.n_edges, -1)
    if not len(chosen):
        return Corrupted(graph, is_wrong, alias)
    order = _in_order(graph)
    path = _Path(
        poses.select([graph.node_ids[v] for v in order]),
        float(np.quantile(np.linalg.norm(graph.j_from_i_t[loops], axis=1), 0.95)),
        graph.is_planar,
        set(),
    )
    found: list[Alias] = []
    for size in _sizes(len(chosen), places, rng):
        found.append(path.alias(max(ALIAS_NODES, size), size, rng, exactly=True))
    pairs = order[np.concatenate([one.pairs for one in found])]
    is_wrong[chosen] = True
    alias[chosen] = np.repeat(np.arange(len(found)), [len(one.pairs) for one in found])
    i, j = graph.edge_i.copy(), graph.edge_j.copy()
    i[chosen], j[chosen] = pairs[:, 0], pairs[:, 1]
    joined = replace(graph, edge_i=i, edge_j=j)
    again = measure_again(joined, poses, rng)
    wxyz, t = graph.j_from_i_wxyz.copy(), graph.j_from_i_t.copy()
    wxyz[chosen], t[chosen] = again.j_from_i_wxyz[chosen], again.j_from_i_t[chosen]
    motion = [found[k] for k in alias[chosen]]
    false = see_displaced(
        replace(joined, j_from_i_wxyz=wxyz, j_from_i_t=t),
        poses,
        chosen,
        np.array([one.wxyz for one in motion]),
        np.array([one.t for one in motion]),
    )
    return Corrupted(false, is_wrong, alias)


def _in_order(graph: PoseGraph) -> Index:
    """Rows of the poses in the order in which they were recorded."""
    place = known_order(graph).place
    rows = np.flatnonzero(place >= 0)
    return np.asarray(rows[np.argsort(place[rows])])


def _edge_count(rng: np.random.Generator) -> int:
    low, high = np.log(ALIAS_EDGES[0]), np.log(ALIAS_EDGES[1] + 1.0)
    return int(np.exp(rng.uniform(low, high)))


def _sizes(total: int, places: int | None, rng: np.random.Generator) -> list[int]:
    """How many of ``total`` edges each place has."""
    if places is not None:
        if not 1 <= places <= total:
            raise OptionError(f"{total} wrong loops are seen at 1 to {total} places, not {places}")
        return [len(part) for part in np.array_split(np.arange(total), places)]
    sizes: list[int] = []
    while sum(sizes) < total:
        sizes.append(min(_edge_count(rng), total - sum(sizes)))
    return sizes


def _key(pair: list[int]) -> tuple[int, int]:
    return min(pair), max(pair)


class _Path:
    """Nodes in order, on which look-alike places are found; pairs are measured once."""

    def __init__(self, poses: Poses, reach: float, planar: bool, taken: set[tuple[int, int]]) -> None:
        self.poses, self.planar, self.taken = poses, planar, taken
        steps = np.linalg.norm(np.diff(poses.position, axis=0), axis=1)
        self.step = float(np.median(steps)) if len(steps) else 1.0
        self.reach = max(reach, self.step)

    def alias(self, nodes: int, edges: int, rng: np.random.Generator, *, exactly: bool = False) -> Alias:
        """A place of so many nodes with so many wrong edges, or with as many as there can be."""
        n = len(self.poses)
        if nodes < 2 or 2 * nodes + FEWEST_STEPS > n:
            raise OptionError(
                f"two look-alike places of {nodes} nodes need a path of {2 * nodes + FEWEST_STEPS} nodes, not {n}: "
                "take more nodes, or shorter places"
            )
        best: Alias | None = None
        for _ in range(_TRIES):
            found = self._attempt(nodes, edges, rng)
            if found is not None and (best is None or len(found.pairs) > len(best.pairs)):
                best = found
            if best is not None and len(best.pairs) == edges:
                break
        if best is None or len(best.pairs) < (edges if exactly else min(edges, ALIAS_EDGES[0])):
            raise OptionError(
                "no two places of this path can be taken for each other: take fewer of them, or more nodes"
            )
        self.taken |= {_key(pair) for pair in best.pairs.tolist()}
        return best

    def _attempt(self, nodes: int, edges: int, rng: np.random.Generator) -> Alias | None:
        n, position = len(self.poses), self.poses.position
        start, near = int(rng.integers(n - nodes + 1)), rng.random() < NEXT_DOOR
        others = np.arange(n - nodes + 1)
        others = others[np.abs(others - start) >= nodes + FEWEST_STEPS]
        apart = np.linalg.norm(position[others + nodes // 2] - position[start + nodes // 2], axis=1) / self.step
        others = others[(apart >= NEAR[0]) & (apart <= NEAR[1]) if near else apart > NEAR[1]]
        chance, any_turn, offset = rng.random(), rng.uniform(0.0, 360.0), rng.standard_normal(3)
        if not len(others):
            return None
        first, second = sorted((start, int(rng.choice(others))))
        here, there = np.arange(first, first + nodes), np.arange(second, second + nodes)
        bounds = np.cumsum(list(TURNS_DEG.values()))
        which = int(np.searchsorted(bounds, chance, side="right"))
        turn_deg = list(TURNS_DEG)[which] if which < len(TURNS_DEG) else any_turn
        wxyz = about_z(np.radians([turn_deg]))[0]
        offset[2] = 0.0
        middle, seems = position[there[nodes // 2]], position[here[nodes // 2]] + _OFFSET * self.step * offset
        if np.linalg.norm(seems - middle) < NEAR[0] * self.step and min(turn_deg, 360.0 - turn_deg) < 45.0:
            return None  # next to nothing: such edges would be nearly right
        t = seems - quat.rotate(wxyz, middle)
        moved = quat.rotate(wxyz, position[there]) + t
        gap = np.linalg.norm(position[here][:, None] - moved[None], axis=2)
        u, v = np.nonzero(gap <= self.reach)
        pairs = [pair for pair in np.column_stack([here[u], there[v]]).tolist() if _key(pair) not in self.taken]
        if len(pairs) < min(edges, ALIAS_EDGES[0]):
            return None
        kept = np.sort(rng.permutation(len(pairs))[:edges])
        return Alias(here, there, wxyz, t, np.array(pairs, dtype=np.int64)[kept])
