"""Planned error bars are those of a solve, and gains are those of a plan with the edge in it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.analysis.planning import nearby, plan
from tempose.analysis.summary import tangent
from tempose.cli import main
from tempose.errors import ArgumentError, GraphError
from tempose.io import write_graph
from tempose.model.graph import WORLD
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.simulation import measure_again


def network(planar: bool, **more):
    made = tempose.simulate(9, shape="grid", planar=planar, sigma_rot_deg=0.5, sigma_trans=0.02, seed=2, **more)
    graph = replace(made.graph, initial=made.truth.with_identity(WORLD).select(made.graph.node_ids))
    if graph.world is None:  # held where it is, so that a solve has the same frame
        graph = replace(graph, fixed=(0,), fixed_at=made.truth.select([0]))
    return graph, made.truth


@pytest.mark.parametrize("more", [{}, {"correlated": True}, {"gps": 3, "landmarks": 2}])
@pytest.mark.parametrize("planar", [False, True])
def test_planned_sigma_is_the_solved_one(planar: bool, more: dict) -> None:
    """To rounding with exact measurements; with noisy ones the poses, and with them the derivatives, are a little elsewhere."""
    graph, _ = network(planar, **more)
    planned = plan(graph)
    solved = tempose.solve(planned.graph, draws=0)
    assert solved.nodes is not None
    scale = np.max(np.abs(solved.nodes.covariance))
    np.testing.assert_allclose(planned.nodes.covariance, solved.nodes.covariance, rtol=1e-6, atol=1e-9 * scale)
    noisy = tempose.solve(graph, draws=0)
    assert noisy.nodes is not None
    free = planned.nodes.sigma_pos > 0
    np.testing.assert_allclose(noisy.nodes.sigma_pos[free], planned.nodes.sigma_pos[free], rtol=0.1)
    np.testing.assert_allclose(noisy.reliability.redundancy, planned.reliability.redundancy, atol=0.05)
    coarser = plan(replace(graph, translation_precision=0.25 * graph.translation_precision))
    assert np.all(coarser.nodes.sigma_pos[free] > 1.1 * planned.nodes.sigma_pos[free])  # negative control


def test_estimates_scatter_as_planned() -> None:
    graph, truth = network(True)
    planned = plan(graph)
    rng = np.random.default_rng(4)
    found = []
    for _ in range(100):
        fresh = Posterior(measure_again(graph, truth, rng))
        poses = minimise(Curvature(fresh), truth).poses
        found.append(tangent(poses.wxyz, poses.position, truth))
    scatter = np.var(np.array(found), axis=0)
    planned_variance = np.einsum("naa->na", planned.nodes.covariance)
    there = planned_variance > 1e-12
    ratio = np.mean(scatter[there] / planned_variance[there])
    assert abs(ratio - 1.0) < 0.2  # 24 numbers, correlated, of 100 graphs


@pytest.mark.parametrize("planar", [False, True])
def test_gains_are_those_of_a_plan_with_the_edge(planar: bool) -> None:
    graph, _ = network(planar)
    planned = plan(graph)
    extra = nearby(graph, graph.initial, 2.5)
    gains = planned.gains(extra)
    assert extra.n_edges >= 3 and np.all(gains > 0.0)
    before = np.einsum("naa->", planned.nodes.covariance[:, 3:, 3:])
    for k in (0, int(np.argmax(gains))):
        both = replace(
            graph,
            edge_i=np.append(graph.edge_i, extra.edge_i[k]),
            edge_j=np.append(graph.edge_j, extra.edge_j[k]),
            j_from_i_wxyz=np.vstack([graph.j_from_i_wxyz, extra.j_from_i_wxyz[k]]),
            j_from_i_t=np.vstack([graph.j_from_i_t, extra.j_from_i_t[k]]),
            concentration=np.append(graph.concentration, extra.concentration[k]),
            translation_precision=np.append(graph.translation_precision, extra.translation_precision[k]),
        )
        after = np.einsum("naa->", plan(both).nodes.covariance[:, 3:, 3:])
        np.testing.assert_allclose(gains[k], 1.0 - after / before, rtol=1e-6)


def test_plan_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, _ = network(True)
    write_graph(tmp_path / "net.g2o", graph)
    given = ["plan", str(tmp_path / "net.g2o"), "--reach", "2.5", "-o", str(tmp_path / "plan")]
    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["candidates"][0]["gain"] >= found["candidates"][1]["gain"] > 0
    with open(tmp_path / "plan" / "nodes.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    np.testing.assert_allclose(
        [float(r["sigma_pos"]) for r in rows], plan(graph).nodes.sigma_pos, rtol=1e-6, atol=1e-12
    )
    assert (tmp_path / "plan" / "candidates.csv").exists() and (tmp_path / "plan" / "edges.csv").exists()
    assert main([*given, "--candidates", str(tmp_path / "net.g2o")]) == 2


def test_what_cannot_be_planned_is_refused() -> None:
    graph, _ = network(True)
    with pytest.raises(GraphError, match="where nodes will be"):
        plan(replace(graph, initial=None))
    other = tempose.GraphBuilder(planar=True)
    other.add_edge(0, 99, angle=0.0, translation=[1, 0], sigma_rot_deg=1, sigma_trans=1)
    with pytest.raises(ArgumentError, match="no node 99 in the plan"):
        plan(graph).gains(other.build())
    fix = tempose.GraphBuilder(planar=True).add_node(0).add_position(0, [0, 0], sigma=1.0).build()
    with pytest.raises(ArgumentError, match="not tied to the world"):
        plan(graph).gains(fix)
