"""Positions integrated out for every kind of graph: against plain definitions and quadrature, and with a term left out."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ive

import tempose
from helpers.every_graph import about_z
from helpers.sampling import mean_and_error
from tempose import describe
from tempose._support.compiling import interpreted
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.numerics import potential
from tempose.numerics.chart import center, center_back, pull_back
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.sampling import _kernels, collapsed
from tempose.sampling.collapsed import (
    JITTER,
    LEAST_ACCEPTANCE,
    LONGEST,
    CollapsedSampler,
    CollapsedTarget,
    efficiency,
    longer_turn,
    tune_target,
    widest_edge,
)
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.jumping import half_log_determinant, tune_jumping
from tempose.sampling.sampler import Cause, Reason
from tempose.sampling.wrong_edges import RobustTarget

KINDS = {
    "isotropic": {},
    "correlated": {"correlated": True},
    "randomly correlated": {"correlated": "random"},
    "lever arms": {"correlated": True, "gps": 4, "lever_arm": 0.3},
    "uneven fixes": {"gps": 4, "gps_up": 3.0},
    "fixes": {"gps": 4},
    "landmarks": {"landmarks": 4},
    "mixed": {"correlated": True, "gps": 4, "attitudes": 2, "landmarks": 4, "fixed": 1},
    "fixed": {"fixed": 3},
}  # fmt: skip
FLAT = {f"planar {name}": {**options, "planar": True, "gps_up": 1.0} for name, options in KINDS.items()}
EVERY = {**KINDS, **FLAT}
TURNING = ("correlated", "randomly correlated", "lever arms", "mixed")


def laplace_of(kind: str, beta: float = 1.0) -> Laplace:
    """A small graph of a kind at its optimum."""
    options = {"sigma_rot_deg": 4.0, "sigma_trans": 0.1, "completeness": 0.8, "seed": 1, **EVERY[kind]}
    made = tempose.simulate(7, **options)  # type: ignore[arg-type]
    return laplace_at(Posterior(made.graph), start_of(made.graph, made.truth), beta)


def start_of(graph: PoseGraph, truth: Poses) -> Poses:
    """The truth, with the world where it is."""
    return truth if graph.world is None else truth.with_identity(WORLD).select(graph.node_ids)


def laplace_at(posterior: Posterior, start: Poses, beta: float = 1.0) -> Laplace:
    curvature = Curvature(posterior)
    best = minimise(curvature, start)
    assert best.status == "converged" and best.is_minimum
    return Laplace(curvature, best.poses, beta)


def somewhere(target: CollapsedTarget, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(target.laplace.factor.symbolic.block * len(target.held))


# ---------------------------------------------------------------------- the target


@pytest.mark.parametrize("beta", [1.0, 5.0])
@pytest.mark.parametrize("kind", EVERY)
def test_gradient_of_the_remainder(kind: str, beta: float) -> None:
    target, rng = CollapsedTarget(laplace_of(kind, beta)), np.random.default_rng(2)
    turning = kind.removeprefix("planar ") in TURNING
    assert target.precision.is_turning == turning
    assert target.precision.is_scalar == (not turning and kind != "uneven fixes")
    y = somewhere(target, rng)
    point = target.at(y)
    for _ in range(3):
        d, h = rng.standard_normal(len(y)), 1e-5
        slope = (target.at(y + h * d).remainder - target.at(y - h * d).remainder) / (2.0 * h)
        assert slope == pytest.approx(float(point.gradient @ d), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", EVERY)
def test_the_remainder_is_its_definition(kind: str) -> None:
    """βU_c − log volume − ½β ωᵀSω, with dense matrices that share no code with the sampler."""
    beta = 3.0
    target, rng = CollapsedTarget(laplace_of(kind, beta)), np.random.default_rng(3)
    values = []
    for _ in range(3):
        y = somewhere(target, rng)
        point = target.at(y)
        values.append(point.remainder - remainder(target, y, point.state[:, :4], beta))
    if not target.precision.is_turning:  # there a constant is left out
        values = [one - values[0] for one in values]
    np.testing.assert_allclose(values, 0.0, atol=1e-7)


def remainder(target: CollapsedTarget, y: np.ndarray, wxyz: np.ndarray, beta: float) -> float:
    graph, laplace, held = target.posterior.graph, target.laplace, target.held
    n, axes = graph.n_nodes, graph.axes
    free = np.flatnonzero(~held[:, axes].reshape(-1))
    turns = np.tile(axes < 3, n)[free]
    covariance = laplace.factor.solve(np.eye(len(y)))[np.ix_(free, free)]
    S = np.linalg.inv(covariance[np.ix_(turns, turns)])
    x = laplace.factor.solve_Lt(y)[free][turns] / math.sqrt(beta)

    # the positions, one coordinate after the other: U is quadratic in them, so differences of gradients are exact
    nodes, columns = np.nonzero(~held[:, 3:])
    position = target.center.position.copy()
    first = target.posterior.gradient_at(wxyz, position)[1][:, 3:][nodes, columns]
    C = np.empty((len(nodes), len(nodes)))
    for k, (row, column) in enumerate(zip(nodes, columns, strict=True)):
        moved = position.copy()
        moved[row, column] += 1.0
        C[k] = target.posterior.gradient_at(wxyz, moved)[1][:, 3:][nodes, columns] - first
    position[nodes, columns] -= np.linalg.solve(C, first)
    lowest = target.posterior.gradient_at(wxyz, position)[0]
    return beta * (lowest - 0.5 * float(x @ S @ x)) + 0.5 * float(np.linalg.slogdet(C)[1]) - log_volume(target, y)


def log_volume(target: CollapsedTarget, y: np.ndarray) -> float:
    """As tests/numerics/test_chart.py proves it right."""
    model, n = target.model, len(target.held)
    x, omega, g = np.zeros((n, 3)), np.empty((n, 3)), np.zeros((n, 3))
    _kernels.spread(model.axes, model.hessian, y[None], 1.0 / math.sqrt(target.beta), model.free, x[None])
    center(model.frame, x, omega)
    volume = pull_back(model.axes, omega, np.zeros((n, 3)), 1.0, g)
    return float(volume + center_back(model.axes, model.frame, omega, g))


@pytest.mark.parametrize("kind", EVERY)
def test_what_is_held_stays(kind: str) -> None:
    """Fixed nodes and the world at their poses, landmarks without a turn, planes flat: with rotations and positions drawn."""
    target, rng = CollapsedTarget(laplace_of(kind)), np.random.default_rng(4)
    graph, center_ = target.posterior.graph, target.center
    wxyz, position, energy = target.draw_positions(target.at(somewhere(target, rng)), rng)
    assert energy == pytest.approx(target.posterior.reference_potential(Poses(center_.ids, wxyz, position)), rel=1e-10)
    still = graph.is_landmark | graph.is_fixed & (graph.is_fixed.sum() > 1)
    np.testing.assert_allclose(wxyz[still], center_.wxyz[still], atol=1e-15)
    np.testing.assert_array_equal(position[still & graph.is_fixed], center_.position[still & graph.is_fixed])
    if graph.is_planar:
        assert not np.any(wxyz[:, 1:3]) and not np.any(position[:, 2])


@pytest.mark.parametrize("kind", EVERY)
def test_draws_of_positions_have_their_covariance(kind: str) -> None:
    """Whitened by the dense precision of the positions given the rotations, they are standard normal."""
    beta = 2.0
    target, rng = CollapsedTarget(laplace_of(kind, beta)), np.random.default_rng(5)
    point, turn = target.at(somewhere(target, rng)), ~target.held[:, 3:]
    first = target.posterior.gradient_at(point.state[:, :4], point.state[:, 4:7])[1][:, 3:][turn]
    np.testing.assert_allclose(first, 0.0, atol=1e-8)
    squares = []
    for _ in range(400):
        wxyz, position, _ = target.draw_positions(point, rng)
        d = (position - point.state[:, 4:7])[turn]
        force = target.posterior.gradient_at(wxyz, position)[1][:, 3:][turn]
        squares.append(beta * float(d @ force))
    k = int(turn.sum())
    assert np.mean(squares) == pytest.approx(k, abs=5.0 * math.sqrt(2.0 * k / 400))
    assert np.var(squares) == pytest.approx(2.0 * k, rel=0.5)


@pytest.mark.parametrize("kind", ["isotropic", "correlated", "planar isotropic", "planar correlated", "planar mixed"])
def test_the_ratio_of_modes_is_that_of_their_gaussians(kind: str) -> None:
    """At its centre a mode's density by y is ``e^(−βU*) / √det H``, up to what all modes share."""
    target = CollapsedTarget(laplace_of(kind, 4.0))
    got = target.at(0.0 * somewhere(target, np.random.default_rng(0))).remainder + half_log_determinant(target)
    expected = 4.0 * target.posterior.potential(target.center) + 0.5 * target.laplace.factor.log_determinant()
    assert got == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kind", ["isotropic", "correlated", "uneven fixes", "planar mixed"])
def test_compiled_code_has_the_numbers_of_its_source(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, rng = CollapsedTarget(laplace_of(kind)), np.random.default_rng(8)
    y = somewhere(target, rng)
    compiled = target.at(y)
    monkeypatch.setattr(_kernels, "target", interpreted(_kernels.target))
    plain = target.at(y)
    assert compiled.remainder == pytest.approx(plain.remainder, rel=1e-12)
    np.testing.assert_allclose(compiled.gradient, plain.gradient, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(compiled.state, plain.state, rtol=1e-12, atol=1e-12)


def test_large_graphs_are_drawn_on_one_thread_a_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a draw runs on all cores, which chains on several threads would fight for; to the same bytes on one and on two."""
    monkeypatch.setattr("tempose.model.posterior.PARALLEL_FROM_EDGES", 1)
    target = CollapsedTarget(laplace_of("isotropic"))
    assert target.posterior.runs_parallel
    main, parallel = threading.get_ident(), potential.gradient_parallel

    def on_the_main_thread(*arguments: object) -> object:
        assert threading.get_ident() == main
        return parallel(*arguments)

    monkeypatch.setattr(potential, "gradient_parallel", on_the_main_thread)
    sampler, found = CollapsedSampler(target, 3), []
    for threads in (1, 2):
        draws = sample(target.posterior, sampler, SamplingPlan(1.0, 4, 5, 0), tmp_path / str(threads), threads=threads)
        found.append([np.array(draws.energies).tobytes(), *(draws[k].position.tobytes() for k in (0, 19))])
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["isotropic", "correlated", "uneven fixes", "planar mixed"])
@pytest.mark.parametrize("count", [2, 3])
def test_chains_side_by_side_make_the_draws_of_chains_alone(
    kind: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, also where some of them take a careful trajectory and others do not."""
    target = CollapsedTarget(laplace_of(kind))
    monkeypatch.setattr(target, "careful", True)
    monkeypatch.setattr(collapsed, "CAREFUL", 3)
    sampler = CollapsedSampler(target, 2, thin=2)
    alone, together = ([sampler.start(np.random.default_rng(k)) for k in range(count)] for _ in range(2))
    gradients = set()
    for t in range(6):
        one = [chain.advance(np.random.default_rng([k, t])) for k, chain in enumerate(alone)]
        all_ = sampler.advance(together, [np.random.default_rng([k, t]) for k in range(count)])
        for a, b in zip(one, all_, strict=True):
            np.testing.assert_array_equal(a.wxyz, b.wxyz)
            np.testing.assert_array_equal(a.position, b.position)
            assert (a.potential, a.acceptance, a.gradients) == (b.potential, b.acceptance, b.gradients)
            gradients.add(a.gradients)
    assert len(gradients) > 1
    assert not np.array_equal(one[0].wxyz, one[1].wxyz)


def test_norms_are_summed_in_one_order() -> None:
    rng = np.random.default_rng(1)
    for size in (0, 1, 3, 4, 7, 15_001):
        y, v = rng.standard_normal((2, size))
        assert _kernels.half_square(y, v) == pytest.approx(0.5 * (np.sum(y**2) + np.sum(v**2)), rel=1e-13)


def test_the_widest_edge_is_one_that_measures_a_rotation() -> None:
    """In the plane per one axis, and sightings and fixes of positions do not count."""
    edge = PoseGraph(
        (0, 1), [0], [1], [quat.IDENTITY], [[1.0, 0.0, 0.0]], 2.0 / 0.1**2, 1.0 / 0.05**2, dimension=2
    )  # fmt: skip
    alone = laplace_at(Posterior(edge), Poses.identity((0, 1)))
    assert widest_edge(alone) == pytest.approx(0.1, rel=1e-6)
    for kind in ("landmarks", "fixes"):
        laplace = laplace_of(kind)
        graph = laplace.curvature.posterior.graph
        trace = np.einsum("maa->m", laplace.edge_covariances()[:, :3, :3])
        assert widest_edge(laplace) == pytest.approx(math.sqrt(trace[graph.concentration > 0.0].max() / 3.0))


# ---------------------------------------------------------------------- longer turns


def turned(acceptance: float, turn: float, draws: int) -> np.ndarray:
    """A chain of turns of a normal number, some of them rejected."""
    rng = np.random.default_rng(2)
    angle = turn * (1.0 + JITTER * rng.uniform(-1.0, 1.0, draws))
    c, pushed = np.cos(angle), np.sin(angle) * rng.standard_normal(draws)
    accepted = rng.random(draws) < acceptance
    x, out = 0.0, np.empty(draws)
    for k in range(draws):
        x = c[k] * x + pushed[k] if accepted[k] else x
        out[k] = x
    return out


@pytest.mark.parametrize("acceptance", [0.75, 0.85, 0.95])
def test_a_longer_turn_makes_up_for_rejections(acceptance: float) -> None:
    """Draws are uncorrelated, and effective ones of means and of squares are as predicted; a quarter of a turn has 1 − a."""
    draws = 200_000
    for turn, correlation in ((longer_turn(acceptance), 0.0), (collapsed.TURN, 1.0 - acceptance)):
        x = turned(acceptance, turn, draws)
        assert np.corrcoef(x[1:], x[:-1])[0, 1] == pytest.approx(correlation, abs=0.012)
        for one, predicted in zip((x, x**2), efficiency(acceptance, turn), strict=True):
            _, error = mean_and_error(one, batches=2000)
            assert np.var(one) / draws / error**2 == pytest.approx(predicted, rel=0.1)


def test_the_longest_turn_costs_squares_a_tenth_at_most() -> None:
    """And the next tenth of a quarter would cost more."""
    for acceptance in np.linspace(LEAST_ACCEPTANCE, 1.0, 20):
        quarter = efficiency(acceptance, collapsed.TURN)
        turn = min(longer_turn(acceptance), LONGEST)
        means, squares = efficiency(acceptance, turn)
        assert means >= quarter[0] and squares > 0.9 * quarter[1]
        assert math.prod((means, squares)) >= math.prod(quarter)
    assert efficiency(0.8, LONGEST + 0.1)[1] < 0.9 * efficiency(0.8, collapsed.TURN)[1]


def tuned_to(
    monkeypatch: pytest.MonkeyPatch, rates: dict[int, float], longer: float, **options: float
) -> tuple[int, float]:
    """Kicks and turn that pilots choose whose acceptance is known: by kicks at a quarter of a turn, and beyond."""
    target = CollapsedTarget(laplace_of("isotropic"))

    def sweep(self: collapsed.CollapsedChain, rng: np.random.Generator, kicks: int) -> float:
        return longer if self.turn > collapsed.TURN else rates.get(kicks, 0.86)

    monkeypatch.setattr(collapsed.CollapsedChain, "sweep", sweep)
    sampler = tune_target(target, 0, **options).sampler  # type: ignore[arg-type]
    assert isinstance(sampler, CollapsedSampler)
    assert sampler.settings()["turn"] == sampler.turn
    return sampler.kicks, sampler.turn


def test_turns_are_longer_where_that_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = {1: 0.2, 2: 0.3, 3: 0.85}
    assert tuned_to(monkeypatch, rates, 0.83) == (3, pytest.approx(math.acos(-0.17 / 0.83)))
    assert tuned_to(monkeypatch, rates, 0.76) == (3, collapsed.TURN)  # squares would lose more than means gain
    assert tuned_to(monkeypatch, rates, 0.83, longest=collapsed.TURN) == (3, collapsed.TURN)
    assert tuned_to(monkeypatch, {**rates, 3: 0.8}, 0.8) == (3, LONGEST)
    assert tuned_to(monkeypatch, {**rates, 3: 0.97}, 0.97) == (3, collapsed.TURN)  # hardly anything to mend
    assert tuned_to(monkeypatch, {1: 0.2, 2: 0.9}, 0.9) == (2, collapsed.TURN)  # parts that are long already


def test_a_resumed_chain_keeps_its_turn(tmp_path: Path) -> None:
    target = CollapsedTarget(laplace_of("isotropic"))
    found = {}
    for turn in (1.7, collapsed.TURN):
        sampler = CollapsedSampler(target, 3, turn=turn)
        for name, lengths in (("once", (6,)), ("resumed", (3, 6))):
            for length in lengths:
                plan = SamplingPlan(1.0, 2, length, 0)
                draws = sample(target.posterior, sampler, plan, tmp_path / f"{name} {turn}")
            found[name, turn] = np.array(draws.arrays).tobytes()
        assert found["once", turn] == found["resumed", turn]
    assert found["once", 1.7] != found["once", collapsed.TURN]


# ---------------------------------------------------------------------- the right distribution


SHIFT, PRECISION = np.array([0.6, -0.3]), np.diag([64.0, 1.0])
TURN, CONCENTRATION, COUPLED = 0.7, 4.0, np.array([0.4, -1.0])


def there_and_back() -> PoseGraph:
    """Two planar nodes that measured each other, each well along one of its axes only: det C depends on how they are turned."""
    precision, coupling = np.zeros((2, 3, 3)), np.zeros((2, 3, 3))
    precision[:, :2, :2] = PRECISION
    coupling[0, :2, 2] = COUPLED
    t = np.zeros((2, 3))
    t[0, :2], t[1, :2] = SHIFT, -SHIFT
    return PoseGraph(
        (0, 1), [0, 1], [1, 0], about_z(np.array([-TURN, TURN])), t, np.full(2, CONCENTRATION), precision,
        dimension=2, coupling=coupling,
    )  # fmt: skip


def by_quadrature() -> dict[str, float]:
    """Moments of θ and of the position of node 1 seen from node 0, on a grid of all three numbers, positions and all."""
    theta = np.linspace(-math.pi, math.pi, 181)[:-1, None, None]
    x, y = np.linspace(-7.0, 7.0, 141)[:, None], np.linspace(-7.0, 7.0, 141)[None, :]
    c, sn, off = np.cos(theta), np.sin(theta), theta - TURN
    # node 0, at the origin, seen from node 1, and node 1, at (x, y), seen from node 0
    r0 = SHIFT[0] + (c * x + sn * y) + COUPLED[0] * np.sin(off), SHIFT[1] - (sn * x - c * y) + COUPLED[1] * np.sin(off)
    r1 = -SHIFT[0] - x, -SHIFT[1] - y
    energy = 2.0 * CONCENTRATION * np.sin(0.5 * off) ** 2
    for a in range(2):
        energy = energy + 0.5 * PRECISION[a, a] * (r0[a] ** 2 + r1[a] ** 2)
    weight = np.exp(-energy)
    weight /= weight.sum()
    return {
        "cosine": float(np.sum(weight * c)),
        "sine": float(np.sum(weight * sn)),
        "double": float(np.sum(weight * np.cos(2.0 * theta))),
        "distance": float(np.sum(weight * np.sqrt(x**2 + y**2))),
        "energy": float(np.sum(weight * energy)),
    }


def moments(directory: Path, turn: float = collapsed.TURN) -> dict[str, tuple[float, float]]:
    laplace = laplace_at(Posterior(there_and_back()), Poses((0, 1), about_z(np.array([0.0, TURN])), np.zeros((2, 3))))
    tuned = tune_target(CollapsedTarget(laplace), 0, longest=collapsed.TURN).sampler
    assert isinstance(tuned, CollapsedSampler)
    sampler = replace(tuned, turn=turn)
    draws = sample(laplace.curvature.posterior, sampler, SamplingPlan(1.0, 1, 8000, 0), directory)
    row = np.asarray(draws.arrays[0])
    angle = 2.0 * (np.arctan2(row[:, 1, 3], row[:, 1, 0]) - np.arctan2(row[:, 0, 3], row[:, 0, 0]))
    distance = np.linalg.norm(row[:, 1, 4:] - row[:, 0, 4:], axis=1)
    columns = (np.cos(angle), np.sin(angle), np.cos(2.0 * angle), distance, draws.energies[0])
    names = ("cosine", "sine", "double", "distance", "energy")
    return {name: mean_and_error(x) for name, x in zip(names, columns, strict=True)}


@pytest.mark.parametrize("turn", [collapsed.TURN, LONGEST])
def test_wide_and_uneven_against_quadrature(tmp_path: Path, turn: float) -> None:
    exact = by_quadrature()
    for name, (mean, error) in moments(tmp_path, turn).items():
        assert abs(mean - exact[name]) < 4.0 * error + 1e-3, name
        assert error < 0.05


def test_without_the_determinant_quadrature_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: ½ log det C and its gradient left out."""

    def flat(*arguments) -> float:  # type: ignore[no-untyped-def]
        return 0.0 * _kernels.factor_again(*arguments)

    broken = interpreted(_kernels.target, factor_again=flat, add_torques=lambda *_: None)
    monkeypatch.setattr(_kernels, "target", broken)
    exact, got = by_quadrature(), moments(tmp_path)
    assert max(abs(mean - exact[name]) / error for name, (mean, error) in got.items()) > 8.0


def test_jumps_in_the_plane_against_fourier_series(tmp_path: Path) -> None:
    """A ring of angles that cannot close has a mode on either side; ``exp(−λ sin²(δ/2))`` has Bessel functions as coefficients."""
    n, total, lam = 6, 2.9, 16.0
    ends = np.arange(n)
    graph = PoseGraph(
        tuple(range(n)), ends, (ends + 1) % n, about_z(np.full(n, total / n)), np.full((n, 3), np.nan), lam, 1.0, dimension=2
    )  # fmt: skip
    laplaces = []
    for left in (total, total - 2.0 * math.pi):
        angle = ends * (left - total) / n
        laplaces.append(laplace_at(Posterior(graph), Poses(graph.node_ids, about_z(angle), np.zeros((n, 3)))))
    sampler = tune_jumping(laplaces, 0)
    draws = sample(laplaces[0].curvature.posterior, sampler, SamplingPlan(1.0, 1, 8000, 0), tmp_path)
    heading = 2.0 * np.arctan2(draws.arrays[0][:, :, 3], draws.arrays[0][:, :, 0])
    off = total / n - (heading - np.roll(heading, -1, axis=1))
    order = np.arange(-60, 61)
    even = ive(np.abs(order), 0.5 * lam)
    odd = 0.5j * (ive(np.abs(order + 1), 0.5 * lam) - ive(np.abs(order - 1), 0.5 * lam))  # of sin δ times that
    wave = np.exp(1j * order * total)
    exact = float(np.real(np.sum(odd * even ** (n - 1) * wave) / np.sum(even**n * wave)))
    mean, error = mean_and_error(np.sin(off).mean(axis=1))
    here = math.sin(total / n)
    assert here - exact > 20.0 * error  # one mode alone would be noticed
    assert abs(mean - exact) < 4.0 * error
    assert error < 0.01


# ---------------------------------------------------------------------- wrong edges


@pytest.mark.parametrize(
    "kind", ["correlated", "uneven fixes", "planar correlated", "planar mixed", "planar landmarks"]
)
def test_wrong_edges_in_every_graph(kind: str) -> None:
    """Given any weights of the edges the target is that of the weighted problem."""
    posterior = laplace_of(kind).curvature.posterior
    robust = Posterior(posterior.graph, likelihood=RobustLikelihood.of(posterior.graph, 0.9))
    laplace = laplace_at(robust, laplace_of(kind).poses)
    target, rng = RobustTarget(laplace), np.random.default_rng(6)
    weights = rng.uniform(0.3, 1.5, posterior.graph.n_edges)
    model = target.given(weights).model
    y = somewhere(target, rng)
    point = target.at(y, model)
    d, h = rng.standard_normal(len(y)), 1e-5
    slope = (target.at(y + h * d, model).remainder - target.at(y - h * d, model).remainder) / (2.0 * h)
    assert slope == pytest.approx(float(point.gradient @ d), rel=1e-5, abs=1e-6)
    graph = posterior.graph
    shaped = [weights.reshape(-1, *[1] * (one.ndim - 1)) for one in (graph.concentration, graph.translation_precision)]
    weighted = Posterior(
        replace(
            graph,
            concentration=graph.concentration * shaped[0],
            translation_precision=graph.translation_precision * shaped[1],
        )
    )
    free = ~target.held[:, 3:]
    at_mean = weighted.gradient_at(point.state[:, :4], point.state[:, 4:7])[1][:, 3:]
    np.testing.assert_allclose(at_mean[free], 0.0, atol=1e-7)


# ---------------------------------------------------------------------- the choice


def test_what_is_only_partly_determined_is_refused() -> None:
    """One fix leaves a turn about it."""
    made = tempose.simulate(6, gps=1, completeness=0.9, seed=2)
    curvature = Curvature(Posterior(made.graph))
    best = minimise(curvature, start_of(made.graph, made.truth))
    with pytest.raises(NotApplicable, match="moved at no cost") as caught:
        CollapsedTarget(Laplace(curvature, best.poses))
    assert "moved at no cost" in describe.reason(Reason(Cause(caught.value.cause)))


@pytest.mark.parametrize("planar", [False, True])
def test_a_star_whose_uneven_edges_all_end_at_the_held_node(planar: bool) -> None:
    """The held node turns with the frame of the chart, and with it what it measures: positions are at their conditional mean."""
    made = tempose.simulate(6, completeness=0.9, sigma_rot_deg=4.0, planar=planar, seed=1)
    star = made.graph.with_edges((made.graph.edge_i == 0) | (made.graph.edge_j == 0))
    flip = star.edge_j != 0
    back = quat.conjugate(star.j_from_i_wxyz)
    wxyz = np.where(flip[:, None], back, star.j_from_i_wxyz)
    t = np.where(flip[:, None], -quat.rotate(back, star.j_from_i_t), star.j_from_i_t)
    P = np.tile(np.diag([400.0, 25.0, 0.0 if planar else 100.0]), (star.n_edges, 1, 1))
    ends = np.where(flip, star.edge_j, star.edge_i)
    graph = replace(
        star, edge_i=ends, edge_j=np.zeros_like(ends), j_from_i_wxyz=wxyz, j_from_i_t=t, translation_precision=P
    )
    target = CollapsedTarget(laplace_at(Posterior(graph), made.truth))
    point = target.at(somewhere(target, np.random.default_rng(1)))
    slope = Posterior(graph).gradient_at(point.state[:, :4], point.state[:, 4:7])[1]
    assert np.abs(slope[:, 3:]).max() < 1e-9
