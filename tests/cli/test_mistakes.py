"""Mistakes on the command line and in Python: one line each, that says what was meant or expected."""

from __future__ import annotations

import os
import shutil
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
    "info g.g2o more.g2o": "'more.g2o' is one argument too many",
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


FRESH = {
    "solve gg.g2o -o out": "gg.g2o: there is no such file; did you mean g.g2o?",
    "solve nowhere.g2o -o out": "nowhere.g2o: there is no such file",
    "solve k.g2o -o out": "k.g2o: there is no such file\n",  # "g.g2o" shares an ending, not a name
    "solve folder -o out": "folder: is a directory; give a file, or the folder of a known data set",
    "solve empty.g2o -o out": "no edges found: expected EDGE_SE3:QUAT lines",
    "solve notes.txt -o out": "is in none of the known formats, by its ending or its content",
    "solve bytes.g2o -o out": "is a binary file",
    "solve vertices.g2o -o out": "the file has VERTEX_SE3:QUAT (1)",
    "solve short.g2o -o out": "short.g2o:1: EDGE_SE3:QUAT has 5 fields, expected 30",
    "solve table.csv -o out": "there is no column 'i'; expected the columns i,j,qw",
    "solve photo.jpg -o out": "is a photograph; tempose sfm FOLDER makes poses of a folder of them",
    "solve t.tum -o out": "TUM files hold poses and no edges",
    "solve g.g2o -o g.g2o": "g.g2o is a file; give a directory to -o",
    "solve g.g2o -o out --draws -5": "the number of draws cannot be negative (-5)",
    "solve g.g2o -o out --draws 1e15": "are free; ask for fewer (--draws)",
    "solve g.g2o -o out --chains 0": "at least one chain is needed, not 0",
    "solve g.g2o -o out --gauge node:99": "there is no node '99' in this graph of 6 nodes",
    "solve g.g2o -o out --gauge first": "unknown gauge 'first': use auto, world, anchor",
    "solve g.g2o -o out --seed -1": "the seed must not be negative (-1)",
    "solve g.g2o -o out --seed abc": "--seed: expected a whole number, not 'abc'",
    "solve g.g2o -o out --tail 3": "--tail: only with --robust",
    "solve g.g2o -o out --starts 0": "at least one start is needed, not 0",
    "solve g.g2o -o out --beta 0": "use --draws 0 to optimise only",
    "solve g.g2o -o out --truth t.tmu": "t.tmu: there is no such file; did you mean t.tum?",
    "solve g.g2o -o out --truth other.tum": "--truth other.tum: has no node of the graph (the graph has 0, 1, 2, …, the truth 100",
    "solve g.g2o -o out --config nowhere.json": "--config takes the result.json of a solve",
    "solve g.g2o -o out --format g2": "there is no format 'g2'; did you mean g2o?",
    "solve g.g2o -o out --gps nowhere.csv": "nowhere.csv: there is no such file",
    "solve -o out": "give a graph to solve: tempose solve GRAPH -o DIR",
    "solve g.g2o -o out --thin 0": "draws must be at least 1 step apart (thin), not 0",
    "solve g.g2o --output": "-o/--output: expected one argument",
    "solve g.g2o -o out --robust yes": "'yes' is one argument too many",
    "info": "the following arguments are required: GRAPH",
    "eval t.tum": "the following arguments are required: TRUTH",
    "eval t.tum other.tum": "share no node (one starts with (0, 1, 2), the other with (100, 101))",
    "eval t.tum t.tum --alignment sim": "there is no 'sim'; did you mean sim3?",
    "convert g.g2o out.xyz": "out.xyz: the ending does not name a format; known are g2o (.g2o)",
    "simulate --nodes 1 -o s.g2o": "a graph needs at least 2 nodes, not 1",
    "simulate --shape circle -o s.g2o": "there is no 'circle'; there are random, sphere",
    "compare g.g2o --methods gtsm": "unknown method 'gtsm': choose from tree",
    "merge g.g2o -o m.g2o": "g2o files hold integers only; write .csv",
    "export folder c.csv": "folder: no result here (there is no result.json)",
    "view g.g2o": "a file; give the directory that 'tempose sfm' wrote",
    "sfm g.g2o -o s": "not a COLMAP database; expected one, a COLMAP model, or a folder of photographs",
    "sfm photo.jpg -o s": "not a COLMAP database; expected one, a COLMAP model, or a folder of photographs",
    "view nowhere": "there is no reconstruction here; make one with 'tempose sfm IMAGES -o DIR'",
    "sfm folder -o s": "there are no images here; give a folder with at least two",
    "experiment madrid -o m": "needs the data set madrid: set TEMPOSE_DATA to the folder that has it (tempose data",
    "data chek": "there is no 'chek'; did you mean check?",
    "data check nowhere": "no such folder; it should have a folder for each data set",
    "help": "there is no 'help'; did you mean --help?",
}
"""What people do in their first hour, in a folder with g.g2o and a few other files."""


@pytest.fixture(scope="module")
def first_hour(tmp_path_factory):
    home = tmp_path_factory.mktemp("first-hour")
    made = simulate(6, seed=1)
    tempose.write_graph(home / "g.g2o", made.graph, made.truth)
    tempose.write_poses(home / "t.tum", made.truth)
    for name, text in {
        "empty.g2o": "", "notes.txt": "hello world\n", "vertices.g2o": "VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1\n",
        "short.g2o": "EDGE_SE3:QUAT 0 1 1 0 0\n", "table.csv": "a,b,c\n1,2,3\n",
        "other.tum": "100 0 0 0 0 0 0 1\n101 1 0 0 0 0 0 1\n",
    }.items():  # fmt: skip
        (home / name).write_text(text)
    (home / "bytes.g2o").write_bytes(bytes(range(256)))
    (home / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    (home / "folder").mkdir()
    return home


@pytest.mark.parametrize("words", FRESH)
def test_a_mistake_of_the_first_hour_gets_one_line_and_leaves_nothing(words, first_hour, capsys, monkeypatch):
    if words.startswith("sfm"):
        pytest.importorskip("pycolmap", reason="no pycolmap (pip install '.[sfm]')")  # without it, that is what is said
    monkeypatch.chdir(first_hour)
    monkeypatch.delenv("TEMPOSE_DATA", raising=False)
    before = sorted(file.name for file in first_hour.iterdir())
    try:
        code = main(words.split())
    except SystemExit as stop:
        code = stop.code
    said = capsys.readouterr()
    assert code in (1, 2) and not said.out
    assert said.err.count("\n") == 1 and FRESH[words] in said.err, said.err
    left = set(os.listdir(first_hour)) - set(before)
    assert not [file for name in left for file in os.listdir(first_hour / name) if not file.startswith(".")]
    for name in left:
        shutil.rmtree(first_hour / name)


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
