"""MATLAB files as scipy writes them, and damaged ones."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from tempose.errors import ParseError
from tempose.io.matlab import read_variables


@pytest.mark.parametrize("packed", [False, True])
def test_what_scipy_writes_comes_back(tmp_path: Path, packed: bool) -> None:
    cells = np.empty((2, 3), dtype=object)
    cells[:] = [["a.jpg", np.eye(3), "é日"], [np.arange(3), np.empty((0, 0)), "x"]]
    wanted = {"cells": cells, "M": np.arange(24.0).reshape(2, 3, 4), "small": np.uint8([[1, 2]]), "word": "hello"}
    savemat(tmp_path / "a.mat", {**wanted, "struct": {"b": 1}}, do_compression=packed)
    found = read_variables(tmp_path / "a.mat", wanted)
    assert found.keys() == wanted.keys() and found["word"] == "hello"
    np.testing.assert_array_equal(found["M"], wanted["M"])
    np.testing.assert_array_equal(found["small"], wanted["small"])
    assert found["small"].dtype == np.uint8
    for there, own in zip(found["cells"].ravel(), cells.ravel(), strict=True):
        assert there == own if isinstance(own, str) else np.array_equal(np.squeeze(there), np.squeeze(own))
    with pytest.raises(ParseError, match="neither|no array"):
        read_variables(tmp_path / "a.mat", ["struct"])


def test_every_cut_is_refused(tmp_path: Path) -> None:
    cells = np.empty(2, dtype=object)
    cells[:] = ["a", np.eye(2)]
    for packed in (False, True):
        savemat(tmp_path / "a.mat", {"cells": cells}, do_compression=packed)
        data = (tmp_path / "a.mat").read_bytes()
        for size in range(0, len(data) - 8, 3):
            (tmp_path / "b.mat").write_bytes(data[:size])
            with contextlib.suppress(ParseError):
                assert "cells" not in read_variables(tmp_path / "b.mat", ["cells"])
    (tmp_path / "c.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(200))
    with pytest.raises(ParseError, match="save it with -v7"):
        read_variables(tmp_path / "c.mat", ["cells"])
