"""The parts of the samplers one by one, far from Gaussian and near; the choice between them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from helpers.graphs import random_graph
from helpers.sampling import Case, eight_nodes, mean_and_error, optimum, with_parts
from tempose import describe, paper
from tempose._support import streams
from tempose._support.compiling import interpreted
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.sampling import collapsed
from tempose.sampling.adjusted import AdjustedChain, AdjustedSampler, after_friction
from tempose.sampling.choice import choose
from tempose.sampling.collapsed import CollapsedChain, CollapsedSampler, CollapsedTarget, kick_plan
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.geodesic import MetropolisChain, MetropolisSampler
from tempose.sampling.options import Geodesic, sampler_named
from tempose.simulation import measure

EXACT = ("collapsed", "geodesic-mh", "tempering")
ADJUSTED = ("baoab-mh", "aboba-mh", "boa-mh")


@pytest.fixture(scope="module")
def eight() -> Case:
    return eight_nodes()


# ---------------------------------------------------------------------- far from Gaussian


def one_edge(sigma_deg: float) -> Case:
    """Two nodes, one edge with a lever: the distribution of the relative rotation is known exactly."""
    lam = 2.0 / math.radians(sigma_deg) ** 2
    graph = PoseGraph((0, 1), [0], [1], [[1.0, 0, 0, 0]], [[1.0, 0.5, 0.0]], lam, 4.0)
    return optimum(graph, Poses.identity((0, 1)))


@pytest.mark.parametrize("sigma_deg", [40.0, 80.0])
@pytest.mark.parametrize("name", EXACT)
def test_one_wide_edge_against_quadrature(tmp_path: Path, name: str, sigma_deg: float) -> None:
    """The angle θ of one isotropic edge has the density exp(−βλ sin²(θ/2)) sin²(θ/2) on [0, π]."""
    case, beta = one_edge(sigma_deg), 1.3
    draws = case.run(name, 8_000, tmp_path, beta)
    q = np.asarray(draws.arrays[0][:, :, :4])
    got = np.sin(0.5 * quat.angle(quat.multiply(q[:, 1], quat.conjugate(q[:, 0])))) ** 2
    theta = np.linspace(0.0, math.pi, 20_001)
    s2 = np.sin(0.5 * theta) ** 2
    density = np.exp(-beta * float(case.posterior.graph.concentration[0]) * s2) * s2
    for power in (1, 2, 4):
        exact = float(np.sum(density * s2**power) / np.sum(density))
        mean, error = mean_and_error(got**power)
        assert abs(mean - exact) < 4.0 * error
        assert error < 0.12 * exact
    assert np.max(got) > 0.97 or sigma_deg < 80.0  # it goes round the sphere


def brute_force(graph: PoseGraph, best: Poses, rng: np.random.Generator, n: int = 400_000) -> dict[str, float]:
    """Moments of a triangle's posterior by weighted rotations of nodes 1 and 2, the positions integrated by hand."""
    mode, lam = best.node_from_world[0], float(graph.concentration[0])
    q = [np.tile(mode[0], (n, 1))]  # node_from_world
    q += [Bingham.from_mode(mode[k], np.full(3, lam)).sample(rng, n) for k in (1, 2)]
    log_proposal = sum(lam * np.sum(one * mode[k], axis=1) ** 2 for k, one in enumerate(q))
    energy = np.zeros(n)
    L, b = np.zeros((3, 3)), np.zeros((n, 3, 3))
    for e in range(3):
        i, j, tau = graph.edge_i[e], graph.edge_j[e], graph.translation_precision[e]
        relative = quat.multiply(q[j], quat.conjugate(q[i]))
        error = quat.multiply(graph.j_from_i_wxyz[e], quat.conjugate(relative))
        energy += graph.concentration[e] * np.sum(error[:, 1:] ** 2, axis=1)
        m = quat.rotate(quat.conjugate(q[j]), np.tile(graph.j_from_i_t[e], (n, 1)))  # should be c_i − c_j
        energy += 0.5 * tau * np.sum(m**2, axis=1)
        L[i, i], L[j, j], L[i, j], L[j, i] = L[i, i] + tau, L[j, j] + tau, L[i, j] - tau, L[j, i] - tau
        b[:, i] += tau * m
        b[:, j] -= tau * m
    inner = b[:, 1:]  # node 0 is held
    energy -= 0.5 * np.einsum("nia,ij,nja->n", inner, np.linalg.inv(L[1:, 1:]), inner)
    log_weight = -energy - log_proposal
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / np.sum(weight**2) > 1500  # effective size
    x = angle_from(np.stack([quat.conjugate(one) for one in q], axis=1), best)
    # the six integrated coordinates of the positions add ½ each
    return {"energy": float(weight @ energy) + 3.0, "angle": float(weight @ x), "cosine": float(weight @ np.cos(x))}


def angle_from(world_from_node: np.ndarray, best: Poses) -> np.ndarray:
    """Angle between the rotation of node 2 seen from node 0, and the same at the optimum."""
    relative = quat.multiply(quat.conjugate(world_from_node[:, 0]), world_from_node[:, 2])
    centre = quat.multiply(quat.conjugate(best.wxyz[0]), best.wxyz[2])
    return quat.angle(quat.multiply(relative, quat.conjugate(centre)))


@pytest.mark.parametrize(("name", "sigma_deg"), [("geodesic-mh", 40.0), ("geodesic-mh", 25.0), ("collapsed", 25.0)])
def test_wide_triangle_against_brute_force(tmp_path: Path, name: str, sigma_deg: float) -> None:
    rng = np.random.default_rng(4)
    truth = Poses((0, 1, 2), quat.random_uniform(rng, 3), rng.standard_normal((3, 3)))
    graph = measure(truth, np.array([(0, 1), (1, 2), (2, 0)]), math.radians(sigma_deg), 0.5, rng)
    case = optimum(graph, truth)
    exact = brute_force(graph, case.best, rng)
    draws = case.run(name, 6_000, tmp_path / name)
    angle = angle_from(np.asarray(draws.arrays[0][:, :, :4]), case.best)
    for key, values in (("energy", draws.energies[0]), ("angle", angle), ("cosine", np.cos(angle))):
        mean, error = mean_and_error(values)
        assert abs(mean - exact[key]) < 4.0 * error + 0.015, key
        assert error < 0.05 * max(abs(exact[key]), 1.0)


def test_without_the_volume_factor_quadrature_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the chart's volume left out."""
    from tempose.sampling import _kernels

    def flat(axes, omega, g, beta, out):  # type: ignore[no-untyped-def]
        ones = np.zeros((len(omega), 3))
        volume = _kernels.pull_back(axes, omega, g, beta, out)
        _kernels.pull_back(axes, omega, np.zeros_like(g), beta, ones)
        out -= ones
        return 0.0 * volume

    monkeypatch.setattr(_kernels, "target", interpreted(_kernels.target, pull_back=flat))
    with pytest.raises(AssertionError):
        test_one_wide_edge_against_quadrature(tmp_path, "collapsed", 80.0)


# ---------------------------------------------------------------------- the parts


@pytest.mark.parametrize("beta", [0.02, 1.0, 30.0])
def test_gradient_of_the_remainder(eight: Case, beta: float) -> None:
    rng = np.random.default_rng(2)
    for case in (eight, optimum(*with_parts())):
        laplace = case.problem(beta).laplace
        assert laplace is not None
        target = CollapsedTarget(laplace)
        y = rng.standard_normal(6 * case.posterior.graph.n_nodes)
        point = target.at(y)
        for _ in range(5):
            d, h = rng.standard_normal(len(y)), 1e-5
            slope = (target.at(y + h * d).remainder - target.at(y - h * d).remainder) / (2.0 * h)
            assert slope == pytest.approx(float(point.gradient @ d), rel=1e-5, abs=1e-6)


def test_the_remainder_has_no_second_order(eight: Case) -> None:
    """Up to the volume factor, W is of third order at the optimum: the metric is the whole curvature."""
    laplace = eight.problem(1e6).laplace
    assert laplace is not None
    target = CollapsedTarget(laplace)
    y = np.random.default_rng(3).standard_normal(48)
    zero = target.at(0.0 * y).remainder
    x = np.where(target.held, 0.0, laplace.factor.solve_Lt(y).reshape(-1, 6)) / 1e3
    volume = float(np.sum(x[:, :3] ** 2)) / 12.0
    assert abs(target.at(y).remainder - zero - volume) < 0.02  # while ½|y|² is about 24


def chains_of(case: Case, name: str) -> tuple[CollapsedChain | MetropolisChain, np.random.Generator]:
    sampler = choose(name, case.problem()).sampler
    assert isinstance(sampler, CollapsedSampler | MetropolisSampler)
    rng = np.random.default_rng(7)
    chain = sampler.start(rng)
    for _ in range(20):
        chain.advance(rng)
    return chain, rng  # type: ignore[return-value]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("kicks", [2, 3, 4, 5, 6, 8, 32])
def test_kicks_integrate_what_is_cubic(kicks: int, small: bool) -> None:
    """The frequencies 1 and 3; where W is small three kicks or more have less of an error at 2 than equal parts have."""
    turn = 1.43
    times, weights = kick_plan(turn, kicks, small=small)
    for frequency, phase in ((1.0, 0.0), (1.0, 0.7), (3.0, 0.0), (3.0, 2.0)):
        exact = (math.sin(frequency * turn + phase) - math.sin(phase)) / frequency
        assert weights @ np.cos(frequency * times + phase) == pytest.approx(exact, abs=1e-12)
    error = abs(weights @ np.cos(2.0 * times - turn) - math.sin(turn))
    if small and kicks >= 3:
        even, equal = kick_plan(turn, kicks, small=False)
        assert error < (1.0 - 0.7 / kicks) * abs(equal @ np.cos(2.0 * even - turn) - math.sin(turn))
    else:
        np.testing.assert_allclose(times, np.linspace(0.0, turn, kicks + 1))
        assert error > 0.1 / kicks**2
    np.testing.assert_allclose(weights, weights[::-1], atol=1e-12)
    np.testing.assert_allclose(times, turn - times[::-1], atol=1e-12)
    assert weights.min() > 0.0 and np.diff(times).min() > 0.0


def test_uneven_parts_reject_less(eight: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Than three equal ones, whose weights integrate what is cubic, too."""
    chain, rng = chains_of(eight, "collapsed")
    assert isinstance(chain, CollapsedChain)
    velocities = rng.standard_normal((100, 48))
    errors = [chain.propose(v, 1.57, 3)[1] for v in velocities]
    monkeypatch.setattr(CollapsedTarget, "is_small", False)
    equal = [chain.propose(v, 1.57, 3)[1] for v in velocities]
    assert np.std(errors) < 0.6 * np.std(equal)


def test_cubic_weights_reject_less(eight: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    chain, rng = chains_of(eight, "collapsed")
    assert isinstance(chain, CollapsedChain)
    velocities = rng.standard_normal((200, 48))
    errors = [chain.propose(v, 1.57, 2)[1] for v in velocities]
    with monkeypatch.context() as patch:
        trapezoid = np.array([0.0, 0.5, 1.0]), np.array([0.25, 0.5, 0.25])
        patch.setattr(collapsed, "kick_plan", lambda turn, kicks, small: [turn * one for one in trapezoid])
        plain = [chain.propose(v, 1.57, 2)[1] for v in velocities]
    assert np.std(errors) < 0.6 * np.std(plain)


def test_energy_errors_are_of_second_order(eight: Case) -> None:
    chain, rng = chains_of(eight, "collapsed")
    assert isinstance(chain, CollapsedChain)
    errors = {}
    velocities = rng.standard_normal((8, 48))
    for kicks in (8, 16, 32):
        errors[kicks] = np.array([chain.propose(v, 1.5, kicks)[1] for v in velocities])
    assert np.median(np.abs(errors[8] / errors[16])) == pytest.approx(4.0, rel=0.2)
    assert np.median(np.abs(errors[16] / errors[32])) == pytest.approx(4.0, rel=0.2)

    other, rng = chains_of(eight, "geodesic-mh")
    assert isinstance(other, MetropolisChain)
    start, potential, step = other.chain.state, other.potential, other.leapfrog.step / 4.0
    z = rng.standard_normal((8, 8, 6)) / np.sqrt(other.momentum.mass)
    for k in (1, 2, 4):
        other.leapfrog = replace(other.leapfrog, step=step / k)
        errors[-k] = []
        for v in z:
            other.chain.restore(replace(start, velocity=v))
            other.potential = potential
            errors[-k].append(other.propose(12 * k))
    assert np.median(np.abs(np.divide(errors[-1], errors[-2]))) == pytest.approx(4.0, rel=0.2)
    assert np.median(np.abs(np.divide(errors[-2], errors[-4]))) == pytest.approx(4.0, rel=0.2)


def test_trajectories_are_reversible(eight: Case) -> None:
    chain, rng = chains_of(eight, "collapsed")
    assert isinstance(chain, CollapsedChain)
    first, v = chain.point, rng.standard_normal(48)
    # where a trajectory ends, minus its velocity there leads back: recover that velocity from the energy-free turn
    end, error = chain.propose(v, 1.5, 3)
    y, (times, weights) = first, kick_plan(1.5, 3)
    p = v - weights[0] * y.gradient
    for h, weight in zip(np.diff(times), weights[1:], strict=True):
        z, p = math.cos(h) * y.y + math.sin(h) * p, math.cos(h) * p - math.sin(h) * y.y
        y = chain.target.at(z)
        p = p - weight * y.gradient
    chain.point = end
    back, reverse_error = chain.propose(-p, 1.5, 3)
    np.testing.assert_allclose(back.y, first.y, atol=1e-8)
    assert reverse_error == pytest.approx(-error, abs=1e-7)

    other, rng = chains_of(eight, "geodesic-mh")
    assert isinstance(other, MetropolisChain)
    before = other.chain.state
    error = other.propose(9)
    other.chain.velocity[:] *= -1.0
    assert other.propose(9) == pytest.approx(-error, abs=1e-8)
    np.testing.assert_allclose(other.chain.state.wxyz, before.wxyz, atol=1e-10)


def test_acceptance_of_a_wrong_energy_would_be_noticed(
    eight: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control of the table: a Metropolis test that always accepts a crude step."""
    sampler = choose("geodesic-mh", eight.problem()).sampler
    assert isinstance(sampler, MetropolisSampler)
    crude = replace(sampler, dynamics=replace(sampler.dynamics, step=2.2 * sampler.dynamics.step))
    propose = MetropolisChain.propose
    monkeypatch.setattr(MetropolisChain, "propose", lambda self, steps: min(propose(self, steps), 0.0))
    draws = sample(eight.posterior, crude, SamplingPlan(1.0, 1, 3000, 0), tmp_path)
    mean, error = mean_and_error(draws.energies[0] - eight.lowest)
    assert abs(mean - 21.0) > 4.0 * error + 0.2


# ---------------------------------------------------------------------- adjusted schemes


def test_what_follows_friction() -> None:
    assert after_friction("baoab") == "abba"
    assert after_friction("ABOBA") == "baab"
    assert after_friction("boa") == "ab"
    assert after_friction("obabo") == "bab"
    with pytest.raises(OptionError, match="friction in several places"):
        after_friction("aobo")


@pytest.mark.parametrize("name", ADJUSTED)
def test_adjusted_moves_have_a_way_back(eight: Case, name: str) -> None:
    sampler = choose(name, eight.problem()).sampler
    assert isinstance(sampler, AdjustedSampler)
    chain = sampler.start(np.random.default_rng(3))
    chain.set_step(2.0 * sampler.dynamics.step)
    before, potential = chain.chain.state, chain.potential
    error, _ = chain.propose(0)
    assert abs(error) > 1e-3
    chain.chain.velocity[:] *= -1.0
    back, _ = chain.propose(len(chain.moves) - 1)  # for boa the other order
    assert back == pytest.approx(-error, abs=1e-8)
    assert chain.potential == pytest.approx(potential, rel=1e-9)
    np.testing.assert_allclose(chain.chain.state.wxyz, before.wxyz, atol=1e-10)
    np.testing.assert_allclose(chain.chain.velocity, -before.velocity, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["nothing", "test", "order"])
def test_adjusted_schemes_need_each_of_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Crude steps on one wide edge are right with the test and the coin, and wrong without either."""
    case = one_edge(40.0)
    sampler = choose("boa-mh", case.problem()).sampler
    assert isinstance(sampler, AdjustedSampler)
    crude = replace(sampler, dynamics=replace(sampler.dynamics, step=0.25, friction=0.4), thin=3)
    if broken == "test":
        propose = AdjustedChain.propose
        monkeypatch.setattr(AdjustedChain, "propose", lambda self, which: (min(0.0, propose(self, which)[0]), 1))
    elif broken == "order":
        start = AdjustedChain.__init__

        def one_way(self, *arguments) -> None:  # type: ignore[no-untyped-def]
            start(self, *arguments)
            self.moves, self.orders = self.moves[:1], self.orders[:1]

        monkeypatch.setattr(AdjustedChain, "__init__", one_way)
    draws = sample(case.posterior, crude, SamplingPlan(1.0, 1, 20_000, 0), tmp_path)
    mean, error = mean_and_error(draws.energies[0])
    exact = 1.5 + wide_energy(case)
    if broken == "nothing":
        assert abs(mean - exact) < 4.0 * error
        assert draws.acceptance < 0.95
    else:
        assert abs(mean - exact) > 5.0 * error


def wide_energy(case: Case) -> float:
    """Mean of ``λ sin²(θ/2)`` of one edge; the three coordinates of its position add ½ each."""
    s2 = np.sin(0.5 * np.linspace(0.0, math.pi, 20_001)) ** 2
    lam = float(case.posterior.graph.concentration[0])
    density = np.exp(-lam * s2) * s2
    return float(np.sum(density * lam * s2) / np.sum(density))


# ---------------------------------------------------------------------- the choice


def test_auto_takes_collapsed_where_it_is_exact_and_good(eight: Case) -> None:
    choice = choose("auto", eight.problem())
    assert choice.sampler.name == "collapsed"
    assert "accepted" in describe.reason(choice.reason)


def anisotropic() -> Case:
    rng = np.random.default_rng(8)
    truth = Poses(tuple(range(5)), quat.random_uniform(rng, 5), rng.standard_normal((5, 3)))
    pairs = np.array([(a, b) for a in range(5) for b in range(a + 1, 5)])
    graph = measure(truth, pairs, 0.05, 0.1, rng)
    return optimum(replace(graph, translation_precision=np.tile(np.diag([50.0, 100.0, 200.0]), (10, 1, 1))), truth)


def test_auto_takes_collapsed_where_the_precision_of_positions_turns(tmp_path: Path) -> None:
    case = anisotropic()
    choice = choose("auto", case.problem())
    assert choice.sampler.name == "collapsed"
    draws = case.run("auto", 2000, tmp_path, beta=20.0)
    mean, error = mean_and_error(20.0 * (draws.energies[0] - case.lowest))
    assert abs(mean - 12.0) < 4.0 * error + 0.1


def test_auto_falls_back_without_a_minimum() -> None:
    case = replace(one_edge(5.0))
    choice = choose("auto", replace(case.problem(), laplace=None))
    assert choice.sampler.name == "geodesic-mh"
    assert "no strict minimum" in describe.reason(choice.reason)
    with pytest.raises(NotApplicable, match="not positive definite"):
        choose("collapsed", replace(case.problem(), laplace=None))


def test_auto_falls_back_far_from_gaussian(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring of very vague measurements at a tenth of its precision: the Gaussian at the optimum means nothing."""
    rng = np.random.default_rng(3)
    graph = random_graph(rng, 30, 34)
    start = Poses.identity(graph.node_ids)
    posterior = Posterior(graph)
    best = minimise(Curvature(posterior), start)
    case = Case(posterior, best.poses, best.potential)
    choice = choose("auto", case.problem(0.02))
    assert choice.sampler.name == "geodesic-mh"
    assert "wide" in describe.reason(choice.reason)
    with monkeypatch.context() as patch:
        patch.setattr("tempose.sampling.choice.WIDE", math.inf)
        choice = choose("auto", case.problem(0.02))
    assert choice.sampler.name == "geodesic-mh"
    assert "far from Gaussian" in describe.reason(choice.reason)


def test_the_choice_is_recorded_and_printed(eight: Case, tmp_path: Path) -> None:
    options = {"draws": 8, "chains": 2, "directory": tmp_path}
    solution = tempose.solve(eight.posterior.graph, **options)
    facts = solution.facts()["sampler"]
    assert facts["name"] == "collapsed"
    assert facts["settings"]["kicks"] == 1 and facts["settings"]["turn"] == collapsed.TURN
    assert 1.0 <= facts["gradients_per_draw"] <= 4.0
    assert 0.9 < facts["acceptance"] <= 1.0
    assert "positions integrated out (positions can be integrated out" in solution.summary()
    longer = tempose.solve(eight.posterior.graph, **{**options, "draws": 12})  # goes on without tuning again
    assert longer.facts()["sampler"]["reason"] == facts["reason"]
    assert longer.draws is not None and solution.draws is not None
    np.testing.assert_array_equal(longer.draws.arrays[0][:4], solution.draws.arrays[0])


def test_options_of_the_geodesic_sampler_choose_it(eight: Case) -> None:
    solution = tempose.solve(eight.posterior.graph, draws=4, sampler=Geodesic(scheme="aboba"))
    assert solution.facts()["sampler"]["name"] == "geodesic"
    assert solution.facts()["sampler"]["settings"]["scheme"] == "aboba"
    with pytest.raises(OptionError, match="scheme: not an option of the sampler collapsed"):
        sampler_named("collapsed", scheme="boa")
    with pytest.raises(OptionError, match="unknown sampler"):
        tempose.SolveOptions(sampler="nuts")
    assert paper.preset().sampler.name == "geodesic"


def test_streams_of_draws_are_apart() -> None:
    seen = {
        float(streams.of_draw(seed, chain, number).random())
        for seed in (0, 1)
        for chain in range(3)
        for number in range(3)
    }
    assert len(seen) == 18


def test_a_chain_from_the_bottom_of_a_wide_posterior_gets_going() -> None:
    """From the optimum the first full steps would never be accepted: the chain has to be brought to typical energies."""
    import tempose

    graph = tempose.simulate(400, shape="trajectory", sigma_rot_deg=40.0, sigma_trans=1.0, seed=2).graph
    solution = tempose.solve(graph, draws=8, chains=2, sampler="geodesic-mh", certify=False)
    assert solution.draws is not None
    assert solution.draws.acceptance > 0.4
    excess = solution.draws.mean_potential - solution.potential
    assert 0.7 * (6 * 400 - 6) / 2 < excess < 1.3 * (6 * 400 - 6) / 2
