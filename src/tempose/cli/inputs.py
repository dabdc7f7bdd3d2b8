"""What a command reads, and what ``result.json`` says of it, so that a solve can be repeated from its own result."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempose.cli.commands import CommandParser
from tempose.cli.flags import add_flags, given
from tempose.errors import OptionError, ParseError
from tempose.io.options import ReadOptions
from tempose.options import SolveOptions

if TYPE_CHECKING:
    from tempose.model.graph import PoseGraph


@dataclass(frozen=True)
class SolveInput:
    """A graph's file and how to understand it.

    Attributes
    ----------
    graph
        The file or folder.
    reading
        Options of :class:`tempose.io.ReadOptions`, by name.
    format
        Of the file, if it does not tell by itself.
    truth
        True poses, if there are any.
    gps
        A table of measured positions, if there is one.
    """

    graph: str
    reading: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None
    truth: str | None = None
    gps: str | None = None

    def read(self) -> PoseGraph:
        """The graph, with the measured positions."""
        from tempose.io import read_graph
        from tempose.io.gps import read_fixes, with_fixes

        graph = read_graph(self.graph, ReadOptions(**self.reading), self.format)
        return graph if self.gps is None else with_fixes(graph, read_fixes(self.gps))

    def facts(self) -> dict[str, Any]:
        """For ``result.json``: all reading options, and paths that hold in every working directory."""
        return {
            "graph": str(Path(self.graph).resolve()),
            "reading": asdict(ReadOptions(**self.reading)),
            "format": self.format,
            "truth": None if self.truth is None else str(Path(self.truth).resolve()),
            "gps": None if self.gps is None else str(Path(self.gps).resolve()),
        }


def add_reading(parser: CommandParser) -> None:
    """How a graph's file is to be understood."""
    group = parser.add_argument_group("reading the graph")
    add_flags(parser, group, ReadOptions)
    group.add_argument(
        "--gps",
        metavar="FILE",
        help="measured positions of nodes: a table id,x,y,z,sigma or id,lat,lon,height,sigma_h,sigma_v",
    )
    group.add_argument(
        "--format", help="format of the file, if its name does not tell: g2o, csv, toro, pyfg, open3d, 3dmatch, …"
    )


def read_graph(arguments: argparse.Namespace) -> PoseGraph:
    """The command's graph, read with its reading options."""
    return SolveInput(arguments.graph, given(arguments, ReadOptions), arguments.format, gps=arguments.gps).read()


def read_record(path: Path) -> tuple[SolveOptions, SolveInput | None]:
    """Options and input of a solve, from its ``result.json`` or the directory of it."""
    file = path / "result.json" if path.is_dir() else path
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        options, source = SolveOptions.from_dict(facts["options"]), facts.get("input")
        if source is None:
            return options, None
        found = SolveInput(**source)
        ReadOptions(**found.reading)
        if not isinstance(found.graph, str):
            raise TypeError("a path is text")
        return options, found
    except OSError as error:
        raise ParseError(
            file, None, f"cannot be read: {error.strerror}; --config takes the result.json of a solve"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ParseError(file, None, "is not the result.json of a solve of this version") from None
    except OptionError as error:
        raise ParseError(file, None, str(error)) from None
