"""Shared pieces of the tests: real data if it is there, small graphs of every kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder of the real data sets."""
    folder = os.environ.get("TEMPOSE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("TEMPOSE_DATA is not set to the folder of real data sets")
    return Path(folder)
