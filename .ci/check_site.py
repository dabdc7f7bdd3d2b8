"""Look at a built site: every link between pages has its file and its anchor, pages can be searched, notebooks have output.

python .ci/check_site.py SITE
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

NOTEBOOKS = 5


class Page(HTMLParser):
    """Targets and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def broken(site: Path) -> list[str]:
    """Links that lead nowhere, each with its page."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//|data:", link):
                continue
            file, _, anchor = unquote(link).partition("#")
            target = path if not file else (path.parent / file.split("?")[0]).resolve()
            if not target.exists():
                found.append(f"{path.relative_to(site)}: {link}")
            elif anchor and target in pages and anchor not in pages[target].ids:
                found.append(f"{path.relative_to(site)}: {link} (no such anchor)")
    return found


def main(folder: str) -> int:
    """Say what is wrong."""
    site = Path(folder).resolve()
    wrong = broken(site)
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    wrong += [
        f"searchindex.js does not know {word}"
        for word in ("bingham", "gaug", "tutorials/robot-loop")
        if word not in index
    ]
    executed = [
        path for path in (site / "tutorials").glob("*.html") if "cell_output" in path.read_text(encoding="utf-8")
    ]
    if len(executed) != NOTEBOOKS:
        wrong.append(f"{len(executed)} notebooks have output, expected {NOTEBOOKS}")
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(list(site.rglob('*.html')))} pages, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
