"""The tests mirror the source: a folder of tests has the room of its name, beside helpers and contracts."""

from __future__ import annotations

import re
from pathlib import Path

import tempose

HERE = Path(__file__).parent
ROOMS = Path(tempose.__file__).parent
SHARED = {"helpers", "contract"}  # pieces that several tests use; promises that all of a kind keep


def folders(tests: Path) -> set[str]:
    """Folders with tests, relative to ``tests``."""
    return {path.parent.relative_to(tests).as_posix() for path in tests.rglob("*.py")} - {"."}


def strays(tests: Path) -> set[str]:
    """Folders without a room of the same name in the package."""
    return {name for name in folders(tests) - SHARED if not (ROOMS / name / "__init__.py").is_file()}


def test_every_folder_of_tests_has_its_room() -> None:
    assert strays(HERE) == set()
    assert len(folders(HERE)) > 10


def test_a_folder_without_a_room_is_seen(tmp_path: Path) -> None:
    """Negative control."""
    for name in ("optimum", "inference"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_it.py").touch()
    assert strays(tmp_path) == {"inference"}


def test_no_test_imports_another_test() -> None:
    names = {path.stem for path in HERE.rglob("test_*.py")}
    for path in HERE.rglob("*.py"):
        lines = [line.split() for line in path.read_text().splitlines() if line.startswith(("from ", "import "))]
        assert not names & {line[1].rsplit(".", 1)[-1] for line in lines}, path


def test_all_files_name_one_version() -> None:
    version = re.search(r'^version = "(.+)"$', (HERE.parent / "pyproject.toml").read_text(), re.M)[1]
    assert f"\nversion: {version}\n" in (HERE.parent / "CITATION.cff").read_text()
    assert f'\n  version: "{version}"\n' in (HERE.parent / "packaging" / "recipe.yaml").read_text()
    assert f"\n## {version}" in (HERE.parent / "CHANGELOG.md").read_text()
