"""Every block of the documents is run, or says why not; and how many say so is counted."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

import tempose

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(bash|python|\{code-cell\})([^\n]*)$", re.MULTILINE)
MOST = {"minutes": 34, "data": 16, "photographs": 8, "elsewhere": 8, "docker": 1}
"""Blocks that are not run, by reason, at most: a new one needs a reason and a place here."""
SECTIONS = ("start", "tutorials", "how-to", "reference", "explanation", "evidence")


def runner() -> object:
    spec = importlib.util.spec_from_file_location("run_docs", ROOT / ".ci" / "run_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reasons(text: str) -> list[str]:
    """Of every block: why it is not run, or nothing."""
    found = []
    for _, flags in FENCE.findall(text):
        match = re.search(r"no-run(?:=([\w-]+))?", flags)
        found.append("" if match is None else match[1] or "no reason")
    return found


def test_blocks_that_are_not_run_are_counted() -> None:
    every = [one for page in PAGES for one in reasons(page.read_text(encoding="utf-8"))]
    left = Counter(one for one in every if one)
    assert set(left) <= set(runner().REASONS), left  # type: ignore[attr-defined]
    assert set(MOST) == set(runner().REASONS)  # type: ignore[attr-defined]
    assert all(count <= MOST[reason] for reason, count in left.items()), left
    assert every.count("") > 100


def test_a_block_without_a_reason_is_seen() -> None:
    """Negative control."""
    text = "```bash no-run\nx\n```\n\n```python\ny\n```\n\n```bash no-run=minutes\nz\n```\n"
    assert reasons(text) == ["no reason", "", "minutes"]


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES[1:]} - {"index"}
    listed = set(re.findall(rf"^((?:{'|'.join(SECTIONS)})/[\w-]+)$", index, re.MULTILINE))
    assert {page for page in pages if "/names/" not in page} == listed
    names = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    assert all(page.partition("/")[2] in names.splitlines() for page in pages if "/names/" in page)


def test_every_field_and_column_of_a_result_is_described(tmp_path: Path) -> None:
    made = tempose.simulate(8, completeness=0.8, seed=1)
    home = tempose.solve(made.graph, draws=40, chains=2, robust=True).save(tmp_path / "r", record={"input": {}})
    page = (ROOT / "docs" / "reference" / "files.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[\w.-]+", page))
    assert set(json.loads((home / "result.json").read_text())) <= words
    columns = [
        name for file in ("poses.csv", "edges.csv") for name in (home / file).read_text().split("\n")[0].split(",")
    ]
    axis = re.compile(r"(mcse_)?sigma_.+|mcse_.+")  # told by their first and last
    assert {name for name in columns if not axis.fullmatch(name)} <= words
    assert {file.name for file in home.iterdir()} <= words | {"draws"}
