"""All files of a result belong to one solve, and are what was written; whatever ends a run leaves them so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from helpers import fuzz_files
from tempose._support.files import write_atomically
from tempose.errors import DrawsError, FileError
from tempose.io import result_directory
from tempose.model.graph import PoseGraph
from tempose.sampling import Auto

OMEGA = " ".join("100" if a == b else "0" for a in range(6) for b in range(a, 6))
HOW = {"draws": 8, "chains": 2, "sampler": Auto(thin=1)}


def graph(seed: int = 1) -> PoseGraph:
    return tempose.simulate(6, seed=seed).graph


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("solved")
    tempose.solve(graph(), directory=home, starts=3, **HOW).save(home)
    return home


@pytest.fixture
def result(solved: Path, tmp_path: Path) -> Path:
    return shutil.copytree(solved, tmp_path / "result")


def test_a_result_is_not_paired_with_draws_of_another(result: Path, tmp_path: Path) -> None:
    other = tempose.solve(graph(2), draws=0)
    with pytest.raises(DrawsError, match="holds draws of another run"):
        other.save(result)
    assert tempose.Solution.load(result).draws is not None
    with pytest.raises(DrawsError, match="holds draws of another run"):
        tempose.solve(graph(2), directory=result, draws=0)
    tempose.solve(graph(2), directory=tmp_path / "b", starts=3, **HOW).save(tmp_path / "b")
    shutil.rmtree(result / "draws")
    shutil.copytree(tmp_path / "b" / "draws", result / "draws")
    with pytest.raises(DrawsError, match="the draws there belong to another solve"):
        tempose.Solution.load(result)


def test_a_chain_of_another_run_is_noticed(result: Path, tmp_path: Path) -> None:
    tempose.solve(graph(), directory=tmp_path / "b", starts=3, seed=5, **HOW)
    for kind in ("f64", "energy.f64", "cost.f64", "state.npz"):
        shutil.copy(tmp_path / "b" / "draws" / f"chain-01.{kind}", result / "draws")
    with pytest.raises(DrawsError, match="belongs to another run"):
        tempose.Solution.load(result)


def test_tables_of_another_solve_do_not_stay(tmp_path: Path) -> None:
    tempose.solve(graph(), draws=0, starts=3).save(tmp_path)
    (tmp_path / "report.html").write_text("of the first")
    (tmp_path / "poses.mode-2.csv").write_text("of the first")
    (tmp_path / "mine.txt").write_text("not of tempose")
    names = replace(graph(2), node_ids=tuple("abcdef"), initial=None)
    tempose.solve(names, draws=0).save(tmp_path)
    assert not any((tmp_path / name).exists() for name in ("report.html", "poses.mode-2.csv", "poses.g2o", "poses.tum"))
    assert (tmp_path / "mine.txt").exists()
    assert tempose.Solution.load(tmp_path).graph.node_ids == tuple("abcdef")


@pytest.mark.parametrize("draws", [0, 8])
def test_a_graph_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: int) -> None:
    """What a run that goes on needs, what is known before any draws, and the result: one table of the graph for all."""
    text, made = result_directory.csvfile.graph_text, []

    def counted(graph: PoseGraph) -> str:
        made.append(graph)
        return text(graph)

    monkeypatch.setattr(result_directory.csvfile, "graph_text", counted)
    how = {**HOW, "draws": draws}
    solution = tempose.solve(graph(), directory=tmp_path, on_optimum=lambda found: found.save(tmp_path), **how)
    solution.save(tmp_path)
    assert len(made) == 1
    written = (tmp_path / "graph.csv").read_bytes()
    (tmp_path / "graph.csv").write_bytes(written[::-1])  # by somebody else
    solution.save(tmp_path)
    assert len(made) == 2 and (tmp_path / "graph.csv").read_bytes() == written
    solution.save(tmp_path / "elsewhere")
    assert len(made) == 3 and (tmp_path / "elsewhere" / "graph.csv").read_bytes() == written
    (tmp_path / "elsewhere" / "graph.csv").unlink()
    solution.save(tmp_path / "elsewhere")
    assert len(made) == 4 and tempose.Solution.load(tmp_path / "elsewhere").graph.n_edges == solution.graph.n_edges


READ_BACK = ("result.json", "graph.csv", "poses.csv", "trace.npy", "draws/draws.json", "draws/chain-00.f64",
             "draws/chain-01.energy.f64", "draws/chain-00.cost.f64", "draws/chain-00.state.npz")  # fmt: skip


@pytest.mark.parametrize("name", READ_BACK)
@pytest.mark.parametrize("where", [0.2, 0.5, 0.9])
def test_a_flipped_bit_is_noticed(result: Path, name: str, where: float) -> None:
    path = result / name
    data = bytearray(path.read_bytes())
    data[int(where * len(data))] ^= 4
    path.write_bytes(data)
    with pytest.raises(DrawsError) as caught:
        tempose.Solution.load(result)
    assert path.name in str(caught.value) and "\n" not in str(caught.value)
    if name.startswith("draws"):  # and is not gone on from
        with pytest.raises(DrawsError, match=path.name):
            tempose.solve(graph(), directory=result, starts=3, **{**HOW, "draws": 12})
    else:  # what is not draws is computed anew
        again = tempose.solve(graph(), directory=result, starts=3, **HOW)
        assert again.status == "solved"


def test_draws_beyond_the_checkpoint_are_not_read(result: Path) -> None:
    with open(result / "draws" / "chain-00.energy.f64", "ab") as file:
        file.write(np.zeros(3).tobytes())
    assert tempose.Solution.load(result).draws.n_draws == 8


@pytest.mark.parametrize("after", range(8))
def test_a_save_that_is_cut_off_leaves_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """The bare result of a run that samples, then some files of the whole one: loaded as one or the other."""
    solution = tempose.solve(graph(), directory=tmp_path, **HOW)
    written = 0

    def dying(path: Path, data: bytes) -> None:
        nonlocal written
        if written == after:
            raise FileError("as if killed")
        written += 1
        write_atomically(path, data)

    monkeypatch.setattr(result_directory, "write_atomically", dying)
    if after < 6:
        with pytest.raises(FileError, match="as if killed"):
            solution.save(tmp_path)
    monkeypatch.undo()
    again = tempose.Solution.load(tmp_path)
    np.testing.assert_array_equal(again.estimate.position, solution.estimate.position)
    assert again.draws is not None and again.draws.n_draws == 8
    solution.save(tmp_path)
    assert all(len(sums) == 1 for sums in json.loads((tmp_path / "result.json").read_text())["files"].values())


def test_a_result_without_its_own_files_is_refused(result: Path) -> None:
    break_it: list[Callable[[], object]] = [
        lambda: (result / "poses.csv").unlink(),
        lambda: (result / "graph.csv").write_bytes(b""),
        lambda: (result / "result.json").write_text("[1]"),
        lambda: (result / "result.json").write_text("[" * 100_000),
        lambda: (result / "result.json").write_text('{"a": ' + "9" * 5000 + "}"),
    ]
    for breaks in break_it:
        breaks()
        with pytest.raises(DrawsError, match="solve the graph again"):
            tempose.Solution.load(result)


def test_edges_have_the_names_of_the_file_everywhere(tmp_path: Path) -> None:
    """A wrong g2o edge ``7 3`` is 7 → 3 in the summary, in edges.csv, in result.json and after loading."""
    turned = "0 0 0.9 0.435889894354067"
    edges = [f"EDGE_SE3:QUAT {k} {k + 1} 1 0 0 0 0 0 1 {OMEGA}" for k in range(8)]
    edges += [f"EDGE_SE3:QUAT {k} {k + 2} 2 0 0 0 0 0 1 {OMEGA}" for k in range(7)]
    file = tmp_path / "a.g2o"
    file.write_text("\n".join([*edges, f"EDGE_SE3:QUAT 7 3 9 9 9 {turned} {OMEGA}"]) + "\n")
    home = tmp_path / "out"
    solution = tempose.solve(file, draws=0)
    solution.save(home)
    for one in (solution, tempose.Solution.load(home)):
        assert "most of all 7 → 3" in one.summary() and "3 → 7" not in one.summary()
    rows = (home / "edges.csv").read_text().splitlines()
    assert rows[1].startswith("0,1,") and rows[-1].startswith("7,3,")
    facts = json.loads((home / "result.json").read_text())
    assert facts["predictive"]["most_surprising"][0]["i"] == 7
    robust = tempose.solve(file, draws=0, robust=True)
    assert "worst: 7 → 3" in robust.summary()


@pytest.mark.parametrize(
    ("name", "value"),
    [("prior", np.ones(1, dtype=bool)), ("prior", np.full(1, 0.5, dtype=np.longdouble)), ("freedom", np.zeros(1))],
)
def test_arrays_that_were_not_written_here_are_refused_though_their_checksums_fit(name, value, tmp_path) -> None:
    home = tmp_path / "result"
    shutil.copytree(fuzz_files.result("robust"), home)
    arrays = dict(np.load(home / "likelihood.npz"))
    tempose.Solution.load(home)
    arrays[name] = np.resize(value, arrays[name].shape)
    np.savez(home / "likelihood.npz", **arrays)
    fuzz_files.forge_result(home / "likelihood.npz")
    with pytest.raises(DrawsError, match="not a result of this version"):
        tempose.Solution.load(home)
