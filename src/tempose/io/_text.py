"""Text in and out: files that may not be what they claim, numbers with their line, writes that are all or nothing."""

from __future__ import annotations

import contextlib
import difflib
import gzip
import itertools
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path

import numpy as np

from tempose._support.files import reason, shown, write_atomically
from tempose._support.words import plural
from tempose._typing import Array, Index, NodeId, PathLike
from tempose.errors import GraphError, ParseError
from tempose.geometry import quaternion as quat

LARGEST = 1e100  # no length or precision of this world is larger, and squares of what is smaller stay finite

GZIP = b"\x1f\x8b"
"""How a packed file begins."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+([.,][0-9]*)?|([.,])[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")


# ---------------------------------------------------------------------- files


def _like(path: Path) -> str:
    """``; did you mean graph.g2o?``, if there is a file of nearly this name beside it."""
    with contextlib.suppress(OSError):
        beside = list(path.parent.iterdir())
        stems = difflib.get_close_matches(path.stem, {file.stem for file in beside})  # a shared ending is no likeness
        found = difflib.get_close_matches(path.name, sorted(file.name for file in beside if file.stem in stems), n=1)
        return "".join(f"; did you mean {path.with_name(name)}?" for name in found)
    return ""


def read_text(path: PathLike) -> str:
    """Contents of a text file, Unix line ends and no byte-order mark; a clear error for everything else."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ParseError(shown(path), None, f"there is no such file{_like(Path(path))}") from None
    except IsADirectoryError:
        raise ParseError(shown(path), None, "is a directory; give a file, or the folder of a known data set") from None
    except PermissionError:
        raise ParseError(shown(path), None, "may not be read (permission denied)") from None
    except (OSError, ValueError) as error:
        raise ParseError(shown(path), None, f"cannot be read: {reason(error)}") from None
    if data[:2] == GZIP:
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            raise ParseError(path, None, "is gzip-compressed and damaged, or cut off; get it again") from None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ParseError(path, None, "is UTF-16 text; save it as UTF-8")
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise ParseError(path, line, "is a binary file (it contains a zero byte); expected text")
    text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def beginning(path: PathLike, size: int = 1000) -> str:
    """The first characters of a text file, packed or not; nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == GZIP
        with gzip.open(path, "rb") if packed else open(path, "rb") as file:
            return file.read(size).decode("utf-8", errors="replace")
    except (OSError, EOFError, ValueError, zlib.error):
        return ""


def write_text(path: PathLike, text: str) -> None:
    """Write a whole file or nothing: a temporary file next to it, then one rename. Packed if its name ends with ``.gz``."""
    data = utf8(text)
    write_atomically(path, gzip.compress(data, mtime=0) if is_packed(path) else data)


def utf8(text: str) -> bytes:
    """Text as the bytes of a file."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise GraphError("a node id contains characters that UTF-8 cannot hold; rename the node") from None


def is_packed(path: PathLike) -> bool:
    """Whether the name says that a file is gzip-compressed."""
    return Path(path).suffix.lower() == ".gz"


def content_lines(text: str) -> list[tuple[int, str]]:
    """Number (from 1) and content of every line that is not blank, comments (``#``) cut off."""
    return with_content(enumerate(text.split("\n"), 1), "#" in text)


def with_content(lines: Iterable[tuple[int, str]], comments: bool = True) -> list[tuple[int, str]]:
    """Of numbered lines those that are not blank, comments cut off."""
    if comments:
        lines = ((number, line.partition("#")[0]) for number, line in lines)
    return [(number, line) for number, line in lines if line and not line.isspace()]


def number_text(value: float) -> str:
    """The shortest decimal that reads back as the same double; integers without ``.0``."""
    return repr(value).removesuffix(".0")


def number_rows(values: Array) -> list[list[str]]:
    """:func:`number_text` of all numbers of an array (k, d), in one go."""
    k, d = values.shape
    if not d or not k:
        return [[] for _ in range(k)]
    words = f"{values.ravel().tolist()!r}, "[1:].replace("]", "").replace(".0, ", ", ").split(", ")
    return [words[first : first + d] for first in range(0, k * d, d)]


_DIGITS = Context(prec=60)


def exact_sum_text(value: float, origin: float) -> str:
    """``value + origin``, for a whole-numbered origin, with all digits of both; reads back by :func:`exact_difference`."""
    if not origin:
        return number_text(value)
    return format(_DIGITS.add(Decimal(repr(value)), Decimal(int(origin))), "f")


def point_rows(position: Array, origin: Array | None) -> list[list[str]]:
    """Positions (k, d) plus an origin, as text with all digits."""
    if origin is None or not np.any(origin):
        return number_rows(position)
    shift = origin[: position.shape[1]].tolist()
    return [[exact_sum_text(x, o) for x, o in zip(row, shift, strict=True)] for row in position.tolist()]


def exact_difference(tokens: Array, origin: Array) -> Array:
    """Numbers as text (k, d) less a whole-numbered origin (d,), digit by digit, so that none is lost to rounding."""
    out = np.empty(tokens.shape)
    for column, shift in enumerate(origin.tolist()):
        whole = Decimal(int(shift))
        out[:, column] = [
            float(_DIGITS.subtract(Decimal(token.replace(",", ".")), whole))
            if shift
            else float(token.replace(",", "."))
            for token in tokens[:, column]
        ]
    return out


# ---------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class Rows:
    """Lines of one kind: their numbers (k,), integer fields (k, a) and real fields (k, b)."""

    line: Index
    ids: Index
    values: Array

    def __len__(self) -> int:
        return len(self.line)

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, in the order of their lines."""
        line, ids, values = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("line", "ids", "values")
        )
        if np.all(line[:-1] <= line[1:]):
            return cls(line, ids, values)
        order = np.argsort(line, kind="stable")
        return cls(line[order], ids[order], values[order])


class NumberReader:
    """Turns fields into numbers, in bulk while all is well, field by field to name the one that is not.

    Decimal commas (``0,5``) are understood if the file uses nothing else; :meth:`finish` tells.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = path
        self._commas = 0
        self._first_comma: tuple[int, str] | None = None
        self._points = False

    def rows(
        self, line: Sequence[int], fields: Sequence[Sequence[str]], names: Sequence[str], n_ids: int, what: str = "line"
    ) -> Rows:
        """Numbers of ``fields``, each row one per name, the first ``n_ids`` of them integers."""
        width = len(names)
        for number, row in zip(line, fields, strict=True):
            if len(row) != width:
                raise self._wrong_count(number, row, names, what)
        values = self._in_bulk(fields, width, n_ids)
        if values is None:
            values = self._one_by_one(line, fields, names, n_ids)
        ids, reals = values
        bad = np.argwhere(~(np.abs(reals) <= LARGEST))
        if len(bad):
            row, column = bad[0]
            name, token = names[n_ids + column], fields[row][n_ids + column]
            expected = f"a finite number, at most {LARGEST:g} in size"
            raise ParseError(self.path, line[row], f"{name} is {_short(token)}; expected {expected}")
        return Rows(np.array(line, dtype=np.int64).reshape(-1), ids, reals)

    def _in_bulk(self, fields: Sequence[Sequence[str]], n_all: int, n_ids: int) -> tuple[Index, Array] | None:
        joined = "".join(itertools.chain.from_iterable(fields))
        if not joined.isascii() or "_" in joined:  # float() would take ٣ and 1_000
            return None
        try:
            ids = np.array([[int(x) for x in row[:n_ids]] for row in fields], dtype=np.int64)
            tokens = itertools.chain.from_iterable(row[n_ids:] for row in fields)
            reals = np.fromiter(map(float, tokens), dtype=np.float64, count=len(fields) * (n_all - n_ids))
        except (ValueError, OverflowError):
            return None
        self._points |= "." in joined
        return ids.reshape(len(fields), n_ids), reals.reshape(len(fields), n_all - n_ids)

    def _one_by_one(
        self, line: Sequence[int], fields: Sequence[Sequence[str]], names: Sequence[str], n_ids: int
    ) -> tuple[Index, Array]:
        ids = np.empty((len(fields), n_ids), dtype=np.int64)
        reals = np.empty((len(fields), len(names) - n_ids))
        for r, (number, row) in enumerate(zip(line, fields, strict=True)):
            for c, (name, token) in enumerate(zip(names, row, strict=True)):
                if c < n_ids:
                    ids[r, c] = self.integer(token, number, name)
                else:
                    reals[r, c - n_ids] = self._real(token, number, name)
        return ids, reals

    def saw_points(self) -> None:
        """Take note that numbers read elsewhere have decimal points."""
        self._points = True

    def integer(self, token: str, line: int, name: str) -> int:
        """A 64-bit integer."""
        if not _INTEGER.fullmatch(token):
            hint = "; fields are separated by blanks, not commas" if "," in token else ""
            raise ParseError(self.path, line, f"{name} is {_short(token)}; expected an integer{hint}")
        if len(token) > 40 or not -(2**63) <= int(token) < 2**63:
            raise ParseError(self.path, line, f"{name} is {_short(token)}, beyond the 64-bit integers")
        return int(token)

    def _real(self, token: str, line: int, name: str) -> float:
        match = _NUMBER.fullmatch(token)
        if match is None:
            try:
                infinite = token.isascii() and "_" not in token and not np.isfinite(float(token))
            except ValueError:
                infinite = False
            expected = "a finite number" if infinite else "a number"
            raise ParseError(self.path, line, f"{name} is {_short(token)}; expected {expected}")
        if "," in token:
            self._commas += 1
            self._first_comma = self._first_comma or (line, token)
        self._points |= "." in token
        return float(token.replace(",", "."))

    def finish(self, notices: list[str]) -> None:
        """Refuse a file that mixes decimal commas and points; say so if it has commas only."""
        if self._first_comma is None:
            return
        line, token = self._first_comma
        if self._points:
            raise ParseError(
                self.path, line, f"{token!r} has a comma, other numbers have a decimal point; use points throughout"
            )
        notices.append(
            f"{plural(self._commas, 'number')} with a decimal comma (first: {token!r} in line {line}) read as decimals"
        )

    def _wrong_count(self, line: int, row: Sequence[str], names: Sequence[str], what: str) -> ParseError:
        commas = any("," in token.strip(",") for token in row) and len(row) < len(names)
        hint = "; fields are separated by blanks, not commas" if commas else ""
        return ParseError(
            self.path, line, f"{what} has {plural(len(row), 'field')}, expected {len(names)}: {_columns(names)}{hint}"
        )


def _columns(names: Sequence[str]) -> str:
    plain = [name for name in names if not name.startswith("information")]
    extra = len(names) - len(plain)
    return " ".join(plain) + (f" and {extra} information values" if extra else "")


def _short(token: str) -> str:
    return repr(token if len(token) <= 40 else token[:37] + "…")


# ---------------------------------------------------------------------- meaning


def unit_quaternions(path: PathLike, line: Index, wxyz: Array, what: str, notices: list[str]) -> Array:
    """Quaternions (k, 4) of unit length: small errors are mended (and told, from 1e-6 up), large ones refused."""
    if not len(wxyz):
        return wxyz
    length = np.linalg.norm(wxyz, axis=1)
    off = np.abs(length - 1.0)
    bad = np.flatnonzero(off > 1e-3)
    if len(bad):
        k = int(bad[0])
        if length[k] == 0.0:
            raise ParseError(path, int(line[k]), "the quaternion is zero, which is no rotation")
        why = f"the quaternion has length {length[k]:.6g}, not 1 (within 0.001); check the order of the fields"
        raise ParseError(path, int(line[k]), why)
    mended = off > 1e-6
    if mended.any():
        notices.append(
            f"{plural(int(mended.sum()), f'quaternion of {what}', f'quaternions of {what}')} normalised, "
            f"off unit length by up to {off.max():.1e}"
        )
    # what is exact to rounding stays bit for bit as it is, so that a file written here reads back unchanged
    out, rows = np.array(wxyz), np.flatnonzero(off > 1e-15)
    out[rows] = quat.normalize(wxyz[rows])
    return out


def rotation_matrices(path: PathLike, line: Index, R: Array, notices: list[str]) -> Array:
    """Quaternions (k, 4) of matrices (k, 3, 3): small errors are mended (and told, from 1e-6 up), large ones refused.

    ``line`` (k,) is where each stands in the file, 0 for a file without lines.
    """
    bounded = np.clip(R, -2.0, 2.0)  # squares of anything larger could overflow, and are no rotation either way
    off = np.max(np.abs(np.swapaxes(bounded, 1, 2) @ bounded - np.eye(3)), axis=(1, 2))
    bad = np.flatnonzero((off > 1e-3) | (np.linalg.det(bounded) < 0.0))
    if len(bad):
        k = int(bad[0])
        what = "mirrors space" if off[k] <= 1e-3 else f"is off by {off[k]:.2g} in RᵀR"
        raise ParseError(path, int(line[k]) or None, f"the 3×3 matrix is no rotation (within 0.001): it {what}")
    mended = off > 1e-6
    if mended.any():
        count = plural(int(mended.sum()), "rotation matrix", "rotation matrices")
        notices.append(f"{count} made orthonormal, off by up to {off.max():.1e}")
    u, _, vt = np.linalg.svd(bounded)
    return quat.from_matrix(u @ vt)


def integer_ids(ids: Sequence[NodeId], kind: str) -> list[int]:
    """The ids as integers, for a format that has no other; a clear error names the first that is not."""
    for name in ids:
        if not isinstance(name, int):
            raise GraphError(
                f"the name of node {name!r} is no integer, and {kind} files hold integers only; write .csv"
            )
        if not -(2**63) <= name < 2**63:
            raise GraphError(f"node {name} is beyond the 64-bit integers; rename it")
    return [int(name) for name in ids]
