"""``tempose demo``."""

from __future__ import annotations

import argparse

from tempose.cli import console
from tempose.cli.commands import Commands, add_command, add_open
from tempose.cli.inputs import SolveInput
from tempose.cli.solve import solve_and_write
from tempose.options import SolveOptions


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose demo``."""
    parser = add_command(commands, "demo", summary, run, "tempose demo -o demo --open")
    parser.add_argument(
        "-o", "--output", default="tempose-demo", metavar="DIR", help="directory to write (default: tempose-demo)"
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same draws (default 0)")
    add_open(parser)


def run(arguments: argparse.Namespace) -> int:
    """Solve the bundled example."""
    from importlib import resources

    folder = resources.files("tempose") / "examples"
    with resources.as_file(folder / "sphere.g2o") as path, resources.as_file(folder / "sphere.truth.g2o") as truth:
        console.say(
            arguments, "A robot circled a sphere and measured its own motion with 5° and 0.05 units of noise per step:"
        )
        source = SolveInput(str(path), truth=str(truth))
        return solve_and_write(arguments, source, SolveOptions(seed=arguments.seed, draws=2000))
