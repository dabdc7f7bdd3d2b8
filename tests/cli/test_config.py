"""A solve repeated from its own ``result.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tempose.cli import main

OPTIONS = ["--draws", "24", "--seed", "3", "--chains", "2", "--gauge", "centroid", "--precision", "full", "--no-report"]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "g.g2o"
    assert main(["simulate", "--nodes", "12", "--seed", "1", "-o", str(path), "--quiet"]) == 0
    return path


def solve(*arguments: str | Path) -> int:
    return main(["solve", *map(str, arguments), "--quiet", "--no-report"])


@pytest.fixture(scope="module")
def first(graph: Path) -> Path:
    out, truth = graph.parent / "first", graph.with_name("g.truth.g2o")
    assert main(["solve", str(graph), "-o", str(out), "--truth", str(truth), *OPTIONS, "--quiet"]) == 0
    return out


def facts(home: Path) -> dict[str, Any]:
    return dict(json.loads((home / "result.json").read_text()))


def same_bytes(a: Path, b: Path) -> None:
    names = [
        "poses.csv",
        "poses.g2o",
        "edges.csv",
        *sorted(f"draws/{path.name}" for path in (a / "draws").glob("*.f64")),
    ]
    assert len(names) > 4
    for name in names:
        assert (a / name).read_bytes() == (b / name).read_bytes(), name


def test_the_input_is_on_record(graph: Path, first: Path) -> None:
    found = facts(first)["input"]
    assert found["graph"] == str(graph.resolve())
    assert found["truth"] == str(graph.with_name("g.truth.g2o").resolve())
    assert found["reading"]["precision"] == "full" and found["reading"]["noise"] == "given"
    assert found["format"] is None


def test_a_solve_repeats_to_the_same_bytes(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the record holds in every directory
    assert solve("--config", first / "result.json", "-o", "again") == 0
    same_bytes(first, tmp_path / "again")
    assert facts(tmp_path / "again")["options"] == facts(first)["options"]
    assert facts(tmp_path / "again")["input"] == facts(first)["input"]
    assert solve("--config", "again", "-o", "third") == 0  # the directory is as good as its result.json
    same_bytes(first, tmp_path / "third")


def test_options_on_the_command_line_win(graph: Path, first: Path, tmp_path: Path) -> None:
    assert (
        solve("--config", first, "-o", tmp_path / "o", "--draws", "8", "--gauge", "anchor", "--precision", "isotropic")
        == 0
    )
    found, before = facts(tmp_path / "o"), facts(first)
    assert found["draws"] == 8
    assert found["input"] == {**before["input"], "reading": {**before["input"]["reading"], "precision": "isotropic"}}
    changed = {name for name, value in found["options"].items() if value != before["options"][name]}
    assert changed == {"draws", "gauge"}


def test_another_graph_with_the_same_options(graph: Path, first: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.g2o"
    assert main(["simulate", "--nodes", "6", "--seed", "2", "-o", str(other), "--quiet"]) == 0
    assert solve(other, "--config", first, "-o", tmp_path / "o") == 0
    found = facts(tmp_path / "o")
    assert (found["n_nodes"], found["seed"], found["input"]["truth"]) == (6, 3, None)
    assert found["input"]["reading"]["precision"] == "full"


def test_objects_survive_the_record(graph: Path, tmp_path: Path) -> None:
    """A sampler, an optimiser and a robust likelihood with options of their own."""
    flags = [
        "--optimiser",
        "both",
        "--anneal",
        "1:20,10:20",
        "--scheme",
        "aboba",
        "--step",
        "0.01",
        "--draws",
        "8",
        "--thin",
        "2",
    ]
    assert solve(graph, "-o", tmp_path / "a", *flags) == 0
    assert solve("--config", tmp_path / "a", "-o", tmp_path / "b") == 0
    same_bytes(tmp_path / "a", tmp_path / "b")
    assert solve(graph, "-o", tmp_path / "c", "--robust", "--noise", "auto", "--tail", "gaussian", "--draws", "8") == 0
    assert solve("--config", tmp_path / "c", "-o", tmp_path / "d") == 0
    same_bytes(tmp_path / "c", tmp_path / "d")
    assert facts(tmp_path / "d")["input"]["reading"]["noise"] == "auto"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--config", "{tmp}/nowhere.json"], 1, "nowhere.json: cannot be read"),
        (["--config", "{tmp}/broken.json"], 1, "broken.json: is not the result.json"),
        (["--config", "{tmp}/strange.json"], 1, "strange.json: unknown option wings"),
        (["--config", "{tmp}/old.json"], 2, "give a graph to solve"),
        (["--config", "{first}", "--preset", "paper"], 2, "--preset and --config"),
        ([], 2, "give a graph to solve"),
    ],
)
def test_records_that_do_not_help(
    arguments: list[str], code: int, message: str, first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = facts(first)["options"]
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "strange.json").write_text(json.dumps({"options": {**options, "wings": 2}}))
    (tmp_path / "old.json").write_text(json.dumps({"options": options}))
    given = [one.format(tmp=tmp_path, first=first) for one in arguments]
    assert main(["solve", *given, "-o", str(tmp_path / "o")]) == code
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and message in lines[0]
    assert not (tmp_path / "o").exists()
