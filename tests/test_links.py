"""Relative links of the documentation point to files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


def broken(page: Path) -> list[str]:
    """Targets of a page's relative links that are not there."""
    targets = [markdown or html for markdown, html in LINK.findall(page.read_text(encoding="utf-8"))]
    files = [target.split("#")[0] for target in targets if "://" not in target and not target.startswith("mailto:")]
    return [name for name in files if name and not (page.parent / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_has_its_file(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    """Negative control."""
    page = tmp_path / "page.md"
    page.write_text("[here](page.md#top), [top](#top), [far](https://example.org/x.md), [gone](../src/gone.py)")
    assert broken(page) == ["../src/gone.py"]
