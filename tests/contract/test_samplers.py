"""Every sampler keeps the same promises: the right distribution, the same draws from the same seed, resumable."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.sampling import (
    EVERY_GRAPH,
    Case,
    eight_nodes,
    mean_and_error,
    one_of_every,
    optimum,
    two_modes,
    with_parts,
)
from tempose.analysis.diagnostics import ess_bulk
from tempose.analysis.summary import relative_summary
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham
from tempose.model.priors import Priors
from tempose.optimum.hessian import Curvature
from tempose.sampling.choice import choose
from tempose.sampling.draws import Draws
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.options import SAMPLERS

EXACT = ("collapsed", "geodesic-mh", "tempering")
ADJUSTED = ("baoab-mh", "aboba-mh", "boa-mh")
EACH = (*EXACT, "geodesic", *ADJUSTED, "jumping")
# in long tests; how often the sampler jumping is in which mode is tested in tests/analysis/test_modes.py
ALL = (*EXACT, "geodesic", *(pytest.param(name, marks=pytest.mark.slow) for name in ADJUSTED))
EVERYWHERE = tuple(
    pytest.param(name, marks=pytest.mark.slow) if name in ("tempering", *ADJUSTED) else name for name in EACH[:-1]
)


@pytest.fixture(scope="module")
def eight() -> Case:
    return eight_nodes()


@pytest.fixture(scope="module")
def loop() -> Case:
    return two_modes()


@pytest.fixture
def case(request: pytest.FixtureRequest, name: str) -> Case:
    """The graph for a sampler: one with two modes for the one that jumps between them."""
    found = request.getfixturevalue("loop" if name == "jumping" else "eight")
    assert isinstance(found, Case)
    return found


def test_no_sampler_is_left_out() -> None:
    assert set(EACH) == set(SAMPLERS) - {"auto"}


# ---------------------------------------------------------------------- the right distribution


@pytest.mark.parametrize("beta", [0.25, 1.0, 100.0])
@pytest.mark.parametrize("name", ALL)
def test_mean_energy(eight: Case, tmp_path: Path, name: str, beta: float) -> None:
    draws = eight.run(name, 3000, tmp_path, beta)
    mean, error = mean_and_error(beta * (draws.energies[0] - eight.lowest))
    assert error < 0.35
    assert abs(mean - 21.0) < 4.0 * error + 0.1 + 0.1 / beta  # (6n − 6)/2, up to the noise's square
    assert draws.acceptance > 0.65
    assert draws.sampler == name


@pytest.mark.parametrize("name", ADJUSTED)
def test_mean_energy_of_adjusted_schemes(eight: Case, tmp_path: Path, name: str) -> None:
    mean, error = mean_and_error(eight.run(name, 800, tmp_path).energies[0] - eight.lowest)
    assert error < 0.5
    assert abs(mean - 21.0) < 4.0 * error + 0.2


@pytest.mark.parametrize("name", ALL)
def test_relative_covariance_is_laplace_at_low_noise(eight: Case, tmp_path: Path, name: str) -> None:
    """Within five standard errors of a variance, and of a correlation, from as many independent draws."""
    beta = 100.0
    draws = eight.run(name, 3000, tmp_path, beta)
    laplace = eight.problem(beta).laplace
    assert laplace is not None
    for a, b in ((0, 5), (3, 7)):
        got = relative_summary(draws, eight.best, a, b)
        expected = laplace.relative(a, b).covariance
        ess = np.array([ess_bulk(x[None] ** 2) for x in relative_coordinates(draws, a, b).T])
        assert ess.min() > 150.0
        sigma = np.sqrt(np.diag(expected))
        # of the square of a normal variable the standard deviation is √2 variances; 0.02 for what is not Gaussian
        wrong = np.abs(np.diag(got.covariance) / sigma**2 - 1.0)
        assert np.all(wrong < 5.0 * np.sqrt(2.0 / ess) + 0.02)
        assert np.abs((got.covariance - expected) / np.outer(sigma, sigma)).max() < 5.0 * np.sqrt(2.0 / ess.min())


def relative_coordinates(draws: Draws, a: int, b: int) -> np.ndarray:
    """Rotation and translation (draws, 6) of b seen from a, about their first."""
    row = np.asarray(draws.arrays[0][:, [a, b]])
    back = quat.conjugate(row[:, 0, :4])
    turn = quat.multiply(back, row[:, 1, :4])
    shift = quat.rotate(back, row[:, 1, 4:] - row[:, 0, 4:])
    x = np.concatenate([quat.log(quat.multiply(turn, quat.conjugate(turn[0]))), shift], axis=1)
    return x - x.mean(axis=0)


@pytest.mark.parametrize("name", ALL)
def test_parts_and_rotation_only_edges(tmp_path: Path, name: str) -> None:
    case = optimum(*with_parts())
    beta = 20.0
    freedom = Curvature(case.posterior).dimension
    assert freedom == 3 * (3 + 2) + 3 * (2 + 2)
    draws = case.run(name, 3000, tmp_path, beta)
    mean, error = mean_and_error(beta * (draws.energies[0] - case.lowest))
    assert abs(mean - 0.5 * freedom) < 4.0 * error + 0.05


@pytest.mark.parametrize("name", ALL)
def test_isotropic_and_rotation_priors(eight: Case, tmp_path: Path, name: str) -> None:
    prior = Bingham.from_mode(np.array([1.0, 0, 0, 0]), np.array([5.0, 20.0, 30.0]))
    priors = Priors(prior, [0.3, -0.2, 0.5], 4.0)
    case = optimum(eight.posterior.graph, eight.best, priors)
    beta = 50.0
    draws = case.run(name, 3000, tmp_path, beta)
    mean, error = mean_and_error(beta * (draws.energies[0] - case.lowest))
    assert abs(mean - 24.0) < 4.0 * error + 0.1  # nothing is free: 6n/2


@pytest.mark.parametrize("kind", EVERY_GRAPH)
@pytest.mark.parametrize("name", EVERYWHERE)
def test_mean_energy_of_every_graph(tmp_path: Path, name: str, kind: str) -> None:
    """Half a unit of energy for everything that can change, whatever the graph holds; and what cannot stays."""
    case, beta = one_of_every(kind), 100.0
    graph, freedom = case.posterior.graph, Curvature(case.posterior).dimension
    draws = case.run(name, 2000, tmp_path, beta)
    mean, error = mean_and_error(beta * (draws.energies[0] - case.lowest))
    assert error < 0.5
    assert abs(mean - 0.5 * freedom) < 4.0 * error + 0.1
    assert draws.acceptance > 0.6
    row = np.asarray(draws.arrays[0])
    assert np.abs(row[:, graph.is_landmark, :4] - quat.IDENTITY).max(initial=0.0) < 1e-15
    if int(graph.is_fixed.sum()) > 1:
        best = np.concatenate([case.best.wxyz, case.best.position], axis=1)[graph.is_fixed]
        assert np.abs(row[:, graph.is_fixed] - best).max() < 1e-12
    if graph.is_planar:
        assert not np.any(row[:, :, [1, 2, 6]])


# ---------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("kind", EVERY_GRAPH)
@pytest.mark.parametrize("name", EVERYWHERE)
def test_resumed_is_identical_for_every_graph(tmp_path: Path, name: str, kind: str) -> None:
    case = one_of_every(kind)
    case.run(name, 6, tmp_path / "whole", chains=2, thin=3)
    for count in (2, 6):
        case.run(name, count, tmp_path / "broken", chains=2, thin=3)
    assert files(tmp_path / "whole") == files(tmp_path / "broken")


@pytest.mark.parametrize("name", EACH)
def test_resumed_is_identical_and_seeds_differ(case: Case, tmp_path: Path, name: str) -> None:
    """Every three steps, so that what alternates from step to step is not always where it began."""
    whole = case.run(name, 12, tmp_path / "whole", chains=3, thin=3)
    for count in (4, 9, 12):
        broken = case.run(name, count, tmp_path / "broken", chains=3, thin=3)
    assert len(files(tmp_path / "whole")) == 9
    assert files(tmp_path / "whole") == files(tmp_path / "broken")
    assert broken.n_draws == 36
    case.run(name, 12, tmp_path / "again", chains=3, thin=3)
    assert files(tmp_path / "whole") == files(tmp_path / "again")
    other = case.run(name, 12, tmp_path / "other", chains=3, seed=1, thin=3)
    assert np.abs(other.arrays[0] - whole.arrays[0]).max() > 1e-3
    assert np.abs(whole.arrays[1] - whole.arrays[0]).max() > 1e-3


@pytest.mark.parametrize("name", EACH)
def test_a_chain_is_the_same_alone_and_among_threads(case: Case, tmp_path: Path, name: str) -> None:
    alone = case.run(name, 6, tmp_path / "alone", chains=1)
    among = case.run(name, 6, tmp_path / "among", chains=4)
    np.testing.assert_array_equal(alone.arrays[0], among.arrays[0])


@pytest.mark.parametrize("name", EACH)
def test_settings_are_enough_to_make_the_sampler_again(case: Case, tmp_path: Path, name: str) -> None:
    """Through JSON, as a result records them, and without the seed of the pilot chains that found them."""
    problem, plan = case.problem(), SamplingPlan(1.0, 1, 5, 3)
    first = choose(name, problem)
    recorded = json.loads(json.dumps({"sampler": name, "reason": first.reason.facts(), **first.sampler.settings()}))
    again = choose("auto", replace(problem, seed=99), recorded)
    assert again.sampler.name == name and again.reason == first.reason
    assert json.dumps(again.sampler.settings()) == json.dumps(first.sampler.settings())
    sample(case.posterior, first.sampler, plan, tmp_path / "a")
    sample(case.posterior, again.sampler, plan, tmp_path / "b")
    assert files(tmp_path / "a") == files(tmp_path / "b")


@pytest.mark.parametrize("name", EACH)
def test_warm_up_is_drawn_and_left_out(case: Case, tmp_path: Path, name: str) -> None:
    sampler = choose(name, case.problem()).sampler
    cold, warm = (replace(sampler, warmup=count) for count in (0, 3))  # type: ignore[type-var]
    whole = sample(case.posterior, cold, SamplingPlan(1.0, 1, 7, 3), tmp_path / "cold")
    rest = sample(case.posterior, warm, SamplingPlan(1.0, 1, 4, 3), tmp_path / "warm")
    assert rest.n_draws == 4
    np.testing.assert_array_equal(rest.arrays[0], whole.arrays[0][3:])
    np.testing.assert_array_equal(rest.energies[0], whole.energies[0][3:])
    assert len(np.unique(whole.energies[0])) > 3  # it moves, so the first are not the last


@pytest.mark.parametrize("name", EACH)
def test_stopping_keeps_what_was_drawn(case: Case, tmp_path: Path, name: str) -> None:
    sampler, stop = choose(name, case.problem()).sampler, threading.Event()
    plan = SamplingPlan(1.0, 1, 50, 0)
    hook_calls = []

    def hook(watch) -> None:  # type: ignore[no-untyped-def]
        hook_calls.append(watch)
        if len(hook_calls) == 5:
            stop.set()

    draws = sample(case.posterior, sampler, plan, tmp_path, hook=hook, stop=stop)
    assert draws.n_draws == 5
    assert hook_calls[-1].potential == draws.energies[0][-1]
    assert case.posterior.potential(hook_calls[-1].poses) == pytest.approx(draws.energies[0][-1], rel=1e-12)


def files(directory: Path) -> dict[str, bytes]:
    """The draws as they are on disk."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.f64"))}
