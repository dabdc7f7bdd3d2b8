"""What every page is made of: packed numbers, escaped text, tiles, tables, histograms, and a template to put them in."""

from __future__ import annotations

import base64
import html
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempose._typing import Array
from tempose.analysis.trust import Trust
from tempose.errors import ArgumentError

Tone = Literal["neutral", "good", "warn", "bad"]
VIEW_SCRIPTS = ("util.js", "charts.js", "painter.js", "gl_painter.js", "pixel_painter.js", "view.js")
"""What every page with a view in three dimensions runs, in this order."""

_MARK = {"neutral": "", "good": "✓", "warn": "!", "bad": "✕"}


@dataclass(frozen=True)
class Fact:
    """One headline tile.

    Parameters
    ----------
    label
        What is told, e.g. ``"Convergence"``.
    value
        The verdict or the number with its unit, in a few words.
    note
        One line of explanation under the value.
    tone
        Colour and symbol of the tile.
    group
        Heading of the tiles that it stands among; none if empty.
    """

    label: str
    value: str
    note: str = ""
    tone: Tone = "neutral"
    group: str = ""

    def __post_init__(self) -> None:
        if self.tone not in _MARK:
            raise ArgumentError(f"fact {self.label!r}: tone {self.tone!r} is not one of {', '.join(_MARK)}")


def trust_fact(trust: Trust, *lines: str) -> Fact:
    """Whether to trust a result, and why, to stand on top of its page."""
    tones: dict[Trust, Tone] = {Trust.TRUST: "good", Trust.CARE: "warn", Trust.NOT: "bad"}
    return Fact("verdict", trust.capitalize(), "\n".join(lines), tones[trust])


@dataclass(frozen=True)
class Histogram:
    """One more histogram for the page.

    Parameters
    ----------
    label
        Title of the chart.
    values
        The sample, any shape; values that are not finite are counted as missing.
    unit
        Unit of the values, may be empty.
    reference
        A value to mark on the axis, e.g. the expected one.
    things
        What is counted, in the plural.
    """

    label: str
    values: ArrayLike
    unit: str = ""
    reference: float | None = None
    things: str = "values"


@dataclass(frozen=True)
class PageFrame:
    """What stands around the content of every page.

    Parameters
    ----------
    title, subtitle, version
        Head and foot.
    facts
        Tiles with numbers.
    notices
        One box of lines; none if empty.
    settings
        Rows of the last table.
    scripts
        Asset files, in the order they run.
    payload
        What the scripts read, as JSON.
    top
        What stands above everything, escaped already.
    """

    title: str
    subtitle: str
    version: str
    facts: Sequence[Fact]
    notices: Sequence[str]
    settings: Sequence[tuple[str, str]]
    scripts: Sequence[str]
    payload: Mapping[str, Any]
    top: str = ""

    def around(self, template: str, parts: Mapping[str, str]) -> str:
        """The page, with a template file filled with ``parts`` (escaped already) as its content."""
        numbers = tiles(self.facts) + notices_box(self.notices)
        content = asset(template)
        own = {
            "title": text(self.title),
            "subtitle": text(self.subtitle),
            "version": text(f"tempose {self.version}".strip()),
            "top": self.top,
            "numbers": "" if "{{numbers}}" in content else numbers,  # a template may have another place for them
            "settings": settings_rows(self.settings),
            "style": asset("page.css"),
            "script": "\n".join(map(asset, self.scripts)),
            "data": to_json(dict(self.payload)),
        }
        return _fill(asset("frame.html"), {**own, "content": _fill(content, {**parts, "numbers": numbers})})


def _fill(template: str, parts: Mapping[str, str]) -> str:
    """Put parts in the places ``{{name}}`` of a template; user text that looks like a place stays text."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def colour_limits(values: Array | None) -> tuple[float, float] | None:
    """Return the ends of a colour scale: zero or the minimum, and the 99 % quantile (maximum of small samples).

    Parameters
    ----------
    values
        The sample; values that are not finite are ignored.

    Returns
    -------
    tuple or None
        ``None`` if there is nothing to colour by.
    """
    if values is None:
        return None
    finite = np.asarray(values, dtype=np.float64)[np.isfinite(values)]
    if finite.size == 0:
        return None
    high = float(np.quantile(finite, 0.99)) if finite.size >= 200 else float(finite.max())
    low = float(finite.min())
    if low >= 0 and low < 0.4 * high:
        low = 0.0
    if high <= low:
        low, high = (0.0, high) if high > 0 else (low, low + 1.0)
    return low, high


def histogram_bins(histogram: Histogram) -> dict[str, Any]:
    """Return bins of round width, with the far tail gathered in one number.

    Parameters
    ----------
    histogram
        The sample.

    Returns
    -------
    dict
        ``start`` and ``width`` of the bins, ``counts``, number ``beyond`` the last bin, ``n`` finite values,
        ``missing`` others, and ``median``, ``q95``, ``max``.
    """
    values = np.asarray(histogram.values, dtype=np.float64).ravel()
    finite = np.sort(values[np.isfinite(values)])
    result: dict[str, Any] = {
        "label": histogram.label,
        "unit": histogram.unit,
        "things": histogram.things,
        "reference": histogram.reference,
        "n": int(finite.size),
        "missing": int(values.size - finite.size),
    }
    if finite.size == 0:
        return result
    median, q95, q99 = (float(q) for q in np.quantile(finite, [0.5, 0.95, 0.99]))
    low, high = float(finite[0]), float(finite[-1])
    result |= {"median": median, "q95": q95, "max": high}
    if high > q99 + 0.5 * (q99 - low) and finite.size >= 50:
        high = q99
    if 0 <= low < 0.4 * high:
        low = 0.0
    span = high - low
    if span <= 1e-12 * max(abs(high), 1e-300):
        return result
    wanted = min(40, max(8, round(2 * finite.size ** (1 / 3))))
    width = _round_step(span / wanted)
    first = math.floor(low / width)
    number = max(1, math.ceil(high / width) - first)
    places = np.floor(finite / width).astype(np.int64) - first
    if places[-1] == number and finite[-1] <= (first + number) * width * (1 + 1e-12):
        places[places == number] = number - 1  # a maximum that falls on the last bin's end belongs to it
    inside = places < number
    result |= {
        "start": first * width,
        "width": width,
        "counts": np.bincount(places[inside], minlength=number).tolist(),
        "beyond": int((~inside).sum()),
    }
    return result


def pack(array: ArrayLike, dtype: str) -> dict[str, Any]:
    """Encode an array for the page: bytes grouped by significance, deflated, in base64.

    Grouping all first bytes, then all second bytes and so on makes exponents and high-order bytes neighbours,
    which deflate shortens well.

    Parameters
    ----------
    array
        The numbers.
    dtype
        ``"<f4"``, ``"<u4"`` or ``"<i2"``.
    """
    values = np.ascontiguousarray(array, dtype=np.dtype(dtype))
    planes = values.reshape(-1).view(np.uint8).reshape(values.size, values.itemsize).T
    body = base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")
    return {"dtype": dtype[1:], "shape": list(values.shape), "body": body}


def pack_optional(array: Array | None) -> dict[str, Any] | None:
    """Packed single precision, or ``None``."""
    return None if array is None else pack(array, "<f4")


def quantise(values: Array, step: float) -> NDArray[np.int16]:
    """16-bit multiples of a step."""
    return np.clip(np.rint(np.asarray(values) / step), -32767, 32767).astype(np.int16)


def _round_step(step: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 × 10ᵏ that is at least ``step``."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(f * power for f in (1.0, 2.0, 2.5, 5.0, 10.0) if f * power >= step * (1 - 1e-9))


def asset(name: str) -> str:
    """A file of this package."""
    return resources.files("tempose.report").joinpath("assets", name).read_text(encoding="utf-8")


def text(value: str) -> str:
    """Escape for HTML; a file name that is not Unicode keeps its readable part."""
    return html.escape(value.encode("utf-8", "replace").decode("utf-8"))


def to_json(value: dict[str, Any]) -> str:
    """Return pure ASCII that neither ends the script element nor opens a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def tile(fact: Fact) -> str:
    """One headline tile."""
    mark = f'<span class="mark" aria-hidden="true">{_MARK[fact.tone]}</span>' if _MARK[fact.tone] else ""
    note = f'<p class="note">{text(fact.note)}</p>' if fact.note else ""
    return (
        f'<li class="tile {fact.tone}"><p class="label">{text(fact.label)}</p>'
        f'<p class="value">{mark}{text(fact.value)}</p>{note}</li>'
    )


def tiles(facts: Sequence[Fact]) -> str:
    """A grid of tiles for each group, in the order of their first tiles; or nothing."""
    out = []
    for group in dict.fromkeys(fact.group for fact in facts):
        heading = f'<h2 class="group-name">{text(group)}</h2>' if group else ""
        grid = "\n".join(tile(fact) for fact in facts if fact.group == group)
        out.append(f'{heading}<ul class="tiles">{grid}</ul>')
    return "\n".join(out)


def banner(fact: Fact | None) -> str:
    """The one thing to know, across the whole page, or nothing."""
    if fact is None:
        return ""
    mark = f'<span class="mark" aria-hidden="true">{_MARK[fact.tone]}</span>' if _MARK[fact.tone] else ""
    first, *more = fact.note.split("\n")
    rest = "".join(f'<p class="note">{text(line)}</p>' for line in more)
    return (
        f'<section class="banner {fact.tone}" aria-label="{text(fact.label)}"><p class="value">{mark}{text(fact.value)}'
        f'<span class="why">{text(first)}</span></p>{rest}</section>'
    )


def details_box(facts: Sequence[Fact]) -> str:
    """Tiles that nobody should take for the headline, or nothing."""
    if not facts:
        return ""
    return f'<section class="details" aria-label="Details"><h2>Details</h2>{tiles(facts)}</section>'


def notices_box(notices: Sequence[str]) -> str:
    """The box of warnings, or nothing."""
    if not notices:
        return ""
    items = "".join(f"<li>{text(notice)}</li>" for notice in notices)
    return f'<section class="notices" aria-label="Notices"><ul>{items}</ul></section>'


def settings_rows(settings: Sequence[tuple[str, str]]) -> str:
    """Rows of the table of settings."""
    return "".join(f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in settings)
