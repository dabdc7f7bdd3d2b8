"""The end of a run says what was left out and why."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace


def test_one_line_per_reason() -> None:
    spec = importlib.util.spec_from_file_location("shared", Path(__file__).with_name("conftest.py"))
    assert spec is not None and spec.loader is not None
    shared = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shared)
    why = [
        "Skipped: TEMPOSE_DATA is not set to the folder of real data sets",
        "Skipped: TEMPOSE_DATA is not set: no graph files to certify",
        "Skipped: could not import 'matplotlib': No module named 'matplotlib'",
        "Skipped: needs the extra sfm",
        "Skipped: too hot today",
    ]
    stats = {
        "skipped": [SimpleNamespace(longrepr=("file", 1, text)) for text in why],
        "passed": [SimpleNamespace(duration=1.5)] * 4,
    }
    told: list[str] = []
    shared.pytest_terminal_summary(SimpleNamespace(stats=stats, write_line=told.append))
    assert told == [
        "skipped 2: no real data sets (export TEMPOSE_DATA=FOLDER; a minute more)",
        "skipped 1: no matplotlib (pip install '.[plot]')",
        "skipped 1: no pycolmap (pip install '.[sfm]')",
        "skipped 1: too hot today",
        "4 tests ran, 6 s of work; 5 were skipped",
    ]
