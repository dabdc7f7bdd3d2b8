"""Numbers in sentences."""

from __future__ import annotations


def plural(count: float, one: str, many: str | None = None) -> str:
    """``1 edge``, ``2 edges``, ``0.5 edges``; ``many`` where an s does not do."""
    number = f"{count:.3g}" if isinstance(count, float) else f"{count}"
    return f"{number} {word_for(count, one, many)}"


def word_for(count: float, one: str, many: str | None = None) -> str:
    """The word alone, in the number that goes with ``count``."""
    return one if count == 1 else many or one + "s"
