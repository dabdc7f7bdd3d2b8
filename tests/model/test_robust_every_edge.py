"""Densities of a robust likelihood that integrate to one: in the plane, of correlated, absolute and partial measurements."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from helpers.every_graph import about_z
from helpers.quadrature import rotations
from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood, absolute_spread, outlier_spread

TAILS = [math.inf, 2.0, 6.0]


def planar_edge(lam: float, P: object, B: object = None, t: object = (0.0, 0.0)) -> PoseGraph:
    precision = np.zeros((1, 3, 3))
    precision[0, :2, :2] = P
    coupling = None
    if B is not None:
        coupling = np.zeros((1, 3, 3))
        coupling[0, :2, 2] = B
    return PoseGraph(
        (0, 1),
        [0],
        [1],
        [quat.IDENTITY],
        [[*t, 0.0]],
        [lam],
        precision,
        dimension=2,
        coupling=coupling,  # type: ignore[misc]
    )


def measured(graph: PoseGraph, wxyz: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Energies (k,) of the graph's one edge had it measured these, at poses of no motion."""
    k = len(wxyz)
    copies = {name: np.repeat(getattr(graph, name), k, axis=0) for name in ("concentration", "translation_precision")}
    many = PoseGraph(
        graph.node_ids, np.repeat(graph.edge_i, k), np.repeat(graph.edge_j, k), wxyz, t, **copies,
        coupling=None if graph.coupling is None else np.repeat(graph.coupling, k, axis=0),
    )  # fmt: skip
    return Posterior(many).energies(Poses.identity(graph.node_ids))


def half_line(count: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights over the whole line for tails as heavy as a power: x = scale · sinh-like map."""
    u = (np.arange(count) + 0.5) / count * 2.0 - 1.0
    x = scale * np.tan(0.5 * np.pi * u)
    return x, scale * 0.5 * np.pi / np.cos(0.5 * np.pi * u) ** 2 * 2.0 / count


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("B", [None, [1.5, -0.8]])
def test_planar_density_integrates_to_one(tail: float, B: object) -> None:
    graph = planar_edge(5.0, [[3.0, 1.0], [1.0, 2.0]], B)
    likelihood = RobustLikelihood.of(graph, 1.0, tail=tail)
    assert likelihood.freedom[0] == 3.0
    angle = 2.0 * np.pi * np.arange(48) / 48
    x, w = half_line(160, 1.2)
    points = np.array(list(itertools.product(angle, x, x)))
    weight = np.array(list(itertools.product(np.full(48, 1.0 / 48), w, w))).prod(axis=1)
    t = np.column_stack([points[:, 1:], np.zeros(len(points))])
    energy = measured(graph, about_z(points[:, 0]), t)
    density = np.exp(likelihood.log_inlier[0] - likelihood.core(energy[:, None])[:, 0])
    assert weight @ density == pytest.approx(1.0, abs=2e-5)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("lam", [0.3, 20.0, 1e5])
def test_planar_rotations_alone(tail: float, lam: float) -> None:
    graph = PoseGraph((0, 1), [0], [1], [quat.IDENTITY], [[np.nan] * 3], [lam], 1.0, dimension=2)
    likelihood = RobustLikelihood.of(graph, 1.0, tail=tail)
    assert likelihood.freedom[0] == 1.0
    # tan of the half angle spreads the narrow ones
    x, w = half_line(20_000, min(1.0, lam**-0.5))
    energy = lam * x**2 / (1.0 + x**2)
    density = np.exp(likelihood.log_inlier[0] - likelihood.core(energy[:, None])[:, 0]) / (np.pi * (1.0 + x**2))
    assert w @ density == pytest.approx(1.0, abs=1e-7)
    # negative control: the normaliser of three numbers
    space = RobustLikelihood.of(
        PoseGraph((0, 1), [0], [1], [quat.IDENTITY], [[np.nan] * 3], [lam], 1.0), 1.0, tail=tail
    )
    assert abs(space.log_inlier[0] - likelihood.log_inlier[0]) > 1e-3


@pytest.mark.parametrize("tail", TAILS)
def test_correlated_density_in_space_integrates_to_one(tail: float) -> None:
    """By samples of the translation given the rotation: what is integrated is a ratio close to one."""
    rng = np.random.default_rng(1)
    B, P = rng.standard_normal((3, 3)), np.diag([1.0, 2.0, 0.5])
    graph = PoseGraph(
        (0, 1), [0], [1], [quat.IDENTITY], np.zeros((1, 3)), np.diag([2.0, 4.0, 1.0])[None], P[None], coupling=B[None]
    )
    likelihood = RobustLikelihood.of(graph, 1.0, tail=tail)
    wxyz, weight = rotations(14)
    t = 1.5 * stats.t(df=3).rvs((len(wxyz), 40, 3), random_state=rng)
    log_drawn = stats.t(df=3).logpdf(t / 1.5).sum(axis=2) - 3.0 * math.log(1.5)
    energy = measured(graph, np.repeat(wxyz, 40, axis=0), t.reshape(-1, 3)).reshape(t.shape[:2])
    ratio = np.exp(likelihood.log_inlier[0] - likelihood.core(energy) - log_drawn)
    total = weight @ ratio.mean(axis=1)
    error = math.sqrt(float(weight**2 @ ratio.var(axis=1)) / 40)
    assert error < 0.03
    assert abs(total - 1.0) < 4.0 * error


@pytest.mark.parametrize("tail", TAILS)
def test_partial_rotations_integrate_to_one(tail: float) -> None:
    """A direction measures two numbers; a position none of a rotation."""
    n = np.array([0.0, 0.6, 0.8])
    Lambda = 8.0 * (np.eye(3) - np.outer(n, n))
    graph = PoseGraph(("a", WORLD), [0], [1], [quat.IDENTITY], [[np.nan] * 3], Lambda[None], 1.0)
    likelihood = RobustLikelihood.of(graph, 1.0, tail=tail)
    assert likelihood.freedom[0] == 2.0
    wxyz, weight = rotations(24)
    energy = measured(graph, wxyz, np.full((len(wxyz), 3), np.nan))
    density = np.exp(likelihood.log_inlier[0] - likelihood.core(energy[:, None])[:, 0])
    assert weight @ density == pytest.approx(1.0, abs=1e-5)
    fix = PoseGraph(("a", WORLD), [0], [1], [quat.IDENTITY], [[1.0, 2.0, 3.0]], [0.0], [4.0])
    likelihood = RobustLikelihood.of(fix, 1.0, tail=tail)
    assert likelihood.freedom[0] == 3.0
    s, w = np.polynomial.legendre.leggauss(2000)
    r = np.exp(20.0 * s)  # energies of translations of that length: 2 r²
    shells = 4.0 * math.pi * r**3 * np.exp(-likelihood.core(2.0 * r[:, None] ** 2)[:, 0])
    assert likelihood.log_inlier[0] == pytest.approx(-math.log(20.0 * w @ shells), rel=1e-9)
    if not math.isinf(tail):  # nearly Student's distribution: heavy tails end a hundred times as far out
        student = stats.multivariate_t(np.zeros(3), 0.25 * np.eye(3), df=tail).logpdf(0)
        assert 1e-6 < likelihood.log_inlier[0] - student < 0.02


def with_fixes(planar: bool) -> PoseGraph:
    q = np.tile(quat.IDENTITY, (6, 1))
    t = np.array([[1.0, 2, 0], [-2, 1, 0], [0.5, 0.5, 0], [1000.0, 0, 0], [1004, 2, 0], [996, -2, 0]])
    return PoseGraph(
        (0, 1, 2, "l", WORLD), [0, 1, 3, 0, 1, 2], [1, 2, 0, 4, 4, 4], q, t, [9.0, 9, 0, 0, 0, 0], 4.0,
        dimension=2 if planar else 3, landmarks=("l",),
    )  # fmt: skip


@pytest.mark.parametrize("planar", [False, True])
def test_wrong_positions_are_where_the_measured_ones_are(planar: bool) -> None:
    graph = with_fixes(planar)
    d = graph.dimension
    middle = stats.chi2.median(d)
    sigma = np.sqrt(5.0 / middle)
    assert outlier_spread(graph) == pytest.approx(sigma)
    center, spread = absolute_spread(graph)
    np.testing.assert_allclose(center, [1000.0, 0.0, 0.0])
    assert spread == pytest.approx(np.sqrt(20.0 / middle))  # the one at the centre says nothing
    likelihood = RobustLikelihood.of(graph, 0.5)
    wide = np.sqrt(spread**2 + 25.0 / 4.0)
    assert likelihood.log_outlier[3] == pytest.approx(d * stats.norm.logpdf(0.0, scale=wide))
    assert likelihood.log_outlier[4] == pytest.approx(likelihood.log_outlier[5])
    assert likelihood.log_outlier[3] - 1.5 < likelihood.log_outlier[4] < likelihood.log_outlier[3] - 0.1
    turns = 1.0 if planar else 3.0
    np.testing.assert_array_equal(likelihood.freedom, [turns + d, turns + d, d, d, d, d])


def test_a_single_fix_has_the_spread_of_the_translations() -> None:
    graph = with_fixes(False)
    graph = graph.with_edges(np.arange(6) < 4)
    assert absolute_spread(graph)[1] == outlier_spread(graph)


def test_many_concentrations_in_the_plane_are_interpolated() -> None:
    lam = np.geomspace(0.3, 1e6, 300)
    q = np.tile(quat.IDENTITY, (300, 1))
    graph = PoseGraph(
        tuple(range(301)), np.arange(300), np.arange(1, 301), q, np.full((300, 3), np.nan), lam, 1.0, dimension=2
    )
    together = RobustLikelihood.of(graph, 0.5, tail=2.0).log_inlier
    for k in range(0, 300, 37):
        alone = RobustLikelihood.of(graph.with_edges(np.arange(300) == k), 0.5, tail=2.0).log_inlier[0]
        assert together[k] == pytest.approx(alone, abs=1e-5)


def test_scales_of_single_edges() -> None:
    graph = with_fixes(True)
    scales = np.array([2.0, 3.0, 1.0, 1.0, 1.0, 1.0]), np.array([1.0, 1.0, 5.0, 2.0, 2.0, 2.0])
    scaled = PoseGraph(
        graph.node_ids, graph.edge_i, graph.edge_j, graph.j_from_i_wxyz, graph.j_from_i_t,
        graph.concentration / scales[0] ** 2, graph.translation_precision / scales[1] ** 2, dimension=2, landmarks=("l",),
    )  # fmt: skip
    for tail in TAILS:
        one, other = (
            RobustLikelihood.of(graph, 0.5, tail=tail, scales=scales),
            RobustLikelihood.of(scaled, 0.5, tail=tail),
        )
        np.testing.assert_allclose(one.log_inlier, other.log_inlier, rtol=1e-12)
