"""A graph with two explanations, and a solution that has both, whatever the model of wrong edges thinks of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import tempose
from tempose.analysis.analysis import Analysis
from tempose.geometry import Similarity, se3
from tempose.geometry import quaternion as quat
from tempose.model.builder import GraphBuilder
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.outliers.options import Robust
from tempose.outliers.solutions import Explanation, Weighing

TURN = 15
"""The node that only two links hold, which contradict each other."""


def out_and_back(planar: bool, seed: int = 0) -> PoseGraph:
    """A way out and back, seen from both sides at every step but for the turn: one of its two links is wrong, nobody knows which.

    σ = 1° and 0.02; 31 nodes, of which all but the turn are measured from two or more others.
    """
    rng, n = np.random.default_rng([seed, 15]), 2 * TURN + 1
    step = np.arange(n)
    position = np.stack([np.minimum(step, 2 * TURN - step), 0.5 * (step > TURN), 0.0 * step], axis=1).astype(float)
    heading = np.where(step > TURN, np.pi, 0.0)
    if not planar:
        position[:, 2] = 0.3 * np.sin(0.7 * step)
    wxyz = quat.exp(np.stack([0.0 * step, 0.0 * step, heading], axis=1))
    builder = GraphBuilder(planar=planar)
    axes = np.array([0.0, 0.0, 1.0]) if planar else np.ones(3)
    across = [(i, j) for i in range(TURN) for j in (2 * TURN - i, 2 * TURN - i - 1) if j > TURN + 1]
    for i, j in [*((k, k + 1) for k in range(n - 1)), *across]:
        q, t = se3.a_from_b((wxyz[i], position[i]), (wxyz[j], position[j]))
        q = quat.multiply(quat.exp(np.radians(1.0) * axes * rng.standard_normal(3)), q)
        t = t + 0.02 * (1.0 - axes if planar else axes) * rng.standard_normal(3)
        if (i, j) == (TURN, TURN + 1):
            q, t = quat.multiply(quat.exp(np.array([0.0, 0.0, 1.2])), q), t + np.array([1.5, 0.5, 0.0])
        how = {"angle": 2.0 * np.arctan2(q[3], q[0]), "translation": t[:2]} if planar else {"wxyz": q, "translation": t}
        builder.add_edge(i, j, **how, sigma_rot_deg=1.0, sigma_trans=0.02)
    return builder.build()


def links(graph: PoseGraph) -> tuple[int, int]:
    """The two edges of the turn: the wrong one, and the right one."""
    ends = [set(pair) for pair in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)]
    return ends.index({TURN, TURN + 1}), ends.index({TURN - 1, TURN})


def contested(planar: bool, probabilities: tuple[float, float] = (0.55, 0.45)) -> tempose.Solution:
    """A robust solution with two explanations: that either link of the turn is wrong; the second in a frame of its own."""
    graph = out_and_back(planar)
    base = tempose.solve(graph, robust=Robust(inlier_probability=0.95, tail="gaussian", repeats="independent"), draws=0)
    found = []
    for k, (edge, probability) in enumerate(zip(links(graph), probabilities, strict=True)):
        poses = tempose.solve(graph.with_edges(np.arange(graph.n_edges) != edge), draws=0).estimate
        if k:
            poses = poses.moved(Similarity(quat.exp(np.array([0.0, 0.0, 2.0])), np.array([30.0, -7.0, 0.0])))
        prior = np.where(np.arange(graph.n_edges) == edge, 1e-6, base.likelihood.prior)
        moved = np.array([TURN] if k else [], dtype=np.int64)
        found.append(Explanation(probability, poses, prior, moved, np.array([edge])))
    first, second = (replace(base.likelihood, prior=one.prior) for one in found)
    right = second.inlier_probability(Posterior(base.graph, second).energies(found[1].poses))
    share = np.full(graph.n_edges, probabilities[0])
    weighing = Weighing(tuple(found), share, probabilities[1] * right)
    posterior, poses = Posterior(base.graph, first), found[0].poses
    analysis = Analysis(posterior, poses, base.gauge, 1.0, None, base.parameters, False, weighing=weighing)
    return replace(
        base,
        estimate=poses,
        potential=posterior.potential(poses),
        weighing=weighing,
        analysis=analysis,
        likelihood=first,
    )
