"""Which nodes moved: false alarms at their level, planted motions found, whatever the frames."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.analysis.epochs import Changes, changes
from tempose.cli import main
from tempose.errors import ArgumentError, OptionError
from tempose.geometry import Similarity
from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.simulation import measure_again


def network(planar: bool, tied: bool):
    more = {"gps": 5, "gps_sigma": 0.02} if tied else {}
    return tempose.simulate(9, shape="grid", planar=planar, sigma_rot_deg=0.5, sigma_trans=0.02, seed=2, **more)


def epoch(graph: PoseGraph, truth: Poses, rng: np.random.Generator, turned: bool = False) -> Laplace:
    """A solve of fresh measurements; ``turned``: in another frame."""
    posterior = Posterior(measure_again(graph, truth, rng))
    poses = minimise(Curvature(posterior), truth.with_identity(WORLD).select(graph.node_ids)).poses
    if turned:
        axis = np.array([0.0, 0.0, 0.7]) if graph.is_planar else np.array([0.4, -0.3, 0.7])
        poses = poses.moved(Similarity(quat.exp(axis), np.array([5.0, -2.0, 0.0])))
    return Laplace(Curvature(posterior), poses)


def moved_truth(truth: Poses, node: int, shift: np.ndarray) -> Poses:
    position = np.array(truth.position)
    position[truth.row(node)] += shift
    return Poses(truth.ids, truth.wxyz, position)


@pytest.mark.parametrize("tied", [False, True])
def test_false_alarms_are_at_their_level_and_planted_motions_are_found(tied: bool) -> None:
    level_and_power(planar=True, tied=tied, trials=32)


@pytest.mark.slow
@pytest.mark.parametrize(("planar", "tied"), [(True, False), (True, True), (False, False), (False, True)])
def test_the_level_in_many_graphs(planar: bool, tied: bool) -> None:
    level_and_power(planar, tied, trials=200)


def level_and_power(planar: bool, tied: bool, trials: int) -> None:
    """Pairs of epochs in which nothing moved, and some in which node 4 did."""
    made = network(planar, tied)
    rng = np.random.default_rng(9)
    alarms, found, others, p = 0, 0, 0, []
    shift = np.array([0.25, 0.15, 0.0])
    for k in range(trials):
        first = epoch(made.graph, made.truth, rng)
        quiet = changes(first, epoch(made.graph, made.truth, rng, turned=not tied))
        alarms += bool(quiet.moved)
        p.append(quiet.congruence_p)
        if k % 4 == 0:
            busy = changes(first, epoch(made.graph, moved_truth(made.truth, 4, shift), rng, turned=not tied))
            found += 4 in busy.moved
            others += len(set(busy.moved) - {4})
    assert alarms / trials <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / trials)
    assert abs(np.mean(p) - 0.5) < 4 * np.sqrt(1 / 12 / trials)  # uniform
    assert found >= 0.95 * len(range(0, trials, 4)) and others <= 0.1 * trials


def test_noise_that_is_understated_raises_alarms() -> None:
    """Negative control: with three times the stated noise the level is not kept."""
    made = network(True, False)
    rng = np.random.default_rng(1)
    from dataclasses import replace

    loud = replace(
        made.graph,
        concentration=made.graph.concentration / 9.0,
        translation_precision=made.graph.translation_precision / 9.0,
    )
    alarms = 0
    for _ in range(15):
        pair = []
        for _ in range(2):
            measured = measure_again(loud, made.truth, rng)
            stated = replace(made.graph, j_from_i_wxyz=measured.j_from_i_wxyz, j_from_i_t=measured.j_from_i_t)
            posterior = Posterior(stated)
            pair.append(Laplace(Curvature(posterior), minimise(Curvature(posterior), made.truth).poses))
        alarms += bool(changes(*pair).moved)
    assert alarms > 7


@pytest.mark.parametrize("tied", [True, False])
def test_a_displacement_has_its_size_and_its_error_bar(tied: bool) -> None:
    made = network(True, tied)
    rng = np.random.default_rng(3)
    shift = np.array([0.3, -0.2, 0.0])
    z = []
    for _ in range(30):
        first = epoch(made.graph, made.truth, rng)
        result = changes(first, epoch(made.graph, moved_truth(made.truth, 4, shift), rng, turned=not tied))
        k = result.ids.index(4)
        off = result.displacement[k, 3:5] - shift[:2]
        sigma = result.covariance[k][3:5, 3:5]
        if 4 in result.moved and len(result.moved) == 1:
            z.append(off @ np.linalg.solve(sigma, off))
    assert len(z) > 20 and abs(np.mean(z) - 2.0) < 4 * np.sqrt(4.0 / len(z))  # χ² of two numbers


def test_the_frame_of_an_epoch_does_not_matter() -> None:
    made = network(False, False)
    first = epoch(made.graph, made.truth, np.random.default_rng(5))
    results: list[Changes] = []
    for turned in (False, True):
        second = epoch(made.graph, made.truth, np.random.default_rng(6), turned)
        results.append(changes(first, second))
    np.testing.assert_allclose(results[0].statistic, results[1].statistic, rtol=1e-5)
    np.testing.assert_allclose(results[0].p_value, results[1].p_value, atol=1e-5)


def test_what_cannot_be_compared_is_refused() -> None:
    made, flat = network(False, False), network(True, False)
    rng = np.random.default_rng(2)
    one, two = epoch(made.graph, made.truth, rng), epoch(flat.graph, flat.truth, rng)
    with pytest.raises(ArgumentError, match="planar"):
        changes(one, two)
    with pytest.raises(OptionError):
        changes(one, one, level=0.0)
    other = tempose.GraphBuilder()
    for a, b in (("a", "b"), ("b", "c"), ("c", "a")):
        other.add_edge(a, b, wxyz=[1, 0, 0, 0], translation=[0, 0, 0], sigma_rot_deg=1, sigma_trans=1)
    strange = tempose.solve(other.build(), draws=0).laplace
    assert strange is not None
    with pytest.raises(ArgumentError, match="share too few nodes"):
        changes(one, strange)


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = network(True, False)
    rng = np.random.default_rng(8)
    for name, truth in (("a", made.truth), ("b", moved_truth(made.truth, 4, np.array([0.5, 0.0, 0.0])))):
        tempose.solve(measure_again(made.graph, truth, rng), draws=0).save(tmp_path / name)
    given = ["change", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "c.csv")]
    assert main([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["moved"] == [4]
    with open(tmp_path / "c.csv", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert [name for name, row in rows.items() if row["moved"] == "1"] == ["4"]
    length = np.hypot(float(rows["4"]["x"]), float(rows["4"]["y"]))  # the frame is that of the first solve
    assert abs(length - 0.5) < 5 * float(rows["4"]["sigma_x"])
    assert main(given[:3]) == 0 and "node 4" in capsys.readouterr().out
