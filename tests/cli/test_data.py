"""``tempose data``: what experiments need, and whether it is there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tempose.cli import main
from tempose.studies.data_sets import DATA_SETS, NEEDED, experiments_of, missing
from tempose.studies.registry import EXPERIMENTS


def test_what_experiments_say_they_need_is_listed() -> None:
    for name, entry in EXPERIMENTS.items():
        told = entry.paper.replace(",", " ").replace(";", " ").replace(".", " ").split()
        named = {one for one in DATA_SETS if one in told and "Needs the data set" in entry.paper}
        assert named <= set(NEEDED.get(name, ())), name
    assert set(NEEDED) <= set(EXPERIMENTS) and all(experiments_of(name) for name in DATA_SETS)


def test_the_list_has_source_licence_and_layout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    said = capsys.readouterr().out
    for name, one in DATA_SETS.items():
        assert f"{name}: {one.what}" in said and one.source in said and one.licence in said
    assert main(["data", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["madrid"]["experiments"] == ["madrid"]


def test_a_folder_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["data", "check", str(tmp_path)]) == 1  # nothing is there
    (tmp_path / "madrid").mkdir()
    for name in ("EGs.txt", "list.txt"):
        (tmp_path / "madrid" / name).write_text("")
    capsys.readouterr()
    assert main(["data", "check", str(tmp_path)]) == 1
    assert "1 of 3 kinds of files missing: kasten_gt_176.mat" in capsys.readouterr().out
    (tmp_path / "madrid" / "kasten_gt_176.mat").write_text("")
    monkeypatch.setenv("TEMPOSE_DATA", str(tmp_path))
    assert main(["data", "check"]) == 0
    said = capsys.readouterr().out
    assert "complete" in said and "not there; covariance-sphere cannot run" in said
    monkeypatch.delenv("TEMPOSE_DATA")
    assert main(["data", "check"]) == 2 and "name the folder to check" in capsys.readouterr().err
    assert main(["data", "check", str(tmp_path / "no")]) == 1 and "no such folder" in capsys.readouterr().err


@pytest.mark.skipif("TEMPOSE_DATA" not in os.environ, reason="needs TEMPOSE_DATA")
def test_the_patterns_are_those_of_the_data() -> None:
    home = Path(os.environ["TEMPOSE_DATA"])
    for name in DATA_SETS:
        if (home / name).is_dir():
            assert missing(home, name) == [], name
