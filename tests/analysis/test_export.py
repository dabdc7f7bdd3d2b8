"""Draws for ArviZ of either generation, and netCDF."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tempose
from tempose.analysis.diagnostics import ess_bulk
from tempose.analysis.export import to_arviz, to_netcdf
from tempose.errors import ArgumentError, DrawsError, FileError, MissingPackage
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.sampling import Auto
from tempose.sampling.draws import Draws
from tempose.simulation import simulate

HAVE = any(importlib.util.find_spec(name) is not None for name in ("arviz_base", "arviz"))
needs_arviz = pytest.mark.skipif(not HAVE, reason="ArviZ is not installed")


@pytest.fixture(scope="module")
def made() -> tuple[PoseGraph, Poses, Draws]:
    simulated = simulate(4, seed=1)
    rng = np.random.default_rng(2)
    truth = simulated.truth
    arrays = []
    for length in (30, 25):
        array = np.empty((length, 4, 7))
        for k in range(length):
            wxyz = quat.multiply(quat.exp(0.05 * rng.standard_normal((4, 3))), truth.wxyz)
            turn = quat.random_uniform(rng)
            array[k, :, :4] = quat.multiply(turn, wxyz) * rng.choice([-1.0, 1.0], 4)[:, None]
            array[k, :, 4:] = quat.rotate(turn, truth.position + 0.05 * rng.standard_normal((4, 3)))
        arrays.append(array)
    draws = Draws(simulated.graph.node_ids, 2.0, tuple(arrays), (rng.gamma(3.0, size=30), rng.gamma(3.0, size=25)))
    return simulated.graph, truth, draws


class Recorder(ModuleType):
    """Stands in for a generation of ArviZ that is not installed: keeps what it was called with."""

    def __init__(self, name: str, version: str) -> None:
        super().__init__(name)
        self.__version__ = version

    def from_dict(self, *args: Any, **kwargs: Any) -> Any:
        self.called = (args, kwargs)
        return {name: type("Group", (), {"attrs": {}})() for name in (args[0] if args else kwargs)}


def pretend(monkeypatch: pytest.MonkeyPatch, **modules: ModuleType | None) -> None:
    for name in ("arviz_base", "arviz"):
        monkeypatch.setitem(sys.modules, name, modules.get(name))  # None makes the import fail


def test_both_generations_are_called_as_they_want(
    made: tuple[PoseGraph, Poses, Draws], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, truth, draws = made
    old, new = Recorder("arviz", "0.23.4"), Recorder("arviz_base", "1.3.1")
    pretend(monkeypatch, arviz=old)
    data = to_arviz(draws, truth, Gauge(graph))
    assert not old.called[0] and {"posterior", "sample_stats", "coords", "dims"} == set(old.called[1])
    assert data["posterior"].attrs["gauge"] == str(Gauge(graph))
    pretend(monkeypatch, arviz_base=new)
    to_arviz(draws)
    (groups,), keywords = new.called
    assert set(groups["posterior"]) == {"wxyz", "position"} and keywords["attrs"]["posterior"]["beta"] == 2.0
    assert groups["posterior"]["wxyz"].shape == (2, 25, 4, 4) and np.all(groups["posterior"]["wxyz"][..., 0] >= 0.0)
    one = Recorder("arviz", "1.0.0")
    pretend(monkeypatch, arviz=one)
    to_arviz(draws)
    assert len(one.called[0]) == 1


def test_missing_arviz_says_how_to_get_it(
    made: tuple[PoseGraph, Poses, Draws], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch)
    with pytest.raises(MissingPackage, match=r"pip install 'tempose\[arviz\]'"):
        to_arviz(made[2])
    with pytest.raises(MissingPackage, match=r"pip install 'tempose\[arviz\]'"):
        to_netcdf(tmp_path / "draws.nc", made[2])


def test_bad_requests(made: tuple[PoseGraph, Poses, Draws]) -> None:
    with pytest.raises(ArgumentError, match="both a reference and a gauge"):
        to_arviz(made[2], made[1])
    with pytest.raises(DrawsError, match="no draws"):
        to_arviz(Draws((0,), 1.0, (), ()))


@needs_arviz
def test_values_and_names_arrive(made: tuple[PoseGraph, Poses, Draws]) -> None:
    graph, truth, draws = made
    data = to_arviz(draws, truth, Gauge(graph))
    posterior = data["posterior"]
    assert posterior["rotation"].dims == ("chain", "draw", "node", "axis")
    assert posterior["rotation"].shape == (2, 25, 4, 3)
    assert list(posterior["node"].values) == list(graph.node_ids)
    np.testing.assert_allclose(posterior["position"].values[:, :, 0], np.broadcast_to(truth.position[0], (2, 25, 3)))
    assert np.abs(posterior["rotation"].values).max() < 0.6  # no half turns: antipodes are one rotation
    assert np.std(posterior["rotation"].values[:, :, 1:]) == pytest.approx(0.07, rel=0.2)
    np.testing.assert_allclose(data["sample_stats"]["lp"].values[1], -2.0 * draws.energies[1][:25])
    assert posterior.attrs["beta"] == 2.0
    raw = to_arviz(draws)["posterior"]
    np.testing.assert_allclose(np.abs(np.sum(raw["wxyz"].values[0] * draws.arrays[0][:25, :, :4], axis=-1)), 1.0)


@needs_arviz
def test_netcdf_round_trip(made: tuple[PoseGraph, Poses, Draws], tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    pytest.importorskip("h5py")
    xarray = pytest.importorskip("xarray")
    graph, truth, draws = made
    path = to_netcdf(tmp_path / "draws.nc", draws, truth, Gauge(graph))
    with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as back:
        np.testing.assert_array_equal(
            back["rotation"].values, to_arviz(draws, truth, Gauge(graph))["posterior"]["rotation"].values
        )
        assert list(back["axis"].values) == ["x", "y", "z"] and back.attrs["gauge"] == str(Gauge(graph))
    with pytest.raises(FileError, match="cannot write"):
        to_netcdf(tmp_path / "missing" / "draws.nc", draws)


@needs_arviz
def test_arviz_computes_the_same_from_it(made: tuple[PoseGraph, Poses, Draws]) -> None:
    stats = pytest.importorskip("arviz_stats" if importlib.util.find_spec("arviz_stats") else "arviz")
    if not hasattr(stats, "ess"):
        pytest.skip("arviz-stats is installed without its xarray part")
    graph, truth, draws = made
    data = to_arviz(draws, truth, Gauge(graph))
    theirs = stats.ess(data, var_names=["rotation"], method="bulk")
    theirs = theirs.get("posterior", theirs)
    x = np.moveaxis(data["posterior"]["rotation"].values, (0, 1), (-2, -1))
    np.testing.assert_allclose(theirs["rotation"].values[1:], ess_bulk(x)[1:], rtol=1e-6)


def test_plain_numpy_reads_the_files(tmp_path: Path, made: tuple[PoseGraph, Poses, Draws]) -> None:
    array = made[2].arrays[0]
    array.astype("<f8").tofile(tmp_path / "chain-00.f64")
    np.testing.assert_array_equal(np.memmap(tmp_path / "chain-00.f64", "<f8").reshape(-1, 4, 7), array)


def test_the_documented_snippets_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "explanation" / "diagnostics.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 3
    solution = tempose.solve(simulate(9, seed=3).graph, draws=60, chains=2, sampler=Auto(thin=10), certify=False)
    for block in blocks:
        code = block if HAVE else "\n".join(line for line in block.splitlines() if "to_arviz" not in line)
        exec(compile(code, "diagnostics.md", "exec"), {"solution": solution})
    assert "R-hat" in capsys.readouterr().out
