"""Help that fits the screen, and options that mean one thing each."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import tempose
from tempose.cli import info, main
from tempose.cli.parser import COMMANDS, RENAMED, build_parser
from tempose.dynamics.options import NOISES
from tempose.errors import FileError, Interrupted, MissingPackage, NotApplicable, OptionError, ParseError
from tempose.sampling.options import SAMPLERS

TWO_SCREENS = 80  # lines of 80 columns


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command that runs, those of ``experiment`` among them."""
    found = {}

    def walk(parser: argparse.ArgumentParser, name: str) -> None:
        below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        for action in below:
            for key, child in action.choices.items():
                walk(child, f"{name} {key}".strip())
        if not below:
            found[name] = parser

    walk(build_parser(), "")
    return found


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        build_parser().parse_args(arguments)
    assert exit_.value.code == 0
    return capsys.readouterr().out


def test_there_is_a_parser_for_every_command() -> None:
    names = {name.split()[0] for name in parsers()}
    assert names == set(COMMANDS)


@pytest.mark.parametrize("command", sorted({name.split()[0] for name in parsers()}))
def test_help_fits_two_screens(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert len(shown(capsys, command, "--help").splitlines()) <= TWO_SCREENS


@pytest.mark.parametrize("command", ["solve", "calibrate"])
def test_everyday_options_come_first_and_all_of_them_on_demand(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    short, long = shown(capsys, command, "--help"), shown(capsys, command, "--help-all")
    assert "--help-all" in short
    for rare in ("--scheme-noise", "--letters", "--thin"):
        assert rare not in short.split("example:")[0]
        assert rare in long
    for meaning in (SAMPLERS["collapsed"], NOISES["euler"]):  # of words that options take
        assert meaning in long
    assert shown(capsys, command, "--help") == short


def test_help_of_photographs_leaves_the_paper_s_options_out(capsys: pytest.CaptureFixture[str]) -> None:
    short, long = shown(capsys, "sfm", "--help"), shown(capsys, "sfm", "--help-all")
    assert "--rounds" not in short and "--rounds" in long and "--intrinsics" in short


def test_commands_without_rare_options_show_all_of_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, "info", "--help")
    assert "--precision" in told and "--rotation-information" in told and "--help-all" not in told


def test_an_option_means_one_thing_in_all_commands() -> None:
    """Same name, same kind of value; ``--noise`` and ``--robust`` belong to the solve alone."""
    meanings: dict[str, dict[object, list[str]]] = defaultdict(lambda: defaultdict(list))
    where: dict[str, set[str]] = defaultdict(set)
    for command, parser in parsers().items():
        for flag, action in parser._option_string_actions.items():
            if action.help != argparse.SUPPRESS:
                choices = tuple(action.choices) if action.choices else None
                meanings[flag][action.nargs, action.type, choices].append(command)
                where[flag].add(command)
    assert {flag: dict(kinds) for flag, kinds in meanings.items() if len(kinds) > 1} == {}
    assert where["--noise"] == where["--robust"] == {"solve"}


@pytest.mark.parametrize(
    ("arguments", "dest", "value", "hint"),
    [
        (["calibrate", "--noise", "10"], "sigma_rot_deg", 10.0, "--noise is now --sigma-rot-deg"),
        (["calibrate", "--noise=10"], "sigma_rot_deg", 10.0, "--noise is now --sigma-rot-deg"),
        (["eval", "a", "b", "--robust"], "l1_alignment", True, "--robust is now --l1-alignment"),
    ],
)
def test_old_names_are_understood_with_a_hint(arguments: list[str], dest: str, value: object, hint: str) -> None:
    found = build_parser().parse_args(arguments)
    assert getattr(found, dest) == value
    assert len(found.hints) == 1 and found.hints[0].startswith(hint)
    new = [RENAMED[arguments[0]].get(one.split("=")[0], one) for one in arguments]
    if "=" not in arguments[-1]:
        assert not hasattr(build_parser().parse_args(new), "hints")


def test_old_names_are_not_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command, names in RENAMED.items():
        told = shown(capsys, command, "--help")
        for old, new in names.items():
            assert f"{old} " not in told and new in told


def test_no_command_loads_anything_heavy_to_show_its_help() -> None:
    code = (
        "import sys; from tempose.cli.parser import build_parser\n"
        "for command in sys.argv[1:]:\n"
        "    try: build_parser(command).parse_args([command, '--help'])\n"
        "    except SystemExit: pass\n"
        "print(sorted({'numpy', 'numba', 'scipy', 'rich', 'matplotlib'} & set(sys.modules)))"
    )
    names = sorted({name.split()[0] for name in parsers()})
    told = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True).stdout
    assert told.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OptionError("wrong"), 2),
        (NotApplicable("not for this graph"), 1),
        (MissingPackage("pictures", "matplotlib", "plot"), 1),
        (FileError("is a file"), 1),
        (Interrupted("stopped"), 1),
        (ParseError("g.g2o", 3, "what is this"), 1),
        (KeyboardInterrupt(), 1),
        (MemoryError(), 1),
    ],
)
def test_exit_codes_tell_wrong_usage_from_what_could_not_be_done(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: argparse.Namespace) -> int:
        raise error

    monkeypatch.setattr(info, "run", fail)
    assert main(["info", "g.g2o"]) == code
    told = capsys.readouterr().err
    assert told.startswith("tempose: ") and len(told.splitlines()) == 1


def test_every_error_has_a_class_of_its_own_meaning() -> None:
    """Nothing raises the base class, which says only that something is wrong."""
    sources = list(Path(tempose.__file__).parent.rglob("*.py"))
    assert len(sources) > 100
    assert [path.name for path in sources if "raise TemposeError" in path.read_text(encoding="utf-8")] == []
