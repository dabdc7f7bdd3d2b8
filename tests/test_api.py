"""What is public: one table, typed, documented, and all that the documents need."""

from __future__ import annotations

import ast
import re
import types
from importlib import import_module
from pathlib import Path

import pytest

import tempose

HOME = Path(__file__).parent.parent
DOCUMENTS = [HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))]
FOR_USERS = [*DOCUMENTS, *sorted((HOME / "examples").glob("[0-9]*.py"))]  # other scripts are studies, and reach inside
PAGE = HOME / "docs" / "reference" / "api.md"


def static_imports(path: Path) -> dict[str, str]:
    """Name → module of everything that a package imports for type checkers only."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for one in node.body:
                assert isinstance(one, ast.ImportFrom) and one.module is not None
                for alias in one.names:
                    assert alias.asname == alias.name, f"{alias.name}: without `as {alias.name}` it is not re-exported"
                    found[alias.name] = one.module
    return found


@pytest.mark.parametrize("package", ["tempose", *(f"tempose.{name}" for name in tempose.NAMESPACES)])
def test_the_table_is_what_type_checkers_see(package: str) -> None:
    module = import_module(package)
    if hasattr(module, "_WHERE"):
        assert module.__file__ is not None
        table = {name: f"{package}.{where}" for name, where in module._WHERE.items()}
        assert static_imports(Path(module.__file__)) == table
        assert module.__all__ == sorted(table)
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        value = getattr(module, name)
        assert package == "tempose.geometry" or not isinstance(value, types.ModuleType), (
            f"{name} is shadowed by a module"
        )


def test_about_twenty_names_and_no_other() -> None:
    assert len(tempose.__all__) <= 25
    with pytest.raises(AttributeError, match="module 'tempose' has no attribute 'sovle'"):
        tempose.sovle  # noqa: B018
    assert re.match(r"\d+\.\d+", tempose.__version__)
    assert tempose.analysis.pose_errors is tempose.pose_errors  # a namespace needs no import of its own


def public(dotted: str) -> bool:
    """Whether a dotted name is public: a name of ``tempose``, a namespace, or one of its names (and what is in it)."""
    first, _, rest = dotted.partition(".")
    if first in tempose.__all__ or first == "__version__":
        return True
    if first not in tempose.NAMESPACES:
        return False
    return not rest or rest.partition(".")[0] in import_module(f"tempose.{first}").__all__


def used(text: str) -> list[str]:
    """Every dotted name of the package that a document imports or mentions."""
    found = []
    for module, names in re.findall(r"^from tempose((?:\.\w+)*) import ([\w, ]+)", text, re.MULTILINE):
        found += [f"{module}.{name.split(' as ')[0].strip()}".strip(".") for name in names.split(",")]
    text = re.sub(r"^from tempose.*$", "", text, flags=re.MULTILINE)
    return found + re.findall(r"(?<![\w./-])tempose\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?!\S*\.(?:md|html))", text)


@pytest.mark.parametrize("path", FOR_USERS, ids=lambda path: path.name)
def test_documents_use_what_is_public(path: Path) -> None:
    assert [name for name in used(path.read_text()) if not public(name)] == []


def test_the_check_sees_what_is_not_public() -> None:
    """Negative control."""
    text = "from tempose.sfm.scene import Scene\nimport tempose\ntempose.solver.solve(g); `tempose.Nothing`; tempose.solve(g)"
    assert [name for name in used(text) if not public(name)] == ["sfm.scene.Scene", "solver.solve", "Nothing"]


def test_the_page_of_names_has_each_of_them() -> None:
    section, listed = "", {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line.strip("# `")
        elif line.startswith("| `"):
            listed.setdefault(section, set()).add(re.split(r"\W", line[3:])[0])
    expected = {
        name: set(import_module(name).__all__) for name in ["tempose", *(f"tempose.{n}" for n in tempose.NAMESPACES)]
    }
    assert listed == expected, "run python .ci/api.py"
