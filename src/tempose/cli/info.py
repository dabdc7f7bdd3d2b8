"""``tempose info``."""

from __future__ import annotations

import argparse

from tempose.cli import console
from tempose.cli.commands import Commands, add_command, add_graph
from tempose.cli.inputs import add_reading, read_graph


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose info``."""
    parser = add_command(commands, "info", summary, run, "tempose info graph.g2o")
    add_graph(parser)
    add_reading(parser)


def run(arguments: argparse.Namespace) -> int:
    """Describe a graph."""
    from tempose.analysis.overview import contents, overview
    from tempose.outliers.search.triangles import cycle_facts

    graph = read_graph(arguments)
    facts = {**overview(graph), **cycle_facts(graph)}
    console.notice(arguments, *graph.notices)
    absent = {name for name, value in contents(graph).items() if not value}  # not everybody has landmarks
    shown = [(name.replace("_", " "), _words(value)) for name, value in facts.items() if name not in absent]
    console.table(arguments, shown, arguments.graph)
    console.emit(arguments, {**facts, "notices": list(graph.notices)})
    return 0


def _words(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return (", ".join(_words(v) for v in value[:8]) + (", …" if len(value) > 8 else "")) if value else "none"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_words(v)}" for k, v in value.items())
    return "–" if value is None else str(value)
