"""Shared pieces of the tests: real data if it is there, small graphs of every kind; and what was left out, in the end."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder of the real data sets."""
    folder = os.environ.get("TEMPOSE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TEMPOSE_DATA is not set to the folder of real data sets")
    return Path(folder)


LACKING = {
    "TEMPOSE_DATA": ("no real data sets", "export TEMPOSE_DATA=FOLDER; a minute more"),
    "pycolmap|extra sfm": ("no pycolmap", "pip install '.[sfm]'"),
    "matplotlib": ("no matplotlib", "pip install '.[plot]'"),
    "viser|extra view": ("no viser", "pip install '.[view]'"),
    "arviz|xarray|h5netcdf|h5py": ("no ArviZ", "pip install '.[arviz]'"),
    "gtsam|blackjax": ("no GTSAM or BlackJAX", "pip install '.[bench]'"),
    "pandas|networkx": ("no pandas or networkx", "pip install '.[interop]'"),
    "pymetis": ("no METIS", "pip install '.[large]'"),
    "chromium|browser": ("no Chromium", "install it"),
}
"""By what a reason says: what is lacking, and what to do."""


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line per reason why tests were skipped, and how long those that ran have taken."""
    skipped = Counter(reason(report) for report in terminalreporter.stats.get("skipped", []))
    for (why, remedy), count in skipped.most_common():
        terminalreporter.write_line(f"skipped {count}: {why}" + (f" ({remedy})" if remedy else ""))
    ran = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    seconds = sum(report.duration for report in ran)
    terminalreporter.write_line(f"{len(ran)} tests ran, {seconds:.0f} s of work; {sum(skipped.values())} were skipped")


def reason(report: Any) -> tuple[str, str]:
    """Why a test was skipped, and what to do so that it is not."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    text = text.removeprefix("Skipped: ").strip().splitlines()[0]
    for words, told in LACKING.items():
        if re.search(words, text, re.IGNORECASE):
            return told
    return text, ""
