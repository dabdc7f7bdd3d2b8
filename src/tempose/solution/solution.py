"""The result of a solve: what it can be asked, its words, its numbers and its files."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempose import describe
from tempose._support.files import at_work_in
from tempose._support.packages import require
from tempose.analysis.export import to_arviz
from tempose.errors import DrawsError, printable
from tempose.io.result_directory import with_poses
from tempose.solution import facts, files, words
from tempose.solution.answers import Answers


@dataclass(frozen=True, eq=False, repr=False)
class Solution(Answers):
    """Best poses of a graph and what is known about their uncertainty.

    Its attributes, and what it can be asked, are those of :class:`tempose.solution.answers.Answers`.
    """

    @property
    def headline(self) -> str:
        """The first line of :meth:`summary`: whether to trust the result, and the one reason that matters most."""
        return words.headline(self)

    def summary(self) -> str:
        """A few lines for people."""
        return "\n".join(map(printable, words.summary_lines(self)))

    def error_bar_lines(self) -> list[str]:
        """The lines of :meth:`summary` about error bars; each mode for itself, since nothing is averaged across them."""
        return words.error_bar_lines(self)

    def facts(self) -> dict[str, Any]:
        """The content of ``result.json``."""
        return facts.facts(self)

    # ------------------------------------------------------------------ files

    def save(self, directory: str | Path, *, bare: bool = False, record: Mapping[str, Any] | None = None) -> Path:
        """Write the result (:mod:`tempose.io.result_directory`); ``bare``: only what a run that goes on needs.

        ``record`` is kept in ``result.json`` as well, for instance what file the graph was read from.

        The draws are in ``DIR/draws`` already if the solve was given this directory, else they are copied there. A directory
        that holds draws of another solve is refused.
        """
        with at_work_in(directory) as home:
            return files.save(self, home, bare=bare, record=record or {})

    @classmethod
    def load(cls, directory: str | Path) -> Solution:
        """Reload a saved solution: estimate, draws and settings. What the draws say is computed when asked for."""
        return cls(**files.stored_fields(directory))

    # ------------------------------------------------------------------ for other programs

    def to_arviz(self) -> Any:
        """The draws as an ArviZ object, in the solution's gauge; see :func:`tempose.analysis.export.to_arviz`."""
        if self.draws is None:
            raise DrawsError("this solution has no draws to export")
        return to_arviz(self.draws, self.estimate, self.gauge)

    def to_pandas(self) -> Any:
        """The nodes as a pandas table, a row each: the columns of ``poses.csv``, indexed by id."""
        pandas = require("pandas", "tables")
        header, columns = with_poses(self.poses, files.pose_columns(self), self.graph.is_planar)
        table = pandas.DataFrame(dict(zip(header[1:], columns[1:], strict=True)), index=list(self.poses.ids))
        table.index.name = "id"
        turns = [name for name in ("qw", "qx", "qy", "qz", "theta_deg") if name in table]
        table.loc[list(self.graph.landmarks), turns] = math.nan  # have no orientation
        return table

    def __repr__(self) -> str:
        """One line: everything else has a name to ask for."""
        draws = "no draws" if self.draws is None else f"{self.draws.n_draws} draws"
        return f"Solution({describe.counts(self.graph)}: {self.status}; U = {self.potential:.6g}; {draws})"

    def _repr_html_(self) -> str:
        """A few lines in a notebook."""
        first, *lines = words.summary_lines(self)
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        return f"<div><b>{html.escape(first)}</b><ul>{items}</ul></div>"
