"""Tables as text: comma-separated for programs, aligned for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets take for the beginning of a formula."""
_AT_ONCE = 10_000  # lines whose cells are in memory


def csv_text(header: Sequence[str], columns: Sequence[Any]) -> str:
    """Columns as comma-separated text; numbers with all their digits, nothing for ``None``."""
    starts = range(0, max(map(len, columns), default=0), _AT_ONCE)
    return csv_lines(header, (line for k in starts for line in _cells(columns, slice(k, k + _AT_ONCE))))


def _cells(columns: Sequence[Any], part: slice) -> Iterator[tuple[Any, ...]]:
    """Some lines of a table: a few at a time, since numbers as Python has them take four times as much memory."""
    plain = [c[part].tolist() if hasattr(c, "tolist") else map(_harmless, c[part]) for c in columns]
    return zip(*plain, strict=True)


def csv_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as comma-separated text; a row may lack columns that others have."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return csv_lines(names, ([_harmless(row.get(name)) for name in names] for row in rows))


def _harmless(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that begins like one, and is no number, gets an apostrophe in front."""
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell


def csv_lines(header: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """Lines of cells as comma-separated text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    return out.getvalue()


def text_table(lines: Sequence[Sequence[str]], left: Collection[int] = (0,), indent: str = "") -> str:
    """Lines of cells as text in columns, for terminals.

    Parameters
    ----------
    lines
        All of one length; the first may be a header.
    left
        Numbers of the columns that stand on the left of their width; the others stand on the right, as numbers should.
    indent
        What each line begins with.
    """
    width = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def aligned(line: Sequence[str]) -> str:
        cells = (c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(line, width, strict=True)))
        return (indent + "  ".join(cells)).rstrip()

    return "\n".join(map(aligned, lines))
