"""What a camera writes into its photographs (EXIF): which camera and lens, how long the focal length, when, and where.

JPEG, TIFF and PNG are read, without decoding a pixel. EXIF that is cut off or makes no sense is as good as none: cameras, phones
and the programs that photographs went through write what they like.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tempose._typing import PathLike

_MOST_BYTES = 1 << 20  # of a block of EXIF: of a JPEG's it is at most 64 kB
_MOST_ENTRIES = 1000
_SIZES = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    7: 1,
    9: 4,
    10: 8,
}  # bytes by type: byte, text, short, long, rational, raw, signed
_FORMATS = {1: "B", 3: "H", 4: "I", 5: "II", 9: "i", 10: "ii"}
_EXIF, _GPS = 0x8769, 0x8825  # tables that the first one points to
Value = str | tuple[float, ...]


@dataclass(frozen=True)
class Exif:
    """What is said of one photograph; empty or ``None`` where nothing is.

    Attributes
    ----------
    make, model, serial, lens
        Of the camera and its lens.
    focal_mm, focal_35mm
        Focal length as it is, and of a 35 mm camera with the same view, millimetres.
    digital_zoom
        How many times the picture was enlarged by the camera.
    orientation
        How to turn it for display, 1 (not) to 8; the pixels of the file are as the sensor read them.
    time
        When it was taken, as text that sorts by time.
    lat_deg, lon_deg, height
        Where: WGS84, metres.
    sigma_h
        What the receiver says of its own horizontal error, metres.
    """

    make: str = ""
    model: str = ""
    serial: str = ""
    lens: str = ""
    focal_mm: float | None = None
    focal_35mm: float | None = None
    digital_zoom: float | None = None
    orientation: int = 1
    time: str = ""
    lat_deg: float | None = None
    lon_deg: float | None = None
    height: float | None = None
    sigma_h: float | None = None

    @property
    def camera(self) -> str:
        """Make and model, the make once."""
        known = self.model.lower().startswith(self.make.lower().split(" ")[0]) if self.make else True
        return self.model if known else f"{self.make} {self.model}".strip()


def read_exif(path: PathLike) -> Exif | None:
    """EXIF of a photograph; ``None`` where there is none that can be read."""
    try:
        with Path(path).open("rb") as file:
            block = _block(file)
        return None if block is None else _meaning(_tables(block))
    except (OSError, struct.error, ValueError, IndexError, OverflowError, ZeroDivisionError):
        return None


def _block(file: BinaryIO) -> bytes | None:
    """The tables of EXIF, as a TIFF file has them."""
    head = file.read(12)
    if head[:2] == b"\xff\xd8":
        file.seek(2)
        while len(mark := file.read(4)) == 4 and mark[0] == 0xFF and mark[1] != 0xDA:
            size = struct.unpack(">H", mark[2:])[0] - 2
            body = file.read(size)
            if mark[1] == 0xE1 and body[:6] == b"Exif\0\0":
                return body[6:]
        return None
    if head[:8] == b"\x89PNG\r\n\x1a\n":
        file.seek(8)
        while len(mark := file.read(8)) == 8:
            size = struct.unpack(">I", mark[:4])[0]
            if mark[4:] == b"eXIf":
                return file.read(min(size, _MOST_BYTES))
            file.seek(size + 4, 1)
        return None
    if head[:4] in (b"II*\0", b"MM\0*"):
        file.seek(0)
        return file.read()
    return None


def _tables(block: bytes) -> dict[int, dict[int, Value]]:
    """Values by table (0: the first) and tag."""
    order = {b"II": "<", b"MM": ">"}[block[:2]] if block[:2] in (b"II", b"MM") else ""
    if not order:
        return {}
    found = {0: _table(block, order, struct.unpack_from(f"{order}I", block, 4)[0])}
    for name in (_EXIF, _GPS):
        at = found[0].get(name)
        if isinstance(at, tuple) and at:
            found[name] = _table(block, order, int(at[0]))
    return found


def _table(block: bytes, order: str, at: int) -> dict[int, Value]:
    out: dict[int, Value] = {}
    (count,) = struct.unpack_from(f"{order}H", block, at)
    for k in range(min(count, _MOST_ENTRIES)):
        place = at + 2 + 12 * k
        tag, kind, number = struct.unpack_from(f"{order}HHI", block, place)
        size = _SIZES.get(kind, 0) * number
        if not 0 < size <= _MOST_BYTES:
            continue
        start = place + 8 if size <= 4 else struct.unpack_from(f"{order}I", block, place + 8)[0]
        raw = block[start : start + size]
        if len(raw) < size:
            continue
        if kind == 2:
            out[tag] = raw.split(b"\0")[0].decode("utf-8", "replace").strip()
        elif kind in _FORMATS:
            numbers = struct.unpack(order + _FORMATS[kind] * number, raw)
            if kind in (5, 10):
                pairs = zip(numbers[::2], numbers[1::2], strict=True)
                numbers = tuple(a / b if b else math.nan for a, b in pairs)
            out[tag] = tuple(float(x) for x in numbers)
    return out


def _meaning(tables: dict[int, dict[int, Value]]) -> Exif | None:
    if not any(tables.values()):
        return None
    first, more, gps = tables.get(0, {}), tables.get(_EXIF, {}), tables.get(_GPS, {})
    lat, lon = _degrees(gps, 1, "S"), _degrees(gps, 3, "W")
    placed = lat is not None and lon is not None and abs(lat) <= 90.0 and abs(lon) <= 180.0 and (lat, lon) != (0.0, 0.0)
    height = _number(gps, 6)
    if height is not None and gps.get(5) == (1.0,):
        height = -height
    error = _number(gps, 31)
    turn = _number(first, 0x112) or 1.0
    return Exif(
        make=_text(first, 0x10F),
        model=_text(first, 0x110),
        serial=_text(more, 0xA431),
        lens=_text(more, 0xA434),
        focal_mm=_positive(more, 0x920A),
        focal_35mm=_positive(more, 0xA405),
        digital_zoom=_positive(more, 0xA404),
        orientation=int(turn) if 1 <= turn <= 8 else 1,
        time=".".join(x for x in (_text(more, 0x9003) or _text(first, 0x132), _text(more, 0x9291)) if x),
        lat_deg=lat if placed else None,
        lon_deg=lon if placed else None,
        height=height if placed else None,
        sigma_h=error if placed and error is not None and error > 0.0 else None,
    )


def _text(table: dict[int, Value], tag: int) -> str:
    value = table.get(tag, "")
    return value if isinstance(value, str) else ""


def _number(table: dict[int, Value], tag: int) -> float | None:
    value = table.get(tag)
    return value[0] if isinstance(value, tuple) and value and math.isfinite(value[0]) else None


def _positive(table: dict[int, Value], tag: int) -> float | None:
    value = _number(table, tag)
    return value if value is not None and value > 0.0 else None


def _degrees(gps: dict[int, Value], tag: int, negative: str) -> float | None:
    """Degrees, minutes and seconds of a tag, with the sign that the tag before it says by a letter."""
    value = gps.get(tag + 1)
    if not isinstance(value, tuple) or not value or not all(map(math.isfinite, value)):
        return None
    size = sum(x / 60.0**k for k, x in enumerate(value[:3]))
    return -size if _text(gps, tag).upper().startswith(negative) else size
