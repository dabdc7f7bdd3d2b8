"""Calibration: the experiments are exact, the tests find what is wrong and nothing else, a run goes on where it was."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from helpers.slow import slow_size
from tempose._support import streams
from tempose.cli import main
from tempose.errors import OptionError, TemposeError
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.options import SolveOptions
from tempose.sampling.options import Geodesic
from tempose.studies.calibration import SETTINGS, Calibration, Setting, calibrate
from tempose.studies.calibration.fitting import (
    KEPT,
    QUANTITIES,
    FitRow,
    _distance_rank,
    _share,
    _spread_out,
    fit,
    unmeasured_pairs,
)
from tempose.studies.calibration.settings import Case, draw_case
from tempose.studies.calibration.uniformity import coverage_test, finding, holm, rank_tests
from tempose.studies.coverage import coverage

SMALL = Setting("small", 6, 0.5, 3.0, 0.05)
WIDE = Setting("wide", 5, 0.4, 40.0, 0.5)


# ---------------------------------------------------------------------- the experiments


def cases(setting: Setting, count: int, seed: int = 0) -> list[Case]:
    return [draw_case(setting, streams.generator(seed, "calibrate", k)) for k in range(count)]


def expected_rotation_terms(graph: PoseGraph) -> np.ndarray:
    """``E[νᵀΛν]`` of each edge by the Bingham distribution's exact second moments."""
    values = []
    for matrix in graph.concentration_matrices:
        noise = Bingham.from_mode(quat.IDENTITY, matrix)
        values.append(noise.concentrations @ np.diag(noise.axes.T @ noise.second_moment() @ noise.axes)[1:])
    return np.array(values)


@pytest.mark.parametrize(
    "setting",
    [
        Setting("flat", 6, 0.4, 30.0, 0.3),
        Setting("tree", 5, 0.01, 40.0, 0.3),
        Setting("anisotropic", 5, 0.5, 25.0, 0.2, anisotropy=5.0),
        Setting("priors", 5, 0.5, 20.0, 0.2, prior_sigma_rot_deg=40.0, prior_sigma_trans=2.0),
        Setting("rotation-only", 6, 0.5, 20.0, 0.2, rotation_only=0.5),
    ],
    ids=lambda s: s.name,
)
def test_residuals_at_the_truth_have_the_moments_of_the_likelihood(setting: Setting) -> None:
    rotation, translation, angle = [], [], []
    for case in cases(setting, 80):
        rot, trans = Posterior(case.graph).potential_by_edge(case.truth)
        rotation.append(rot - expected_rotation_terms(case.graph))
        translation.append(trans[case.graph.has_translation] - 1.5)  # half of a χ² with 3 degrees of freedom
        angle.append(residuals(case.graph, case.truth).angle)
    for terms in (np.concatenate(rotation), np.concatenate(translation)):
        assert abs(terms.mean()) < 4.0 * terms.std() / np.sqrt(len(terms))
    assert np.concatenate(angle).mean() > 0.5 * np.radians(setting.sigma_rot_deg)  # tree edges have noise, too


def test_anisotropic_noise_has_the_axes_of_its_precision() -> None:
    """Λ^½ ν and P^½ r have alike components; in a wrong frame they would not."""
    setting = Setting("anisotropic", 5, 0.5, 5.0, 0.2, anisotropy=6.0)
    scaled, wrong = [], []
    for case in cases(setting, 60):
        r = residuals(case.graph, case.truth)
        P = case.graph.translation_precision_matrices
        scaled.append(np.einsum("ma,mab,mb->m", r.translation, P, r.translation))
        turned = quat.rotate(case.truth.wxyz[case.graph.edge_j], r.translation)  # the world's frame instead of j's
        wrong.append(np.einsum("ma,mab,mb->m", turned, P, turned))
    for values, good in ((np.concatenate(scaled), True), (np.concatenate(wrong), False)):
        assert (stats.kstest(values, stats.chi2(3).cdf).pvalue > 1e-3) == good


def test_priors_are_those_of_the_truth() -> None:
    setting = Setting("priors", 6, 0.5, 5.0, 0.1, prior_sigma_rot_deg=50.0, prior_sigma_trans=2.0)
    prior = setting.priors().rotation
    assert isinstance(prior, Bingham)
    q = np.concatenate([case.truth.node_from_world[0] for case in cases(setting, 100)])
    t = np.concatenate([case.truth.node_from_world[1] for case in cases(setting, 100)])
    assert np.mean(q[:, :, None] * q[:, None, :], axis=0) == pytest.approx(prior.second_moment(), abs=0.06)
    assert stats.kstest(t.reshape(-1) / 2.0, "norm").pvalue > 1e-3


def test_all_named_settings_can_be_drawn_and_tie_every_position() -> None:
    assert len(SETTINGS) >= 6
    for setting in SETTINGS.values():
        for case in cases(setting, 5):
            assert case.graph.n_components == 1
            assert case.graph.position_component.max() == 0 or setting.has_priors
            assert len(unmeasured_pairs(case.graph)) > 0
    rotation_only = cases(SETTINGS["rotation-only"], 5)
    assert any(not np.all(case.graph.has_translation) for case in rotation_only)


@pytest.mark.parametrize(
    "wrong", [{"nodes": 2}, {"sigma_rot_deg": 0.0}, {"anisotropy": 0.5}, {"prior_sigma_trans": 1.0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OptionError, match="setting 'x'"):
        Setting("x", **wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- the statistics


def test_ranks_of_exchangeable_numbers_are_uniform_and_others_are_not() -> None:
    rng = np.random.default_rng(1)
    for width, uniform in ((1.0, True), (0.6, False)):
        pools = [(rng.standard_normal(6), width * rng.standard_normal((KEPT, 6))) for _ in range(400)]
        distances = [_distance_rank(truth, draws, rng) for truth, draws in pools]
        scalars = [_share(truth[0], draws[:, 0], rng) for truth, draws in pools]
        for ranks in (distances, scalars):
            assert (stats.kstest(ranks, "uniform").pvalue > 1e-3) == uniform
        covered = coverage([[u] for u in distances], 0.95)
        assert covered.error == pytest.approx(np.sqrt(covered.share * (1 - covered.share) / 400), abs=1e-3)
        assert (coverage_test(covered, "s", "node distance").p_value > 1e-3) == uniform


def test_holm_and_words() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    grid = (np.arange(200) + 0.5) / 200
    assert finding(np.sqrt(grid)) == "the truth is above the draws too often"
    assert finding(0.01 * grid) == "the truth is below the draws too often"
    assert finding(0.5 + 0.4 * np.sign(grid - 0.5)) == "the draws are too narrow"
    assert finding(0.4 + 0.2 * grid) == "the draws are too wide"


def test_p_values_of_uniform_ranks_are_uniform() -> None:
    rng = np.random.default_rng(2)
    found = [rank_tests("s", "U", rng.random(60)) for _ in range(300)]
    for k, kind in enumerate(("KS", "χ²")):
        assert found[0][k].kind == kind
        share = np.mean([tests[k].p_value < 0.05 for tests in found])
        assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 300)


def test_thinned_draws_are_spread_over_all_chains() -> None:
    chosen = _spread_out((2, 150), 2)
    assert len(chosen) == KEPT == len(set(chosen.tolist()))
    assert np.sum(chosen < 150) in (49, 50)
    assert _spread_out((2, 20), 5).tolist() == [19, 14, 9, 4, 39, 34, 29, 24]


def test_a_graph_that_failed_is_never_passed_over() -> None:
    ranks = dict.fromkeys(QUANTITIES, 0.5)
    good = [FitRow("small", k, "ranked", ranks=ranks, nodes=[0.5], pairs=[0.5]) for k in range(30)]
    result = Calibration((SMALL,), (*good, FitRow("small", 30, "failed", message="no minimum")), {}, 0)
    assert result.calibrated is False
    assert result.failures == {"no minimum": 1}
    assert "1 of 31 graphs have no draws (1: no minimum)" in result.verdict


# ---------------------------------------------------------------------- samplers, right and wrong


def run(setting: Setting, graphs: int, **options: object) -> Calibration:
    how = SolveOptions(chains=2, **options)  # type: ignore[arg-type]
    return Calibration((setting,), tuple(fit(setting, k, how, 0) for k in range(graphs)), {}, 0)


def test_the_default_sampler_is_calibrated() -> None:
    result = run(SMALL, 24)
    assert result.calibrated, result.verdict
    assert result.verdict.startswith("calibrated: 24 graphs, 36 tests")


@pytest.mark.parametrize(
    "wrong",
    [
        {"beta": 1.5},
        {"beta": 0.7},
        {"sampler": Geodesic(scheme="boa", scheme_noise="paper")},
    ],
    ids=["too cold", "too hot", "as printed"],
)
def test_a_wrong_sampler_is_caught(wrong: dict[str, object]) -> None:
    result = run(SMALL, 20, **wrong)
    assert result.calibrated is False, result.verdict
    assert result.verdict.startswith("NOT calibrated")
    assert any(test.quantity == "U" and test.corrected < 1e-3 for test in result.tests)


def test_at_forty_degrees_the_draws_cover_and_the_gaussian_does_not() -> None:
    result = run(WIDE, 24)
    assert result.calibrated, result.verdict
    for region in ("node", "pair"):
        drawn, gaussian = (result.coverage("wide", name, 0.95) for name in (region, f"{region}, Gaussian"))
        assert abs(drawn.share - 0.95) < 3.0 * drawn.error
        assert gaussian.share < 0.95 - 5.0 * gaussian.error


@pytest.mark.slow
def test_all_settings_are_calibrated() -> None:
    result = calibrate(graphs=slow_size(25, 60), seed=1)
    assert result.calibrated, result.verdict


# ---------------------------------------------------------------------- the run


def without_time(rows: tuple[FitRow, ...]) -> list[FitRow]:
    return [replace(row, seconds=0.0) for row in rows]


def test_a_killed_run_goes_on_to_the_same_rows_whatever_the_jobs(tmp_path: Path) -> None:
    whole = calibrate([SMALL, WIDE], graphs=2, jobs=2, directory=tmp_path / "a")
    lines = (tmp_path / "a" / "cells.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 4
    home = tmp_path / "b"
    home.mkdir()
    (home / "cells.jsonl").write_text(lines[0] + lines[1] + lines[2][:50])  # killed while it wrote the second
    seen: list[tuple[float, float]] = []
    resumed = calibrate(
        [SMALL, WIDE], graphs=2, jobs=1, directory=home, progress=lambda p: seen.append((p.done, p.total))
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert without_time(resumed.rows) == without_time(whole.rows)
    assert len({row.ranks["U"] for row in whole.rows}) == 4  # the graphs differ
    with pytest.raises(TemposeError, match=r"holds a run with seed 0 \(now 7\)"):
        calibrate([SMALL], graphs=1, seed=7, directory=home)
    with pytest.raises(TemposeError, match=r"beta 1.0 \(now 2.0\)"):
        calibrate([SMALL], graphs=1, options=SolveOptions(chains=2, beta=2.0), directory=home)
    more = calibrate(
        [replace(SMALL, nodes=5)], graphs=1, directory=home
    )  # of the same name: another setting all the same
    assert len(more.rows[0].nodes) == 4


def test_files_and_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = np.random.default_rng(0).random((30, len(QUANTITIES)))
    rows = tuple(
        FitRow(
            "small",
            k,
            "ranked",
            "collapsed",
            300,
            1,
            KEPT,
            0.1,
            dict(zip(QUANTITIES, u.tolist(), strict=True)),
            [u[-2]],
            [u[-1]],
            [u[-2]],
            [None],
        )
        for k, u in enumerate(ranks)
    )
    written = Calibration((SMALL,), rows, {}, 0).save(tmp_path)
    facts = json.loads((tmp_path / "table.json").read_text())
    assert facts["calibrated"] is True
    assert facts["settings"][0]["coverage"]["pair, Gaussian"]["0.95"]["share"] is None
    assert (tmp_path / "table.csv").read_text().count("\n") == 1 + 4 * 3
    assert {path.name for path in written} >= {"table.json", "table.csv"}

    assert main(["calibrate", "--list"]) == 0
    assert "sparse-40" in capsys.readouterr().out
    assert main(["calibrate"]) == 2
    assert main(["calibrate", "--settings", "nonsense", "-o", str(tmp_path)]) == 2
    assert "unknown setting 'nonsense'" in capsys.readouterr().err
    assert main(["calibrate", "--nodes", "5", "--graphs", "0", "-o", str(tmp_path)]) == 2
