"""Planar, correlated, absolute and landmark graphs: the truth is drawn exactly, and controls are read wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tempose._support import streams
from tempose.model.posterior import Posterior
from tempose.options import SolveOptions
from tempose.simulation.measuring import draw_noise, with_world
from tempose.studies.calibration import CONTROLS, SETTINGS
from tempose.studies.calibration.fitting import fit
from tempose.studies.calibration.settings import draw_case
from tempose.studies.calibration.tree_truth import given_edges, truth_given

WIDE = [name for name, setting in SETTINGS.items() if setting.is_wide]


@pytest.mark.parametrize("name", [name for name in WIDE if SETTINGS[name].checks_fit])
def test_all_measurements_are_as_far_from_the_truth_as_their_noise(name: str) -> None:
    """Of the given edges, from which the truth was drawn, and of the others alike."""
    p_values = []
    for k in range(25):
        case = draw_case(SETTINGS[name], streams.generator(0, "calibrate", k))
        energy = Posterior(case.graph).energies(with_world(case.graph, case.truth))
        p_values.append(stats.chi2.sf(2.0 * energy, case.graph.freedom))
    assert stats.kstest(np.concatenate(p_values), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("name", WIDE)
def test_given_edges_place_every_node_once(name: str) -> None:
    rng = np.random.default_rng(1)
    graph = draw_case(SETTINGS[name], rng).graph
    edges, placed = given_edges(graph, rng)
    root = [] if graph.world is not None else [int(graph.anchors[0])]
    assert sorted([*placed.tolist(), *root]) == list(range(len(graph.reported)))
    noise = draw_noise(graph, rng)
    truth = truth_given(graph, edges, placed, noise, rng)
    exact = truth_given(
        graph, edges, placed, noise._replace(turn=noise.turn * 0 + [1, 0, 0, 0], shift=0 * noise.shift), rng
    )
    energy, none = (Posterior(graph).energies(poses)[edges] for poses in (truth, exact))
    assert np.all(energy > 0.0) and none == pytest.approx(np.zeros(len(edges)), abs=1e-15)


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_do_not_fit(name: str) -> None:
    """Their energies at the truth are not what their precisions say."""
    p_values = []
    for k in range(25):
        case = draw_case(CONTROLS[name], streams.generator(0, "calibrate", k))
        energy = Posterior(case.graph).energies(with_world(case.graph, case.truth))
        p_values.append(stats.chi2.sf(2.0 * energy, case.graph.freedom))
    assert stats.kstest(np.concatenate(p_values), "uniform").pvalue < 1e-6


def test_ranks_are_of_what_there_is() -> None:
    planar = fit(SETTINGS["planar"], 0, SolveOptions(chains=2), 0)
    assert planar.status == "ranked" and "node rz" in planar.ranks and "node rx" not in planar.ranks
    seen = fit(SETTINGS["landmarks"], 0, SolveOptions(chains=2), 0)
    assert {"landmark z", "landmark distance", "χ²", "edge"} <= set(seen.ranks)
    with_priors = fit(SETTINGS["priors"], 0, SolveOptions(chains=2), 0)
    assert with_priors.status == "ranked" and "χ²" not in with_priors.ranks
