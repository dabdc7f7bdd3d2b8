"""Simulated graphs come from the model: their energies at the truth are χ² with as many numbers as are measured."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.simulation import corrupt, measure_again, simulate
from tempose.simulation.measuring import with_world

KINDS: dict[str, dict[str, Any]] = {
    "planar": {"planar": True},
    "planar grid": {"planar": True, "shape": "grid"},
    "planar, correlated": {"planar": True, "correlated": "random", "shape": "trajectory"},
    "correlated": {"correlated": "random"},
    "registration": {"correlated": True, "shape": "grid"},
    "tied": {"gps": 0.5, "gps_up": 3.0, "lever_arm": 0.3, "attitudes": 5},
    "landmarks": {"landmarks": 12, "landmark_sigma": 0.2},
    "mixed": {"correlated": True, "gps": 8, "lever_arm": 0.2, "attitudes": 3, "landmarks": 8, "fixed": 2},
    "planar, mixed": {"planar": True, "correlated": True, "gps": 8, "lever_arm": 0.2, "attitudes": 3, "landmarks": 8},
}


def digest(graph: PoseGraph) -> str:
    """Of the measurements, to nine digits."""
    numbers = np.round(np.column_stack([graph.edge_i, graph.edge_j, graph.j_from_i_wxyz, graph.j_from_i_t]), 9) + 0.0
    return hashlib.sha256(numbers.tobytes()).hexdigest()[:12]


@pytest.mark.parametrize("kind", KINDS)
def test_energies_at_the_truth_are_chi_square(kind: str) -> None:
    """Each edge's 2U has mean and law of χ² with its numbers, at noise small enough for the sphere to be flat."""
    p_values, total, numbers = [], 0.0, 0.0
    for seed in range(6):
        made = simulate(25, sigma_rot_deg=0.5, seed=seed, **KINDS[kind])
        truth = with_world(made.graph, made.truth)
        energy = 2.0 * Posterior(made.graph).energies(truth)
        total, numbers = total + energy.sum(), numbers + made.graph.freedom.sum()
        p_values.append(stats.chi2.sf(energy, made.graph.freedom))
    assert abs(total - numbers) < 4.0 * np.sqrt(2.0 * numbers)
    assert stats.kstest(np.concatenate(p_values), "uniform").pvalue > 1e-3


def test_dropped_correlations_are_seen() -> None:
    """Negative control: the same energies without the coupling are far from χ²."""
    from dataclasses import replace

    made = simulate(25, sigma_rot_deg=0.5, correlated=True)
    blind = replace(made.graph, coupling=None)
    energy = 2.0 * Posterior(blind).energies(made.truth)
    assert energy.sum() > 2.0 * blind.freedom.sum()


def test_sigmas_stay_as_stated() -> None:
    """The marginal errors of correlated edges have the σ that was asked for."""
    made = simulate(60, sigma_rot_deg=1.0, sigma_trans=0.05, correlated=True, completeness=1.0)
    left = residuals(made.graph, made.truth)
    assert np.std(2.0 * left.nu) == pytest.approx(np.radians(1.0), rel=0.05)
    assert np.std(left.translation) == pytest.approx(0.05, rel=0.05)
    sigma_rot_deg, sigma_trans = made.graph.edge_sigmas
    assert sigma_rot_deg == pytest.approx(np.ones(made.graph.n_edges), rel=1e-6)
    assert sigma_trans == pytest.approx(np.full(made.graph.n_edges, 0.05), rel=1e-6)


def test_planar_angles_are_von_mises() -> None:
    """At wide noise, against the density e^{−λ sin²(θ/2)} by quadrature."""
    made = simulate(80, sigma_rot_deg=60.0, planar=True, completeness=1.0)
    angle = residuals(made.graph, made.truth).angle
    concentration = made.graph.concentration[0]

    def mass(upto: float) -> float:
        return float(integrate.quad(lambda x: np.exp(-concentration * np.sin(0.5 * x) ** 2), 0.0, upto)[0])

    assert stats.kstest([mass(x) / mass(np.pi) for x in angle], "uniform").pvalue > 1e-3


def test_planar_graphs_lie_in_the_plane() -> None:
    made = simulate(30, planar=True, shape="trajectory", landmarks=5, gps=4, lever_arm=1.0, correlated=True)
    graph = made.graph
    assert graph.is_planar and not np.any(graph.j_from_i_wxyz[:, 1:3]) and not np.any(made.truth.position[:, 2])
    assert set(graph.freedom[graph.has_rotation]) == {3.0}
    assert graph.node_ids[-1] == "world" and "world" not in made.truth
    for shape in ("sphere", "torus"):
        with pytest.raises(OptionError, match="plane"):
            simulate(30, planar=True, shape=shape)


def test_what_was_asked_for_is_there() -> None:
    made = simulate(20, gps=0.25, attitudes=3, landmarks=4, sightings=3, fixed=2)
    graph = made.graph
    assert int(graph.is_absolute.sum()) == 8 and len(graph.landmarks) == 4 and len(graph.fixed) == 2
    assert int(graph.is_landmark[graph.edge_i].sum()) == 12
    held = graph.fixed_at.select(graph.fixed)
    assert held.position == pytest.approx(made.truth.select(graph.fixed).position)
    with pytest.raises(OptionError, match="share"):
        simulate(20, gps=21)
    with pytest.raises(OptionError, match="seen"):
        simulate(20, landmarks=1, sightings=0)
    with pytest.raises(OptionError, match="up"):
        simulate(20, planar=True, gps=3, gps_up=2.0)


def test_measuring_again_changes_only_the_noise() -> None:
    made = simulate(20, correlated=True, gps=5, lever_arm=0.3, attitudes=2, landmarks=4, seed=1)
    again = measure_again(made.graph, made.truth, np.random.default_rng(0))
    assert np.array_equal(again.edge_i, made.graph.edge_i) and np.array_equal(again.coupling, made.graph.coupling)
    assert not np.allclose(again.j_from_i_t, made.graph.j_from_i_t, equal_nan=True)
    energy = Posterior(again).energies(with_world(again, made.truth))
    assert 2.0 * energy.sum() == pytest.approx(again.freedom.sum(), rel=0.2)
    assert np.array_equal(again.j_from_i_wxyz[again.ranks[0] == 0][:, 0], np.ones(int(np.sum(again.ranks[0] == 0))))


def test_old_seeds_give_the_old_graphs() -> None:
    """What was published with a seed can be made again."""
    found = {shape: digest(simulate(20, shape=shape, seed=4).graph) for shape in OLD}
    assert found == OLD


def test_wrong_edges_stay_in_the_plane() -> None:
    made = simulate(30, planar=True, gps=10, landmarks=4)
    for kind in ("paper", "uniform"):
        spoilt = corrupt(made.graph, 0.3, kind=kind)
        graph = spoilt.graph
        assert not np.any(graph.j_from_i_wxyz[:, 1:3]) and not np.any(graph.j_from_i_t[:, 2])
        assert np.array_equal(graph.j_from_i_wxyz[~graph.has_rotation], made.graph.j_from_i_wxyz[~graph.has_rotation])
    turned = quat.angle(graph.j_from_i_wxyz[spoilt.is_wrong & graph.has_rotation])
    assert turned.max() > 2.0


OLD = {
    "random": "4cd762a2bf36",
    "sphere": "f08399d40ae7",
    "torus": "bcb3bf8e58eb",
    "grid": "95e0c189aafd",
    "trajectory": "03a87d2aeca6",
    "manhattan": "7c45deb895d2",
}
