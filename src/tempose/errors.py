"""Every error tempose raises on purpose, one class for each meaning.

A :class:`TemposeError` is a user's mistake or an honest limit, told in one line: where it is (file and line, node
or edge), what was expected, and what to do. The command line prints it without a traceback and exits with 2 if an
option is wrong (:class:`OptionError`), else with 1.
"""

from __future__ import annotations

import re
from pathlib import Path

__all__ = [
    "ArgumentError",
    "DrawsError",
    "FileError",
    "GraphError",
    "Interrupted",
    "MissingPackage",
    "NotApplicable",
    "OptionError",
    "ParseError",
    "TemposeError",
]

_LONGEST = 1000  # characters of a line for people
# controls of terminals, of the direction of text, and half characters, which no terminal takes
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """A line as it may be shown to people, whatever names from files are in it: no control characters, and not too long."""
    if len(text) > _LONGEST:
        head, tail = _LONGEST * 7 // 10, _LONGEST * 2 // 10
        text = f"{text[:head]} … ({len(text) - head - tail} characters left out) … {text[-tail:]}"
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


class TemposeError(Exception):
    """Base of all errors that a user can act on; the message is one line that can be printed."""

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(str(message)))


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


class FileError(TemposeError):
    """A file or a directory that cannot be written, has an ending that does not fit, or is in use for something else."""


class GraphError(TemposeError):
    """A graph, or a pose set, that does not make sense; names the node or the edge."""


class OptionError(TemposeError):
    """An option with a value outside its range, or options that contradict each other."""


class ArgumentError(TemposeError):
    """Data handed to a function that it cannot work with: of the wrong shape, out of range, or incomplete."""


class DrawsError(TemposeError):
    """Draws that cannot be read or resumed, or are too few for what was asked of them."""


class Interrupted(TemposeError):  # noqa: N818  (it is an answer, not a mistake)
    """A run that ended before it was done: stopped, or a process or a program of it failed; what is finished is kept."""


class NotApplicable(TemposeError):  # noqa: N818  (it is an answer, not a mistake)
    """A sampler or a method that does not apply to a problem.

    Parameters
    ----------
    message
        What does not apply, why, and what does.
    cause
        The why alone, in a few words, for whoever falls back on something else and says so.
    """

    def __init__(self, message: str, cause: str = "") -> None:
        self.cause = cause or message
        super().__init__(message)


class MissingPackage(TemposeError):  # noqa: N818  (it is an answer, not a mistake)
    """An optional package that is not installed, with the line that installs it.

    Parameters
    ----------
    what
        What needs it.
    package
        Its name.
    extra
        The extra of tempose that brings it, ``None`` if there is none.
    """

    def __init__(self, what: str, package: str, extra: str | None) -> None:
        self.package, self.extra = package, extra
        wanted = package if extra is None else f"'tempose[{extra}]'"
        super().__init__(f"{package} is needed for {what}: pip install {wanted}")
