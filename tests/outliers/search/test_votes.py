"""The compiled loops of the search for the basin against readable twins: growing, votes, joining."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.outliers.search import votes
from tempose.outliers.search.triangles import HalfEdges, triangles
from tempose.outliers.search.votes import Narrow
from tempose.simulation import corrupt, simulate

Pose = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Prediction:
    """A pose, how certain its rotation and position are, the numbers it has, the weight of its vote, and its bonus."""

    pose: Pose
    rot: float
    trans: float
    freedom: float
    odds: float = 1.0
    bonus: float = 0.0


def agreement(a: Prediction, b: Prediction) -> float:
    """``(1 + e/d)⁻²``, e the energy of the difference under the noise of both."""
    energy = 4.0 * np.sin(0.5 * quat.angle_between(a.pose[0], b.pose[0])) ** 2 / (1.0 / a.rot + 1.0 / b.rot)
    if a.trans > 0.0 and b.trans > 0.0:
        energy += np.sum((a.pose[1] - b.pose[1]) ** 2) / (1.0 / a.trans + 1.0 / b.trans)
    return float((1.0 + energy / min(a.freedom, b.freedom)) ** -2)


def mean_pose(poses: list[Pose], weights: list[float], placed: list[bool], like: np.ndarray) -> Pose:
    """Weighted mean, quaternions with the sign of ``like``; of the positions only those that are known."""
    q = sum(w * np.sign(pose[0] @ like) * pose[0] for pose, w in zip(poses, weights, strict=True))
    known = [k for k, yes in enumerate(placed) if yes]
    p = sum(weights[k] * poses[k][1] for k in known) / sum(weights[k] for k in known) if known else np.zeros(3)
    return quat.normalize(q), p


def blend(predictions: list[Prediction], best: Prediction) -> Pose:
    weights = [agreement(best, one) for one in predictions]
    wxyz, position = mean_pose(
        [one.pose for one in predictions], weights, [one.trans > 0.0 for one in predictions], best.pose[0]
    )
    return wxyz, position if any(one.trans > 0.0 for one in predictions) else best.pose[1]


def predictions(narrow: Narrow, support: np.ndarray, v: int, known: dict[int, Pose]) -> list[Prediction]:
    """Where the neighbours whose poses are known say that node v is."""
    graph, found = narrow.graph, []
    for k in np.flatnonzero((graph.edge_i == v) | (graph.edge_j == v)):
        u = int(graph.edge_j[k] if graph.edge_i[k] == v else graph.edge_i[k])
        if u in known:
            q, t = graph.measured(np.array([v]), np.array([u]), np.array([k]))
            pose = se3.compose(known[u], (q[0], t[0]))
            odds = float(narrow.odds[k])
            found.append(
                Prediction(pose, narrow.rot[k], narrow.trans[k], narrow.freedom[k], odds, 0.3 * support[k] * odds)
            )
    return found


def votes_for(one: Prediction, all_of_them: list[Prediction]) -> float:
    return sum(other.odds * agreement(one, other) for other in all_of_them)


def plain_grow(narrow: Narrow, support: np.ndarray, seeds: np.ndarray) -> dict[int, Pose]:
    known: dict[int, Pose] = {}
    while len(known) < narrow.graph.n_nodes:
        best: tuple[float, int, Pose] = (0.0, -1, (quat.IDENTITY, np.zeros(3)))
        for v in set(range(narrow.graph.n_nodes)) - set(known):
            said = predictions(narrow, support, v, known)
            for one in said:
                score = votes_for(one, said) + one.bonus
                if score > best[0]:
                    best = (score, v, blend(said, one))
        v = best[1] if best[1] >= 0 else next(int(v) for v in seeds if int(v) not in known)
        known[v] = best[2]
    return known


def plain_vote(narrow: Narrow, poses: Poses, v: int) -> tuple[Pose, float, float]:
    """Where the neighbours of v want it to be, the votes for that, and those for where it is."""
    known = {u: (poses.wxyz[u], poses.position[u]) for u in range(len(poses))}
    said = predictions(narrow, np.zeros(narrow.graph.n_edges), v, known)
    favourite = max(said, key=lambda one: votes_for(one, said))
    wanted = blend(said, favourite)
    there, here = (votes_for(Prediction(pose, 1e30, 1e30, 6.0), said) for pose in (wanted, known[v]))
    return wanted, there, here


@dataclass(frozen=True)
class Asked:
    """The motion ``a_from_b`` between two parts that an edge asks for, and where in b it holds."""

    edge: int
    motion: Pose
    at: np.ndarray


class PlainMerge:
    """Joining parts, by the geometry module."""

    def __init__(self, narrow: Narrow, support: np.ndarray) -> None:
        self.narrow, self.graph = narrow, narrow.graph
        self.bonus = 0.3 * support * narrow.odds
        n = self.graph.n_nodes
        self.part = np.arange(n)
        self.pose: list[Pose] = [(quat.IDENTITY, np.zeros(3)) for _ in range(n)]
        self.score = narrow.odds + self.bonus

    def asked(self, k: int, a: int) -> Asked:
        i, j = int(self.graph.edge_i[k]), int(self.graph.edge_j[k])
        said = se3.compose(self.pose[j], (self.graph.j_from_i_wxyz[k], np.nan_to_num(self.graph.j_from_i_t[k])))
        if self.part[i] == a:
            return Asked(k, se3.compose(self.pose[i], se3.inverse(said)), self.pose[j][1])
        return Asked(k, se3.compose(said, se3.inverse(self.pose[i])), self.pose[i][1])

    def same(self, a: Asked, b: Asked) -> float:
        rot, trans = self.narrow.rot, self.narrow.trans
        angle = quat.angle_between(a.motion[0], b.motion[0])
        energy = 4.0 * np.sin(0.5 * angle) ** 2 / (1.0 / rot[a.edge] + 1.0 / rot[b.edge])
        if trans[a.edge] > 0.0 and trans[b.edge] > 0.0:
            first, second = (quat.rotate(one.motion[0], b.at) + one.motion[1] for one in (a, b))
            lever = np.sum((a.at - b.at) ** 2) / rot[a.edge]
            energy += np.sum((first - second) ** 2) / (1.0 / trans[a.edge] + 1.0 / trans[b.edge] + lever)
        reach = min(self.narrow.freedom[a.edge], self.narrow.freedom[b.edge])
        return float((1.0 + energy / reach) ** -2)

    def crossing(self, a: int, b: int) -> list[int]:
        ends = np.stack([self.part[self.graph.edge_i], self.part[self.graph.edge_j]])
        return [int(k) for k in np.flatnonzero((ends.min(axis=0) == min(a, b)) & (ends.max(axis=0) == max(a, b)))]

    def rescore(self, a: int) -> None:
        for b in set(self.part.tolist()) - {a}:
            all_of_them = [self.asked(k, a) for k in self.crossing(a, b)]
            for one in all_of_them:
                others = sum(self.narrow.odds[two.edge] * self.same(one, two) for two in all_of_them if two is not one)
                self.score[one.edge] = self.narrow.odds[one.edge] + self.bonus[one.edge] + others

    def run(self) -> list[Pose]:
        for a in range(self.graph.n_nodes):
            self.rescore(a)
        while len(set(self.part.tolist())) > 1:
            apart = self.part[self.graph.edge_i] != self.part[self.graph.edge_j]
            lead = int(np.argmax(np.where(apart, self.score, -np.inf)))
            a, b = int(self.part[self.graph.edge_i[lead]]), int(self.part[self.graph.edge_j[lead]])
            if np.sum(self.part == b) > np.sum(self.part == a):
                a, b = b, a
            self.join(a, b, lead)
            self.rescore(a)
        return self.pose

    def join(self, a: int, b: int, lead: int) -> None:
        members = np.flatnonzero(self.part == b)
        middle = np.mean([self.pose[v][1] for v in members], axis=0)
        first = self.asked(lead, a)
        asked = [self.asked(k, a) for k in self.crossing(a, b)]
        wanted = [(one.motion[0], quat.rotate(one.motion[0], middle) + one.motion[1]) for one in asked]
        weights = [self.narrow.odds[one.edge] * self.same(first, one) for one in asked]
        placed = [bool(self.narrow.trans[one.edge] > 0.0 or self.narrow.trans[lead] == 0.0) for one in asked]
        turn, centre = mean_pose(wanted, weights, placed, first.motion[0])
        for v in members:
            wxyz, position = self.pose[v]
            self.pose[v] = quat.multiply(turn, wxyz), centre + quat.rotate(turn, position - middle)
            self.part[v] = a


# ---------------------------------------------------------------------- the compiled loops against them


def problem(translations: str, seed: int) -> tuple[Narrow, np.ndarray]:
    """A small graph with wrong edges, parallel ones and prior odds; without translations, with all, or with some."""
    graph = corrupt(simulate(9, completeness=0.7, seed=seed).graph, 0.3, seed=seed, kind="uniform").graph
    twice = np.arange(graph.n_edges) < 3
    rng = np.random.default_rng(seed)
    more = graph.j_from_i_wxyz[twice], graph.j_from_i_t[twice] + 0.02 * rng.standard_normal((3, 3))
    graph = PoseGraph(
        graph.node_ids,
        np.concatenate([graph.edge_i, graph.edge_i[twice]]),
        np.concatenate([graph.edge_j, graph.edge_j[twice]]),
        np.concatenate([graph.j_from_i_wxyz, more[0]]),
        np.concatenate([graph.j_from_i_t, more[1]]),
        graph.concentration[0] * rng.uniform(0.5, 2.0, graph.n_edges + 3),
        graph.translation_precision[0],
    )
    if translations != "all":
        missing = np.ones(graph.n_edges, dtype=bool) if translations == "none" else rng.random(graph.n_edges) < 0.3
        graph = replace(graph, j_from_i_t=np.where(missing[:, None], np.nan, graph.j_from_i_t))
    halves = HalfEdges.of(graph)
    found = triangles(graph, halves)
    narrow = Narrow.of(graph, halves, 0.05, 0.05, rng.uniform(0.2, 0.9, graph.n_edges))
    return narrow, found.support


def assert_same(poses: Poses, wanted: list[Pose]) -> None:
    np.testing.assert_allclose(quat.angle_between(poses.wxyz, np.stack([q for q, _ in wanted])), 0.0, atol=1e-6)
    np.testing.assert_allclose(poses.position, np.stack([p for _, p in wanted]), atol=1e-9)


@pytest.mark.parametrize("translations", ["all", "some", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_growing(translations: str, seed: int) -> None:
    narrow, support = problem(translations, seed)
    seeds = np.random.default_rng(seed).permutation(9)
    wanted = plain_grow(narrow, support, seeds)
    assert_same(votes.grow(narrow, support, seeds), [wanted[v] for v in range(9)])


@pytest.mark.parametrize("translations", ["all", "some", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_joining(translations: str, seed: int) -> None:
    narrow, support = problem(translations, seed)
    assert_same(votes.merge(narrow, support), PlainMerge(narrow, support).run())


@pytest.mark.parametrize("translations", ["all", "some", "none"])
def test_votes(translations: str) -> None:
    narrow, support = problem(translations, 5)
    poses = votes.grow(narrow, support, np.arange(9))
    rng = np.random.default_rng(0)
    lost = Poses(
        poses.ids,
        np.where(np.arange(9)[:, None] % 4 == 0, quat.random_uniform(rng, 9), poses.wxyz),
        poses.position,
    )
    wanted = [plain_vote(narrow, lost, v) for v in range(9)]
    gain = np.array([max(there - here, 0.0) if there > here + 0.5 else 0.0 for _, there, here in wanted])
    i, j = narrow.graph.edge_i, narrow.graph.edge_j
    rival = np.array([max([0.0, *gain[j[i == v]], *gain[i[j == v]]]) for v in range(9)])
    moves = (gain > 0.0) & (gain >= rival)
    moved, count = votes.vote(narrow, lost)
    assert count == moves.sum() > 0
    assert_same(
        moved, [wanted[v][0] if moves[v] else (lost.wxyz[v], lost.position[v]) for v in range(9)]
    )  # fmt: skip
