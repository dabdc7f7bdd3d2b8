"""What people see: no control characters from files, no endless lines, no formulas."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest

import tempose
from tempose._support.tables import csv_rows, csv_text
from tempose.cli import main
from tempose.errors import GraphError, ParseError, printable
from tempose.io import read_graph, write_graph

HOSTILE = (
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egpj.exe",
    "a\nnote: b",
    "\x9b2J",
    "\u2066x\u2069",
    "tab\t",
    "=1+1",
    "x" * 5000,
)
HIDDEN = {chr(k) for k in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def test_hidden_characters_are_shown() -> None:
    assert printable("a\x1b[0m\u202eb\x07\ud800") == r"a\x1b[0m\u202eb\x07\ud800"
    assert printable("σ ≤ 5°, 日本, é 👍") == "σ ≤ 5°, 日本, é 👍"
    long = printable("y" * 100_000 + " the end")
    assert len(long) < 1100 and long.endswith("the end") and "characters left out" in long


def test_errors_are_one_printable_line() -> None:
    error = ParseError("a\x1b[2J.g2o", 3, "the name is \u202e" + "x" * 100_000)
    assert len(str(error)) < 1200 and not HIDDEN & set(str(error)) and "\n" not in str(error)
    assert str(GraphError("a\nb")) == r"a\nb"


def hostile_graph() -> tempose.PoseGraph:
    graph = tempose.simulate(len(HOSTILE), seed=1).graph
    return replace(graph, node_ids=HOSTILE, initial=None)


def test_a_terminal_sees_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "\x1b[31mgraph.csv"
    write_graph(path, hostile_graph())
    assert main(["info", str(path)]) == 0
    assert main(["solve", str(path), "-o", str(tmp_path / "out"), "--draws", "0"]) == 0
    assert main(["solve", str(path), "-o", str(tmp_path / "out"), "--draws", "0", "--gauge", "node:\x1b[5m"]) != 0
    seen = capsys.readouterr()
    for text in (seen.out, seen.err):
        assert not HIDDEN & set(text.replace("\n", ""))
        assert max(map(len, text.split("\n"))) < 1100


@pytest.mark.parametrize("name", ["=1+1", "+a", "-b", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0", "--", "+5", "-5.5"])
def test_names_are_no_formulas(tmp_path: Path, name: str) -> None:
    graph = tempose.simulate(3, seed=1).graph
    graph = replace(graph, node_ids=(name, "b", 7), initial=None)
    write_graph(tmp_path / "g.csv", graph)
    rows = list(csv.reader(io.StringIO((tmp_path / "g.csv").read_text())))
    assert not any(cell.startswith(("=", "+", "-", "@", "\t")) and not is_number(cell) for row in rows for cell in row)
    assert read_graph(tmp_path / "g.csv").node_ids == graph.node_ids
    solution = tempose.solve(graph, draws=0, certify=False)
    solution.save(tmp_path / "out")
    for file in (tmp_path / "out").glob("*.csv"):
        cells = [cell for row in csv.reader(io.StringIO(file.read_text())) for cell in row]
        assert not any(cell.startswith(("=", "+", "-", "@", "\t")) and not is_number(cell) for cell in cells), file
    assert tempose.Solution.load(tmp_path / "out").graph.node_ids == graph.node_ids


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_tables_of_words_are_no_formulas() -> None:
    assert csv_rows([{"why": "=1+1", "n": -5, "x": "-5", "y": "plain"}]) == "why,n,x,y\n'=1+1,-5,-5,plain\n"
    assert csv_text(["a"], [["@x", None, -1.5]]) == "a\n'@x\n\n-1.5\n".replace("\n\n", '\n""\n')


def test_overwriting_draws_behind_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_graph(tmp_path / "g.csv", tempose.simulate(5, seed=1).graph)
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "large-disk" / "mine.txt").write_text("not of tempose")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "draws").symlink_to(tmp_path / "large-disk")
    solve = ["solve", str(tmp_path / "g.csv"), "-o", str(tmp_path / "out"), "--draws", "8", "--no-report"]
    assert main(solve) == 0
    assert main([*solve, "--seed", "3", "--overwrite"]) == 0
    assert (tmp_path / "out" / "draws").is_symlink() and (tmp_path / "large-disk" / "mine.txt").exists()
    assert (tmp_path / "large-disk" / "chain-00.f64").exists()
    assert tempose.Solution.load(tmp_path / "out").options.seed == 3
    assert "None" not in capsys.readouterr().err
