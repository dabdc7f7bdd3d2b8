"""``tempose demo``."""

from __future__ import annotations

import argparse
from importlib import resources

from tempose.cli import console


def run(arguments: argparse.Namespace) -> int:
    """Solve the bundled example."""
    from tempose.cli.solve import solve_and_write
    from tempose.io import read_graph

    folder = resources.files("tempose") / "examples"
    with resources.as_file(folder / "sphere.g2o") as path, resources.as_file(folder / "sphere.truth.g2o") as truth:
        console.say(
            arguments, "A robot circled a sphere and measured its own motion with 5° and 0.05 units of noise per step:"
        )
        return solve_and_write(arguments, read_graph(path), truth, {"seed": arguments.seed, "draws": 2000})
