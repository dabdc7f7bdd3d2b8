"""Imports point one way, and the package starts quickly."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tempose

ROOT = Path(tempose.__file__).parent

# From the bottom up; a module may import from its own layer and from those below it.
LAYERS = [
    ["errors", "files", "processes", "streams"],
    ["geometry"],
    ["kernels", "sparse"],
    ["bingham", "poses"],
    ["graph"],
    ["gauge", "likelihood", "posterior", "io"],
    ["overview", "metrics", "simulation"],
    ["optimum"],
    ["robust"],
    ["inference"],
    ["options"],
    ["solution"],
    ["solver"],
    ["baselines", "calibration"],
    ["sfm"],
    ["experiments"],
    ["report"],
    ["cli", "__init__", "__main__"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {
                f"{node.module}.{alias.name}" if node.module == "tempose" else node.module for alias in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "tempose" and name != "tempose"}


def test_every_import_points_down() -> None:
    wrong = []
    for path in ROOT.rglob("*.py"):
        here = path.relative_to(ROOT).parts[0].removesuffix(".py")
        assert here in RANK, f"{path} has no layer: add it to LAYERS"
        wrong += [
            f"{path.relative_to(ROOT)} imports {name}"
            for name in imports(path)
            if RANK[room(name)] > RANK[here] and here != "__init__"
        ]
    assert not wrong


def test_the_layer_test_sees_an_upward_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    from tempose.solver import solve\n")
    assert imports(bad) == {"tempose.solver"}


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
