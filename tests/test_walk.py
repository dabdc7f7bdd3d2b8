"""The script that traces a command's walk sees the order of modules, and calls that go back and forth."""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

FILES = {
    "__init__": "",
    "top": "from walked.middle import work\ndef run():\n    def hook():\n        return 1\n    return work(hook)\n",
    "middle": (
        "from dataclasses import dataclass\n"
        "from walked import low\n"
        "at_import = low.table()\n"
        "@dataclass\n"
        "class Record:\n"
        "    x: int\n"
        "def work(hook):\n"
        "    return hook() + low.number(Record(1)) + helper()\n"
        "def helper():\n"
        "    return 1\n"
    ),
    "low": "def table():\n    return 1\ndef number(record):\n    from walked import middle\n    return middle.helper()\n",
}


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, set on a small package."""
    spec = importlib.util.spec_from_file_location("walk", Path(__file__).parent.parent / ".ci" / "walk.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "walk", module)  # where dataclasses look up their module
    spec.loader.exec_module(module)
    (tmp_path / "walked").mkdir()
    for name, text in FILES.items():
        (tmp_path / "walked" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "PACKAGE", "walked")
    yield module
    for name in [name for name in sys.modules if name.partition(".")[0] == "walked"]:
        del sys.modules[name]


def test_order_depth_and_calls_that_go_back(walk: ModuleType) -> None:
    def command() -> int:
        from walked.top import run  # type: ignore[import-not-found]

        other = threading.Thread(target=run)  # threads are watched
        other.start()
        other.join()
        return 0

    seen = walk.watch(command)
    # low.table was called by an import, and Record's constructor is nobody's function: neither counts
    assert seen.order == {
        "walked.top": (0, "run"),
        "walked.middle": (1, "work"),
        "walked.low": (2, "number"),
    }
    assert seen.back_and_forth() == [
        "top → middle: work; back: run.<locals>.hook (callback)",
        "middle → low: number; back: helper",
    ]
    assert seen.rooms() == ["top", "middle", "low"]
    assert sys.getprofile() is None
