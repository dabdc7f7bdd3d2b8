"""``tempose info``."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from tempose.cli import console
from tempose.cli.commands import Commands, add_command, add_graph
from tempose.cli.inputs import add_reading, read_graph


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose info``."""
    parser = add_command(commands, "info", summary, run, "tempose info graph.g2o\ntempose info graph.g2o --all")
    add_graph(parser)
    parser.add_argument("--all", action="store_true", help="every count and number, as in --json")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> int:
    """Describe a graph."""
    from tempose import describe
    from tempose.analysis.overview import contents, overview, suggested
    from tempose.io.files import holds_no_edges
    from tempose.outliers.search.skeleton import skeleton
    from tempose.outliers.search.triangles import cycle_facts
    from tempose.outliers.sequence import Sequence

    if arguments.format is None and holds_no_edges(arguments.graph, to_read=True):
        return _poses(arguments)
    graph = read_graph(arguments)
    facts = {**overview(graph), **cycle_facts(graph)}
    sequence = Sequence.of(skeleton(graph).graph)
    options = suggested(facts, is_sequence=sequence is not None)
    home = Path(arguments.graph).stem
    command = shlex.join(["tempose", "solve", arguments.graph, "-o", f"{home}-result", *options])
    console.notice(arguments, *graph.notices)
    if arguments.all:
        absent = {name for name, value in contents(graph).items() if not value}  # not everybody has landmarks
        shown = [(name.replace("_", " "), _words(value)) for name, value in facts.items() if name not in absent]
        console.table(arguments, shown, arguments.graph)
    elif not arguments.json:
        links = 0 if sequence is None else int(sequence.is_link.sum())
        console.say(arguments, arguments.graph, *(f"  {line}" for line in describe.first_look(graph, facts, links)))
        console.say(arguments, *_solved(Path(arguments.graph)))
        console.say(arguments, f"next: {command}")
    console.emit(arguments, {**facts, "next": command, "notices": list(graph.notices)})
    return 0


def _poses(arguments: argparse.Namespace) -> int:
    """Describe poses that come without edges: a trajectory, or a model of COLMAP's."""
    from tempose import describe
    from tempose.analysis.overview import of_poses
    from tempose.io.files import read_poses, time_stamps

    poses = read_poses(arguments.graph)
    facts = of_poses(poses, time_stamps(arguments.graph, poses))
    if not arguments.json:
        console.say(arguments, arguments.graph, *(f"  {line}" for line in describe.poses_alone(facts)))
    console.emit(arguments, facts)
    return 0


def _solved(home: Path) -> list[str]:
    """What a solve has said of its result, if this is the directory of one."""
    from tempose.io.result_directory import read_facts

    if not (home / "result.json").is_file():
        return []
    found = read_facts(home)
    return [f"  solved already: {found.get('headline', found.get('status'))}"]


def _words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return (", ".join(_words(v) for v in value[:8]) + (", …" if len(value) > 8 else "")) if value else "none"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_words(v)}" for k, v in value.items())
    return "–" if value is None else str(value)
