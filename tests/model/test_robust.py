"""The robust likelihood: densities that integrate to one, derivatives, limits; U, gradient and Hessian built on it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

from helpers.graphs import random_graph
from helpers.hessian import dense
from helpers.kernels import nudged, numerical_gradient, packed, random_poses
from tempose.errors import ArgumentError
from tempose.geometry import quaternion as quat
from tempose.model import robust as likelihood
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import LEAST_WEIGHT, PRECISE, RobustLikelihood, outlier_spread
from tempose.numerics.potential import minibatch_gradient, robust_edge
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise

TAILS = [math.inf, 1.0, 5.0]
KINDS = ["scalar", "vector", "full"]


def one_edge(concentration: object, precision: object = 1.0, t: object = None) -> PoseGraph:
    translation = None if t is None else [t]
    return PoseGraph.from_concentrations(
        [(0, 1)], [quat.IDENTITY], translation, concentration=[concentration], translation_precision=precision
    )


def robust(graph: PoseGraph, tail: float, prior: object = 0.7) -> Posterior:
    return Posterior(graph, likelihood=RobustLikelihood.of(graph, prior, tail=tail))


# ---------------------------------------------------------------------- densities


@pytest.mark.parametrize("tail", [*TAILS, 0.125])
@pytest.mark.parametrize("lam", [0.5, 30.0, 2e4])
def test_inlier_density_of_rotations_integrates_to_one(tail, lam):
    likelihood = RobustLikelihood.of(one_edge(lam), 1.0, tail=tail)

    def density(angle):  # the uniform distribution has angles of density (1 − cos θ)/π
        energy = lam * math.sin(0.5 * angle) ** 2
        return math.exp(float(likelihood.log_density(np.array([energy]))[0])) * (1.0 - math.cos(angle)) / math.pi

    width = math.sqrt(2.0 / lam)
    total = integrate.quad(density, 0, math.pi, epsabs=0, epsrel=1e-10, limit=400, points=[min(width, 3.0)])[0]
    assert total == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("tail", TAILS)
def test_inlier_density_with_translation_integrates_to_one(tail):
    lam, tau = 12.0, 3.0
    likelihood = RobustLikelihood.of(one_edge(lam, tau, [0.0, 0.0, 0.0]), 1.0, tail=tail)
    assert likelihood.freedom[0] == 6.0

    def density(angle, s):  # r = s/(1 − s) on the half line
        r = s / (1.0 - s)
        energy = lam * np.sin(0.5 * angle) ** 2 + 0.5 * tau * r * r
        sphere = 4.0 * math.pi * r * r / (1.0 - s) ** 2
        return np.exp(likelihood.log_inlier[0] - likelihood.core(energy)) * sphere * (1.0 - np.cos(angle)) / math.pi

    x, w = np.polynomial.legendre.leggauss(200)
    angle, s = 0.5 * math.pi * (x + 1.0), 0.5 * (x + 1.0)
    total = 0.25 * math.pi * np.einsum("a,b,ab->", w, w, density(angle[:, None], s[None, :]))
    assert total == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("tail", TAILS)
def test_anisotropic_density_integrates_to_one(tail):
    lam = np.array([1.0, 6.0, 20.0])
    likelihood = RobustLikelihood.of(one_edge(lam), 1.0, tail=tail)
    x, w = np.polynomial.legendre.leggauss(120)
    eta = 0.25 * math.pi * (x + 1.0)
    xi = 2.0 * math.pi * np.arange(120) / 120
    e, a, b = np.meshgrid(eta, xi, xi, indexing="ij")  # Hopf coordinates: dS = sin η cos η dη dξ₁ dξ₂
    nu = np.stack([np.cos(e) * np.sin(a), np.sin(e) * np.cos(b), np.sin(e) * np.sin(b)])
    energy = np.einsum("k,k...->...", lam, nu**2)
    value = np.exp(likelihood.log_inlier[0] - likelihood.core(energy)) * np.sin(e) * np.cos(e)
    total = 0.25 * math.pi * np.einsum("a,abc->", w, value) * (2.0 * math.pi / 120) ** 2 / (2.0 * math.pi**2)
    assert total == pytest.approx(1.0, rel=1e-7)


def test_many_different_concentrations_are_interpolated_to_the_same_normalisers():
    lam = np.geomspace(0.3, 1e6, 300)
    pairs = [(k, k + 1) for k in range(300)]
    graph = PoseGraph.from_concentrations(pairs, np.tile(quat.IDENTITY, (300, 1)), concentration=lam)
    together = RobustLikelihood.of(graph, 0.5, tail=2.0).log_inlier
    alone = [RobustLikelihood.of(one_edge(x), 0.5, tail=2.0).log_inlier[0] for x in lam[::37]]
    assert together[::37] == pytest.approx(np.array(alone), abs=1e-5)


def wrong(t: np.ndarray, outlier_sigma: float, precision: np.ndarray) -> np.ndarray:
    """Logarithm of the outlier density (m,) of edges that measure the translations t (m, 3)."""
    m = len(t)
    pairs, q = [(k, k + 1) for k in range(m)], np.tile(quat.IDENTITY, (m, 1))
    graph = PoseGraph.from_concentrations(
        pairs, q, t, concentration=np.full(m, 9.0), translation_precision=np.tile(precision, (m, 1, 1))
    )
    return RobustLikelihood.of(graph, 0.5, outlier_sigma=outlier_sigma).log_outlier


@pytest.mark.parametrize("k", [1, 2, 3])
def test_outlier_density_integrates_to_one_and_is_as_high_as_a_gaussian(k):
    sigma = np.array([0.02, 0.3, 0.7])[:k]
    spread = np.sqrt(2.5**2 + 25.0 * sigma**2)
    precision = np.zeros((3, 3))
    precision[:k, :k] = np.diag(sigma**-2)
    x, w = np.polynomial.legendre.leggauss(400)
    log_r = 30.0 * x  # lengths in units of the spread, from e^-30 to e^30
    direction = np.array([0.6, -0.48, 0.64])[:k]
    t = np.zeros((400, 3))
    t[:, :k] = np.exp(log_r)[:, None] * spread * direction / np.linalg.norm(direction)
    density = np.exp(wrong(t, 2.5, precision)) * spread.prod()
    area = 2.0 * math.pi ** (0.5 * k) / math.gamma(0.5 * k)
    inside = 30.0 * w @ (density * area * np.exp(k * log_r))
    volume = math.log(2.0) + 30.0 * k - math.log(2.0 / (math.pi * k) * 2.0 ** (0.5 * k) * math.gamma(1.0 + 0.5 * k))
    beyond = 1.0 - 2.0 / math.pi * math.atan(volume / k)  # of the half-Cauchy density of asinh V
    assert inside + beyond == pytest.approx(1.0, rel=1e-5)
    assert 0.005 < beyond < 0.05  # even e^30 is not out of reach, as it is for a Gaussian
    at_zero = wrong(np.zeros((1, 3)), 2.5, precision)[0]
    assert at_zero == pytest.approx(stats.norm.logpdf(0.0, scale=spread).sum(), rel=1e-12)
    for r in (1.0, 2.0, 3.0):  # and much like one for lengths as usual
        t = np.zeros((1, 3))
        t[0, 0] = r * spread[0]
        gaussian = stats.norm.logpdf(t[0, :k], scale=spread).sum()
        assert abs(wrong(t, 2.5, precision)[0] - gaussian) < 1.6


def test_wrong_rotations_are_uniform():
    rng = np.random.default_rng(0)
    graph = random_graph(rng, 5, 12, "full", rotation_only=True)
    likelihood = RobustLikelihood.of(graph, 0.5, outlier_sigma=2.5)
    assert np.all(likelihood.log_outlier[~graph.has_translation] == 0.0)
    assert np.all(likelihood.log_outlier[graph.has_translation] != 0.0)


def test_the_spread_is_that_of_gaussian_translations_and_of_no_account_to_gross_errors():
    rng = np.random.default_rng(1)
    t = 3.0 * rng.standard_normal((4001, 3))
    q = np.tile(quat.IDENTITY, (4001, 1))
    graph = PoseGraph.from_concentrations([(k, k + 1) for k in range(4001)], q, t, concentration=9.0)
    assert outlier_spread(graph) == pytest.approx(3.0, rel=0.02)
    gross = graph.j_from_i_t.copy()
    gross[0] *= 1e6
    gross[1:201] *= 1e3
    assert outlier_spread(replace(graph, j_from_i_t=gross)) == pytest.approx(3.0, rel=0.08)
    assert np.sqrt(np.mean(gross**2)) > 1e3  # negative control: the root mean square
    still = np.where(np.arange(4001)[:, None] < 3000, 0.0, graph.j_from_i_t)  # a robot that stands
    assert outlier_spread(replace(graph, j_from_i_t=still)) == pytest.approx(3.0, rel=0.05)
    assert outlier_spread(replace(graph, j_from_i_t=0.0 * t)) == 1.0


def test_a_direction_without_precision_is_in_neither_density():
    graph = one_edge(10.0, np.diag([4.0, 4.0, 0.0])[None], [1.0, 2.0, 50.0])
    flat = one_edge(10.0, np.diag([4.0, 4.0, 0.0])[None], [1.0, 2.0, 0.0])
    found, expected = (RobustLikelihood.of(one, 0.5, outlier_sigma=2.0) for one in (graph, flat))
    assert found.freedom[0] == 5.0
    assert found.log_outlier[0] == expected.log_outlier[0]
    lower = stats.norm.logpdf(0.0, scale=math.sqrt(4.0 + 25.0 / 4.0)) * 2
    assert lower - 2.0 < found.log_outlier[0] < lower


@pytest.mark.parametrize("d", [1.0, 6.0])
def test_heavy_core_is_the_mixture_it_says(d):
    tail, least = 3.0, LEAST_WEIGHT
    likelihood = RobustLikelihood(np.ones(1), np.zeros(1), np.zeros(1), np.array([d]), tail)
    power = 0.5 * (tail + d) - 1.0

    def moment(k: float, energy: float) -> float:  # of w^k e^(−we) w^(d/2) with w of its density, by v = w − ε
        return integrate.quad(
            lambda v: v**power * (v + least) ** k * math.exp(-0.5 * tail * v - (v + least) * energy), 0, np.inf
        )[0]

    rng = np.random.default_rng(0)
    for energy in (0.0, 0.7, 9.0):
        e = np.array([energy])
        mixed = moment(0, energy)
        assert likelihood.core(e)[0] == pytest.approx(-math.log(mixed / moment(0, 0.0)), rel=1e-7, abs=1e-9)
        mean, square = moment(1, energy) / mixed, moment(2, energy) / mixed
        assert likelihood.core_weight(e)[0] == pytest.approx(mean, rel=1e-7)
        drawn = np.array([likelihood.draw_weights(e, rng)[0] for _ in range(4000)])
        assert drawn.min() > least
        assert abs(drawn.mean() - mean) < 4.0 * math.sqrt((square - mean**2) / 4000)


# ---------------------------------------------------------------------- the grosser the error, the surer the verdict

EVERY_TAIL = [math.inf, 16.0, 8.0, 4.0, 2.0, 1.0]
LEVER = np.array([3.0, -2.0, 1.0])
PRECISIONS = {  # concentrations, precisions of translations, planar
    "space": (2e4, 1e4 * np.eye(3), False),
    "wide noise": (8.0, 0.05 * np.eye(3), False),
    "translation twice as far as its noise": (2e4, 0.25 * np.eye(3), False),
    "anisotropic": (np.diag([2e4, 5.0, 900.0]), np.diag([1e6, 4.0, 1e-4]), False),
    "a plane": (2e4, np.diag([1e4, 1e4, 0.0]), True),
    "one translation": (2e4, np.diag([1e4, 0.0, 0.0]), False),
    "a position": (0.0, 1e4 * np.eye(3), False),
    "a height": (0.0, np.diag([0.0, 0.0, 4.0]), False),
    "a sighting": (0.0, np.diag([1e4, 1e4, 25.0]), False),
}


def log_odds_of_wrong(kind: str, tail: float, offset: np.ndarray, angle: np.ndarray | float = 0.0) -> np.ndarray:
    """Log odds (m,) that edges are wrong that measure ``LEVER`` with these errors: lengths along a direction, angles about z."""
    concentration, precision, planar = PRECISIONS[kind]
    m = len(offset)
    known = np.diag(precision) > 0.0
    lever = np.where(known, LEVER, 0.0)
    t = lever + offset[:, None] * np.where(known, np.array([0.5, 0.7, 0.4]), 0.0)
    q = quat.exp(np.broadcast_to(angle, m)[:, None] * np.array([0.0, 0.0, 1.0]))
    wxyz = quat.multiply(q, np.tile(quat.IDENTITY, (m, 1)))
    matrices = (
        concentration if np.ndim(concentration) else concentration * (np.diag([0, 0, 1.0]) if planar else np.eye(3))
    )
    graph = PoseGraph(
        ("a", "b"), np.zeros(m, int), np.ones(m, int), wxyz, t,
        np.full(m, concentration) if planar else np.tile(matrices, (m, 1, 1)), np.tile(precision, (m, 1, 1)),
        dimension=2 if planar else 3,
    )  # fmt: skip
    a, b = np.zeros(3), np.where(known, LEVER, 0.0)
    poses = Poses(("a", "b"), np.tile(quat.IDENTITY, (2, 1)), np.array([b, a]))
    likelihood = RobustLikelihood.of(graph, 0.9, tail=tail, outlier_sigma=2.0)
    energy = Posterior(graph).energies(poses)
    assert energy[0] < 1e-12
    return likelihood.core(energy) + likelihood.log_odds


def precision_along(kind: str) -> float:
    """Of the error along the direction of :func:`log_odds_of_wrong`."""
    direction = np.array([0.5, 0.7, 0.4])
    return float(direction**2 @ np.diag(PRECISIONS[kind][1]))


@pytest.mark.parametrize("tail", EVERY_TAIL)
@pytest.mark.parametrize("kind", PRECISIONS)
def test_the_larger_an_error_of_translation_the_more_probably_it_is_wrong(kind, tail):
    error = np.concatenate([[0.0], np.geomspace(1e-3, 2e6, 400)])  # up to a million times the spread
    odds = log_odds_of_wrong(kind, tail, error)
    falls, energy = np.maximum.accumulate(odds) - odds, error**2 * precision_along(kind)
    assert falls[energy > 4.0].max() == 0.0
    assert falls.max() < 0.02  # within the noise the outlier density may fall faster by a trifle
    assert odds[-1] > 9.0
    assert odds[0] < 0.0  # negative control: an edge without error is right


@pytest.mark.parametrize("tail", EVERY_TAIL)
@pytest.mark.parametrize("kind", ["space", "wide noise", "anisotropic", "a plane"])
def test_the_larger_an_error_of_rotation_the_more_probably_it_is_wrong(kind, tail):
    angle = np.linspace(0.0, math.pi, 200)
    assert np.all(np.diff(log_odds_of_wrong(kind, tail, np.zeros(200), angle)) > 0.0)


def test_half_a_turn_and_metres_for_millimetres_are_wrong_however_heavy_the_tail():
    """At σ = 0.38° and 1 cm, in a scene of 2 m: what a Gaussian density of wrong translations has called right."""
    lam, tau = 2.0 / math.radians(0.38) ** 2, 1e4
    for t, energy in [
        ([3.0, 1.0, 0.0], lam + 0.5 * tau * 3.3**2),  # half a turn, 3.3 m off
        ([3.0, 1.0, 0.0], lam),  # half a turn alone
        ([3000.0, 1000.0, 0.0], 0.5 * tau * 3160.0**2),  # metres for millimetres
    ]:
        likelihood = RobustLikelihood.of(one_edge(lam, tau, t), 0.9, tail=1.0, outlier_sigma=2.0)
        assert likelihood.inlier_probability(np.array([energy]))[0] < 0.01
    gaussian = stats.norm.logpdf(t, scale=2.0).sum()  # negative control: what was there before, with Student's core
    odds = likelihood.log_odds + gaussian - likelihood.log_outlier
    assert 3.5 * math.log1p(2.0 * energy) + odds[0] < -100.0


# ---------------------------------------------------------------------- ρ and its derivatives


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("prior", [0.05, 0.9, 1.0 - 1e-12, 1.0])
def test_derivatives_of_rho(tail, prior):
    graph = one_edge(50.0, 4.0, [1.0, 0.0, 2.0])
    likelihood = RobustLikelihood.of(graph, prior, tail=tail)
    for energy in (0.0, 1e-3, 1.0, 8.0, 20.0, 1e4):
        e = np.array([energy])
        h = 1e-6 * (1.0 + energy)
        up, down = e + h, e - h
        slope = (likelihood.potential(up) - likelihood.potential(down)) / (2 * h)
        bend = (likelihood.weight(up) - likelihood.weight(down)) / (2 * h)
        assert likelihood.weight(e) == pytest.approx(slope, rel=1e-6, abs=1e-8)
        assert likelihood.curvature(e) == pytest.approx(bend, rel=1e-6, abs=1e-8)
        twin = robust_edge(energy, *likelihood.rows[0])
        here = [float(f(e)[0]) for f in (likelihood.potential, likelihood.weight, likelihood.curvature)]
        assert twin == pytest.approx(here, rel=1e-12, abs=1e-14)
    assert likelihood.potential(np.zeros(1))[0] == 0.0


@pytest.mark.parametrize("prior", [0.05, 0.9, 1.0])
def test_only_the_precise_part_of_a_heavy_core_moves_the_poses(prior):
    whole = RobustLikelihood.of(one_edge(3e3), prior, tail=0.125)
    part = whole.precise_only()
    assert part.is_precise_only and not whole.is_precise_only

    def mass(low: float, high: float) -> float:  # of factors w of an edge without any residual, by log w
        return integrate.quad(lambda x: math.exp(0.5 * 3.125 * x - 0.0625 * math.exp(x)), low, high)[0]

    rough, precise = (mass(*ends) for ends in ((-40.0, math.log(PRECISE)), (math.log(PRECISE), 8.0)))
    wrong = (1.0 - prior) * math.exp(whole.log_outlier[0]) / (prior * math.exp(whole.log_inlier[0]))
    odds = (rough + wrong * (rough + precise)) / precise  # rough or wrong against precise
    zero = np.zeros(1)
    assert part.moving_probability(zero)[0] == pytest.approx(1.0 / (1.0 + odds), rel=1e-6)
    rng = np.random.default_rng(0)
    for energy in (0.0, 0.05, 1.0, 6.0, 40.0):
        e, h = np.array([energy]), 1e-6 * (1.0 + energy)
        slope = (part.potential(e + h) - part.potential(e - h)) / (2.0 * h)
        bend = (part.weight(e + h) - part.weight(e - h)) / (2.0 * h)
        assert part.weight(e) == pytest.approx(slope, rel=1e-5, abs=1e-8)
        assert part.curvature(e) == pytest.approx(bend, rel=1e-5, abs=1e-8)
        twin = robust_edge(energy, *part.rows[0])
        here = [float(f(e)[0]) for f in (part.potential, part.weight, part.curvature)]
        assert twin == pytest.approx(here, rel=1e-12, abs=1e-14)
        assert min(part.draw_weights(e, rng)[0] for _ in range(200)) > PRECISE
        assert part.inlier_probability(e) == whole.inlier_probability(e)  # verdicts and densities are those of all
        assert part.log_density(e) == whole.log_density(e)
    far = np.array([40.0])
    assert part.weight(far)[0] < 1e-6 < 1e-3 < whole.weight(far)[0] / prior  # negative control: else it pulls for ever
    ordinary = RobustLikelihood.of(one_edge(50.0), 0.5)
    assert ordinary.precise_only() is ordinary  # a Gaussian core has no rough part


def test_rho_is_the_density_up_to_a_constant_and_gamma_is_bayes():
    graph = one_edge(50.0, 4.0, [1.0, 0.0, 2.0])
    likelihood = RobustLikelihood.of(graph, 0.3, tail=4.0)
    energy = np.linspace(0.0, 40.0, 9)[:, None]
    density = likelihood.log_density(energy)
    assert likelihood.potential(energy) - likelihood.potential(energy[:1]) == pytest.approx(density[0] - density)
    inlier = 0.3 * np.exp(likelihood.log_inlier - likelihood.core(energy))
    assert likelihood.inlier_probability(energy) == pytest.approx(
        inlier / (inlier + 0.7 * np.exp(likelihood.log_outlier))
    )


@pytest.mark.parametrize("tail", TAILS)
def test_what_is_predicted_exactly_never_speaks_against_an_edge_however_vaguely(tail):
    """A link in a long loop: the rest predicts it to within many steps, and wrong translations are as long as steps are."""
    likelihood = RobustLikelihood.of(one_edge(500.0, 400.0, [1.0, 0.0, 0.0]), 0.99, tail=tail, outlier_sigma=1.0)
    spreads = np.linspace(0.0, 60.0, 61)
    chance, surprising = (
        np.array([likelihood.predicted_probability(np.array([z2]), np.array([6]), np.array([w]))[0] for w in spreads])
        for z2 in (0.0, 40.0)
    )
    assert np.all(np.diff(chance) <= 0.0) and np.all(chance > 0.99 - 1e-12)
    assert chance[-1] == pytest.approx(0.99)  # what says nothing leaves the prior
    assert np.all(surprising < chance) and surprising[-1] < 0.98  # what does not fit still counts
    exact = -float(likelihood.log_odds[0]) - 0.5 * spreads  # by the densities alone: Bayes where they are narrow
    narrow = exact > math.log(0.99 / 0.01)
    assert special.logit(chance[narrow]) == pytest.approx(exact[narrow], abs=1e-3)
    assert special.expit(exact[-1]) < 0.05  # negative control: the densities alone give a perfect fit up


def test_certain_inliers_are_the_ordinary_model_and_huge_energies_do_no_harm():
    likelihood = RobustLikelihood.of(one_edge(50.0), 1.0)
    energy = np.array([0.0, 3.0, 1e300])
    assert np.all(likelihood.potential(energy) == energy)
    broken = RobustLikelihood.of(one_edge(50.0), 0.5)
    assert broken.potential(energy)[2] == pytest.approx(float(np.logaddexp(0, -broken.log_odds)[0]))
    assert broken.weight(energy)[2] == 0.0
    assert broken.curvature(energy)[2] == 0.0


@pytest.mark.parametrize(("options", "words"), [({"tail": 0.0}, "tail"), ({"outlier_sigma": 0.0}, "spread")])
def test_bad_options_are_refused(options, words):
    with pytest.raises(ArgumentError, match=words):
        RobustLikelihood.of(one_edge(5.0, 1.0, [1.0, 0.0, 0.0]), 0.5, **options)
    with pytest.raises(ArgumentError, match="probabilities"):
        RobustLikelihood.of(one_edge(5.0), 0.0)


# ---------------------------------------------------------------------- the posterior


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_the_derivative_of_the_definition(tail, kind):
    rng = np.random.default_rng(KINDS.index(kind))
    graph = random_graph(rng, 5, 14, kind, rotation_only=True)
    posterior = robust(graph, tail, rng.uniform(0.2, 1.0, 14))
    poses = random_poses(rng, 5)
    energy, gradient = posterior.gradient(poses)
    expected = numerical_gradient(posterior, poses)
    assert energy == pytest.approx(posterior.reference_potential(poses), rel=1e-12)
    assert np.abs(gradient - expected).max() < 1e-6 * max(1.0, np.abs(expected).max())
    plain = Posterior(graph).gradient(poses)[1]
    assert np.abs(plain - expected).max() > 0.1  # negative control: the ordinary gradient is another one


@pytest.mark.parametrize("kind", ["scalar", "full"])
def test_minibatch_of_every_edge_is_the_gradient(kind):
    rng = np.random.default_rng(4)
    graph = random_graph(rng, 6, 20, kind, rotation_only=True)
    posterior = robust(graph, 3.0)
    poses = random_poses(rng, 6)
    table = posterior.full_edge_table
    target = np.repeat(np.arange(6), np.diff(table.start))
    out = np.zeros((6, 8))
    energy = minibatch_gradient(table, packed(poses), np.stack([target, np.arange(20)], axis=1), 1.0, out)
    expected = posterior.gradient(poses)
    assert energy == pytest.approx(expected[0], rel=1e-12)
    assert out[:, :6] == pytest.approx(expected[1], rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("kind", KINDS)
def test_hessian_is_the_derivative_of_the_gradient(tail, kind):
    rng = np.random.default_rng(7)
    graph = random_graph(rng, 5, 12, kind, rotation_only=True)
    graph = PoseGraph(
        graph.node_ids, graph.edge_i, graph.edge_j, graph.j_from_i_wxyz, graph.j_from_i_t, 0.05 * graph.concentration,
        0.05 * graph.translation_precision,
    )  # fmt: skip
    posterior, poses = robust(graph, tail), random_poses(rng, 5)
    H = dense(Curvature(posterior), poses)
    gauss_newton = dense(Curvature(posterior), poses, exact=False)

    def potential(x: np.ndarray) -> float:
        x = x.reshape(5, 6)
        wxyz = quat.multiply(quat.exp(x[:, :3]), poses.wxyz)
        return posterior.reference_potential(Poses(poses.ids, wxyz, poses.position + x[:, 3:]))

    e = 1e-3
    for _ in range(8):
        d = rng.standard_normal(30)
        f = [potential(k * e * d) for k in (-2, -1, 0, 1, 2)]
        second = (-f[0] + 16 * f[1] - 30 * f[2] + 16 * f[3] - f[4]) / (12 * e * e)
        assert d @ H @ d == pytest.approx(second, rel=1e-5, abs=1e-5 * np.abs(H).max())
        assert abs(d @ gauss_newton @ d - second) > 1e-3 * abs(second)  # negative control


def test_gauss_newton_is_that_of_the_weighted_problem():
    rng = np.random.default_rng(8)
    graph = random_graph(rng, 5, 12)
    posterior = robust(graph, math.inf)
    poses = random_poses(rng, 5)
    weight = posterior.likelihood.weight(posterior.energies(poses))
    weighted = PoseGraph(
        graph.node_ids, graph.edge_i, graph.edge_j, graph.j_from_i_wxyz, graph.j_from_i_t, weight * graph.concentration,
        weight * graph.translation_precision,
    )  # fmt: skip
    found, expected = (dense(Curvature(p), poses, exact=False) for p in (posterior, Posterior(weighted)))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.abs(expected).max())
    gradient = posterior.gradient(poses)[1]
    assert gradient == pytest.approx(Posterior(weighted).gradient(poses)[1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("tail", [math.inf, 4.0])
def test_newton_ends_at_a_minimum_of_the_robust_potential(tail):
    from tempose.simulation import simulate

    made = simulate(12, completeness=0.6, seed=3)
    graph = made.graph
    wrong = np.arange(0, graph.n_edges, 5)
    wxyz = graph.j_from_i_wxyz.copy()
    wxyz[wrong] = quat.random_uniform(np.random.default_rng(1), len(wrong))
    graph = PoseGraph(
        graph.node_ids,
        graph.edge_i,
        graph.edge_j,
        wxyz,
        graph.j_from_i_t,
        graph.concentration,
        graph.translation_precision,
    )
    posterior = robust(graph, tail, 0.8)
    found = minimise(Curvature(posterior), made.truth)
    assert found.status == "converged"
    assert found.is_minimum
    assert found.potential < posterior.potential(made.truth)
    for node in (1, 7):
        for direction in range(6):
            assert posterior.potential(nudged(found.poses, node, direction, 1e-3)) > found.potential
    gamma = posterior.likelihood.inlier_probability(posterior.energies(found.poses))
    assert set(np.flatnonzero(gamma < 0.5)) == set(wrong)


@pytest.mark.parametrize("tail", [np.inf, 8.0, 1.0])
def test_the_table_of_isotropic_normalisers_is_right_inside_and_beyond_its_ends(tail: float) -> None:
    concentration = np.array([1e-7, 1e-5, 3e-3, 0.7, 12.3, 4567.8, 3e9, 5e15])
    for moves in (0.0, 3.0):
        exact = likelihood._log_mean_over_rotations(np.repeat(concentration[:, None], 3, axis=1), tail, moves=moves)
        assert np.abs(likelihood._isotropic(concentration, tail, moves=moves) - exact).max() < 1e-6


@pytest.mark.parametrize(("tail", "error"), [(1.0, 2e-3), (4.0, 1e-4), (math.inf, 1e-10)])
def test_precise_edges_of_three_concentrations_each_are_normalised_by_the_same_table(tail: float, error: float) -> None:
    rng = np.random.default_rng(0)
    values = 10.0 ** rng.uniform(2.0, 7.0, (60, 3))
    exact = likelihood._log_mean_over_rotations(values, tail)
    turned = np.linalg.qr(rng.standard_normal((60, 3, 3)))[0]
    matrices = turned @ (values[:, :, None] * np.swapaxes(turned, 1, 2))
    rays = likelihood.Rays(likelihood._of_axes(matrices))
    found = rays.log_integral(np.zeros(60), tail, np.full(60, 3.0), np.zeros(60))
    assert np.abs(found - exact).max() < error


@pytest.mark.parametrize("tail", [0.125, 1.0, 4.0, 16.0, math.inf])
def test_three_concentrations_of_any_noise_are_normalised_by_a_table_along_their_ray(tail: float) -> None:
    rng = np.random.default_rng(1)
    values = 10.0 ** rng.uniform(-6.0, 3.0, (40, 3))
    values[:3, 0] = 0.0  # nothing is known of one axis
    turns, moves, sigma = (
        np.where(values[:, 0] > 0.0, 3.0, 2.0),
        np.arange(40) % 2 * 3.0,
        rng.choice([0.4, 1.0, 7.0], 40),
    )
    exact = np.empty(40)
    for k in range(40):
        level = values[k : k + 1] / sigma[k] ** 2
        exact[k] = likelihood._log_mean_over_rotations(level, tail, float(turns[k]), float(moves[k]))[0]
    rays = likelihood.Rays(values)
    found = rays.log_integral(-2.0 * np.log(sigma), tail, turns, moves)
    assert np.abs(found - exact).max() < 1e-6
    some = rays.log_integral(np.full(40, 1.3), tail, turns, moves)  # what is asked for first changes nothing
    assert np.array_equal(likelihood.Rays(values).log_integral(np.full(40, 1.3), tail, turns, moves), some)
