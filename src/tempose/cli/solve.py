"""``tempose solve``."""

from __future__ import annotations

import argparse
import signal
import threading
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tempose.cli import console
from tempose.optimum.options import TgMcmc, optimiser_named
from tempose.options import SolveOptions
from tempose.outliers.options import Robust
from tempose.sampling.options import sampler_named

if TYPE_CHECKING:
    from tempose.model.graph import PoseGraph

_OPTIONS = (
    "robust", "noise", "inlier_probability", "tail", "trust_odometry",
    "start", "optimiser", "certify", "optimise_steps", "anneal", "draws", "chains", "beta", "sampler", "scheme",
    "scheme_noise", "letters", "step", "friction", "thin", "warmup", "batch", "gauge", "starts", "seed",
)  # fmt: skip


_SAMPLER = ("scheme", "scheme_noise", "letters", "step", "friction", "batch", "thin", "warmup")


def run(arguments: argparse.Namespace) -> int:
    """Read, solve, write the directory, print a summary."""
    graph = console.read_graph(arguments)
    given = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name, None) is not None}
    return solve_and_write(arguments, graph, arguments.truth, given)


def solve_and_write(
    arguments: argparse.Namespace, graph: PoseGraph, truth_path: str | Path | None, given: dict[str, Any]
) -> int:
    """Solve a graph into ``arguments.output``; shared with the demo."""
    from tempose.io import read_poses
    from tempose.report.solution_page import write_report
    from tempose.solver import solve

    options = nested_options(getattr(arguments, "preset", "default"), given)
    truth = None if truth_path is None else read_poses(truth_path)
    home = Path(arguments.output)
    prepare_directory(home, getattr(arguments, "overwrite", False))
    stop = threading.Event()
    with console.progress_bar(arguments) as progress, _interruptible(stop):
        solution = solve(graph, options, directory=home, progress=progress, stop=stop)
    console.notice(arguments, *solution.notices)
    solution.save(home)
    if not getattr(arguments, "no_report", False):
        write_report(home / "report.html", solution, truth)
    console.say(arguments, solution.summary())
    if truth is not None:
        from tempose.analysis.accuracy import pose_errors

        errors = pose_errors(solution.estimate, truth)
        # the truth of rotations may have positions, but nothing here could find them
        shift = f" and {errors.mean_translation:.4g}" if graph.has_translation.any() else ""
        console.say(
            arguments,
            f"error to the truth: mean {errors.mean_rotation_deg:.4g}°{shift} (SE(3) alignment)",
        )
    page = "" if getattr(arguments, "no_report", False) else f"; look at {home / 'report.html'}"
    console.say(arguments, f"written to {home}{page}")
    console.emit(arguments, solution.facts())
    if solution.status == "interrupted":
        kept = solution.draws.n_draws if solution.draws is not None else 0
        console.say(arguments, f"interrupted: {kept} draws are kept; the same command goes on from here")
        return 1
    return 0


def nested_options(preset: str, given: dict[str, Any]) -> SolveOptions:
    """Options from the flat ones of the command line."""
    from tempose import paper
    from tempose.errors import OptionError

    base = paper.preset() if preset == "paper" else SolveOptions()
    flat = dict(given)
    robust = {k: flat.pop(k) for k in ("inlier_probability", "tail", "trust_odometry") if k in flat}
    if robust and not flat.get("robust"):
        raise OptionError(f"{', '.join(robust)}: only with robust")
    if flat.get("robust"):
        flat["robust"] = Robust(**robust)
    own = {k: flat.pop(k) for k in _SAMPLER if k in flat}
    foreign = [k for k in own if k not in ("thin", "warmup")]
    name = flat.pop("sampler", "geodesic" if foreign else base.sampler.name)
    flat["sampler"] = replace(base.sampler, **own) if name == base.sampler.name else sampler_named(name, **own)
    steps = {k: flat.pop(old) for k, old in (("steps", "optimise_steps"), ("anneal", "anneal")) if old in flat}
    optimiser = optimiser_named(flat.pop("optimiser")) if "optimiser" in flat else base.optimiser
    if isinstance(optimiser, TgMcmc):
        both = {k: own[k] for k in ("step", "friction", "batch") if k in own and preset == "paper"}
        optimiser = replace(optimiser, **steps, **both)
    return base.changed(**flat, optimiser=optimiser)


def prepare_directory(home: Path, overwrite: bool) -> None:
    """Make the output directory, or empty it of an earlier solve; never touch a directory that is not ours."""
    from tempose.errors import FileError
    from tempose.io.result_directory import discard

    try:
        if home.exists() and not home.is_dir():
            raise FileError(f"{home} is a file; give a directory to -o")
        if overwrite and (home / "draws" / "draws.json").exists():
            discard(home)
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot write to {home}: {error.strerror}") from None


class _interruptible:  # noqa: N801
    """Within, the first Ctrl-C asks the run to end after the current draw; the second ends it at once."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop

    def __enter__(self) -> None:
        self.before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._ask)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.stop.set()
        signal.signal(signal.SIGINT, self.before)

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self.before)
