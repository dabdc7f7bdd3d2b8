"""A directory continues its own solve and no other: another measurement or another option is another solve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.errors import DrawsError
from tempose.model.graph import PoseGraph
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
