"""The one rule that turns what was computed into JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """A value as JSON has it, all the way down.

    Numpy's scalars and arrays become Python's numbers and lists, and ``None`` stands for a number that is not finite.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_text(value: Any, indent: int | None = 2) -> str:
    """JSON text of anything that :func:`plain` knows, with a line's end."""
    return json.dumps(plain(value), indent=indent, allow_nan=False) + "\n"
