r"""Distrusted edges that agree with each other: another explanation of the measurements, which independence cannot see.

The model takes wrong edges for independent of each other. Where what misleads them has one cause, say rooms that look alike, they
agree, and odds mean little; a result that rejects such edges, or keeps them, has a competitor.

Given poses, an edge that they contradict asks for a motion :math:`G` of the one end, the other held,

.. math::  G\, T_v = T_u \cdot {}_u T_v ,

so each distrusted edge makes two *proposals*, one for either end. Edges whose proposals are the same motion are all
satisfied if a part of the graph that has their moved ends, and not the others, is moved by it. By chance a proposal of an
independent wrong edge is within angle θ of another with probability :math:`(θ - \sin θ)/π`; whether so many agree by chance is
a Poisson probability. The part is the one whose boundary crosses the fewest accepted edges (a minimum cut), which are those
that speak against it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse, special
from scipy.sparse import csgraph

from tempose._typing import Array, Index, Mask, NodeId
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.outliers.loose_parts import ACCEPTED, elsewhere, spread

# chosen on: 3DMatch, all five scenes, and simulated graphs without competing edges
BY_CHANCE = 1e-4  # a more probable agreement is none
_LIMIT = {6: 8.41, 3: 5.67, 1: 3.32}  # half the 0.99 quantile of χ² with as many numbers
_POSES = math.sqrt(2.0)  # factor of σ: the poses are as uncertain as the edge, at most
_MOST_LEADS = 400  # a part that a hundredth of the distrusted edges would move has four of them
_MOST_TRIED = 6
FEWEST = 3
"""Edges that agree, at least, to be no chance."""


@dataclass(frozen=True, eq=False)
class Alternative:
    """Another place of a part of the graph, on which distrusted edges agree.

    Attributes
    ----------
    node_ids
        Of the graph.
    nodes
        Rows of the nodes that would move.
    motion
        Of the world, (wxyz, translation): where they would move to.
    edges
        Rows of the distrusted edges that would be satisfied.
    against
        Number of accepted edges that would not be.
    chance
        Bound on the probability that so many independent wrong edges agree anywhere in this graph.
    """

    node_ids: tuple[NodeId, ...]
    nodes: Index
    motion: tuple[Array, Array]
    edges: Index
    against: int
    chance: float

    def moved(self, poses: Poses) -> Poses:
        """The poses with the part moved."""
        wxyz, position = poses.wxyz.copy(), poses.position.copy()
        turn, shift = self.motion
        wxyz[self.nodes] = quat.normalize(quat.multiply(turn, wxyz[self.nodes]))
        position[self.nodes] = quat.rotate(turn, position[self.nodes]) + shift
        return Poses(poses.ids, wxyz, position)

    def is_elsewhere(self, poses: Poses, sigmas: tuple[float, float]) -> bool:
        """Whether it moves its nodes further than noise of these σ does."""
        distance = np.linalg.norm(self.moved(poses).position - poses.position, axis=1)[self.nodes]
        angle = np.full(len(self.nodes), quat.angle(self.motion[0]))
        return bool(np.any(elsewhere(sigmas, angle, distance)))


def alternatives(graph: PoseGraph, poses: Poses, inlier_probability: Array, most: int = 3) -> tuple[Alternative, ...]:
    """Other places of parts of the graph on which more distrusted edges agree than chance explains; the most edges first.

    Parameters
    ----------
    graph
        With the precisions that the poses were found with.
    inlier_probability
        Of each edge (m,); those above one half are accepted, the others distrusted.
    """
    accepted = inlier_probability > ACCEPTED
    sigmas = spread(graph, poses, accepted)
    proposals = _Proposals.of(graph, poses, accepted, sigmas)
    n = len(proposals.edge)
    if n < 2 * FEWEST:
        return ()
    leads = np.linspace(0, n - 1, min(n, _MOST_LEADS)).round().astype(np.int64)
    like, expected = _agreement(proposals, leads)

    def chance(count: int, lead: int) -> float:
        # of a Poisson number, to be larger than count − 2: one of them is the lead
        return len(leads) * (float(special.pdtrc(count - 2, expected[lead])) if count > 1 else 1.0)

    found: list[Alternative] = []
    for _ in range(_MOST_TRIED):
        count = like.sum(axis=1)
        first = int(count.argmax())
        if count[first] < FEWEST or chance(int(count[first]), first) > BY_CHANCE:
            break
        members = np.flatnonzero(like[first])
        one = _alternative(graph, accepted, proposals, members, int(leads[first]))
        if len(one.edges) >= FEWEST and chance(len(one.edges), first) <= BY_CHANCE and one.is_elsewhere(poses, sigmas):
            found.append(replace(one, chance=chance(len(one.edges), first)))
        taken = np.isin(proposals.edge, proposals.edge[members])
        like[:, taken] = False
        like[taken[leads]] = False
    return tuple(sorted(found, key=lambda one: -len(one.edges))[:most])


def turned_by_chance(angle: float, planar: bool) -> float:
    """Probability that two uniform rotations are within an angle of each other."""
    angle = min(angle, math.pi)
    return angle / math.pi if planar else (angle - math.sin(angle)) / math.pi


def _agreement(proposals: _Proposals, leads: Index) -> tuple[Mask, Array]:
    """Proposals (leads, 2k) of the same motion as each lead, and how many of independent edges there would be (leads,).

    What chance does is read from the proposals around a lead, one to three times as far off as those that agree. Of independent
    edges half as many agree in their rotations if all turn about one axis, and fewer if not, though never fewer than of uniform
    rotations; and in their places a third as many or fewer (an eighth where they are even over a plane).
    """
    n, limit = len(proposals.edge), proposals.limit
    like = np.zeros((len(leads), n), dtype=bool)
    rotations, places = np.zeros(len(leads)), np.zeros(len(leads))
    for k, lead in enumerate(leads.tolist()):
        turned, apart = proposals.energies(lead)
        energy, other = turned + apart, np.roll(turned + apart, n // 2)
        like[k] = (energy < limit) & (energy <= other)  # of the two proposals of one edge, the better one
        rotations[k] = np.mean((turned >= limit) & (turned < 9.0 * limit)) / 2.0
        places[k] = np.mean((apart >= limit) & (apart < 9.0 * limit)) / 3.0
    places[~proposals.placed[leads]] = 1.0
    rotation = max(proposals.chance, float(rotations.mean()))
    return like, n * rotation * np.maximum(places, places.mean())


@dataclass(frozen=True, eq=False)
class _Proposals:
    """Motions that distrusted edges ask for: each for its moved node, the other held, and then the other way round.

    ``turn`` is the rotation of the world, ``origin`` where the moved node is and ``target`` where it should be; ``placed`` says
    whether the edge knows that. ``sigma_rot``, ``sigma_trans`` are what proposals of edges that agree differ by; ``planar``: all
    turn about z.
    """

    edge: Index
    moved: Index
    held: Index
    turn: Array
    origin: Array
    target: Array
    placed: Mask
    sigma_rot: float
    sigma_trans: float
    planar: bool = False

    @classmethod
    def of(cls, graph: PoseGraph, poses: Poses, accepted: Mask, sigmas: tuple[float, float]) -> _Proposals:
        rows = np.flatnonzero(~accepted & graph.has_rotation & ~graph.is_absolute)
        edge = np.concatenate([rows, rows])
        moved = np.concatenate([graph.edge_i[rows], graph.edge_j[rows]])
        held = np.concatenate([graph.edge_j[rows], graph.edge_i[rows]])
        held_from_moved = graph.measured(moved, held, edge)
        wxyz, target = se3.compose((poses.wxyz[held], poses.position[held]), held_from_moved)
        turn = quat.multiply(wxyz, quat.conjugate(poses.wxyz[moved]))
        return cls(
            edge, moved, held, turn, poses.position[moved], target, graph.has_translation[edge],
            _POSES * sigmas[0], _POSES * sigmas[1], graph.is_planar,
        )  # fmt: skip

    @property
    def limit(self) -> float:
        return _LIMIT[(3 if self.planar else 6) if self.placed.any() else (1 if self.planar else 3)]

    @property
    def chance(self) -> float:
        """Probability that the rotation of an independent wrong edge is near enough to that of another."""
        return turned_by_chance(2.0 * self.sigma_rot * math.sqrt(self.limit), self.planar)

    def energies(self, lead: int) -> tuple[Array, Array]:
        """How much each proposal (2k,) differs from ``lead`` in rotation, and in where it takes its node."""
        turned = quat.angle_between(self.turn[lead], self.turn) ** 2 / (4.0 * self.sigma_rot**2)
        if not self.placed[lead]:
            return turned, np.zeros_like(turned)
        # with its own rotation, so that for independent edges the two differences are independent
        there = self.target[lead] + quat.rotate(self.turn, self.origin - self.origin[lead])
        apart = np.sum((there - self.target) ** 2, axis=1)
        # over the distance between the two nodes the rotation noise of one swings the other's place
        lever = np.sum((self.origin - self.origin[lead]) ** 2, axis=1)
        return turned, np.where(self.placed, apart / (4.0 * self.sigma_trans**2 + 2.0 * self.sigma_rot**2 * lever), 0.0)

    def mean(self, members: Index, lead: int) -> tuple[Array, Array]:
        """Mean motion of some."""
        sign = np.where(self.turn[members] @ self.turn[lead] < 0.0, -1.0, 1.0)
        turn = quat.normalize(sign @ self.turn[members])
        placed = members[self.placed[members]]
        if not len(placed):
            return turn, np.zeros(3)
        return turn, np.mean(self.target[placed] - quat.rotate(turn, self.origin[placed]), axis=0)


def _alternative(graph: PoseGraph, accepted: Mask, proposals: _Proposals, members: Index, lead: int) -> Alternative:
    """The part that has the moved ends and not the held ones, cut off along the fewest accepted edges."""
    n = graph.n_nodes
    role = np.bincount(proposals.moved[members], minlength=n) - np.bincount(proposals.held[members], minlength=n)
    inside = _cut(graph.with_edges(accepted), role > 0, role < 0)
    satisfied = members[inside[proposals.moved[members]] & ~inside[proposals.held[members]]]
    i, j = graph.edge_i[accepted], graph.edge_j[accepted]
    motion = proposals.mean(satisfied if len(satisfied) else members, lead)
    outside = ~inside & (graph.component == graph.component[proposals.moved[lead]])
    # the smaller side moves, the other way, unless it is held
    if (inside.sum() > outside.sum() and not np.any(graph.is_fixed & outside)) or np.any(graph.is_fixed & inside):
        inside, motion = outside, se3.inverse(motion)
    edges = np.sort(proposals.edge[satisfied])
    return Alternative(graph.node_ids, np.flatnonzero(inside), motion, edges, int(np.sum(inside[i] != inside[j])), 1.0)


def _cut(graph: PoseGraph, source: Mask, sink: Mask) -> Mask:
    """The nodes (n,) on the side of ``source`` of the smallest set of edges that parts it from ``sink``."""
    n, m = graph.n_nodes, graph.n_edges
    begins, ends = np.flatnonzero(source), np.flatnonzero(sink)
    rows = np.concatenate([graph.edge_i, graph.edge_j, np.full(len(begins), n), ends])
    columns = np.concatenate([graph.edge_j, graph.edge_i, begins, np.full(len(ends), n + 1)])
    room = np.concatenate([np.ones(2 * m), np.full(len(begins) + len(ends), m + 1)]).astype(np.int32)
    capacity = sparse.csr_array((room, (rows, columns)), shape=(n + 2, n + 2))
    left = sparse.csr_array((capacity - csgraph.maximum_flow(capacity, n, n + 1).flow) > 0)
    inside = np.zeros(n + 2, dtype=bool)
    inside[csgraph.breadth_first_order(left, n, return_predecessors=False)] = True
    return inside[:n]
