"""Separate modes: found, weighed against exact odds from starts in either, and never averaged across."""

from __future__ import annotations

import json
import math
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tempose
from tempose import describe
from tempose.analysis import modes
from tempose.analysis.diagnostics import mcse_mean
from tempose.analysis.modes import Labels, Minima, Modes, Well, find_modes, gaussian_odds, search
from tempose.dynamics.chain import Dynamics
from tempose.dynamics.schemes import Scheme
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import Similarity
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.outliers import Robust
from tempose.sampling.choice import Problem, choose
from tempose.sampling.draws import Draws
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.jumping import JumpingChain, JumpingSampler
from tempose.sampling.tempering import TemperingSampler, hottest, leapfrogs
from tempose.sampling.tuning import tune
from tempose.simulation import ambiguous_loop, ambiguous_loop_odds

# ---------------------------------------------------------------------- the graph whose odds are known


def winding(graph: PoseGraph, wxyz: np.ndarray) -> bool:
    """Whether the residuals of a loop, each turned by less than 180°, add up to the shorter way round."""
    q = quat.conjugate(wxyz)
    relative = quat.multiply(q[graph.edge_j], quat.conjugate(q[graph.edge_i]))
    error = quat.multiply(graph.j_from_i_wxyz, quat.conjugate(relative))
    error = np.where(error[:, :1] < 0.0, -error, error)
    lifted = quat.multiply(quat.conjugate(error), graph.j_from_i_wxyz)
    total = q[0]
    for step in lifted:
        total = quat.multiply(step, total)
    return bool(total @ q[0] > 0.0)


def test_odds_of_a_loop_by_importance_sampling() -> None:
    """The series against plain Monte Carlo: the last residual is what the others leave, its sign the way round."""
    rng = np.random.default_rng(0)
    for nodes, sigma_deg, closure_deg in ((3, 30.0, 165.0), (6, 25.0, 150.0)):
        lam = 2.0 / math.radians(sigma_deg) ** 2
        noise = Bingham.from_mode(quat.IDENTITY, lam).sample(rng, 100_000 * (nodes - 1)).reshape(nodes - 1, -1, 4)
        noise = np.where(noise[..., :1] < 0.0, -noise, noise)
        total = np.tile(quat.exp([0.0, 0.0, math.radians(closure_deg)]), (noise.shape[1], 1))
        for one in noise:
            total = quat.multiply(total, one)
        weight = np.exp(-lam * np.sum(total[:, 1:] ** 2, axis=1))
        got = float(np.sum(weight * (total[:, 0] > 0.0)) / np.sum(weight))
        error = float(np.sqrt(np.sum((weight * ((total[:, 0] > 0.0) - got)) ** 2)) / np.sum(weight))
        assert error < 0.03
        assert abs(got - ambiguous_loop_odds(nodes, sigma_deg, closure_deg)) < 4.0 * error


def test_odds_of_a_loop_by_symmetry_and_by_gaussians() -> None:
    assert ambiguous_loop_odds(8, 15.0, 180.0) == pytest.approx(0.5, abs=1e-12)
    narrow = two_modes(ambiguous_loop(12, 8.0, 177.0))
    assert narrow.gaussian[0] == pytest.approx(ambiguous_loop_odds(12, 8.0, 177.0), abs=3e-3)
    assert 0.6 < narrow.gaussian[0] < 0.95
    with pytest.raises(NotApplicable, match="beyond double precision"):
        ambiguous_loop_odds(12, 2.0, 179.5)


def test_a_loop_that_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="at least 3 nodes"):
        ambiguous_loop(2)
    with pytest.raises(OptionError, match="between 0 and 180"):
        ambiguous_loop(8, closure_deg=200.0)


# ---------------------------------------------------------------------- both samplers, from either mode


class Two:
    """A graph with two modes."""

    def __init__(self, graph: PoseGraph) -> None:
        self.posterior = Posterior(graph)
        self.curvature = Curvature(self.posterior)
        start = tempose.solve(graph, draws=0, certify=False).estimate
        both = search(self.curvature, 1.0, start, 12, np.random.default_rng(0))
        assert len(both) == 2
        self.short, self.long = both
        self.gaussian = gaussian_odds([Laplace(self.curvature, one) for one in both])

    def problem(self, first: int, thin: int | None = None) -> Problem:
        """Chains start in mode ``first``; the other is told only to the sampler jumping."""
        center, other = (self.short, self.long) if first == 0 else (self.long, self.short)
        tuning = tune(self.curvature, center)
        dynamics = Dynamics(Scheme("baoab"), tuning.step, tuning.friction)
        laplace = Laplace(self.curvature, center)
        return Problem(self.posterior, center, laplace, tuning, dynamics, thin, modes=(other,))

    def run(self, name: str, first: int, directory: Path, draws: int, seed: int = 0, chains: int = 2) -> Draws:
        plan = SamplingPlan(1.0, chains, draws, seed)
        return sample(self.posterior, choose(name, self.problem(first)).sampler, plan, directory)

    def modes(self, draws: Draws) -> Modes:
        return find_modes(self.curvature, draws, self.short)


def two_modes(graph: PoseGraph) -> Two:
    return Two(graph)


@pytest.fixture(scope="module")
def loop() -> Two:
    return two_modes(ambiguous_loop(6, 18.0, 172.0))


LOOP_ODDS = ambiguous_loop_odds(6, 18.0, 172.0)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("name", "draws"), [("tempering", 400), ("jumping", 2000)])
def test_probabilities_from_starts_in_either_mode(loop: Two, tmp_path: Path, name: str, draws: int, first: int) -> None:
    modes = loop.modes(loop.run(name, first, tmp_path, draws, seed=first))
    assert len(modes) == 2
    assert modes.weighed
    assert modes.rhat < 1.05
    short = modes[modes.home]
    assert short.error < 0.045
    assert abs(short.probability - LOOP_ODDS) < 4.0 * short.error
    assert short.probability + modes[1 - modes.home].probability == pytest.approx(1.0)


def test_every_draw_is_in_the_mode_that_its_winding_says(loop: Two, tmp_path: Path) -> None:
    draws = loop.run("jumping", 0, tmp_path, 500)
    modes = loop.modes(draws)
    assert winding(loop.posterior.graph, loop.short.wxyz)
    for array, labels in zip(draws.arrays, modes.labels, strict=True):
        expected = [winding(loop.posterior.graph, np.asarray(row[:, :4])) for row in array]
        np.testing.assert_array_equal(labels == modes.home, expected)


def test_plain_chains_stay_and_say_so(loop: Two, tmp_path: Path) -> None:
    """Negative control: without exchanges or jumps every chain stays where it started, whatever the odds."""
    for first in (0, 1):
        assert len(loop.modes(loop.run("geodesic-mh", first, tmp_path / str(first), 200))) == (1 if first == 0 else 2)
    both = [loop.run("collapsed", first, tmp_path / f"c{first}", 200, chains=1) for first in (0, 1)]
    together = replace(both[0], arrays=both[0].arrays + both[1].arrays, energies=both[0].energies + both[1].energies)
    modes = loop.modes(together)
    assert (len(modes), modes.crossings, modes.weighed) == (2, 0, False)
    assert "no chain went from one to another" in describe.modes(modes)
    assert "--sampler tempering" in describe.modes_advice(modes)[0]
    assert math.isnan(modes[0].error)


def test_a_jump_without_its_volume_is_noticed(loop: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the Gaussian odds of these modes hang on the determinants as much as on U."""
    from tempose.sampling import jumping

    monkeypatch.setattr(jumping, "half_log_determinant", lambda target: 1.0 if target.center is loop.short else 0.0)
    with pytest.raises(AssertionError):
        test_probabilities_from_starts_in_either_mode(loop, tmp_path, "jumping", 2000, 0)


def test_exchanges_without_energies_are_noticed(loop: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: exchanging whatever comes brings hot replicas down."""
    from tempose.sampling.tempering import TemperingChain

    sampler = choose("tempering", loop.problem(0, thin=1)).sampler
    lowest, expected = loop.posterior.potential(loop.short), 0.5 * loop.curvature.dimension
    right = sample(loop.posterior, sampler, SamplingPlan(1.0, 1, 200, 0), tmp_path / "right")
    assert abs(right.mean_potential - lowest - expected) < 0.15 * expected
    monkeypatch.setattr(TemperingChain, "exchange_rates", lambda self: np.ones(len(self.betas) - 1))
    wrong = sample(loop.posterior, sampler, SamplingPlan(1.0, 1, 200, 0), tmp_path / "wrong")
    assert wrong.mean_potential - lowest > 1.4 * expected


# ---------------------------------------------------------------------- translations that say something too


def test_a_triangle_with_translations_against_brute_force(tmp_path: Path) -> None:
    """Three nodes, all poses measured, the rotations contradictory: odds by weighted uniform rotations."""
    graph = replace(
        ambiguous_loop(3, 25.0, 172.0),
        j_from_i_t=np.array([[-1.0, 0.2, 0], [0.3, 1.0, 0.1], [0.5, -0.2, 0.4]]),
        translation_precision=0.6,
    )
    two = two_modes(graph)
    modes = two.modes(two.run("jumping", 0, tmp_path, 3000))
    exact, error = brute_force(two, np.random.default_rng(1))
    short = modes[modes.home]
    assert len(modes) == 2
    assert short.error < 0.015
    assert error < 0.015
    assert abs(short.probability - exact) < 4.0 * math.hypot(short.error, error)


def brute_force(two: Two, rng: np.random.Generator, n: int = 200_000) -> tuple[float, float]:
    """Share of the nearer-to-``short`` half by importance sampling around both modes, positions minimised out."""
    graph, lam = two.posterior.graph, 0.6 * float(two.posterior.graph.concentration[0])
    edges = [(int(i), int(j)) for i, j in zip(graph.edge_i, graph.edge_j, strict=True)]
    which = rng.random(n) < 0.5
    modes = []
    for one in (two.short, two.long):  # node_from_world with node 0 unturned
        q = one.node_from_world[0]
        modes.append(quat.multiply(q, quat.conjugate(q[0])))
    noise = Bingham.from_mode(quat.IDENTITY, lam).sample(rng, 2 * n).reshape(2, n, 4)
    q = [np.tile(quat.IDENTITY, (n, 1))]
    q += [quat.multiply(noise[k - 1], np.where(which[:, None], modes[0][k], modes[1][k])) for k in (1, 2)]
    proposal = sum(np.exp(lam * sum(np.sum(q[k] * mode[k], axis=1) ** 2 for k in (1, 2)) - 2.0 * lam) for mode in modes)
    energy, laplacian, pull = np.zeros(n), np.zeros((3, 3)), np.zeros((n, 3, 3))
    nearer = np.zeros(n)
    for e, (i, j) in enumerate(edges):
        relative = quat.multiply(q[j], quat.conjugate(q[i]))
        energy += graph.concentration[e] * (1.0 - np.sum(graph.j_from_i_wxyz[e] * relative, axis=1) ** 2)
        tau, m = graph.translation_precision[e], quat.rotate(quat.conjugate(q[j]), np.tile(graph.j_from_i_t[e], (n, 1)))
        energy += 0.5 * tau * np.sum(m**2, axis=1)
        laplacian[[i, j], [i, j]] += tau
        laplacian[[i, j], [j, i]] -= tau
        pull[:, i] += tau * m
        pull[:, j] -= tau * m
        for sign, mode in zip((1.0, -1.0), modes, strict=True):
            ideal = quat.multiply(mode[j], quat.conjugate(mode[i]))
            nearer += sign * np.sum(ideal * relative, axis=1) ** 2
    inner = pull[:, 1:]
    energy -= 0.5 * np.einsum("nia,ij,nja->n", inner, np.linalg.inv(laplacian[1:, 1:]), inner)
    weight = np.exp(-energy + energy.min()) / proposal
    share = float(np.sum(weight * (nearer > 0.0)) / np.sum(weight))
    return share, float(np.sqrt(np.sum((weight * ((nearer > 0.0) - share)) ** 2)) / np.sum(weight))


# ---------------------------------------------------------------------- the promises of every sampler


def test_a_jump_there_and_back_is_the_identity(loop: Two) -> None:
    sampler = choose("jumping", loop.problem(0)).sampler
    assert isinstance(sampler, JumpingSampler)
    rng = np.random.default_rng(3)
    chain = sampler.start(rng)
    for _ in range(10):
        chain.advance(rng)
        there, gain = chain.other_side(1 - chain.mode)
        back, loss = JumpingChain(sampler, 1 - chain.mode, there.y).other_side(chain.mode)
        np.testing.assert_array_equal(back.state, chain.point.state)
        assert gain == pytest.approx(-loss, abs=1e-9)


def test_replicas_move_as_the_adjusted_geodesics_do(loop: Two) -> None:
    """One rung's trajectory is that of the sampler geodesic-mh, step by step."""
    problem = loop.problem(0)
    dynamics = replace(problem.dynamics, scheme=Scheme("obabo"), friction=0.0, beta=math.inf)
    np.testing.assert_allclose(leapfrogs(np.array([dynamics.step]))[0], dynamics.operations, atol=1e-15)
    sampler = choose("tempering", problem).sampler
    assert isinstance(sampler, TemperingSampler)
    assert sampler.betas[0] == 1.0
    assert np.all(np.diff(sampler.betas) < 0.0)
    assert sampler.betas[-1] == pytest.approx(hottest(loop.posterior, 1.0))
    rng = np.random.default_rng(1)
    chain = sampler.start(rng)
    rates, accept = np.zeros(len(sampler.rungs)), np.zeros(len(sampler.rungs) - 1)
    for _ in range(300):
        rates += chain.sweep(rng)[0] / 300
        accept += chain.exchange_rates() / 300
    assert np.all(rates > 0.5)
    assert np.all(np.abs(accept - 0.5) < 0.3)  # as tuned
    for k, one in enumerate(chain.arrays()["wxyz"]):
        poses = Poses(loop.short.ids, one, chain.arrays()["position"][k])
        assert loop.posterior.potential(poses) == pytest.approx(chain.potential[k], rel=1e-10)


def test_what_cannot_be_tempered_or_jumped_says_why(loop: Two) -> None:
    with pytest.raises(NotApplicable, match="at least two strict minima"):
        choose("jumping", replace(loop.problem(0), modes=()))
    big = tempose.simulate(400, shape="trajectory", sigma_rot_deg=0.01, sigma_trans=0.001, seed=0).graph
    with pytest.raises(NotApplicable, match=r"would need about \d+ inverse temperatures"):
        tempose.solve(big, sampler="tempering", draws=4, certify=False)


def contradicting_closures(translations: bool) -> PoseGraph:
    """A straight path and two loop closures, one the mirror image of the other: at most one of them is right."""
    n, turn = 4, math.radians(60.0)
    wxyz, t = np.tile(quat.IDENTITY, (n + 1, 1)), np.tile([-1.0, 0.0, 0.0], (n + 1, 1))
    wxyz[n - 1 :] = quat.exp([[0.0, 0.0, turn], [0.0, 0.0, -turn]])
    t[n - 1 :] = [-2.5, -1.0, 0.0], [-2.5, 1.0, 0.0]
    i, j = [0, 1, 2, 3, 3], [1, 2, 3, 0, 0]
    t = t if translations else np.full_like(t, np.nan)
    return PoseGraph(
        tuple(range(n)), i, j, wxyz, t, np.full(n + 1, 2.0 / math.radians(10.0) ** 2), np.full(n + 1, 40.0)
    )


ROBUST = {"robust": Robust(inlier_probability=0.9), "certify": False, "chains": 2, "seed": 2}


def test_wrong_closures_are_weighed_by_tempering() -> None:
    """With a robust likelihood either closure may be the wrong one; by mirror symmetry that is equally probable."""
    solution = tempose.solve(contradicting_closures(False), draws=600, sampler="tempering", **ROBUST)
    assert solution.draws is not None
    left = []
    for array in solution.draws.arrays:  # heading of the last node seen from the first
        q = np.asarray(array[:, :, :4])
        left.append(quat.log(quat.multiply(quat.conjugate(q[:, 0]), q[:, 3]))[:, 2] > 0.0)
    sides = np.stack(left).astype(float)
    error = float(mcse_mean(sides))
    assert error < 0.06
    assert abs(float(sides.mean()) - 0.5) < 4.0 * error


@pytest.mark.parametrize(
    ("sampler", "words"), [("jumping", "robust likelihood|two strict"), ("tempering", "comes back")]
)
def test_what_would_be_wrong_with_wrong_edges_is_refused(sampler: str, words: str) -> None:
    with pytest.raises(NotApplicable, match=words):
        tempose.solve(contradicting_closures(True), draws=4, sampler=sampler, starts=8, **ROBUST)


# ---------------------------------------------------------------------- minima


def test_minima_are_told_apart_and_dents_are_not(loop: Two) -> None:
    minima = Minima(loop.curvature, 1.0, loop.short)
    assert minima.add(loop.long) == 1
    moved = loop.long.moved(Similarity(quat.exp([0.3, 0.1, -2.0]), np.array([5.0, -3.0, 2.0])))
    assert minima.add(moved) == 1  # the same in another frame
    assert minima.descend(moved.wxyz, moved.position) == 1
    assert len(minima.found) == 2
    flat = Minima(loop.curvature, 1e-3, loop.short)
    assert flat.add(loop.long) == 0  # at this temperature there is but one


def test_rounding_makes_no_modes_however_cold(loop: Two) -> None:
    """Ways down end at one minimum up to rounding; that times β = 1e300 is far, and every draw was a mode of its own."""
    minima, rng = Minima(loop.curvature, 1e300, loop.short), np.random.default_rng(0)
    first = loop.short
    for _ in range(8):
        turn = quat.exp(1e-3 * rng.standard_normal((len(first), 3)))
        minima.descend(quat.multiply(turn, first.wxyz), first.position)
    assert len(minima.found) == 1
    minima.add(loop.long)
    assert len(minima.found) == 2  # what is another minimum is so still


def test_ways_down_do_not_grow_with_the_draws(loop: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """52 000 draws of a small graph took more than a minute to summarise."""
    draw = np.concatenate([loop.short.wxyz, loop.short.position], axis=1)
    followed, minimise = [0], modes.minimise

    def counted(*arguments: Any, **options: Any) -> Any:
        followed[0] += 1
        return minimise(*arguments, **options)

    monkeypatch.setattr(modes, "minimise", counted)
    counts = []
    for length in (1000, 20_000):
        followed[0] = 0
        many = types.SimpleNamespace(
            beta=1.0, n_chains=1, n_draws=length, arrays=[np.broadcast_to(draw, (length, *draw.shape))]
        )
        assert len(find_modes(loop.curvature, many, loop.short)) == 1
        counts.append(followed[0])
    assert counts[0] == counts[1] <= modes.PROBES


def test_a_mode_that_turns_up_while_one_chain_is_labelled(loop: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws are compared with it, and none is followed down twice."""
    monkeypatch.setattr(modes, "BETWEEN", math.inf)  # every draw is followed down
    draw = np.concatenate([loop.long.wxyz, loop.long.position], axis=1)
    two_chains = types.SimpleNamespace(beta=1.0, n_chains=2, arrays=[draw[None], np.stack([draw, draw])])
    turned = quat.multiply(loop.long.wxyz, quat.random_uniform(np.random.default_rng(4), len(loop.long)))
    elsewhere = Poses(loop.long.ids, turned, loop.long.position)  # known, but no minimum
    minima, descents, minimise = Minima(loop.curvature, 1.0, loop.short), [], modes.minimise
    monkeypatch.setattr(modes, "minimise", lambda *args, **kw: descents.append(1) or minimise(*args, **kw))
    assert minima.add(elsewhere) == 1
    assert [label.tolist() for label in Labels(minima, two_chains).of_chains()] == [[2], [2, 2]]
    assert len(minima.found) == 3
    assert len(descents) == 3
    found = find_modes(loop.curvature, two_chains, loop.short, probes=0, known=(elsewhere,))
    assert [mode.n_draws for mode in found.modes] == [3, 0]


def scattered(count: int, prior: float = 0.5) -> tuple[Curvature, list[Poses]]:
    """Measurements of one motion, none of which agree: each has a minimum of its own."""
    t = 3.0 * np.arange(count)[:, None] * [[1.0, 0.0, 0.0]]
    graph = PoseGraph.from_concentrations(
        [(0, 1)] * count, np.tile(quat.IDENTITY, (count, 1)), t, concentration=200.0, translation_precision=100.0
    )
    posterior = Posterior(graph, likelihood=RobustLikelihood.of(graph, prior))
    still = np.tile(quat.IDENTITY, (2, 1))
    return Curvature(posterior), [Poses(graph.node_ids, still, np.stack([np.zeros(3), -one])) for one in t]


@pytest.mark.parametrize("count", [3, modes.MOST_MODES, modes.MOST_MODES + 1])
def test_a_few_minima_are_modes_and_many_are_dents(count: int) -> None:
    curvature, places = scattered(count)
    chains = [np.concatenate([one.wxyz, one.position], axis=1)[None].repeat(2, axis=0) for one in places]
    draws = types.SimpleNamespace(beta=1.0, n_chains=count, arrays=chains)
    found = find_modes(curvature, draws, minimise(curvature, places[0]).poses)
    if count > modes.MOST_MODES:
        assert [mode.n_draws for mode in found.modes] == [2 * count]
    else:
        assert [mode.n_draws for mode in found.modes] == [2] * count


def test_wrong_edges_do_not_count_in_the_distance() -> None:
    """Two of three measurements are wrong: one standard deviation of the third is D = ½, not 3/2."""
    curvature, places = scattered(3)
    minima = Minima(curvature, 1.0, minimise(curvature, places[0]).poses)
    moved = places[0].position + np.array([[0.0, 0.0, 0.0], [0.0, 0.1, 0.0]])
    assert minima.distances(places[0].wxyz, moved)[0] == pytest.approx(0.5, rel=1e-6)
    everything_counts = Well.at(Posterior(curvature.posterior.graph), places[0])  # negative control
    assert everything_counts.distance.gradient_at(places[0].wxyz, moved)[0] == pytest.approx(1.5, rel=1e-6)


# ---------------------------------------------------------------------- what the user sees


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> tuple[tempose.Solution, Path]:
    home = tmp_path_factory.mktemp("modes")
    graph = ambiguous_loop(6, 18.0, 178.0)
    solution = tempose.solve(graph, starts=8, draws=1200, chains=2, seed=3, directory=home)
    solution.save(home)
    return solution, home


def test_the_result_names_its_modes(solved: tuple[tempose.Solution, Path]) -> None:
    solution, home = solved
    modes = solution.modes
    assert modes is not None
    assert len(modes) == 2
    facts = json.loads((home / "result.json").read_text())
    assert facts["sampler"]["name"] == "jumping"
    assert facts["modes"]["count"] == 2
    assert sum(mode["probability"] for mode in facts["modes"]["modes"]) == pytest.approx(1.0)
    assert any("8 starts led to 2 modes" in notice for notice in facts["notices"])
    text = solution.summary()
    assert "2 modes: " in text
    assert "the estimate's: U = " in text
    assert [path.name for path in home.glob("poses.mode-*.csv")] == [f"poses.mode-{2 - modes.home}.csv"]
    loaded = tempose.Solution.load(home)
    assert loaded.modes is not None
    assert loaded.modes.facts() == modes.facts()
    again = tempose.solve(solution.graph, starts=8, draws=1240, chains=2, seed=3, directory=home)
    assert again.draws is not None and solution.draws is not None
    np.testing.assert_array_equal(again.draws.arrays[1][:600], solution.draws.arrays[1])


def test_no_average_across_modes(solved: tuple[tempose.Solution, Path]) -> None:
    """σ of either mode is that of the Gaussian there; over all draws it would be several times as large."""
    from tempose.analysis.summary import relative_summary, summarise

    solution, _ = solved
    assert solution.nodes is not None and solution.draws is not None and solution.modes is not None
    laplace = solution.laplace
    assert laplace is not None
    gaussian = np.sqrt(np.trace(laplace.marginals(solution.gauge)[:, :3, :3], axis1=1, axis2=2) / 3.0)[1:]
    np.testing.assert_allclose(np.radians(solution.nodes.sigma_rot_deg[1:]), gaussian, rtol=0.25)
    other = solution.mode_nodes(1 - solution.modes.home)
    assert other is not None
    np.testing.assert_allclose(other.sigma_rot_deg[1:], solution.nodes.sigma_rot_deg[1:], rtol=0.25)  # nearly symmetric
    mixed = summarise(solution.draws, solution.estimate, solution.gauge)
    assert np.max(mixed.sigma_rot_deg[1:] / solution.nodes.sigma_rot_deg[1:]) > 2.0
    pair = solution.relative(0, 3)
    assert pair.sigma_rot_deg < 0.6 * relative_summary(solution.draws, solution.estimate, 0, 3).sigma_rot_deg
    assert pair.n_draws == solution.modes[solution.modes.home].n_draws


def test_the_report_says_which_mode_it_shows(solved: tuple[tempose.Solution, Path]) -> None:
    from tempose.report.solution_page import report_data

    solution, _ = solved
    data = report_data(solution)
    tile = next(fact for fact in data.headline if fact.label == "modes")
    assert tile.value == "2"
    assert "poses and σ on this page are of mode" in tile.note
    assert "; of mode " in data.gauge
    [other] = data.variants  # to switch to
    assert {data.label[:6], other.label[:6]} == {"mode 1", "mode 2"}
    assert np.abs(other.edge_rotation_deg - data.edge_rotation_deg).max() > 0.5


def test_one_mode_is_not_made_a_fuss_of(tmp_path: Path) -> None:
    graph = tempose.simulate(12, sigma_rot_deg=3.0, seed=1).graph
    solution = tempose.solve(graph, draws=600, starts=4)
    assert solution.modes is not None
    assert len(solution.modes) == 1
    assert "mode" not in "\n".join(line for line in solution.summary().split("\n") if not line.startswith("the draws"))
    assert any("no other minimum" in notice for notice in solution.notices)
    with pytest.raises(OptionError, match="at least one start"):
        tempose.SolveOptions(starts=0)


def test_a_saddle_is_left(tmp_path: Path) -> None:
    """Closed by exactly half a turn: the chordal start is symmetric, and Newton's method ends on the ridge."""
    graph = ambiguous_loop(8, 15.0, 180.0)
    ridge = tempose.solve(graph, draws=0, certify=False)
    assert ridge.laplace is None
    solution = tempose.solve(graph, draws=0, certify=False, starts=12)
    assert solution.laplace is not None
    assert solution.potential < ridge.potential
    assert any("50.0% / 50.0%" in notice for notice in solution.notices)


def test_the_deepest_of_several_starts_becomes_the_estimate(loop: Two) -> None:
    graph = replace(loop.posterior.graph, initial=loop.long)
    stuck = tempose.solve(graph, start="given", draws=0, certify=False)
    assert stuck.potential == pytest.approx(loop.posterior.potential(loop.long), rel=1e-9)
    solution = tempose.solve(graph, start="given", draws=0, certify=False, starts=12)
    assert solution.potential == pytest.approx(loop.posterior.potential(loop.short), rel=1e-9)
    assert minimise(loop.curvature, solution.estimate).status == "converged"
