"""``tempose solve``."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from tempose._support.cluster import workers
from tempose._support.parallel import cores
from tempose._support.progress import Progress
from tempose.cli import console
from tempose.cli.commands import Commands, add_command, add_graph, add_open, add_workers
from tempose.cli.flags import add_options, given, solve_options
from tempose.cli.inputs import SolveInput, add_reading, read_record
from tempose.errors import OptionError, TemposeError
from tempose.io.options import ReadOptions
from tempose.options import SolveOptions

if TYPE_CHECKING:
    from tempose.analysis.trust import Judgement
    from tempose.model.graph import PoseGraph
    from tempose.model.poses import Poses
    from tempose.solution import Solution

HEADINGS = {"noise": "noise and wrong edges", "start": "optimum", "draws": "draws and error bars"}


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose solve``."""
    parser = add_command(
        commands,
        "solve",
        summary,
        run,
        """
        tempose solve graph.g2o -o result
        tempose solve graph.g2o -o result --draws 2000 --gauge centroid --seed 7
        tempose solve graph.g2o -o result --robust --noise auto
        tempose solve graph.g2o -o result --gps fixes.csv
        tempose solve monday.g2o tuesday.g2o -o week --jobs 2
        tempose solve graph.g2o -o result --cluster tcp://head:8786
        tempose solve graph.g2o -o paper --preset paper
        tempose solve --config result/result.json -o again
        """,
        usage="GRAPH -o DIR [options]",
        has_rare=True,
    )
    add_graph(parser, nargs="*")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="DIR",
        help="directory to write; a run that was stopped there is continued",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="discard what another run left in DIR; write among other files"
    )
    parser.add_argument("--truth", metavar="FILE", help="true poses, to show errors in the report")
    parser.add_argument("--no-report", action="store_true", help="do not write report.html")
    add_open(parser)
    parser.add_argument(
        "--preset",
        choices=["default", "paper"],
        help="default: right draws, automatic step; paper: the paper's scheme as printed",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="repeat the solve of this result.json: its graph and its options, but for those given here",
    )
    add_options(parser, HEADINGS)
    add_reading(parser)
    add_workers(parser, "several graphs at once, each into DIR/NAME; with --cluster also the chains of one")


def run(arguments: argparse.Namespace) -> int:
    """Read, solve, write the directory, print a summary; of several graphs a line each."""
    graphs: list[str] = arguments.graph
    if len(graphs) > 1:
        return _run_many(arguments, graphs)
    arguments.graph = graphs[0] if graphs else None
    task = _task(arguments)
    with workers(arguments.cluster) as executor:
        return solve_and_write(arguments, *task, executor)


def _run_many(arguments: argparse.Namespace, graphs: list[str]) -> int:
    """Several graphs, on processes of this machine or on a cluster; one that cannot be solved does not stop the others."""
    from tempose._support.parallel import work_off

    for name in ("truth", "config", "gps", "open"):
        if getattr(arguments, name):
            raise OptionError(f"--{name} is for one graph; {len(graphs)} were given")
    homes = {str(Path(arguments.output) / _name(graph)): graph for graph in graphs}
    if len(homes) < len(graphs):
        names = [_name(graph) for graph in graphs]
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(f"two of the graphs are called {twice!r}, and would be written to one directory; rename one")
    asked = {**vars(arguments), "quiet": True, "json": False, "cluster": None, "jobs": None}
    solved: dict[str, tuple[int, str]] = {}
    with workers(arguments.cluster) as executor, console.progress_bar(arguments) as progress:
        progress(Progress("graphs", 0, len(homes)))
        alone = functools.partial(_solve_one, asked)
        for (home, graph), outcome in work_off(alone, homes.items(), arguments.jobs, executor):
            solved[home] = outcome
            console.whisper(arguments, f"{graph}: {outcome[1]}")
            progress(Progress("graphs", len(solved), len(homes)))
    console.table(arguments, [(home, solved[home][1]) for home in homes])
    console.emit(arguments, {home: {"graph": homes[home], "said": solved[home][1]} for home in homes})
    return max(code for code, _ in solved.values())


def _name(graph: str) -> str:
    """What a graph's directory is called: its file without endings."""
    return Path(graph).name.partition(".")[0] or Path(graph).name


def _solve_one(asked: dict[str, Any], task: tuple[str, str]) -> tuple[int, str]:
    """Solve one of several graphs; the exit code, and what there is to say in one line."""
    home, graph = task
    try:
        code = run(argparse.Namespace(**{**asked, "output": home, "graph": [graph]}))
    except TemposeError as error:
        return 1, str(error)
    facts = json.loads((Path(home) / "result.json").read_text(encoding="utf-8"))
    return code, str(facts["headline"])


def _task(arguments: argparse.Namespace) -> tuple[SolveInput, SolveOptions]:
    """What to solve and how: as given, else as recorded in ``--config``, else as usual."""
    base, recorded = SolveOptions(), None
    if arguments.config is not None:
        if arguments.preset is not None:
            raise OptionError("--preset and --config both say what all options are: give one of them")
        base, recorded = read_record(Path(arguments.config))
    elif arguments.preset == "paper":
        from tempose import paper

        base = paper.preset()
    options = solve_options(arguments, base)
    return _source(arguments, recorded, options.noise), options


def _source(arguments: argparse.Namespace, recorded: SolveInput | None, noise: str) -> SolveInput:
    reading = {**({} if recorded is None else recorded.reading), **given(arguments, ReadOptions)}
    reading["noise"] = "auto" if noise == "auto" else "given"  # what will be estimated need not be in the file
    if arguments.graph is not None:  # a truth or a format on record would be those of another file
        return SolveInput(arguments.graph, reading, arguments.format, arguments.truth, arguments.gps)
    if recorded is None:
        raise OptionError("give a graph to solve: tempose solve GRAPH -o DIR (or --config FILE that names one)")
    return replace(
        recorded,
        reading=reading,
        format=arguments.format or recorded.format,
        truth=arguments.truth or recorded.truth,
        gps=arguments.gps or recorded.gps,
    )


def solve_and_write(
    arguments: argparse.Namespace, source: SolveInput, options: SolveOptions, executor: Executor | None = None
) -> int:
    """Solve a graph into ``arguments.output``, chains on an executor if there is one; shared with the demo."""
    from tempose.io import read_poses

    graph = source.read()
    truth = None if source.truth is None else read_poses(source.truth)
    if truth is not None and not any(name in truth for name in graph.reported):
        first, other = (", ".join(map(str, ids[:3])) for ids in (graph.reported, truth.ids))
        raise OptionError(
            f"--truth {source.truth}: has no node of the graph (the graph has {first}, …, the truth {other}, …); solve without "
            "it: tempose eval matches poses by time"
        )
    if getattr(arguments, "no_report", False) and arguments.open:
        raise OptionError("--open shows the report that --no-report leaves out: give one of them")
    if not arguments.output:
        raise OptionError("-o needs the name of a directory")
    home, overwrite = Path(arguments.output), getattr(arguments, "overwrite", False)
    _refuse_foreign(home, overwrite)
    with prepared_directory(home, overwrite):
        return _solve_and_write(arguments, source, options, graph, truth, executor)


def _solve_and_write(
    arguments: argparse.Namespace,
    source: SolveInput,
    options: SolveOptions,
    graph: PoseGraph,
    truth: Poses | None,
    executor: Executor | None,
) -> int:
    from tempose._support.compiling import compiling_ahead

    home = Path(arguments.output)
    stop = threading.Event()
    record = {"input": source.facts()}

    def write(solution: Solution) -> None:
        progress(Progress("writing", 0, 2))
        solution.save(home, record=record)
        if not getattr(arguments, "no_report", False):
            from tempose.report.solution_page import write_report

            progress(Progress("writing", 1, 2))
            write_report(home / "report.html", solution, truth)
        progress(Progress("writing", 2, 2))

    def first_answer(solution: Solution) -> bool:
        """Show and write what is known before any draws are made; whether to make them."""
        from tempose import describe
        from tempose.sampling.draws import room_for

        console.whisper(arguments, f"so far: {solution.headline}", *solution.error_bar_lines())
        goes_on = _draws_are_asked_for(arguments) or not solution.judgement.noise_is_far_off
        write(replace(solution, notices=(*solution.notices, describe.BEFORE_DRAWS)) if goes_on else solution)
        if goes_on:
            page = "" if getattr(arguments, "no_report", False) else f"{home / 'report.html'} is written; "
            needed = room_for(home / "draws", graph.n_nodes, options.draws)
            console.whisper(arguments, *describe.room_for_draws(options.draws, needed))
            console.whisper(arguments, f"{page}{options.draws} draws will refine it")
        return goes_on

    with console.progress_bar(arguments) as progress:
        with _interruptible(stop), compiling_ahead(_needed_later(graph, options)):
            from tempose.solver import solve

            solution = solve(
                graph,
                options,
                directory=home,
                progress=progress,
                stop=stop,
                on_optimum=first_answer,
                executor=executor,
            )
        write(solution)
    console.notice(arguments, *solution.notices)
    if solution.status == "optimised":
        from tempose import describe

        console.notice(arguments, describe.NOT_DRAWN)
    console.say(arguments, solution.summary())
    if truth is not None:
        from tempose.analysis.accuracy import pose_errors

        kinds = {"se3": "SE(3) alignment", **({"none": "no alignment"} if solution.gauge.kind == "world" else {})}
        for kind, words in kinds.items():
            errors = pose_errors(solution.poses, truth, kind, landmarks=graph.landmarks)
            # the truth of rotations may have positions, but nothing here could find them
            shift = f" and {errors.mean_translation:.4g}" if graph.has_translation.any() else ""
            console.say(arguments, f"error to the truth: mean {errors.mean_rotation_deg:.4g}°{shift} ({words})")
    page = "" if getattr(arguments, "no_report", False) else f"; look at {home / 'report.html'}"
    console.say(arguments, f"written to {home}{page}", *_next(arguments, solution.judgement))
    console.emit(arguments, {**solution.facts(), **record})
    console.open_page(arguments, home / "report.html")
    if solution.status == "interrupted":
        kept = solution.draws.n_draws if solution.draws is not None else 0
        console.say(arguments, f"interrupted: {kept} draws are kept; the same command goes on from here")
        return 1
    return 0


def _draws_are_asked_for(arguments: argparse.Namespace) -> bool:
    """Whether the number of draws is somebody's wish, not the default."""
    return any(getattr(arguments, name, None) is not None for name in ("draws", "config", "preset"))


def _next(arguments: argparse.Namespace, judgement: Judgement) -> list[str]:
    """The command to try next: this one with other options, into a directory of its own."""
    options = judgement.options
    words: list[str] = getattr(arguments, "words", [])
    if not options or words[:1] != ["solve"]:
        return []
    at = next((k for k, word in enumerate(words) if word in ("-o", "--output")), None)
    if at is None:  # written as -oDIR or --output=DIR
        return []
    named = {word for word in options if word.startswith("--")}
    kept, skip = [], False
    for k, word in enumerate(words):
        if skip:
            skip = False
        elif k == at + 1:
            kept.append(f"{word.rstrip('/')}-2")
        elif word in named:  # what it was told before is replaced
            skip = k + 1 < len(words) and not words[k + 1].startswith("-")
        else:
            kept.append(word)
    how = "next" if judgement.surely_helps else "may help"
    return [f"{how}: {shlex.join(['tempose', *kept, *options])}"]


def _needed_later(graph: PoseGraph, options: SolveOptions) -> list[str]:
    """What to compile in another process while the optimum is sought: kernels of the draws, on first use, if there is a core."""
    usual = options.sampler.name in ("auto", "collapsed") and options.robust is None
    simple = graph.is_isotropic and graph.arm is None
    if console.compiled_before() or cores() == 1 or not (options.draws and usual and simple):
        return []
    return [f"tempose.sampling.ahead:compile_in_{'the_plane' if graph.is_planar else 'space'}"]


def _refuse_foreign(home: Path, overwrite: bool) -> None:
    """Leave a directory alone that holds somebody else's files."""
    from tempose.errors import FileError

    foreign = sorted(file.name for file in home.glob("[!.]*")) if home.is_dir() and not overwrite else []
    if foreign and not {"result.json", "draws"} & set(foreign):
        raise FileError(
            f"{home} has files that are not of a result ({foreign[0]}{', …' * (len(foreign) > 1)}); give another directory to -o, "
            "or --overwrite to write among them"
        )


@contextmanager
def prepared_directory(home: Path, overwrite: bool) -> Iterator[None]:
    """Make the output directory, or empty it of an earlier solve, and keep other runs out of it; touch nothing that is not ours."""
    from tempose._support.files import at_work_in, reason
    from tempose.errors import FileError
    from tempose.io.result_directory import discard_tables
    from tempose.sampling.draws import discard_draws

    if home.exists() and not home.is_dir():
        raise FileError(f"{home} is a file; give a directory to -o")
    with at_work_in(home):
        if overwrite and any((home / name).exists() for name in ("result.json", "draws/draws.json")):
            try:
                discard_tables(home)
                discard_draws(home / "draws")
            except OSError as error:
                raise FileError(f"{home}: what is there cannot be discarded: {reason(error)}") from None
        yield


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
