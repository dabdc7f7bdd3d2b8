"""Variance components: factors of groups come out, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.analysis import edge_kinds, variance_components
from tempose.cli import main
from tempose.errors import ArgumentError, GraphError
from tempose.simulation import measure_again


def two_instruments(seed: int, nodes: int = 49, true: float = 3.0) -> tuple[tempose.PoseGraph, list[str]]:
    """A planar grid; loops are ``true`` times as noisy as they say, odometry is what it says."""
    made = tempose.simulate(
        nodes, planar=True, shape="grid", loops_per_node=0.7, sigma_rot_deg=0.5, sigma_trans=0.02, seed=seed
    )
    kinds = edge_kinds(made.graph)
    factor = np.where(np.array(kinds) == "loops", true, 1.0)
    noisy = measure_again(made.graph.scaled_noise(factor), made.truth, np.random.default_rng(seed))
    return noisy.scaled_noise(1.0 / factor), kinds


def test_factors_of_groups_are_recovered() -> None:
    """Mean of the log of the estimates over graphs, within four of its standard errors of the truth."""
    found = [variance_components(*two_instruments(seed)) for seed in range(20)]
    assert all(one.converged and np.all(one.estimated) for one in found)
    assert found[0].names == ("loops", "odometry")
    log = np.log([one.sigma_factor for one in found]) - np.log([3.0, 1.0])
    error = np.std(log, axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(log, axis=0)) < 4.0 * error + 0.01), (np.mean(log, axis=0), error)
    least = np.mean([one.relative_error for one in found], axis=0)
    spread = np.std(log, axis=0, ddof=1)
    assert np.all(spread > 0.6 * least) and np.all(spread < 2.5 * least), (spread, least)


def test_noise_that_is_right_stays() -> None:
    """Negative control: no group is changed where both are what they say."""
    found = variance_components(*two_instruments(7, true=1.0))
    assert np.all(np.abs(np.log(found.sigma_factor)) < 4.0 * found.relative_error)


def test_at_the_end_energy_is_redundancy() -> None:
    """The equation of REML, group by group; redundancies add up to the degrees of freedom."""
    graph, kinds = two_instruments(3)
    found = variance_components(graph, kinds)
    solution = tempose.solve(found.graph, draws=0, certify=False)
    energy = 2.0 * tempose.Posterior(found.graph).energies(solution.estimate)
    for k, name in enumerate(found.names):
        mine = np.array(kinds) == name
        assert energy[mine].sum() == pytest.approx(found.redundancy[k], rel=1e-3)
    assert found.redundancy.sum() == pytest.approx(solution.global_test.freedom, rel=1e-6)


def test_one_group_is_the_variance_factor() -> None:
    graph, _ = two_instruments(4)
    found = variance_components(graph, ["all"] * graph.n_edges)
    solution = tempose.solve(graph, draws=0, certify=False)
    assert found.sigma_factor[0] ** 2 == pytest.approx(solution.reduced_chi_square, rel=1e-4)


def test_groups_that_nothing_checks_are_left_as_stated() -> None:
    graph, kinds = two_instruments(5)
    kinds[0] = "one"
    found = variance_components(graph, kinds)
    k = found.names.index("one")
    assert not found.estimated[k] and found.sigma_factor[k] == 1.0 and np.isnan(found.relative_error[k])


def test_mistakes_are_told() -> None:
    graph, kinds = two_instruments(5)
    with pytest.raises(ArgumentError, match="one for each is needed"):
        variance_components(graph, kinds[1:])
    builder = tempose.GraphBuilder().add_edge(0, 1, rotation=np.eye(3), sigma_rot_deg=1.0)
    builder.add_edge(1, 2, rotation=np.eye(3), translation=[1, 0, 0], sigma_rot_deg=1.0, sigma_trans=0.1)
    loose = builder.build()
    with pytest.raises(GraphError, match="hangs loose"):
        variance_components(loose, ["all"] * 2)


def test_kinds() -> None:
    graph = tempose.GraphBuilder()
    for a, b in ((0, 1), (1, 2), (2, 0)):
        graph.add_edge(a, b, rotation=np.eye(3), translation=[1, 0, 0], sigma_rot_deg=1.0, sigma_trans=0.1)
    graph.add_position(1, [0, 0, 0], sigma=0.1)
    graph.add_sighting(2, "L", [1, 1, 1], sigma=0.1)
    assert sorted(edge_kinds(graph.build())) == ["fixes", "loops", "odometry", "odometry", "sightings"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, _ = two_instruments(6)
    file = str(tmp_path / "g.g2o")
    tempose.write_graph(file, graph)
    assert main(["components", file, "-o", str(tmp_path / "w.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    by_name = {one["group"]: one["sigma_factor"] for one in found["groups"]}
    assert found["converged"] and 2.0 < by_name["loops"] < 4.5 and 0.7 < by_name["odometry"] < 1.4
    again = tempose.solve(tempose.read_graph(tmp_path / "w.csv"), draws=0)
    assert again.reduced_chi_square == pytest.approx(1.0, abs=0.01)
    assert main(["components", file, "--ids", "0:23,24:48"]) == 0
    said = capsys.readouterr().out
    assert "0:23 (" in said and "others (" in said
    table = tmp_path / "groups.csv"
    table.write_text("i,j,group\n0,1,tape\n")
    assert main(["components", file, "--groups", str(table)]) == 0
    assert "tape (1 edges" in capsys.readouterr().out
    table.write_text("i,j,group\n0,99,tape\n")
    assert main(["components", file, "--groups", str(table)]) == 1
    assert "which is not in the graph" in capsys.readouterr().err
    assert main(["components", file, "--ids", "1-5"]) == 2
