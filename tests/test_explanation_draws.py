"""Draws of every explanation, as many as it is probable: labelled, in turn, to the same bytes, and told apart where it matters."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tempose
from helpers.two_explanations import TURN, contested, out_and_back
from tempose import describe, solver
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.outliers.options import Robust
from tempose.sampling import Auto
from tempose.sampling.draws import Draws, in_turn

DRAWS, CHAINS = 160, 2


def solved(directory: Path | None = None, draws: int = DRAWS, stop: threading.Event | None = None, **more):
    robust = Robust(inlier_probability=0.95, tail="gaussian", repeats="independent")
    how = {"draws": draws, "chains": CHAINS, "seed": 3, "sampler": Auto(thin=1), **more}
    return tempose.solve(out_and_back(planar=True), robust=robust, directory=directory, stop=stop, **how)


@pytest.fixture(scope="module", autouse=True)
def two_explanations():
    """Robust solves find two: that either link of the turn is wrong, the second in a frame of its own."""
    known, search = contested(planar=True), solver.solve_robust

    def found(*arguments, **options):
        one = search(*arguments, **options)
        return replace(
            one, fit=replace(one.fit, poses=known.estimate, likelihood=known.likelihood), weighing=known.weighing
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver, "solve_robust", found)
        yield


@pytest.fixture(scope="module")
def solution(two_explanations):
    return solved()


@pytest.mark.parametrize("shares", [(0.45, 0.30, 0.25), (0.98, 0.02), (1.0,), (1 / 3, 1 / 3, 1 / 3)])
def test_each_has_its_share_of_the_turns_from_the_first_on(shares):
    turns = in_turn(shares, 200)
    had = np.cumsum(turns[:, None] == np.arange(len(shares)), axis=0)
    due = np.arange(1, 201)[:, None] * np.asarray(shares)
    assert np.abs(had - due).max() <= 1.0
    assert np.array_equal(in_turn(shares, 50), turns[:50])  # a longer run goes on with a shorter one
    if len(shares) > 1:  # negative control: one after the other
        block = np.sort(turns)[:, None] == np.arange(len(shares))
        assert np.abs(np.cumsum(block, axis=0) - due).max() > 2.0


def test_draws_are_of_every_explanation_as_often_as_it_is_probable(solution):
    assert len(solution.explanations) == 2
    shares = np.array([one.probability for one in solution.explanations])
    shares = shares / shares.sum()
    for labels, array in zip(solution.draws.explanation, solution.draws.arrays, strict=True):
        assert len(labels) == len(array) == DRAWS // CHAINS
        assert np.abs(np.bincount(labels, minlength=len(shares)) - shares * len(labels)).max() <= 1.0
    assert solution.draws.n_draws == DRAWS
    counts = [solution.draws.of_explanation(k).n_draws for k in range(len(shares))]
    assert sum(counts) == DRAWS and min(counts) > 0
    assert " / ".join(map(str, counts)) in solution.summary()
    assert [one["draws"]["count"] for one in solution.facts()["explanations"]] == counts


def test_a_draw_lies_where_its_explanation_says(solution):
    """By the place of the turn seen from node 0, which is all that they differ in."""

    def place(wxyz, position):
        seen = tempose.Poses(solution.graph.node_ids, wxyz, position)
        return solution.gauge.align(seen.wxyz, seen.position, solution.estimate)[1][TURN, :2]

    there = [place(one.poses.wxyz, one.poses.position) for one in solution.explanations]
    labels = np.concatenate(solution.draws.explanation)
    found = np.array([place(wxyz, position) for wxyz, position in solution.draws])
    nearest = np.argmin(np.linalg.norm(found[:, None] - np.array(there)[None], axis=2), axis=1)
    assert np.mean(nearest == labels) > 0.98
    assert np.mean(nearest == np.roll(labels, 1)) < 0.9  # negative control: labels of other draws


def test_error_bars_are_of_the_first_unless_asked_for_all(solution):
    own, overall = solution.nodes, solution.overall_nodes
    assert own.n_draws == solution.draws.of_explanation(0).n_draws < overall.n_draws == DRAWS
    laplace = solution.laplace.marginals(solution.gauge)
    deviation = np.sqrt(np.trace(laplace[TURN, 3:, 3:]) / 2.0)
    assert own.sigma_pos[TURN] == pytest.approx(deviation, rel=0.3)
    there = [one.poses.position[TURN] for one in solution.explanations]
    shares = np.array([one.probability for one in solution.explanations])
    mean = np.average(there, axis=0, weights=shares)
    between = np.average(np.sum((there - mean) ** 2, axis=1), weights=shares)
    expected = np.sqrt(between / 2.0 + deviation**2)
    assert overall.sigma_pos[TURN] == pytest.approx(expected, rel=0.2)
    assert overall.sigma_pos[TURN] > 3.0 * own.sigma_pos[TURN]
    assert overall.sigma_pos[3] == pytest.approx(own.sigma_pos[3], rel=0.5)  # where all agree


def test_chains_are_judged_within_an_explanation(solution):
    for k in range(len(solution.explanations)):
        found = solution.explanation_diagnostics(k)
        assert found.draws_per_chain * found.n_chains == solution.draws.of_explanation(k).n_draws
    assert solution.explanation_diagnostics(0) is solution.diagnostics
    assert solution.modes is None or len(solution.modes) == 1  # other explanations are no modes of the first


def chain_bytes(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*.f64"))}


def test_same_seed_same_bytes_and_a_run_that_was_stopped_goes_on(tmp_path, solution):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    solved(whole).save(whole)
    assert (whole / "draws" / "explanation-2" / "draws.json").exists()
    stop = threading.Event()

    def hook(watch):
        if watch.phase == "sample" and watch.chain >= CHAINS:  # within the second explanation
            stop.set()

    halted = solved(parts, stop=stop, hook=hook)
    assert halted.status == "interrupted"
    assert halted.draws.n_draws < DRAWS and halted.draws.of_explanation(1).n_draws > 0
    again = solved(parts)
    assert chain_bytes(parts / "draws") == chain_bytes(whole / "draws")
    assert again.draws.n_draws == DRAWS
    for a, b in zip(again.draws.arrays, solution.draws.arrays, strict=True):
        assert np.array_equal(a, b)
    loaded = tempose.Solution.load(whole)
    assert all(map(np.array_equal, loaded.draws.explanation, solution.draws.explanation))
    assert loaded.summary() == solution.summary()
    longer = solved(parts, draws=DRAWS + 40)
    assert longer.draws.n_draws == DRAWS + 40
    assert np.array_equal(longer.draws.arrays[0][: DRAWS // CHAINS], solution.draws.arrays[0])


def test_without_other_explanations_draws_are_as_ever():
    made = tempose.simulate(8, seed=1)
    plain = tempose.solve(made.graph, draws=8, chains=2, sampler=Auto(thin=1))
    assert plain.draws.labels == ()
    assert [label.tolist() for label in plain.draws.explanation] == [[0] * 4, [0] * 4]
    assert plain.draws.of_explanation(0) is plain.draws and plain.draws.of_explanation(1).n_draws == 0
    assert plain.overall_nodes is plain.nodes


def test_draws_that_lead_to_a_deeper_minimum_say_so():
    """Three edges say one thing and two another, with heavy tails: a minimum each, and the estimate in the higher one."""
    made = tempose.simulate(2, sigma_rot_deg=1.0, sigma_trans=0.01, seed=0).graph
    offset = np.array([0.0, 0.0, 0.0, 0.3, 0.3])
    graph = PoseGraph.from_concentrations(
        [(int(made.edge_i[0]), int(made.edge_j[0]))] * 5,
        np.repeat(made.j_from_i_wxyz[:1], 5, axis=0),
        made.j_from_i_t[0] + offset[:, None] * np.array([1.0, 0.0, 0.0]),
        concentration=np.repeat(made.concentration[:1], 5),
        translation_precision=np.repeat(made.translation_precision[:1], 5),
    )
    posterior = Posterior(graph, RobustLikelihood.of(graph, 0.9, tail=1.0, outlier_sigma=1.0))
    curvature = Curvature(posterior)
    low, high = (
        minimise(curvature, tempose.solve(graph.with_edges(offset == one), draws=0).estimate) for one in (0.0, 0.3)
    )
    assert high.potential > low.potential + 5.0

    def told(estimate, drawn):
        run = SimpleNamespace(
            posterior=posterior, curvature=curvature, options=SimpleNamespace(beta=1.0), found=estimate
        )
        row = np.concatenate([drawn.poses.wxyz, drawn.poses.position], axis=1)[None]
        draws = Draws(graph.node_ids, 1.0, (row,), (np.array([drawn.potential]),))
        return solver._lower_by(run, draws)

    assert told(high, low) == pytest.approx(high.potential - low.potential, rel=1e-6)
    assert "lower by" in describe.lower_draws(told(high, low))[0]
    assert told(low, high) == 0.0  # negative control: the estimate is the lowest
    assert describe.lower_draws(told(low, high)) == []
