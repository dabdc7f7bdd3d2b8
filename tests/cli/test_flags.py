"""Flags are made from the option objects, and make them again."""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from typing import Any

import pytest

from tempose._support.options import shown_options
from tempose.cli.flags import NESTED, add_options, flag, solve_options
from tempose.cli.parser import build_parser
from tempose.errors import OptionError
from tempose.io.options import ReadOptions
from tempose.optimum.options import OPTIMISERS, Newton, TgMcmc
from tempose.options import SolveOptions
from tempose.outliers.options import Robust
from tempose.sampling.options import KINDS, Auto, Collapsed, Geodesic

PAPER_LIKE = SolveOptions(
    noise="paper",
    start="random",
    optimiser=TgMcmc(scheme_noise="paper", friction=1000.0, coordinates="paper", mass="identity", steps=800),
    draws=40,
    chains=1,
    sampler=Geodesic(scheme="boa", scheme_noise="paper", friction=1000.0, thin=10, warmup=100),
)


def parse(*arguments: str) -> argparse.Namespace:
    return build_parser().parse_args(["solve", "g.g2o", "-o", "out", *arguments])


def options(*arguments: str, base: SolveOptions | None = None) -> SolveOptions:
    return solve_options(parse(*arguments), base or SolveOptions())


def all_kinds() -> list[type]:
    return [SolveOptions, ReadOptions, Robust, TgMcmc, *KINDS]


def test_every_option_of_every_object_has_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        build_parser().parse_args(["solve", "--help-all"])
    assert exit_.value.code == 0
    told = capsys.readouterr().out
    for kind in all_kinds():
        for name in shown_options(kind):
            assert f" {'--optimise-steps' if (kind, name) == (TgMcmc, 'steps') else flag(kind, name)}" in told, name


def test_every_option_that_is_an_object_is_known_to_the_flags() -> None:
    plain = ("int", "float", "str", "bool")
    objects = [one.name for one in fields(SolveOptions) if str(one.type).split(" |")[0] not in plain]
    assert sorted(objects) == sorted(NESTED)


def test_nothing_given_changes_nothing() -> None:
    assert options() == SolveOptions()
    assert options(base=PAPER_LIKE) == PAPER_LIKE


# by flag: what to write, what else it needs, and where it must arrive
VALUES: dict[str, tuple[list[str], list[str], Any]] = {
    "--noise": (["auto"], [], lambda o: o.noise == "auto"),
    "--edge-errors": (["shared"], [], lambda o: o.edge_errors == "shared"),
    "--scale": (["always"], [], lambda o: o.scale == "always"),
    "--robust": ([], [], lambda o: o.robust == Robust()),
    "--inlier-probability": (["0.7"], ["--robust"], lambda o: o.robust == Robust(inlier_probability=0.7)),
    "--tail": (["4.5"], ["--robust"], lambda o: o.robust == Robust(tail=4.5)),
    "--trust-odometry": (["0.9"], ["--robust"], lambda o: o.robust == Robust(trust_odometry=0.9)),
    "--trust-ids": (
        ["3:8"],
        ["--robust", "--trust-odometry", "0.9"],
        lambda o: o.robust == Robust(trust_odometry=0.9, trust_ids="3:8"),
    ),
    "--repeats": (["independent"], ["--robust"], lambda o: o.robust == Robust(repeats="independent")),
    "--start": (["spectral"], [], lambda o: o.start == "spectral"),
    "--starts": (["7"], [], lambda o: o.starts == 7),
    "--optimiser": (["both"], [], lambda o: o.optimiser == TgMcmc(then_newton=True)),
    "--optimise-steps": (["33"], ["--optimiser", "tg-mcmc"], lambda o: o.optimiser == TgMcmc(steps=33)),
    "--anneal": (
        ["1:20,10:30"],
        ["--optimiser", "tg-mcmc"],
        lambda o: o.optimiser == TgMcmc(anneal=((1.0, 20), (10.0, 30))),
    ),
    "--certify": ([], [], lambda o: o.certify is True),
    "--draws": (["12"], [], lambda o: o.draws == 12),
    "--chains": (["3"], [], lambda o: o.chains == 3),
    "--beta": (["2.5"], [], lambda o: o.beta == 2.5),
    "--sampler": (["collapsed"], [], lambda o: o.sampler == Collapsed()),
    "--thin": (["5"], [], lambda o: o.sampler == Auto(thin=5)),
    "--warmup": (["6"], [], lambda o: o.sampler == Auto(warmup=6)),
    "--scheme": (["aboba"], [], lambda o: o.sampler == Geodesic(scheme="aboba")),
    "--scheme-noise": (["euler"], [], lambda o: o.sampler == Geodesic(scheme_noise="euler", letters=None)),
    "--letters": (["paper"], [], lambda o: o.sampler == Geodesic(letters="paper")),
    "--step": (["0.01"], [], lambda o: o.sampler == Geodesic(step=0.01)),
    "--friction": (["9"], [], lambda o: o.sampler == Geodesic(friction=9.0)),
    "--batch": (["8"], [], lambda o: o.sampler == Geodesic(batch=8)),
    "--coordinates": (["paper"], [], lambda o: o.sampler == Geodesic(coordinates="paper")),
    "--mass": (["identity"], [], lambda o: o.sampler == Geodesic(mass="identity")),
    "--gauge": (["node:3"], [], lambda o: o.gauge == "node:3"),
    "--seed": (["11"], [], lambda o: o.seed == 11),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_value_of_a_flag_arrives(name: str) -> None:
    value, needs, arrived = VALUES[name]
    assert arrived(options(*needs, name, *value))


def test_all_flags_are_tried_above() -> None:
    parser = argparse.ArgumentParser()
    parser.rare, parser.words = [], {}  # type: ignore[attr-defined]
    add_options(parser, {"noise": "all"})  # type: ignore[arg-type]
    flags = {name for name in parser._option_string_actions if not name.startswith(("--no-", "--help", "-h"))}
    assert flags == set(VALUES)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_and_every_sampler_can_be_named(name: str) -> None:
    assert isinstance(options("--optimiser", name).optimiser, Newton if name == "newton" else TgMcmc)
    for kind in KINDS:
        assert type(options("--sampler", kind.name, "--thin", "2").sampler) is kind


def test_flags_can_be_taken_back() -> None:
    assert options("--no-certify").certify is False
    assert options("--no-robust", base=SolveOptions(robust=Robust(tail=3.0))).robust is None


def test_odometry_is_trusted_without_a_number() -> None:
    assert options("--robust", "--trust-odometry").robust == Robust(trust_odometry=0.99)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tail", "3"], "--tail: only with --robust"),
        (["--inlier-probability", "0.5", "--no-robust"], "--inlier-probability: only with --robust"),
        (["--sampler", "collapsed", "--scheme", "boa"], "--scheme: for the sampler geodesic only, not for collapsed"),
        (["--anneal", "1:2"], "--anneal: only with --optimiser tg-mcmc or both"),
        (["--optimise-steps", "2"], "--optimise-steps: only with"),
        (["--scheme", "xyz"], "letters A, B and O"),
        (["--beta", "-1"], "beta must be positive"),
        (["--robust", "--optimiser", "both"], "optimiser newton"),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_words_of_the_command_line(
    arguments: list[str], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        options(*arguments)


@pytest.mark.parametrize("arguments", [["--tail", "heavy"], ["--anneal", "1-2"], ["--start", "moon"], ["--thin", "x"]])
def test_values_that_cannot_be_read_are_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(*arguments)
    assert exit_.value.code == 2
    assert f"tempose solve: {arguments[0]}: " in capsys.readouterr().err


def test_what_is_given_changes_a_preset_and_nothing_else() -> None:
    found = options("--friction", "500", "--batch", "4", "--seed", "3", base=PAPER_LIKE)
    assert isinstance(PAPER_LIKE.optimiser, TgMcmc)
    assert found == replace(
        PAPER_LIKE,
        seed=3,
        sampler=replace(PAPER_LIKE.sampler, friction=500.0, batch=4),  # type: ignore[call-arg]
        optimiser=replace(PAPER_LIKE.optimiser, friction=500.0, batch=4),
    )
    # another scheme is one of the draws: the descent stays the paper's
    found = options("--scheme", "baoab", "--scheme-noise", "exact", base=PAPER_LIKE)
    assert found.optimiser == PAPER_LIKE.optimiser
    # the optimiser keeps the preset's numbers under its other name
    assert options("--optimiser", "both", base=PAPER_LIKE).optimiser == replace(PAPER_LIKE.optimiser, then_newton=True)
    assert options("--sampler", "collapsed", base=PAPER_LIKE).sampler == Collapsed()


def test_a_descent_has_a_step_and_a_friction_of_its_own() -> None:
    found = options("--optimiser", "tg-mcmc", "--step", "0.1", "--friction", "2", "--batch", "4")
    assert found.optimiser == TgMcmc(batch=4)
    assert found.sampler == Geodesic(step=0.1, friction=2.0, batch=4)
    alone = options("--optimiser", "tg-mcmc", "--batch", "4")  # no reason to leave the exact sampler
    assert alone.optimiser == TgMcmc(batch=4) and alone.sampler == Auto()
