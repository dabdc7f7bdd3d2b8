"""The command as a user meets it."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.cli import main
from tempose.cli.commands import with_flags

RESULT_KEYS = {
    "status", "potential", "mean_potential", "n_nodes", "n_edges", "n_components", "graph_consistency", "beta", "draws",
    "seed", "version", "seconds", "uncertainty", "origin", "options", "notices",
}  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "g.g2o"
    assert main(["simulate", "--nodes", "20", "--seed", "1", "-o", str(path), "--quiet"]) == 0
    return path


@pytest.fixture(scope="module")
def solved(graph: Path) -> Path:
    out = graph.parent / "out"
    assert main(["solve", str(graph), "-o", str(out), "--draws", "40", "--quiet"]) == 0
    return out


def test_solve_writes_everything(graph: Path, solved: Path) -> None:
    for name in (
        "result.json",
        "poses.g2o",
        "poses.tum",
        "poses.csv",
        "edges.csv",
        "report.html",
        "draws/chain-03.f64",
    ):
        assert (solved / name).stat().st_size > 0, name
    facts = json.loads((solved / "result.json").read_text())
    assert facts.keys() >= RESULT_KEYS
    assert facts["status"] == "solved"
    assert (facts["n_nodes"], facts["draws"], facts["beta"], facts["seed"]) == (20, 40, 1.0, 0)
    # U at the estimate is below U at the truth, and the mean over the draws lies (6n − 6)/2 above it
    assert facts["mean_potential"] - facts["potential"] == pytest.approx(57.0, rel=0.15)
    assert facts["origin"]["precision"] == "full"
    assert facts["origin"]["rotation_information"] == "rotation-vector"
    with open(solved / "poses.csv") as handle:
        rows = list(csv.DictReader(handle))
    assert [row["id"] for row in rows] == [str(k) for k in range(20)]
    assert float(rows[0]["sigma_pos"]) == 0.0
    assert 0.0 < float(rows[7]["sigma_rot_deg"]) < 5.0


def test_eval_agrees_with_the_library(graph: Path, solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = graph.with_name("g.truth.g2o")
    outputs = []
    for estimate in (solved, solved / "poses.g2o", solved / "poses.tum"):
        assert main(["eval", str(estimate), str(truth), "--json"]) == 0
        outputs.append(json.loads(capsys.readouterr().out))
    for key in ("mean_rotation_deg", "median_rotation_deg", "mean_translation", "median_translation"):
        assert outputs[0][key] == pytest.approx(outputs[1][key], rel=1e-9) == pytest.approx(outputs[2][key], rel=1e-9)
    assert outputs[0]["alignment"] == "se3"
    assert 0.9 < outputs[0]["graph_consistency"] < 1.0
    assert outputs[0]["mean_rotation_deg"] < 3.0
    assert main(["eval", str(truth), str(truth), "--graph", str(graph)]) == 0
    assert "MRE" in capsys.readouterr().out


def test_a_result_is_read_wherever_a_graph_or_poses_are(
    graph: Path, solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", str(solved)]) == 0
    said = capsys.readouterr().out
    assert "solved already: " in said and "nodes" in said
    assert main(["convert", str(solved), str(tmp_path / "g.g2o")]) == 0
    np.testing.assert_allclose(
        np.sort(tempose.read_graph(tmp_path / "g.g2o").j_from_i_t, axis=0),
        np.sort(tempose.read_graph(graph).j_from_i_t, axis=0),
        atol=1e-12,
    )
    assert main(["convert", str(solved), str(tmp_path / "p.tum"), "--poses"]) == 0
    assert main(["info", str(tmp_path / "p.tum")]) == 0 and "poses and no edges" in capsys.readouterr().out
    assert main(["eval", str(solved), str(solved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("\n", 0)[0])["ate_rmse"] < 1e-9


def test_info_and_convert_round_trip(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(graph), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["n_nodes"], facts["n_components"], facts["n_bridges"]) == (20, 1, 0)
    assert facts["sigma_rot_deg"]["median"] == pytest.approx(3.0)
    assert main(["convert", str(graph), str(tmp_path / "g.csv")]) == 0
    assert main(["convert", str(tmp_path / "g.csv"), str(tmp_path / "h.g2o")]) == 0
    import tempose

    a, b = tempose.read_graph(graph), tempose.read_graph(tmp_path / "h.g2o")
    np.testing.assert_allclose(a.j_from_i_wxyz, b.j_from_i_wxyz, atol=1e-15)
    np.testing.assert_allclose(a.concentration, b.concentration, rtol=1e-12)
    assert main(["convert", str(graph.with_name("g.truth.g2o")), str(tmp_path / "t.tum")]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["solve", "nowhere.g2o", "-o", "out"], 1, "nowhere.g2o"),
        (["solve", "{bad}", "-o", "{tmp}/out"], 1, "bad.g2o:2:"),
        (["solve", "{empty}", "-o", "{tmp}/out"], 1, "empty.g2o"),
        (["solve", "{graph}", "-o", "{tmp}/out", "--scheme", "xyz"], 2, "letters A, B and O"),
        (["solve", "{graph}", "-o", "{tmp}/out", "--gauge", "node:999"], 1, "999"),
        (["solve", "{graph}", "-o", "{tmp}/out", "--beta", "-1"], 2, "beta must be positive"),
        (["solve", "{graph}", "-o", "{graph}"], 1, "is a file"),
        (["solve", "{tmp}", "-o", "{tmp}/out"], 1, "directory"),
        (["eval", "{graph}", "{vertex}"], 1, "vertex.g2o:1:"),
        (["info", "{graph}.xyz"], 1, "xyz"),
        (["simulate", "--nodes", "1", "-o", "{tmp}/x.g2o"], 2, "at least 2 nodes"),
        (["convert", "{graph}", "{tmp}/x.weird"], 2, "weird"),
    ],
)
def test_mistakes_get_one_clear_line(
    arguments: list[str], code: int, message: str, graph: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.g2o").write_text("VERTEX_SE3:QUAT 0 0 0 0 0 0 0 1\nEDGE_SE3:QUAT 0 1 oops\n")
    (tmp_path / "empty.g2o").write_text("")
    (tmp_path / "vertex.g2o").write_text("VERTEX_SE3:QUAT 0 0 0 0 0 0 7\n")
    names = {
        "bad": tmp_path / "bad.g2o",
        "empty": tmp_path / "empty.g2o",
        "vertex": tmp_path / "vertex.g2o",
        "graph": graph,
        "tmp": tmp_path,
    }
    assert main([a.format(**names) for a in arguments]) in ((1, 2) if "weird" in message else (code,))
    lines = capfd.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("tempose: ")
    assert message in lines[-1]
    assert not any("Traceback" in line for line in lines)


def test_wrong_usage_exits_with_two(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["solve"], ["fly"], ["solve", "x", "-o", "y", "--draws", "many"]):
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 2


@pytest.mark.parametrize("command", ["demo", "info", "simulate", "solve", "eval", "convert"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([command, "--help"])
    assert exit_.value.code == 0
    assert f"example:\n  tempose {command}" in capsys.readouterr().out


def test_json_goes_to_stdout_and_nothing_else_does(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", str(graph), "-o", str(tmp_path / "o"), "--draws", "0", "--json", "--no-report"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["draws"] == 0
    assert facts["uncertainty"]["source"] == "laplace"
    assert not (tmp_path / "o" / "report.html").exists()


def test_two_components_a_rotation_only_edge_and_string_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(
        "i,j,qw,qx,qy,qz,tx,ty,tz,lambda,tau\n"
        "left,right,1,0,0,0,1,0,0,200,100\nright,top,1,0,0,0,0,1,0,200,100\ntop,left,1,0,0,0,-1,-1.1,0,200,100\n"
        "left,far,1,0,0,0,,,,200,\nother,island,1,0,0,0,0,0,1,200,100\n"
    )
    assert main(["solve", str(path), "-o", str(tmp_path / "o"), "--draws", "20"]) == 0
    told = capsys.readouterr().err
    assert "2 components" in told
    assert "1 of 5 edges carries a rotation only" in told
    facts = json.loads((tmp_path / "o" / "result.json").read_text())
    assert facts["n_components"] == 2
    with open(tmp_path / "o" / "poses.csv") as handle:
        rows = {row["id"]: row for row in csv.DictReader(handle)}
    assert rows["far"]["sigma_pos"] == "nan"  # no translation ties it to anything
    assert float(rows["right"]["sigma_pos"]) > 0.0


def test_ctrl_c_keeps_what_was_drawn(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "o"
    command = [
        sys.executable,
        "-m",
        "tempose",
        "solve",
        str(graph),
        "-o",
        str(out),
        "--draws",
        "4000",
        "--thin",
        "2000",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    energy = out / "draws" / "chain-00.energy.f64"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (energy.exists() and energy.stat().st_size > 0):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    told, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    assert "draws are kept; the same command goes on" in told
    facts = json.loads((out / "result.json").read_text())
    assert facts["status"] == "interrupted"
    assert 0 < facts["draws"] < 4000
    assert (out / "report.html").exists()


def test_overwrite_discards_another_run_but_never_a_folder_that_is_not_ours(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "o"
    (out / "draws").mkdir(parents=True)
    (out / "draws" / "sketch.txt").write_text("mine")
    command = ["solve", str(graph), "-o", str(out), "--draws", "8", "--no-report", "--quiet"]
    assert main([*command, "--overwrite"]) == 0
    assert (out / "draws" / "sketch.txt").read_text() == "mine"
    assert main([*command, "--seed", "5"]) == 1  # another run is in the way
    assert main([*command, "--seed", "5", "--overwrite"]) == 0
    assert json.loads((out / "result.json").read_text())["seed"] == 5


@pytest.mark.parametrize("quiet", [False, True])
def test_every_command_says_what_it_compiles_and_for_how_long(
    graph: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    """numba compiles what is not on disk: here ``info`` is made to find a kernel that never was."""
    from tempose._support.progress import CompilerNews, compiler_news
    from tempose.analysis import overview

    def compile_first(graph: tempose.PoseGraph, really: Callable[..., object] = overview.contents) -> object:
        compiler_news.tell("the search for wrong edges", 12.0)
        return really(graph)

    monkeypatch.setattr(overview, "contents", compile_first)
    monkeypatch.setattr(compiler_news, "_told", CompilerNews()._told)
    assert main(["info", str(graph), *["--quiet"] * quiet]) == 0
    said = "compiling the search for wrong edges, once after installation: usually 12 s on an idle core …"
    assert (said in capsys.readouterr().err) == (not quiet)
    assert (main(["info", str(graph)]) == 0 and "compiling" not in capsys.readouterr().err) or quiet  # once is enough


def test_the_optimum_is_told_and_written_before_the_draws(
    graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on disk when the first draw is made: verdict, page, tables, all of the Gaussian approximation."""
    from tempose import describe, solver

    home, seen = tmp_path / "o", dict[str, str]()

    def look(*arguments: object, really: Callable[..., object] = solver.sample, **more: object) -> object:
        seen["page"], seen["facts"] = ((home / name).read_text() for name in ("report.html", "result.json"))
        return really(*arguments, **more)

    monkeypatch.setattr(solver, "sample", look)
    assert main(["solve", str(graph), "-o", str(home), "--draws", "10"]) == 0
    early, late = json.loads(seen["facts"]), json.loads((home / "result.json").read_text())
    assert early["uncertainty"]["source"] == "laplace" and late["uncertainty"]["source"] == "draws"
    assert describe.BEFORE_DRAWS in early["notices"] and describe.BEFORE_DRAWS not in late["notices"]
    assert (early["status"], early["draws"], late["status"], late["draws"]) == ("optimised", 0, "solved", 10)
    assert seen["page"] != (home / "report.html").read_text()
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == f"so far: {early['headline']}"


def test_what_contradicts_its_noise_is_not_drawn_from_unless_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, home = tmp_path / "g.csv", tmp_path / "o"
    made = tempose.simulate(8, completeness=1.0, sigma_rot_deg=0.1, sigma_trans=0.001, seed=1).graph
    overstated = replace(
        made, concentration=made.concentration * 1e-4, translation_precision=made.translation_precision * 1e-4
    )
    tempose.write_graph(path, overstated)
    assert main(["solve", str(path), "-o", str(home)]) == 0
    said = capsys.readouterr()
    assert "no draws were made" in said.err and f"next: tempose solve {path} -o {home}-2 --noise auto" in said.out
    assert json.loads((home / "result.json").read_text())["draws"] == 0 and (home / "report.html").exists()
    assert main(["solve", str(path), "-o", str(home), "--draws", "8"]) == 0  # a wish is a wish
    assert json.loads((home / "result.json").read_text())["draws"] == 8
    tempose.write_graph(path, made)
    assert main(["solve", str(path), "-o", str(tmp_path / "p"), "--quiet"]) == 0  # negative control
    assert json.loads((tmp_path / "p" / "result.json").read_text())["draws"] == 1000


def test_messages_name_options_of_the_command_line(capsys: pytest.CaptureFixture[str], graph: Path) -> None:
    assert main(["solve", str(graph), "-o", "x", "--beta", "0"]) == 2
    assert "use --draws 0 to optimise only" in capsys.readouterr().err
    flags = ["--sigma-rot-deg", "--draws", "--json"]
    said = with_flags("give sigma_rot_deg, or draws=0; draws and my_sigma_rot_deg are words, --draws is right", flags)
    assert said == "give --sigma-rot-deg, or --draws 0; draws and my_sigma_rot_deg are words, --draws is right"


def test_convert_counts_in_the_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.csv"
    tempose.write_graph(
        path,
        tempose.GraphBuilder()
        .add_edge(0, 1, wxyz=[1.0, 0.0, 0.0, 0.0], translation=[1.0, 0.0, 0.0], sigma_rot_deg=1.0, sigma_trans=0.1)
        .add_position(1, [1.0, 0.0, 0.0], sigma=0.1)
        .build(),
    )
    assert main(["convert", str(path), str(tmp_path / "h.csv")]) == 0
    assert "2 nodes, 2 edges; 1 measured position\n" in "".join(capsys.readouterr())


@pytest.mark.parametrize("found", [True, False])
def test_open_shows_the_page(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: bool
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: asked.append(address) or found)
    common = [str(graph), "-o", str(tmp_path / "out")]
    assert main(["solve", *common, "--draws", "0", "--open"]) == 0
    assert asked == [(tmp_path / "out" / "report.html").as_uri()]
    assert ("no browser could be started here" in capsys.readouterr().err) != found
    assert main(["compare", str(graph), "--methods", "tree", "-o", str(tmp_path / "cmp"), "--open", "--quiet"]) == 0
    assert asked[1:] == [(tmp_path / "cmp" / "report.html").as_uri()]
    assert (
        main(["solve", *common, "--draws", "0", "--overwrite", "--quiet"]) == 0 and len(asked) == 2
    )  # negative control


def test_open_needs_a_page(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", str(graph), "-o", str(tmp_path / "out"), "--no-report", "--open"]) != 0
    assert "--no-report" in capsys.readouterr().err
    assert main(["compare", str(graph), "--methods", "tree", "--open"]) != 0
    assert "add -o DIR" in capsys.readouterr().err
