"""Numbers in sentences."""

from __future__ import annotations

import pytest

from tempose._support.words import plural, word_for


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 edges"), (1, "1 edge"), (2, "2 edges"), (1.0, "1 edge"), (0.5, "0.5 edges"), (2.0625, "2.06 edges")],
)
def test_one_is_singular_and_nothing_else(count: float, said: str) -> None:
    assert plural(count, "edge") == said


def test_a_word_may_have_another_plural() -> None:
    assert plural(3, "rotation matrix", "rotation matrices") == "3 rotation matrices"
    assert word_for(1, "hangs", "hang") == "hangs" and word_for(2, "hangs", "hang") == "hang"
