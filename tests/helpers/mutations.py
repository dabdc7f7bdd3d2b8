"""Mutations of files: of bytes, of texts, of JSON, of arrays and of databases."""

from __future__ import annotations

import io
import json
import math
import sqlite3
import warnings
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any

import numpy as np

Mutate = Callable[[np.random.Generator, bytes], bytes]

_WORDS = [
    "nan", "inf", "-inf", "1e400", "-1", "0", "1", "1e308", "1e-308", "9223372036854775808", "-9223372036854775809", "9" * 400,
    "9" * 5000, "1,5", ",", "1_000", "٣", "½", "é", "\u2028", "0x10", "--1", "#", "", "True", "null", "'", '"', "\\", "\x1c", "{",
    "[", "]", "}", "=1", "world", "x" * 3000, "\ud83d\udc4d", "%s", "\x1b[2J", "1 1", ";",
]  # fmt: skip
_NUMBERS = [0, 1, 2, 3, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF]
_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 2**63, 10**30, 1.5, -0.0, 1e308, "", "x", "nan", "a" * 3000, [], {}, [[]], [1], {"a": 1},
    [None], "\ud800", "1", [1.0, 2.0], math.inf, math.nan,
]  # fmt: skip


def flip(rng: np.random.Generator, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def overwrite(rng: np.random.Generator, data: bytes) -> bytes:
    """A number in place of some bytes, at any place and mostly at a multiple of four."""
    size = int(rng.choice([1, 2, 4, 8]))
    number = _NUMBERS[rng.integers(len(_NUMBERS))] & ((1 << 8 * size) - 1)
    at = int(rng.integers(max(1, len(data) - size))) & (~3 if rng.random() < 0.7 else ~0)
    return data[:at] + number.to_bytes(size, "little") + data[at + size :]


def cut(rng: np.random.Generator, data: bytes) -> bytes:
    return data[: rng.integers(len(data) + 1)]


def move(rng: np.random.Generator, data: bytes) -> bytes:
    """A piece taken out, doubled, or put elsewhere."""
    a, b = np.sort(rng.integers(len(data) + 1, size=2))
    b = min(b, a + 200)
    at, kind = int(rng.integers(len(data) + 1)), rng.integers(3)
    piece, rest = data[a:b], data[:a] + data[b:]
    return rest if kind == 0 else data[:at] + piece + data[at:] if kind == 1 else rest[:at] + piece + rest[at:]


def words(rng: np.random.Generator, data: bytes, others: Sequence[str] = _WORDS) -> bytes:
    """Words of a text changed, doubled, left out, taken from another line or from ``others``."""
    text = data.decode("utf-8", "replace")
    comma = "," if text.count(",") > text.count(" ") else " "
    lines = [line.split(comma) for line in text.split("\n")]
    for _ in range(int(rng.integers(1, 4))):
        line = lines[rng.integers(len(lines))]
        if not line:
            continue
        k, kind = int(rng.integers(len(line))), rng.integers(5)
        if kind == 0:
            del line[k]
        elif kind == 1:
            line.insert(k, line[k])
        elif kind == 2:
            other = lines[rng.integers(len(lines))]
            line[k] = other[rng.integers(len(other))] if other else "0"
        else:
            line[k] = others[rng.integers(len(others))]
    return "\n".join(comma.join(line) for line in lines).encode("utf-8", "surrogatepass")


def lines(rng: np.random.Generator, data: bytes) -> bytes:
    rows = data.split(b"\n")
    a, b = rng.integers(len(rows), size=2)
    kind = rng.integers(4)
    if kind == 0:
        rows[a], rows[b] = rows[b], rows[a]
    elif kind == 1:
        del rows[a]
    elif kind == 2:
        rows.insert(b, rows[a])
    else:
        rows[a] = rows[a][: rng.integers(len(rows[a]) + 1)] + rows[b][rng.integers(len(rows[b]) + 1) :]
    return b"\n".join(rows)


BINARY: tuple[Mutate, ...] = (flip, overwrite, overwrite, cut, move)
TEXT: tuple[Mutate, ...] = (flip, words, words, lines, cut, move)


def json_node(rng: np.random.Generator, data: bytes) -> bytes:
    """A value somewhere in the tree changed, left out, or added."""
    return json.dumps(changed(rng, json.loads(data))).encode()


def changed(rng: np.random.Generator, tree: Any) -> Any:
    """The tree with one value in it changed."""
    value = _VALUES[rng.integers(len(_VALUES))]
    if rng.random() < 0.2 or not isinstance(tree, dict | list) or not tree:
        if isinstance(tree, int | float) and not isinstance(tree, bool) and rng.random() < 0.3:
            return tree * int(rng.choice([-1, 2, 1000])) + int(rng.integers(3))
        return value
    if isinstance(tree, list):
        k = int(rng.integers(len(tree)))
        if rng.random() < 0.2:
            return tree[:k] + tree[k + 1 :]
        return [changed(rng, one) if j == k else one for j, one in enumerate(tree)]
    name = list(tree)[rng.integers(len(tree))]
    if rng.random() < 0.15:
        return {k: v for k, v in tree.items() if k != name}
    if rng.random() < 0.05:
        return {**tree, "more": value}
    return {k: changed(rng, v) if k == name else v for k, v in tree.items()}


def array_of_npz(rng: np.random.Generator, data: bytes) -> bytes:
    """One array of an archive of another shape, type or value, in an archive that is sound."""
    with np.load(io.BytesIO(data)) as saved:
        arrays = {name: saved[name] for name in saved.files}
    name = list(arrays)[rng.integers(len(arrays))]
    arrays = altered(rng, arrays, name)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def altered(rng: np.random.Generator, arrays: dict[str, Any], name: str) -> dict[str, Any]:
    a, kind = arrays[name], rng.integers(8)
    if kind == 0:
        return {k: v for k, v in arrays.items() if k != name}
    if kind == 1:
        new: Any = a.reshape(-1)[: rng.integers(a.size + 1)]
    elif kind == 2:
        new = np.concatenate([a.reshape(-1)] * 2)
    elif kind == 3:
        new = a[None]
    elif kind == 4:
        new = np.array(str(a.reshape(-1)[:1]))
    elif kind == 5:
        new = np.array(a.astype(complex)) if a.dtype.kind in "fiub" else np.zeros(3)
    elif kind == 6 and a.dtype.kind == "U":
        with suppress(ValueError):
            return {**arrays, name: np.array(json.dumps(changed(rng, json.loads(str(a)))))}
        new = np.array("x")
    else:
        new = np.array(a)
        if new.size and new.dtype.kind in "fiu":
            value = rng.choice([0.0, 1.0, -1.0, 7.0, 2.0**31, 1e300, math.nan, math.inf])
            with np.errstate(all="ignore"):
                new.reshape(-1)[rng.integers(new.size)] = (
                    value if new.dtype.kind == "f" else int(rng.choice([0, 1, 99, 2**30]))
                )
        if rng.random() < 0.3 and new.dtype.kind in "fiu":
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                new = new.astype(rng.choice(["f4", "i4", "u1", "?"]))
    return {**arrays, name: new}


def member(rng: np.random.Generator, data: bytes) -> bytes:
    """One file within an archive mutated, in an archive that is sound."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = names[rng.integers(len(names))]
        for name in names:
            body = old.read(name)
            new.writestr(name, BINARY[rng.integers(len(BINARY))](rng, body) if name == chosen and body else body)
    return out.getvalue()


def cell(rng: np.random.Generator, data: bytes) -> bytes:
    """One cell of a database changed to a value of any type."""
    with closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(data)
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(int(rng.integers(1, 3))):
            table = tables[rng.integers(len(tables))]
            columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
            column = columns[rng.integers(len(columns))]
            row = base.execute(f"SELECT rowid, {column} FROM {table} ORDER BY random() LIMIT 1").fetchone()
            if row is None:
                continue
            value: Any = [None, "text", "", 0, -1, 1, 7, 2**40, 1.5, 1e300, b"", b"\xff" * 7, b"\0" * 64][
                rng.integers(13)
            ]
            if isinstance(row[1], bytes) and row[1] and rng.random() < 0.5:
                value = BINARY[rng.integers(len(BINARY))](rng, row[1])
            with suppress(sqlite3.Error):
                base.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [value, row[0]])
        base.commit()
        return bytes(base.serialize())
