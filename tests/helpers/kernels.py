"""Graphs, priors and poses for the kernels, far from consistent; derivatives by differences."""

from __future__ import annotations

import numpy as np

from tempose._support.streams import key as stream_key
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors
from tempose.numerics import potential
from tempose.numerics.layout import rows
from tempose.numerics.steps import NO_TABLE, advance, advance_parallel


def positive_definite(rng: np.random.Generator, size: int, scale: float) -> np.ndarray:
    a = rng.standard_normal((size, 3, 3))
    return scale * (a @ np.swapaxes(a, 1, 2) + 0.1 * np.eye(3))


def random_graph(rng: np.random.Generator, n: int, m: int, kind: str, rotation_only: float = 0.0) -> PoseGraph:
    """Random measurements, far from consistent, among them both directions and duplicates of an edge."""
    i = rng.integers(n, size=m)
    j = (i + rng.integers(1, n, size=m)) % n
    i[1], j[1] = j[0], i[0]
    i[2:4], j[2:4] = i[0], j[0]
    t = rng.standard_normal((m, 3))
    t[rng.random(m) < rotation_only] = np.nan
    if rotation_only:
        t[4] = np.nan
    concentration = {
        "isotropic": rng.uniform(0.5, 20.0, m),
        "axes": rng.uniform(0.0, 20.0, (m, 3)),
        "full": positive_definite(rng, m, 5.0),
    }[kind]
    precision = positive_definite(rng, m, 2.0) if kind == "full" else rng.uniform(0.1, 5.0, m)
    return PoseGraph(tuple(range(n)), i, j, quat.random_uniform(rng, m), t, concentration, precision)


def random_priors(rng: np.random.Generator, n: int, kind: str) -> Priors:
    rotation = (
        tuple(Bingham.from_mode(quat.random_uniform(rng), c) for c in rng.uniform(0.0, 9.0, (n, 3)))
        if kind in ("bingham", "both")
        else None
    )
    if kind in ("flat", "bingham"):
        return Priors(rotation)
    return Priors(rotation, rng.standard_normal((n, 3)), positive_definite(rng, n, 1.0), kind == "gaussian on position")


def packed(poses: Poses) -> np.ndarray:
    state = rows(len(poses))
    state[:, :4], state[:, 4:7] = poses.wxyz, poses.position
    return state


def random_poses(rng: np.random.Generator, n: int) -> Poses:
    return Poses(tuple(range(n)), quat.random_uniform(rng, n), rng.standard_normal((n, 3)))


def with_world(graph: PoseGraph, poses: Poses) -> Poses:
    """The poses, and the world's if the graph has it."""
    return poses if graph.world is None else poses.with_identity(WORLD).select(graph.node_ids)


def nudged(poses: Poses, node: int, direction: int, size: float) -> Poses:
    """Turn or shift one node along one of its six world-frame directions."""
    wxyz, position = poses.wxyz.copy(), poses.position.copy()
    if direction < 3:
        wxyz[node] = quat.multiply(quat.exp(size * np.eye(3)[direction]), wxyz[node])
    else:
        position[node, direction - 3] += size
    return Poses(poses.ids, wxyz, position)


def numerical_gradient(posterior: Posterior, poses: Poses, h: float = 1e-5) -> np.ndarray:
    g = np.empty((len(poses), 6))
    for node, k in np.ndindex(*g.shape):
        up = posterior.reference_potential(nudged(poses, node, k, h))
        down = posterior.reference_potential(nudged(poses, node, k, -h))
        g[node, k] = (up - down) / (2.0 * h)
    return g


def large_run(kind: str, parallel: bool) -> list[bytes]:
    """Gradient and some steps on a graph of several chunks, as bytes."""
    rng = np.random.default_rng(15)
    n, m = 4000, 70_000
    posterior = Posterior(random_priors(rng, n - 1, "gaussian on t").added_to(random_graph(rng, n - 1, m, kind)))
    assert posterior.runs_parallel
    assert len(posterior.edge_blocks.tile) > 8
    state, velocity = packed(random_poses(rng, n)), rng.standard_normal((n, 6))
    g, work = rows(n), posterior.workspace()
    evaluate, run = (potential.gradient_parallel, advance_parallel) if parallel else (potential.gradient, advance)
    energy = evaluate(posterior.edge_blocks, state, work, g)
    out = [np.float64(energy).tobytes(), g.tobytes()]
    energies = np.empty(3)
    run(
        posterior.edge_blocks,
        NO_TABLE,
        Scheme("baoab").operations(1e-3, 5.0, 1.0),
        0,
        3,
        state,
        velocity,
        g,
        False,
        np.ones((n, 2)),
        stream_key(1, "chain"),
        False,
        False,
        work,
        np.empty((0, 2), np.int64),
        energies,
    )
    return out + [a.tobytes() for a in (state, velocity, energies)]
