"""EXIF as cameras write it, for tests."""

from __future__ import annotations

import struct
import zlib
from fractions import Fraction

Tables = dict[int, dict[int, object]]

FULL: Tables = {
    0: {0x10F: "Canon", 0x110: "Canon EOS 5D", 0x112: 6},
    0x8769: {
        0xA434: "EF24-70mm",
        0xA431: "123",
        0x920A: (24.5,),
        0xA405: 26,
        0x9003: "2020:01:02 03:04:05",
        0x9291: "7",
    },
    0x8825: {1: "S", 2: (46.0, 50.0, 33.5), 3: "W", 4: (91.0, 59.0, 40.25), 5: 1, 6: (12.5,), 31: (4.75,)},
}
"""All that is read."""


def block(tables: Tables, order: str = "<") -> bytes:
    """A TIFF with the tables: texts, whole numbers (short) and tuples of rationals."""
    out = bytearray((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8))
    main = dict(tables.get(0, {}))
    others = [name for name in tables if name]
    starts = {}
    at = 8 + _size({**main, **dict.fromkeys(others, 0)})
    for name in others:
        starts[name] = at
        at += _size(tables[name])
    out += _table({**main, **{name: struct.pack(f"{order}I", starts[name]) for name in others}}, order, 8)
    for name in others:
        out += _table(tables[name], order, starts[name])
    return bytes(out)


def jpeg(tables: Tables, order: str = "<") -> bytes:
    """The beginning of a JPEG."""
    body = b"Exif\0\0" + block(tables, order)
    return b"\xff\xd8" + b"\xff\xe0\0\x04ab" + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + b"\xff\xda\0\x02"


def with_exif(whole: bytes, tables: Tables) -> bytes:
    """A whole JPEG with EXIF put in front."""
    return jpeg(tables)[:-4] + whole[2:]


def png(tables: Tables, order: str = "<") -> bytes:
    """The beginning of a PNG."""
    out = b"\x89PNG\r\n\x1a\n"
    for kind, body in ((b"IHDR", bytes(13)), (b"eXIf", block(tables, order))):
        out += struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return out


def _value(value: object, order: str) -> tuple[int, int, bytes]:
    if isinstance(value, bytes):
        return 4, 1, value
    if isinstance(value, str):
        return 2, len(value) + 1, value.encode() + b"\0"
    if isinstance(value, int):
        return 3, 1, struct.pack(f"{order}H", value)
    parts = [Fraction(x).limit_denominator(10**6) for x in value]
    return 5, len(parts), b"".join(struct.pack(f"{order}II", x.numerator, x.denominator) for x in parts)


def _size(table: dict[int, object]) -> int:
    spare = [len(_value(value, "<")[2]) for value in table.values()]
    return 6 + 12 * len(table) + sum(size for size in spare if size > 4)


def _table(table: dict[int, object], order: str, at: int) -> bytes:
    head, tail = struct.pack(f"{order}H", len(table)), b""
    behind = at + 6 + 12 * len(table)
    for tag, value in sorted(table.items()):
        kind, count, raw = _value(value, order)
        head += struct.pack(f"{order}HHI", tag, kind, count)
        head += raw.ljust(4, b"\0") if len(raw) <= 4 else struct.pack(f"{order}I", behind + len(tail))
        tail += raw if len(raw) > 4 else b""
    return head + struct.pack(f"{order}I", 0) + tail
