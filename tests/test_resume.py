"""A directory continues its own solve and no other: another measurement or another option is another solve."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose._support.sealed import sealed_text
from tempose.errors import DrawsError
from tempose.model.graph import PoseGraph
from tempose.optimum import TgMcmc
from tempose.sampling import Auto


def graph() -> PoseGraph:
    return tempose.simulate(8, seed=1).graph


def changed(name: str) -> PoseGraph:
    """The same nodes and edges with one number of one edge changed a little."""
    g = graph()
    value = np.array(getattr(g, name), dtype=float)
    if name == "j_from_i_wxyz":
        value[3] = value[3] + 1e-6 * np.roll(value[3], 1)
        value[3] /= np.linalg.norm(value[3])
    else:
        value.reshape(g.n_edges, -1)[3] *= 1.0 + 1e-6
    return replace(g, **{name: value})


MEASURED = ("j_from_i_wxyz", "j_from_i_t", "concentration", "translation_precision")


@pytest.mark.parametrize("name", MEASURED)
def test_draws_of_other_measurements_are_not_continued(tmp_path: Path, name: str) -> None:
    tempose.solve(graph(), directory=tmp_path, draws=8, sampler=Auto(thin=1))
    with pytest.raises(DrawsError, match="holds draws of another run"):
        tempose.solve(changed(name), directory=tmp_path, draws=12, sampler=Auto(thin=1))
    again = tempose.solve(graph(), directory=tmp_path, draws=12, sampler=Auto(thin=1))
    assert again.draws is not None and again.draws.n_draws == 12


def test_the_optimum_of_other_measurements_is_not_taken_over(tmp_path: Path) -> None:
    first = tempose.solve(graph(), directory=tmp_path, draws=0)
    g = graph()
    t = g.j_from_i_t.copy()
    t[3] += 0.5
    other = replace(g, j_from_i_t=t)
    second = tempose.solve(other, directory=tmp_path, draws=0)
    fresh = tempose.solve(other, draws=0)
    np.testing.assert_array_equal(second.estimate.position, fresh.estimate.position)
    assert np.abs(second.estimate.position - first.estimate.position).max() > 1e-3


def test_the_optimum_of_other_options_is_not_taken_over(tmp_path: Path) -> None:
    """The same graph and the same seed, but now a proof is asked for."""
    without = tempose.solve(graph(), directory=tmp_path, draws=0, certify=False)
    assert without.certificate is None
    proven = tempose.solve(graph(), directory=tmp_path, draws=0).certificate
    assert proven is not None and proven.certified


def test_draws_of_other_options_are_not_continued(tmp_path: Path) -> None:
    """A prior that does not show in the description of the draws."""
    tempose.solve(graph(), directory=tmp_path, draws=8, sampler=Auto(thin=1))
    priors = tempose.Priors(None, 0.0, 0.5)
    with pytest.raises(DrawsError, match="holds draws of another run"):
        tempose.solve(graph(), directory=tmp_path, draws=12, sampler=Auto(thin=1), priors=priors)


def test_a_result_survives_another_solve_in_its_directory(tmp_path: Path) -> None:
    first = tempose.solve(graph(), directory=tmp_path, draws=8)
    first.save(tmp_path)
    for draws in (12, 0):
        with pytest.raises(DrawsError, match="holds draws of another run"):
            tempose.solve(changed("j_from_i_t"), directory=tmp_path, draws=draws)
        kept = tempose.Solution.load(tmp_path)
        np.testing.assert_array_equal(kept.estimate.position, first.estimate.position)
        assert kept.status == "solved" and kept.summary() == first.summary()


def test_an_optimum_that_was_cut_short_is_not_gone_on_from(tmp_path: Path) -> None:
    """Ctrl-C while optimising: what is saved then is no optimum, and the same command starts again."""
    stop = threading.Event()
    how = {"optimiser": TgMcmc(steps=2000, tolerance=0.0), "start": "random", "draws": 0, "certify": False}
    cut = tempose.solve(graph(), directory=tmp_path, stop=stop, hook=lambda _: stop.set(), **how)
    assert cut.status == "interrupted"
    cut.save(tmp_path)
    again, fresh = tempose.solve(graph(), directory=tmp_path, **how), tempose.solve(graph(), **how)
    np.testing.assert_array_equal(again.estimate.position, fresh.estimate.position)
    assert again.potential < cut.potential


def test_a_result_of_another_version_is_refused_in_words(tmp_path: Path) -> None:
    tempose.solve(graph(), draws=0).save(tmp_path)
    path = tmp_path / "result.json"
    facts = json.loads(path.read_text())
    path.write_text(sealed_text({**facts, "options": {"preset": "default"}}))
    with pytest.raises(DrawsError, match="not a result of this version"):
        tempose.Solution.load(tmp_path)
    (tmp_path / "trace.npy").write_bytes(b"")  # as a full disk leaves it
    again = tempose.solve(graph(), directory=tmp_path, draws=0)
    assert again.status == "solved"


def test_what_a_solve_was_told_to_keep_survives_a_reload(tmp_path: Path) -> None:
    tempose.solve(graph(), draws=0).save(tmp_path / "a", record={"input": {"graph": "g.g2o"}})
    tempose.Solution.load(tmp_path / "a").save(tmp_path / "b")
    assert json.loads((tmp_path / "b" / "result.json").read_text())["input"] == {"graph": "g.g2o"}
