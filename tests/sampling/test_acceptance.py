"""Metropolis tests to the digit: a known growth of the energy is accepted with exactly the probability exp(−growth)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from helpers.sampling import Case, eight_nodes, two_modes
from tempose.numerics import steps
from tempose.sampling.adjusted import AdjustedChain, AdjustedSampler
from tempose.sampling.choice import choose
from tempose.sampling.collapsed import CollapsedChain, CollapsedSampler
from tempose.sampling.geodesic import MetropolisChain, MetropolisSampler
from tempose.sampling.jumping import JumpingChain, JumpingSampler
from tempose.sampling.tempering import TemperingSampler

GROWTHS = [-3.0, 0.0, 1e-3, 0.3, 1.0, 2.5, 30.0]


class Levelled:
    """A generator whose ``random`` is told: just below or just above a probability."""

    def __init__(self, level: float) -> None:
        self.level, self.rng = level, np.random.default_rng(1)

    def random(self, size: int | None = None) -> Any:
        return self.level if size is None else np.full(size, self.level)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rng, name)


def levels(growth: float) -> list[tuple[float, bool]]:
    """Uniform numbers on either side of ``exp(−growth)``, and whether they accept; at 1 there is no other side."""
    probability = min(1.0, math.exp(-growth))
    below, above = (probability * (1.0 - 1e-9), True), (probability * (1.0 + 1e-9), False)
    return [below, above] if probability < 1.0 else [below]


@pytest.fixture(scope="module")
def eight() -> Case:
    return eight_nodes()


@pytest.mark.parametrize("growth", GROWTHS)
def test_collapsed(eight: Case, monkeypatch: pytest.MonkeyPatch, growth: float) -> None:
    sampler = choose("collapsed", eight.problem()).sampler
    assert isinstance(sampler, CollapsedSampler)
    for level, accepted in levels(growth):
        chain = sampler.start(np.random.default_rng(3))
        assert isinstance(chain, CollapsedChain)
        before, other = chain.point, chain.target.at(0.5 * chain.point.y)
        monkeypatch.setattr(CollapsedChain, "propose", lambda self, v, turn, kicks, other=other: (other, growth))
        rate = chain.trajectory(Levelled(level), 2)  # type: ignore[arg-type]
        assert rate == pytest.approx(min(1.0, math.exp(-growth)), rel=1e-14)
        assert chain.point is (other if accepted else before)


@pytest.mark.parametrize("growth", GROWTHS)
def test_geodesic(eight: Case, monkeypatch: pytest.MonkeyPatch, growth: float) -> None:
    sampler = choose("geodesic-mh", eight.problem()).sampler
    assert isinstance(sampler, MetropolisSampler)
    propose = MetropolisChain.propose
    for level, accepted in levels(growth):
        chain = sampler.start(np.random.default_rng(3))
        before, potential = chain.chain.state.position.copy(), chain.potential

        def told(self: MetropolisChain, count: int) -> float:
            propose(self, count)
            return growth

        with monkeypatch.context() as patch:
            patch.setattr(MetropolisChain, "propose", told)
            rate, _ = chain.trajectory(Levelled(level))  # type: ignore[arg-type]
        assert rate == pytest.approx(min(1.0, math.exp(-growth)), rel=1e-14)
        assert np.array_equal(chain.chain.state.position, before) is not accepted
        assert (chain.potential == potential) is not accepted


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("name", ["baoab-mh", "boa-mh"])
def test_adjusted(eight: Case, monkeypatch: pytest.MonkeyPatch, name: str, growth: float) -> None:
    """And where it is refused the velocity is turned round."""
    sampler = choose(name, eight.problem()).sampler
    assert isinstance(sampler, AdjustedSampler)
    propose = AdjustedChain.propose
    for level, accepted in levels(growth):
        chain = sampler.start(np.random.default_rng(3))
        before, drawn = chain.chain.state.position.copy(), []

        def told(self: AdjustedChain, which: int, drawn: list[np.ndarray] = drawn) -> tuple[float, int]:
            drawn.append(self.chain.velocity.copy())
            return growth, propose(self, which)[1]

        with monkeypatch.context() as patch:
            patch.setattr(AdjustedChain, "propose", told)
            rate, _ = chain.step(Levelled(level))  # type: ignore[arg-type]
        assert rate == pytest.approx(min(1.0, math.exp(-growth)), rel=1e-14)
        assert np.array_equal(chain.chain.state.position, before) is not accepted
        assert np.array_equal(chain.chain.velocity, -drawn[0]) is not accepted


def test_tempering_moves_and_exchanges(eight: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replica at its own β; neighbours change places with ``min(1, exp(Δβ ΔU))``."""
    sampler = choose("tempering", eight.problem(thin=1)).sampler
    assert isinstance(sampler, TemperingSampler)
    chain = sampler.start(np.random.default_rng(3))
    betas = np.array([rung.dynamics.beta for rung in sampler.rungs])
    growth = np.linspace(-0.5, 4.0, len(betas)) / betas

    def told(*arguments: Any) -> None:
        arguments[-1][:] = chain.potential + growth  # velocities stay as they are

    monkeypatch.setattr(steps, "advance_replicas", told)
    rates, _ = chain.move(np.random.default_rng(4))
    np.testing.assert_allclose(rates, np.exp(-np.maximum(0.0, betas * growth)), rtol=1e-9)
    chain.potential = np.random.default_rng(5).uniform(10.0, 40.0, len(betas))
    ratio = (betas[:-1] - betas[1:]) * (chain.potential[:-1] - chain.potential[1:])
    assert (ratio < -0.1).any() and (ratio > 0.1).any()
    np.testing.assert_allclose(chain.exchange_rates(), np.minimum(1.0, np.exp(ratio)), rtol=1e-12)


@pytest.mark.parametrize("gain", [-2.5, -0.3, 0.5])
def test_jumping(monkeypatch: pytest.MonkeyPatch, gain: float) -> None:
    case = two_modes()
    sampler = choose("jumping", case.problem()).sampler
    assert isinstance(sampler, JumpingSampler)
    for level, accepted in levels(-gain):
        chain = sampler.start(np.random.default_rng(3))
        assert isinstance(chain, JumpingChain)
        before = chain.mode
        with monkeypatch.context() as patch:
            patch.setattr(JumpingChain, "other_side", lambda self, mode: (self.point, gain))
            patch.setattr(JumpingChain, "_belongs", lambda self, point, mode: True)
            went = chain.jump(Levelled(level))  # type: ignore[arg-type]
        assert went is (chain.mode != before)
        assert went is accepted
