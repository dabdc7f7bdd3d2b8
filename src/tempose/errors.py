"""Every error tempose raises on purpose.

A :class:`TemposeError` is a user's mistake or an honest limit, told in one line: where it is (file and line, node
or edge), what was expected, and what to do. The command line prints it without a traceback and exits with 1.
"""

from __future__ import annotations

from pathlib import Path


class TemposeError(Exception):
    """Base of all errors that a user can act on."""


class ParseError(TemposeError):
    """A file that cannot be read as what it claims to be.

    Parameters
    ----------
    path
        The file.
    line
        One-based line number, or ``None`` if the error concerns the whole file.
    message
        What was found, what was expected, what to do.
    """

    def __init__(self, path: str | Path, line: int | None, message: str) -> None:
        self.path = Path(path)
        self.line = line
        where = str(path) if line is None else f"{path}:{line}"
        super().__init__(f"{where}: {message}")


class GraphError(TemposeError):
    """A graph, or a pose set, that does not make sense; names the node or the edge."""


class OptionError(TemposeError):
    """An option with a value outside its range, or options that contradict each other."""


class DrawsError(TemposeError):
    """A directory of draws that cannot be read or resumed."""
