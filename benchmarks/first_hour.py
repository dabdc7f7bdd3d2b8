"""Four first walks of new users, timed: every command of them, with nothing compiled yet.

    python benchmarks/first_hour.py [--photographs FOLDER] [--install]

Each walk starts as right after installation: kernels are compiled into a folder of its own. ``--install`` makes a virtual
environment, installs the project there, and takes that. Printed are seconds of the clock and of the processor, which differ where
others work, too.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent


class Walk:
    """Commands one after the other in a folder of their own."""

    def __init__(self, python: Path, name: str) -> None:
        self.python, self.folder = python, Path(tempfile.mkdtemp(prefix="first-hour-"))
        self.wall = self.cpu = 0.0
        print(f"\n{name}", flush=True)

    def run(self, command: str) -> str:
        """Run a command, print how long it took, and return what it said; one that fails ends everything."""
        words = shlex.split(command)
        real = [str(self.python), *(["-m", "tempose", *words[1:]] if words[0] == "tempose" else words[1:])]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(self.folder / "kernels")}
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(real, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall = time.perf_counter() - began
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.wall, self.cpu = self.wall + wall, self.cpu + cpu
        print(f"{wall:8.1f} s {cpu:8.1f} s of processor   {command}", flush=True)
        if done.returncode:
            sys.exit(f"exit code {done.returncode}: {done.stderr}")
        return done.stdout

    def end(self, answer: str) -> None:
        """What came of it."""
        print(f"{self.wall / 60:8.1f} min {self.cpu / 60:6.1f} min of processor   {answer}", flush=True)


def next_command(said: str) -> str:
    """The command that the last lines of a solve, or of info, suggest."""
    return next(
        line.partition(": ")[2]
        for line in reversed(said.splitlines())
        if line.startswith(("next: tempose", "may help: "))
    )


def main() -> None:
    """Walk."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--photographs", type=Path, help="a folder of photographs; without it the second walk is left out"
    )
    parser.add_argument("--install", action="store_true", help="in a new virtual environment")
    arguments = parser.parse_args()
    python = Path(sys.executable)
    if arguments.install:
        home = Path(tempfile.mkdtemp(prefix="first-hour-env-"))
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        python = home / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "-q", f"{HOME}[plot,sfm]"], check=True)
        print(f"installed in {time.perf_counter() - began:.0f} s")

    walk = Walk(python, "a g2o file with wrong loops")
    walk.run("tempose simulate --planar --shape manhattan --nodes 100 --wrong-loops 0.2 --seed 3 -o g.g2o")
    first = next_command(walk.run("tempose info g.g2o"))
    said = walk.run(first)
    if "next: tempose" in said:
        said = walk.run(next_command(said))
    walk.end(said.splitlines()[0])

    if arguments.photographs is not None:
        walk = Walk(python, "photographs")
        said = walk.run(f"tempose sfm {shlex.quote(str(arguments.photographs.resolve()))} -o scene")
        walk.end(said.splitlines()[0])

    walk = Walk(python, "a figure of the paper")
    walk.run("tempose experiment --help")
    said = walk.run("tempose experiment temperature --quick -o temperature")
    walk.end(said.splitlines()[0])

    walk = Walk(python, "Python, as in a notebook")
    said = walk.run(f"python {HOME / 'examples' / '05_tables_and_draws.py'}")
    walk.end(said.splitlines()[0])


if __name__ == "__main__":
    main()
