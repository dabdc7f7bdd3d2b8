"""Constants that were chosen by looking at data are marked where they are, and stand in one table with these data."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import tempose

SOURCE = Path(tempose.__file__).parent
TABLE = Path(__file__).parent.parent / "docs" / "evidence" / "chosen-constants.md"
MARK = "# chosen on: "


class Chosen(NamedTuple):
    """A marked constant."""

    name: str
    module: str
    value: str
    chosen_on: str


def in_text(text: str, module: str) -> list[Chosen]:
    """Every constant of a module with the mark on the line above it, in order."""
    lines, owner, found = text.splitlines(), {}, {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            owner |= {one.lineno: node.name for one in node.body}
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            above = lines[node.lineno - 2].strip() if node.lineno > 1 else ""
            if above.startswith(MARK):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                name = ast.unparse(target).strip("()")
                value = ast.unparse(node.value)
                full = f"{owner[node.lineno]}.{name}" if node.lineno in owner else name
                found[node.lineno] = Chosen(full, module, value, above.removeprefix(MARK))
    marks = sum(line.strip().startswith(MARK) for line in lines)
    assert marks == len(found), f"{module}: a mark that is not on the line above a constant"
    return [found[line] for line in sorted(found)]


def in_source() -> list[Chosen]:
    """All marked constants of the package."""
    paths = sorted(SOURCE.rglob("*.py"))
    return [c for path in paths for c in in_text(path.read_text(), path.relative_to(SOURCE).as_posix())]


def in_table(text: str) -> tuple[list[Chosen], list[str]]:
    """The rows of the document's table, and what each was judged on."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]
    return [Chosen(*(cell.strip("`") for cell in row[:4])) for row in rows], [row[4] for row in rows]


def test_the_table_has_what_is_marked_in_the_source_and_nothing_else() -> None:
    listed, judged = in_table(TABLE.read_text())
    assert sorted(listed) == sorted(in_source())
    assert len(listed) >= 10 and all(judged)


def reasoned_in(text: str) -> list[tuple[str, str, str]]:
    """Name, module and value of every constant in the document's list of those that are reasoned."""
    return re.findall(r"^- `([\w, ]+)` in `([\w/]+\.py)` is `(.+?)`: ", text, flags=re.MULTILINE)


def value_in(text: str, name: str) -> object:
    """What a module gives to a constant, or to several at once."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).strip("()") == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{name} is not there")


def test_reasoned_constants_have_the_values_of_the_source_and_no_mark() -> None:
    found, marked = reasoned_in(TABLE.read_text()), {(c.module, c.name) for c in in_source()}
    assert len(found) >= 7
    for name, module, value in found:
        assert value_in((SOURCE / module).read_text(), name) == ast.literal_eval(value), name
        assert (module, name) not in marked


def test_a_changed_value_another_place_and_a_lost_mark_are_seen() -> None:
    """Negative control."""
    text = "# chosen on: castles\nA = 2.0  # metres\n\nclass Options:\n    # chosen on: rooms\n    b: int = 3\n"
    assert in_text(text, "m.py") == [Chosen("A", "m.py", "2.0", "castles"), Chosen("Options.b", "m.py", "3", "rooms")]
    assert in_text(text.replace("2.0", "2.5"), "m.py") != in_text(text, "m.py")
    assert in_text(text.replace("# chosen on: castles", "#"), "m.py") == in_text(text, "m.py")[1:]
    with pytest.raises(AssertionError, match="not on the line above"):
        in_text(text.replace("castles\n", "castles\n\n"), "m.py")
