"""Mistakes on the command line and in Python: one line each, that says what was meant or expected."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tempose
from tempose.cli import main
from tempose.errors import ArgumentError
from tempose.simulation import simulate

MISTAKES = {
    "solev g.g2o -o out": "COMMAND: there is no 'solev'; did you mean solve?",
    "solve g.g2o -o out --drws 5": "there is no option --drws; did you mean --draws?",
    "solve g.g2o -o out --trust-odometri=0.9": "there is no option --trust-odometri; did you mean --trust-odometry?",
    "solve g.g2o -o out --draws 1.5": "--draws: expected a whole number, not '1.5'",
    "solve g.g2o -o out --draws many": "--draws: expected a whole number, not 'many'",
    "solve g.g2o -o out --draws inf": "--draws: expected a whole number, not 'inf'",
    "solve g.g2o -o out --sampler colapsed": "--sampler: there is no 'colapsed'; did you mean collapsed?",
    "solve g.g2o -o out --noise zzz": "--noise: there is no 'zzz'; there are given, auto, paper",
    "solve g.g2o more.g2o -o out": "'more.g2o' is one argument too many",
    "solve g.g2o": "the following arguments are required: -o/--output",
    "experiment robst -o out": "NAME: there is no 'robst'; did you mean robust?",
    "experiment noise -o out --sed 1": "there is no option --sed; did you mean --seed?",
    "simulate --shpe ring -o g.g2o": "there is no option --shpe; did you mean --shape?",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_one_line_says_what_was_meant(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    said = capsys.readouterr().err
    assert stop.value.code == 2 and said.count("\n") == 1
    assert MISTAKES[words] in said and said.rstrip().endswith("--help)")


def test_a_thousand_may_be_written_as_people_do(tmp_path):
    from tempose.cli.parser import build_parser

    for text, number in (("1e3", 1000), ("1000", 1000), ("+7", 7), ("9007199254740993", 9007199254740993)):
        assert build_parser("solve").parse_args(["solve", "g", "-o", "d", "--draws", text]).draws == number


def test_a_directory_with_other_files_is_left_alone(tmp_path, capsys):
    graph = tmp_path / "g.g2o"
    tempose.write_graph(graph, simulate(6, seed=1).graph)
    home = tmp_path / "out"
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    command = ["solve", str(graph), "-o", str(home), "--draws", "0", "--no-report", "--quiet"]
    assert main(command) == 1
    assert "has files that are not of a result (thesis.txt)" in capsys.readouterr().err
    assert [file.name for file in home.iterdir()] == ["thesis.txt"]
    assert main([*command, "--overwrite"]) == 0 and (home / "thesis.txt").read_text() == "years of work"
    assert main(command) == 0  # a result of its own is gone on from
    assert main(["solve", str(graph), "-o", "", "--quiet"]) == 2
    assert "-o needs the name of a directory" in capsys.readouterr().err


def test_solve_takes_a_path_and_says_what_else_it_does_not(tmp_path):
    made = simulate(6, seed=1)
    tempose.write_graph(tmp_path / "g.g2o", made.graph)
    solution = tempose.solve(tmp_path / "g.g2o", draws=0)
    assert solution.potential == pytest.approx(tempose.solve(str(tmp_path / "g.g2o"), draws=0).potential, rel=1e-12)
    with pytest.raises(ArgumentError, match="solve takes a PoseGraph, or the path of a file, not list"):
        tempose.solve([1, 2])
    assert len(repr(solution)) < 200 and repr(solution).startswith("Solution(6 nodes, ")


def test_a_first_look_says_what_to_run(tmp_path, capsys):
    """As stated, no advice; noise stated three times too small, and wrong edges: the options that help."""
    made = simulate(20, completeness=0.5, sigma_rot_deg=2.0, seed=3)
    wrong = simulate(20, completeness=0.5, sigma_rot_deg=2.0, wrong_edges=0.2, seed=3)
    small = replace(made.graph, concentration=9.0 * made.graph.concentration)
    advice = {"right": "", "small": " --noise auto", "wrong": " --robust --noise auto"}
    for (name, options), graph in zip(advice.items(), (made.graph, small, wrong.graph), strict=True):
        file = tmp_path / f"{name}.g2o"
        tempose.write_graph(file, graph)
        assert main(["info", str(file)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[-1] == f"next: tempose solve {file} -o {name}-result{options}"
        assert lines[1].strip() == "20 nodes, 100 edges, 1 component" and len(lines) < 10
