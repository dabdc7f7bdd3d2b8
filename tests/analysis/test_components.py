"""Variance components: factors of groups come out, and nothing else does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.analysis import edge_kinds, variance_components
from tempose.cli import main
from tempose.errors import ArgumentError
from tempose.simulation import measure_again


def two_instruments(seed: int, true: float = 3.0) -> tuple[tempose.PoseGraph, list[str]]:
    """A planar graph, every other edge by a tape that is ``true`` times as noisy as it says; the total station is what it says."""
    made = tempose.simulate(
        16, planar=True, shape="random", completeness=0.5, sigma_rot_deg=0.5, sigma_trans=0.02, seed=seed
    )
    names = ["tape" if k % 2 else "station" for k in range(made.graph.n_edges)]
    factor = np.where(np.array(names) == "tape", true, 1.0)
    noisy = measure_again(made.graph.scaled_noise(factor), made.truth, np.random.default_rng(seed))
    return noisy.scaled_noise(1.0 / factor), names


def test_factors_of_groups_are_recovered() -> None:
    """Mean of the log of the estimates over graphs, within four of its standard errors of the truth."""
    found = [variance_components(*two_instruments(seed)) for seed in range(20)]
    assert all(one.converged and np.all(one.estimated) for one in found)
    assert found[0].names == ("station", "tape")
    log = np.log([one.sigma_factor for one in found]) - np.log([1.0, 3.0])
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
    assert found.redundancy.sum() == pytest.approx(solution.global_test.freedom, rel=1e-3)


def test_one_group_is_the_variance_factor() -> None:
    graph, _ = two_instruments(4)
    found = variance_components(graph, ["all"] * graph.n_edges)
    solution = tempose.solve(graph, draws=0, certify=False)
    assert found.sigma_factor[0] ** 2 == pytest.approx(solution.reduced_chi_square, rel=1e-3)


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


def test_kinds() -> None:
    graph = tempose.GraphBuilder()
    for a, b in ((0, 1), (1, 2), (2, 0)):
        graph.add_edge(a, b, rotation=np.eye(3), translation=[1, 0, 0], sigma_rot_deg=1.0, sigma_trans=0.1)
    graph.add_position(1, [0, 0, 0], sigma=0.1)
    graph.add_sighting(2, "L", [1, 1, 1], sigma=0.1)
    assert sorted(edge_kinds(graph.build())) == ["fixes", "loops", "odometry", "odometry", "sightings"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, names = two_instruments(6)
    file = str(tmp_path / "g.g2o")
    tempose.write_graph(file, graph)
    ids = graph.node_ids
    table = tmp_path / "groups.csv"
    ends = [(ids[i], ids[j]) for i, j in zip(graph.edge_i, graph.edge_j, strict=True)]
    taped = [f"{a},{b},tape" for (a, b), name in zip(ends, names, strict=True) if name == "tape"]
    table.write_text("\n".join(["i,j,group", *taped]))
    assert main(["components", file, "--groups", str(table), "-o", str(tmp_path / "w.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    by_name = {one["group"]: one["sigma_factor"] for one in found["groups"]}
    assert found["converged"] and 2.2 < by_name["tape"] < 4.0 and 0.7 < by_name["others"] < 1.4
    again = tempose.solve(tempose.read_graph(tmp_path / "w.csv"), draws=0)
    assert again.reduced_chi_square == pytest.approx(1.0, abs=0.01)
    assert main(["components", file, "--ids", "0:7,8:15"]) == 0
    said = capsys.readouterr().out
    assert "0:7 (" in said and "others (" in said
    table.write_text("i,j,group\n0,99,tape\n")
    assert main(["components", file, "--groups", str(table)]) == 1
    assert "which is not in the graph" in capsys.readouterr().err
    assert main(["components", file, "--ids", "1-5"]) == 2
