"""The compiled kernels against their readable twins: gradients, steps, random numbers; the same bits on any threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from helpers.kernels import (
    numerical_gradient,
    packed,
    random_graph,
    random_poses,
    random_priors,
    with_world,
)
from helpers.twins import euclidean_gradient, projected, pure, simulate
from tempose._support.streams import key as stream_key
from tempose.dynamics.chain import ChainState, Dynamics, GeodesicChain
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics import elementary, layout
from tempose.numerics.potential import minibatch_gradient
from tempose.numerics.random import NODES_PER_BLOCK, block_of_normals, box_muller, fill_normals, philox
from tempose.numerics.steps import choose_batch

PRECISIONS = ["isotropic", "axes", "full"]
PRIORS = ["flat", "bingham", "gaussian on t", "gaussian on position", "both"]


def assert_same_gradient(posterior: Posterior, poses: Poses) -> None:
    energy, g = posterior.gradient(poses)
    expected = numerical_gradient(posterior, poses)
    assert energy == pytest.approx(posterior.reference_potential(poses), rel=1e-13)
    assert np.abs(g - expected).max() < 1e-6 * max(1.0, np.abs(expected).max())


# ---------------------------------------------------------------------- gradients


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("prior", PRIORS)
def test_gradient_is_the_derivative_of_the_definition(precision, prior):
    rng = np.random.default_rng(PRECISIONS.index(precision) + 10 * PRIORS.index(prior))
    graph = random_graph(rng, 5, 14, precision, rotation_only=0.3)
    assert 0 < graph.has_translation.sum() < 14
    added = random_priors(rng, 5, prior).added_to(graph)
    assert_same_gradient(Posterior(added), with_world(added, random_poses(rng, 5)))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_gradient_with_rotations_only(precision):
    rng = np.random.default_rng(2)
    posterior = Posterior(random_graph(rng, 5, 14, precision, rotation_only=2.0))
    poses = random_poses(rng, 5)
    assert_same_gradient(posterior, poses)
    assert np.all(posterior.gradient(poses)[1][:, 3:] == 0.0)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, np.pi - 1e-3, np.pi - 1e-9, np.pi])
def test_gradient_at_extreme_residual_angles(precision, angle):
    rng = np.random.default_rng(3)
    poses = random_poses(rng, 2)
    graph = random_graph(rng, 2, 4, precision)
    q, _ = poses.node_from_world
    axis = rng.standard_normal((4, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    relative = quat.multiply(q[graph.edge_j], quat.conjugate(q[graph.edge_i]))
    measured = quat.multiply(quat.exp(angle * axis), relative)
    graph = PoseGraph(
        graph.node_ids,
        graph.edge_i,
        graph.edge_j,
        measured,
        graph.j_from_i_t,
        graph.concentration,
        graph.translation_precision,
    )
    assert_same_gradient(Posterior(graph), poses)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_signs_of_quaternions_do_not_matter(precision):
    rng = np.random.default_rng(4)
    graph = random_graph(rng, 6, 20, precision)
    graph = random_priors(rng, 6, "both").added_to(graph)
    poses = with_world(graph, random_poses(rng, 6))
    energy, g = Posterior(graph).gradient(poses)
    flipped_poses = Poses(poses.ids, poses.wxyz * rng.choice([-1.0, 1.0], (7, 1)), poses.position)
    flipped_graph = PoseGraph(
        graph.node_ids, graph.edge_i, graph.edge_j, graph.j_from_i_wxyz * rng.choice([-1.0, 1.0], (26, 1)),
        graph.j_from_i_t, graph.concentration, graph.translation_precision,
    )  # fmt: skip
    other_energy, other = Posterior(flipped_graph).gradient(flipped_poses)
    assert other_energy == pytest.approx(energy, rel=1e-14)
    np.testing.assert_allclose(other, g, rtol=0.0, atol=1e-13 * np.abs(g).max())


@pytest.mark.parametrize("coordinates", ["paper", "position"])
@pytest.mark.parametrize("prior", PRIORS)
def test_gradient_on_the_sphere_agrees_with_the_twin(coordinates, prior):
    rng = np.random.default_rng(5)
    posterior = Posterior(random_priors(rng, 6, prior).added_to(random_graph(rng, 6, 20, "full", 0.2)))
    poses = with_world(posterior.graph, random_poses(rng, 6))
    _, g = posterior.gradient(poses)
    q, t = poses.node_from_world
    gq, gx = euclidean_gradient(posterior, q, t if coordinates == "paper" else poses.position, coordinates)
    turn, push = g[:, :3], g[:, 3:]
    if coordinates == "paper":  # the chain rule at fixed t = −R c
        turn = turn + np.cross(poses.position, push)
        push = -quat.rotate(q, push)
    # the sphere's arc is half the angle, and q̇ = −q ⊗ u
    np.testing.assert_allclose(projected(q, gq), -2.0 * quat.multiply(q, pure(turn)), atol=1e-12 * np.abs(g).max())
    np.testing.assert_allclose(gx, push, atol=1e-12 * np.abs(g).max())


def test_a_wrong_gradient_is_noticed():
    """Negative control: one concentration off by 0.1 % must fail the comparison above."""
    rng = np.random.default_rng(6)
    graph = random_graph(rng, 5, 14, "isotropic")
    poses = random_poses(rng, 5)
    wrong = graph.concentration.copy()
    wrong[5] *= 1.001
    other = PoseGraph(
        graph.node_ids,
        graph.edge_i,
        graph.edge_j,
        graph.j_from_i_wxyz,
        graph.j_from_i_t,
        wrong,
        graph.translation_precision,
    )
    g = Posterior(other).gradient(poses)[1]
    expected = numerical_gradient(Posterior(graph), poses)
    assert np.abs(g - expected).max() > 1e-5 * np.abs(expected).max()


def test_an_empty_graph_and_isolated_nodes_have_no_gradient():
    graph = PoseGraph((0, 1), [], [], np.empty((0, 4)), np.empty((0, 3)), np.empty(0), np.empty(0))
    energy, g = Posterior(graph).gradient(Poses.identity((0, 1)))
    assert energy == 0.0
    assert np.all(g == 0.0)


# ---------------------------------------------------------------------- minibatches


@pytest.mark.parametrize("precision", PRECISIONS)
def test_minibatches_average_to_the_full_gradient(precision):
    rng = np.random.default_rng(7)
    posterior = Posterior(random_priors(rng, 7, "both").added_to(random_graph(rng, 7, 23, precision, 0.2)))
    m = posterior.graph.n_edges
    poses = with_world(posterior.graph, random_poses(rng, 7))
    energy, g = posterior.gradient(poses)
    table = posterior.full_edge_table
    state, out = packed(poses), np.empty((m, 8, 8))
    energies = np.empty(m)
    for row in range(m):
        target = int(np.searchsorted(table.start, row, side="right")) - 1
        batch = np.array([[target, row]])
        energies[row] = minibatch_gradient(table, state, batch, float(m), out[row])
    assert energies.mean() == pytest.approx(energy, rel=1e-13)
    np.testing.assert_allclose(out.mean(0)[:, :6], g, atol=1e-13 * np.abs(out).max())

    # and by the batches that the sampler draws: mean within 5 standard errors everywhere
    draws, size = 2000, 10
    batch, one = np.empty((size, 2), np.int64), np.empty((8, 8))
    total, square = np.zeros((8, 6)), np.zeros((8, 6))
    for step in range(draws):
        choose_batch(table, stream_key(1, "chain"), step, batch)
        minibatch_gradient(table, state, batch, m / size, one)
        total += one[:, :6]
        square += one[:, :6] ** 2
    mean = total / draws
    error = np.sqrt((square / draws - mean**2) / draws)
    assert np.all(np.abs(mean - g) < 5.0 * error)
    assert np.all(error < 0.2 * np.abs(out).max())


def test_batches_draw_every_edge_equally():
    rng = np.random.default_rng(8)
    table = Posterior(random_graph(rng, 8, 30, "isotropic")).edge_table
    batch = np.empty((1000, 2), np.int64)
    counts = np.zeros(30)
    for step in range(30):
        choose_batch(table, stream_key(2, "chain"), step, batch)
        counts += np.bincount(batch[:, 1], minlength=30)
        owner = np.repeat(np.arange(8), np.diff(table.start))
        np.testing.assert_array_equal(owner[batch[:, 1]], batch[:, 0])
    assert stats.chisquare(counts).pvalue > 1e-4


# ---------------------------------------------------------------------- steps

SCHEMES = [
    ("boa", "paper", "exact"), ("boa", "paper", "euler"), ("boa", "paper", "paper"), ("boa", "langevin", "exact"),
    ("aboba", "paper", "exact"), ("aboba", "langevin", "exact"), ("abo", "langevin", "exact"),
    ("baoab", "paper", "euler"), ("baoab", "langevin", "exact"), ("oabao", "paper", "exact"),
    ("obabo", "paper", "exact"), ("obabo", "langevin", "exact"),
]  # fmt: skip


@pytest.mark.parametrize("coordinates", ["paper", "position"])
@pytest.mark.parametrize(("name", "letters", "noise"), SCHEMES)
def test_steps_are_those_of_the_paper(name, letters, noise, coordinates):
    rng = np.random.default_rng(11)
    n, steps = 8, 120
    graph = random_graph(rng, n - 1, 24, "full" if name == "baoab" else "isotropic", 0.2)
    posterior = Posterior(random_priors(rng, n - 1, "both").added_to(graph))
    poses = with_world(posterior.graph, random_poses(rng, n - 1))
    velocity = rng.standard_normal((n, 6)) * posterior.graph.free
    inverse_mass = rng.uniform(0.5, 2.0, (n, 2)) * posterior.graph.free[:, ::3]
    settings = {"h": 0.005, "c": 2.0, "beta": 20.0 if noise == "paper" else 0.5}
    key = stream_key(3, "chain")
    chain = GeodesicChain(posterior, ChainState(poses.wxyz, poses.position, velocity, 0), key, inverse_mass)
    dynamics = Dynamics(Scheme(name, noise, letters), settings["h"], settings["c"], settings["beta"], coordinates)
    energies = chain.run(dynamics, steps)
    expected = simulate(
        posterior, poses.wxyz, poses.position, velocity, name=name, letters=letters, noise=noise, steps=steps,
        coordinates=coordinates, inverse_mass=inverse_mass, key=key, **settings,
    )  # fmt: skip
    state = chain.state
    assert np.abs(state.position - poses.position).max() > 0.1  # it did move
    for got, want in zip((state.wxyz, state.position, state.velocity), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=0.0, atol=1e-12 * max(1.0, np.abs(want).max()))
    assert np.all(np.isfinite(energies))
    np.testing.assert_allclose(np.linalg.norm(state.wxyz, axis=1), 1.0, atol=4e-16)


def test_a_wrong_step_is_noticed():
    """Negative control: the twin of another scheme does not agree."""
    rng = np.random.default_rng(12)
    posterior = Posterior(random_graph(rng, 4, 9, "isotropic"))
    poses, velocity, key = random_poses(rng, 4), rng.standard_normal((4, 6)), stream_key(3, "chain")
    chain = GeodesicChain(posterior, ChainState(poses.wxyz, poses.position, velocity, 0), key)
    chain.run(Dynamics(Scheme("boa"), 0.01, 2.0), 5)
    wxyz, _, _ = simulate(
        posterior, poses.wxyz, poses.position, velocity, name="bao", letters="paper", noise="exact", steps=5,
        coordinates="position", inverse_mass=np.ones((4, 2)), key=key, h=0.01, c=2.0, beta=1.0,
    )  # fmt: skip
    assert np.abs(chain.state.wxyz - wxyz).max() > 1e-5


def test_fast_turns_are_exact_geodesics():
    """Without forces a step is the geodesic, also for turns of many radians and of none."""
    graph = PoseGraph(tuple(range(6)), [], [], np.empty((0, 4)), np.empty((0, 3)), np.empty(0), np.empty(0))
    posterior = Posterior(graph)
    rng = np.random.default_rng(13)
    poses, velocity = random_poses(rng, 6), rng.standard_normal((6, 6))
    speed = np.array([0.0, 1e-12, 1e-3, 0.49, 0.51, 40.0])
    velocity[:, :3] *= (speed / np.linalg.norm(velocity[:, :3], axis=1))[:, None]
    chain = GeodesicChain(posterior, ChainState(poses.wxyz, poses.position, velocity, 0), stream_key(1, "chain"))
    chain.run(Dynamics(Scheme("abo"), 1.0, 0.0, np.inf), 1)
    expected = quat.multiply(quat.exp(2.0 * velocity[:, :3]), poses.wxyz)
    np.testing.assert_allclose(chain.state.wxyz, expected, atol=2e-15)
    np.testing.assert_allclose(chain.state.position, poses.position + velocity[:, 3:], atol=1e-15)


@pytest.mark.parametrize("name", ["boa", "baoab", "aboba"])
def test_a_chain_cut_in_two_is_the_same_chain(name):
    rng = np.random.default_rng(14)
    posterior = Posterior(random_graph(rng, 6, 20, "isotropic"))
    poses, key = random_poses(rng, 6), stream_key(4, "chain")
    dynamics = Dynamics(Scheme(name), 0.02, 3.0)
    whole = GeodesicChain(posterior, poses, key)
    energies = whole.run(dynamics, 30)
    first = GeodesicChain(posterior, poses, key)
    head = first.run(dynamics, 13)
    second = GeodesicChain(posterior, first.state, key)
    tail = second.run(dynamics, 17)
    for got, want in zip(vars(second.state).values(), vars(whole.state).values(), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(head, energies[:13])
    np.testing.assert_array_equal(tail[1:], energies[14:])


# ---------------------------------------------------------------------- random numbers


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter, key, expected):
    """The vectors of Random123's kat_vectors for philox4x32-10."""
    assert tuple(int(w) for w in philox(*map(np.uint64, counter), *map(np.uint64, key))) == expected


def test_elementary_functions_are_accurate_to_the_last_bits():
    x = np.concatenate(
        [np.geomspace(2.0**-53, 1.0, 4001), 1.0 - np.geomspace(2.0**-53, 0.5, 500), [0.5, 0.707, 2.0, 7e9]]
    )
    got = np.array([elementary.logarithm(v) for v in x])
    np.testing.assert_allclose(got, np.log(x), rtol=3e-16)
    angle = np.concatenate([np.linspace(-0.25 * np.pi, 0.25 * np.pi, 2001), [1e-9]])
    got = np.array([elementary.cos_sinc(v * v) for v in angle])
    np.testing.assert_allclose(got, np.stack([np.cos(angle), np.sinc(angle / np.pi)], axis=1), rtol=3e-16)
    for bits in (0, 1 << 11, 1 << 12, 1 << 63, (1 << 64) - 1):
        exact = ((bits >> 12) + 0.5) / 2.0**52
        assert 0.0 < elementary.open_unit(np.uint64(bits)) == exact < 1.0


def test_normals_follow_box_and_muller():
    words = np.random.default_rng(17).integers(1 << 64, size=(2000, 2), dtype=np.uint64)
    words[:8, 0] = [0, 1 << 12, (1 << 64) - 1, 1 << 63, 1 << 62, 3 << 62, 0, (1 << 64) - 1]
    words[:8, 1] = [0, 1, 2, 3, (1 << 64) - 1, (1 << 64) - 2, (1 << 64) - 3, (1 << 64) - 4]
    got = np.array([box_muller(a, b) for a, b in words])
    u, v = ((words >> np.uint64(12)).astype(float).T + 0.5) / 2.0**52
    angle = 0.5 * np.pi * (v - 0.5 + (words[:, 1] & np.uint64(3)).astype(float))
    expected = np.sqrt(-2.0 * np.log(u)) * np.array([np.cos(angle), np.sin(angle)])
    np.testing.assert_allclose(got, expected.T, rtol=0.0, atol=5e-15)


@pytest.mark.parametrize("count", [1, 5, NODES_PER_BLOCK])
def test_blocks_of_normals_are_those_of_their_nodes(count):
    """Vector instructions and scalar ones give the same bits."""
    key, first = stream_key(9, "chain"), 300
    out = np.empty(6 * NODES_PER_BLOCK)
    block_of_normals(key, 4, 7, first, count, out)
    expected = draws(key, 4, 7, first + count, 6)[first:]
    np.testing.assert_array_equal(out.reshape(6, NODES_PER_BLOCK)[:, :count].T, expected)


def draws(key: np.ndarray, step: int, lane: int, n: int, columns: int) -> np.ndarray:
    out = np.empty((n, columns))
    fill_normals(key[0], key[1], step, lane, out)
    return out


def test_normals_are_normal():
    z = np.concatenate([draws(stream_key(5, "chain"), step, 0, 20_000, 6).ravel() for step in range(5)])
    n = len(z)
    assert stats.kstest(z, "norm").pvalue > 1e-3
    for power, moment, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)]:
        assert abs(np.mean(z**power) - moment) < 4.0 * np.sqrt(variance / n), power
    tail = np.mean(np.abs(z) > 3.5)
    assert abs(tail - 2 * stats.norm.sf(3.5)) < 4.0 * np.sqrt(tail / n)


def test_normals_are_independent_across_lanes_steps_nodes_and_keys():
    n = 20_000
    key = stream_key(6, "chain")
    columns = {
        "lanes": draws(key, 0, 0, n, 12),
        "later lanes": draws(key, 0, 6, n, 6),
        "step": draws(key, 1, 0, n, 6),
        "late step": draws(key, 1 << 33, 0, n, 6),
        "chain": draws(stream_key(6, "chain", 1), 0, 0, n, 6),
        "seed": draws(stream_key(7, "chain"), 0, 0, n, 6),
        "next node": np.roll(draws(key, 0, 0, n, 6), 1, axis=0),
    }
    z = np.concatenate(list(columns.values()), axis=1)
    for x in (z, z**2):
        off = np.corrcoef(x.T) - np.eye(z.shape[1])
        assert np.abs(off).max() < 5.0 / np.sqrt(n)
    assert len(np.unique(z)) == z.size - 6 * n  # only the shifted copy repeats numbers


def test_lanes_do_not_depend_on_how_many_are_asked_for():
    key = stream_key(8, "chain")
    wide = draws(key, 3, 0, 50, 12)
    np.testing.assert_array_equal(draws(key, 3, 2, 20, 4), wide[:20, 4:8])


# ---------------------------------------------------------------------- threads

THREADS = """
import sys
import numba
sys.path.insert(0, sys.argv[1])
from helpers.kernels import large_run
for kind in ("isotropic", "full"):
    reference = large_run(kind, parallel=False)
    for threads in (1, 2, 3, 4):
        numba.set_num_threads(threads)
        print(kind, threads, large_run(kind, parallel=True) == reference)
"""


@pytest.mark.parametrize("groups", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("precision", ["isotropic", "full"])
def test_tiles_hold_every_edge_once_and_share_no_node_within_a_round(groups, precision):
    rng = np.random.default_rng(18)
    graph = random_graph(rng, 300, 5000, precision)
    rows = Posterior(graph).edge_rows(full=precision == "full")
    blocks, _ = layout.edge_blocks(graph.n_nodes, graph.edge_i, graph.edge_j, rows, groups)
    width = blocks.edge.shape[1] // layout.BLOCK
    edge = blocks.edge.reshape(-1, width, layout.BLOCK).transpose(0, 2, 1).reshape(-1, width)
    real = edge[:, 7] > 0.0
    ends = np.stack([blocks.source.ravel(), blocks.target.ravel()], axis=1)
    expected = np.column_stack([graph.edge_i, graph.edge_j, graph.j_from_i_wxyz])
    got = np.column_stack([ends, edge[:, :4]])[real]
    np.testing.assert_array_equal(got[np.lexsort(got.T)], expected[np.lexsort(expected.T)])
    assert blocks.round[-1] == len(blocks.tile) - 1
    assert blocks.tile[-1] == len(blocks.target)
    for t in range(groups):
        inside = ends[layout.BLOCK * blocks.tile[t] : layout.BLOCK * blocks.tile[t + 1]]
        assert np.all((inside >= blocks.group[t]) & (inside < blocks.group[t + 1]))
    for r in range(len(blocks.round) - 1):
        tiles = range(blocks.round[r], blocks.round[r + 1])
        assert len(tiles) == (groups if r == 0 else groups // 2)
        nodes = [np.unique(ends[blocks.tile[t] * layout.BLOCK : blocks.tile[t + 1] * layout.BLOCK]) for t in tiles]
        together = np.concatenate(nodes)
        assert len(np.unique(together)) == len(together)


def test_results_are_the_same_bits_on_any_number_of_threads():
    here = Path(__file__).parents[1]
    result = subprocess.run(
        [sys.executable, "-c", THREADS, here], env={**os.environ, "NUMBA_NUM_THREADS": "4"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")[:-1]
    assert len(lines) == 8
    assert all(line.endswith("True") for line in lines), result.stdout


def test_a_parallel_gradient_agrees_with_the_definition():
    rng = np.random.default_rng(16)
    posterior = Posterior(random_graph(rng, 3000, 40_000, "isotropic"))
    assert posterior.runs_parallel
    poses = random_poses(rng, 3000)
    energy, g = posterior.gradient(poses)
    assert energy == pytest.approx(posterior.reference_potential(poses), rel=1e-12)
    q, _ = poses.node_from_world
    gq, gx = euclidean_gradient(posterior, q, poses.position, "position")
    np.testing.assert_allclose(gx, g[:, 3:], atol=1e-11 * np.abs(g).max())
    np.testing.assert_allclose(projected(q, gq), -2.0 * quat.multiply(q, pure(g[:, :3])), atol=1e-11 * np.abs(g).max())
