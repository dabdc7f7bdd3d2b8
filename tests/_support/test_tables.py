"""Tables, plain values and missing packages: one rule of each for the whole package."""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path

import numpy as np
import pytest

from tempose._support.files import make_directory
from tempose._support.packages import require
from tempose._support.plain import json_text, plain
from tempose._support.progress import Progress, counted
from tempose._support.tables import csv_rows, csv_text, text_table
from tempose.cli import main
from tempose.errors import FileError, MissingPackage, NotApplicable, OptionError


def test_numbers_become_json_all_the_way_down() -> None:
    value = {"a": np.float64(0.1), "b": [np.int64(2), (math.nan, -math.inf)], "c": np.array([[1.0, np.nan]]), "d": "x"}
    expected = {"a": 0.1, "b": [2, [None, None]], "c": [[1.0, None]], "d": "x"}
    assert plain(value) == expected
    assert json.loads(json_text(value)) == expected
    assert plain(True) is True and plain(np.bool_(False)) is False and plain(None) is None


def test_csv_has_all_digits_and_nothing_for_none() -> None:
    assert csv_text(["id", "x"], [["a,b", 2], np.array([0.1, 1 / 3])]) == 'id,x\n"a,b",0.1\n2,0.3333333333333333\n'
    assert csv_rows([{"a": 1, "b": None}, {"a": 2, "c": 0.5}]) == "a,b,c\n1,,\n2,,0.5\n"
    with pytest.raises(ValueError, match="shorter"):
        csv_text(["a", "b"], [[1, 2], [3]])


def test_numbers_stand_on_the_right_and_words_on_the_left() -> None:
    assert text_table([["name", "n", ""], ["a", "10", "x"]], left=(0, 2)) == "name   n\na     10  x"
    assert text_table([["a", "1"], ["long", "22"]], left=(0, 1), indent="  ") == "  a     1\n  long  22"


def test_a_missing_package_is_told_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require("json", "a test") is json
    monkeypatch.setitem(__import__("sys").modules, "viser", None)
    with pytest.raises(
        MissingPackage, match=r"^viser is needed for the viewer: pip install 'tempose\[view\]'$"
    ) as caught:
        require("viser", "the viewer")
    assert (caught.value.package, caught.value.extra) == ("viser", "view")
    with pytest.raises(MissingPackage, match=r"pip install no_such_package$"):
        require("no_such_package", "nothing")


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"file: cannot be a directory"):
        make_directory(tmp_path / "file")
    assert make_directory(tmp_path / "a" / "b").is_dir()


def test_only_a_wrong_option_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tempose.cli import demo

    for error, code in ((OptionError("no"), 2), (NotApplicable("no"), 1), (MissingPackage("a", "b", None), 1)):

        def fail(arguments: object, error: Exception = error) -> int:
            raise error

        monkeypatch.setattr(demo, "run", fail)
        assert main(["demo"]) == code
        assert capsys.readouterr().err.startswith("tempose: ")


def test_threads_count_together() -> None:
    seen: list[Progress] = []
    add = counted(seen.append, "sampling", 400)
    threads = [threading.Thread(target=lambda: [add(1) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.done for one in seen] == list(range(1, 401))
    assert {(one.phase, one.total) for one in seen} == {("sampling", 400)}


def test_a_refusal_carries_its_cause() -> None:
    assert NotApplicable("x does not apply: y; use z", cause="y").cause == "y"
    assert NotApplicable("y").cause == "y"
