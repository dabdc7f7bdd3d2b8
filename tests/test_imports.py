"""Imports point one way, and the package starts quickly."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import tempose

ROOT = Path(tempose.__file__).parent.parent


def _house() -> ModuleType:
    """The script that counts: what it counts is what is enforced here."""
    path = Path(__file__).parent.parent / ".ci" / "house.py"
    spec = importlib.util.spec_from_file_location("house", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house = _house()
GRAPH = house.import_graph(ROOT)

# From the bottom up; a module may import from its own room and from those below it. CONTRIBUTING.md draws the same.
LAYERS = [
    ["errors", "_typing"],
    ["_support"],
    ["geometry"],
    ["numerics"],
    ["model"],
    ["io", "simulation", "dynamics"],
    ["optimum"],
    ["partitioned"],
    ["outliers"],
    ["sampling"],
    ["analysis"],
    ["describe", "options"],
    ["paper"],
    ["solution"],
    ["solver"],
    ["interop"],
    ["methods"],
    ["sfm"],
    ["studies"],
    ["report"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def test_every_room_has_a_layer() -> None:
    assert {house.room(name) for name in GRAPH} == {*RANK, "tempose"}


def test_the_picture_in_contributing_is_this_one() -> None:
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text()
    picture = text.split("```")[3].strip().splitlines()
    drawn = [sorted(line.split("  ")[0].split(", ")) for line in (one.strip() for one in picture)]
    assert drawn == [sorted(names) for names in LAYERS]


def upward(graph: dict[str, set[str]]) -> list[str]:
    """Imports that do not point down, nor stay in their room."""
    return [
        f"{name} imports {one}"
        for name, others in graph.items()
        for one in others
        if name != "tempose" and house.room(one) != house.room(name) and RANK[house.room(one)] >= RANK[house.room(name)]
    ]


def test_every_import_points_down() -> None:
    assert upward(GRAPH) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert house.cycles(GRAPH) == []


def test_nobody_imports_what_another_package_keeps_to_itself() -> None:
    assert house.borrowed_underscores(GRAPH) == []


def test_a_class_name_means_one_thing() -> None:
    assert house.class_names(ROOT) == {}


def test_the_checks_see_what_they_forbid(tmp_path: Path) -> None:
    """Negative control: an upward import inside a function, a cycle, a borrowed underscore, a class twice."""
    files = {
        "__init__": "",
        "model/__init__": "",
        "model/_hidden": "class A:\n    pass\n",
        "model/graph": "def f():\n    from tempose.solver import solve\n",
        "solver": "from tempose.model import graph\nfrom tempose.model import _hidden\nclass A:\n    pass\n",
    }
    for name, text in files.items():
        path = tmp_path / "tempose" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    graph = house.import_graph(tmp_path)
    assert upward(graph) == ["tempose.model.graph imports tempose.solver"]
    assert house.cycles(graph) == [["tempose.model.graph", "tempose.solver"]]
    assert house.borrowed_underscores(graph) == ["tempose.solver → tempose.model._hidden"]
    assert set(house.class_names(tmp_path)) == {"A"}


def test_import_and_help_load_nothing_heavy() -> None:
    code = (
        "import sys, tempose; from tempose.cli.parser import build_parser; build_parser();"
        "print(sorted({'numpy', 'numba', 'scipy', 'rich', 'matplotlib'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_all_public_names_exist_and_are_not_modules() -> None:
    import types

    import tempose.solver  # a submodule must not shadow a function

    for name in tempose.__all__:
        assert not isinstance(getattr(tempose, name), types.ModuleType), name
