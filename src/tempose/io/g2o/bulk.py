"""Large files: the usual lines of a g2o file as numbers in one go, piece by piece, the unusual ones as text.

The text is never in memory as a whole. What the careful reader would say of a file it still says: it gets every line that is not
an ordinary vertex or edge, with its number, and the whole file if lines end in a way that changes their numbers.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempose._support.parallel import on_threads
from tempose._typing import AnyArray, Array, Index, PathLike
from tempose.io._text import GZIP, LARGEST, Rows
from tempose.io.g2o._decimals import numbers_of_lines, powers_of_five, powers_of_ten, whole_powers_of_ten

PIECE = 2_000_000
"""Bytes of text that are looked at together, on one core."""
_MARK, _UTF_16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Columns:
    """What the lines of a tag hold, in numbers."""

    tag: str
    n_ids: int
    n_reals: int


@dataclass(frozen=True)
class Piece:
    """Some lines of a file that follow each other."""

    n_lines: int
    rows: dict[str, Rows]
    """The lines that were read, by tag, in file order; lines counted from 0."""
    odd: list[tuple[int, bytes]]
    """The others."""
    points: bool
    """Whether a number has a decimal point."""


def pieces(path: PathLike, columns: list[Columns]) -> Iterator[Piece]:
    """A file piece by piece, in order.

    Raises
    ------
    UnusualError
        If it has to be read as a whole to say what is wrong with it.
    """
    table = _Table(columns)
    if _is_packed(path):
        return on_threads(table.read, _unpacked(path))
    return on_threads(lambda span: table.read(_between(path, *span)), _spans(path))


class UnusualError(Exception):
    """The file is for the careful reader."""


def text_lines(path: PathLike, wanted: Index) -> dict[int, str]:
    """Some lines of a file, by their numbers (from 1), as they stand there."""
    out: dict[int, str] = {}
    wanted, before = np.unique(wanted), 0
    for text in _texts(path):
        lines = text.split(b"\n")
        n_lines = len(lines) - text.endswith(b"\n")
        for number in wanted[(wanted > before) & (wanted <= before + n_lines)].tolist():
            out[number] = lines[number - before - 1].decode("utf-8", errors="replace")
        before += n_lines
    return out


def _texts(path: PathLike) -> Iterator[bytes]:
    """The bytes of a file in pieces of whole lines, without a byte-order mark."""
    return _unpacked(path) if _is_packed(path) else (_between(path, *span) for span in _spans(path))


def _is_packed(path: PathLike) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == GZIP


def _spans(path: PathLike) -> Iterator[tuple[int, int]]:
    """Where the pieces of a file begin and end."""
    try:
        with open(path, "rb") as file:
            begin, size = _after_mark(file.read(3)), os.fstat(file.fileno()).st_size
            while begin < size:
                file.seek(begin + PIECE)
                file.readline()
                end = min(file.tell(), size)
                yield begin, end
                begin = end
    except OSError:
        raise UnusualError from None


def _between(path: PathLike, begin: int, end: int) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(begin)
            text = file.read(end - begin)
    except OSError:
        raise UnusualError from None
    if len(text) < end - begin:  # somebody else writes it
        raise UnusualError
    return text


def _unpacked(path: PathLike) -> Iterator[bytes]:
    """The pieces of a packed file."""
    rest, first = b"", True
    try:
        with gzip.open(path, "rb") as stream:
            while data := stream.read(PIECE):
                data, first = data[_after_mark(data[:3]) if first else 0 :], False
                whole, newline, left = data.rpartition(b"\n")
                if not newline:
                    rest += data
                    continue
                yield rest + whole + newline
                rest = left
    except (OSError, EOFError, zlib.error):
        raise UnusualError from None
    if rest:
        yield rest


def _after_mark(head: bytes) -> int:
    """Where the text begins, of a file's first three bytes."""
    if head[:2] in _UTF_16:
        raise UnusualError
    return len(_MARK) if head == _MARK else 0


class _Table:
    """The kinds of lines, as the kernel takes them."""

    def __init__(self, columns: list[Columns]) -> None:
        self.columns = columns
        names = [one.tag.encode() for one in columns]
        self.tags = np.zeros((len(names), max(map(len, names))), dtype=np.uint8)
        for row, name in enumerate(names):
            self.tags[row, : len(name)] = np.frombuffer(name, dtype=np.uint8)
        self.length = np.array([len(name) for name in names], dtype=np.int64)
        self.n_ids = np.array([one.n_ids for one in columns], dtype=np.int64)
        self.n_reals = np.array([one.n_reals for one in columns], dtype=np.int64)

    def read(self, text: bytes) -> Piece:
        """The lines of a text."""
        text = text if text.endswith(b"\n") else text + b"\n"
        n = text.count(b"\n")
        start, kind = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int8)
        ids: Index = np.empty((n, int(self.n_ids.max())), dtype=np.int64)
        reals: Array = np.empty((n, int(self.n_reals.max())))
        bits: AnyArray = reals.view(np.uint64)
        data = np.frombuffer(text, dtype=np.uint8)
        words: AnyArray = np.ndarray(max(len(text) - 7, 0), dtype=np.uint64, buffer=text, strides=(1,))
        powers = powers_of_five(), powers_of_ten(), whole_powers_of_ten()
        tables = self.tags, self.length, self.n_ids, self.n_reals, LARGEST, *powers
        points = numbers_of_lines(data, words, *tables, start, kind, ids, reals, bits)
        rows = {}
        for k, one in enumerate(self.columns):
            chosen: Index = np.flatnonzero(kind == k)
            if len(chosen):
                every = slice(None) if len(chosen) == n else chosen
                rows[one.tag] = Rows(chosen, ids[every, : one.n_ids], reals[every, : one.n_reals])
        return Piece(n, rows, _odd_lines(text, start, kind), points)


def _odd_lines(text: bytes, start: Index, kind: AnyArray) -> list[tuple[int, bytes]]:
    """The lines that were not read, without their ends."""
    stop = np.append(start[1:], len(text))
    out = []
    for row in np.flatnonzero(kind < 0).tolist():
        line = text[start[row] : stop[row]].removesuffix(b"\n").removesuffix(b"\r")
        if b"\0" in line or b"\r" in line:
            raise UnusualError
        out.append((row, line))
    return out


def is_large(path: PathLike, size: int) -> bool:
    """Whether a file has at least so many bytes, a packed one a quarter of them."""
    try:
        return Path(path).stat().st_size >= (size // 4 if _is_packed(path) else size)
    except (OSError, ValueError):
        return False
