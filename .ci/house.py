"""The house in numbers: modules, lines, imports and cycles between packages and modules, names that occur twice.

    python .ci/house.py                 # of this checkout
    python .ci/house.py src BEFORE/src  # side by side

``tests/test_imports.py`` takes its graph of imports from here, so that what is counted is what is enforced.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path


def modules(root: Path) -> dict[str, Path]:
    """Every module of the package below ``root``, by its dotted name; a package is called as its folder."""
    found = {}
    for path in sorted((root / "tempose").rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: set[str], package: str = "") -> set[str]:
    """Modules of the package that a file imports anywhere in it: at the top, in a function, or for type checkers only."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join(parts[: len(parts) - node.level + 1] + ([node.module] if node.module else []))
            for alias in node.names:
                full = f"{base}.{alias.name}"
                found.add(full if full in known else base)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "tempose" and name != "tempose"}


def package_of(name: str, path: Path) -> str:
    """The package that a module's relative imports start from."""
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def import_graph(root: Path) -> dict[str, set[str]]:
    """Which module imports which, of the package below ``root``."""
    known = modules(root)
    return {
        name: {one for one in imports(path, set(known), package_of(name, path)) if one in known and one != name}
        for name, path in known.items()
    }


def room(module: str) -> str:
    """The package, or the single module, of the top level that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "tempose"


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other: strongly connected components of more than one (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == node:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def rooms(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same graph between rooms; the public face (``tempose`` itself) left out, which imports every one."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        if room(name) != "tempose":
            found[room(name)] |= {room(one) for one in others} - {room(name), "tempose"}
    return dict(found)


def borrowed_underscores(graph: dict[str, set[str]]) -> list[str]:
    """Imports of a module whose name begins with an underscore from outside the package that holds it."""
    found = []
    for name, others in graph.items():
        for one in others:
            parts = one.split(".")
            private = next((k for k, part in enumerate(parts) if part.startswith("_")), None)
            if private is not None and not f"{name}.".startswith(".".join(parts[:private]) + "."):
                found.append(f"{name} → {one}")
    return sorted(found)


def _private_names(root: Path) -> list[str]:
    """Imports of a name with an underscore from another module's insides."""
    found = []
    for name, path in modules(root).items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("tempose")):
                base = node.module or ""
                for alias in node.names:
                    is_module = f"{base}.{alias.name}" in modules(root) or node.level
                    if alias.name.startswith("_") and not alias.name.startswith("__") and not is_module:
                        found.append(f"{name} → {base}.{alias.name}")
    return found


def class_names(root: Path) -> dict[str, list[str]]:
    """Names of classes that occur in more than one module."""
    where: dict[str, list[str]] = defaultdict(list)
    for name, path in modules(root).items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                where[node.name].append(name)
    return {name: places for name, places in where.items() if len(places) > 1}


def _options_per_command(root: Path) -> dict[str, int]:
    """Options of each command, as its ``--help`` (and ``--help-all``, where there is one) lists them."""
    import subprocess

    found = {}
    environment = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    commands = ["demo", "info", "simulate", "solve", "eval", "compare", "calibrate", "convert", "sfm", "view"]
    for command in commands:
        for flag in ("--help-all", "--help"):
            shown = subprocess.run(
                [sys.executable, "-m", "tempose", command, flag],
                capture_output=True,
                text=True,
                env=environment,
                check=False,
            )
            if shown.returncode == 0:
                found[command] = len(
                    set(re.findall(r"^  (?:-\w(?: \w+)?, )?(--[a-z][a-z-]+)", shown.stdout, re.MULTILINE))
                )
                break
    return found


def _public_names(root: Path) -> int:
    tree = ast.parse((root / "tempose" / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            with contextlib.suppress(ValueError):
                return len(ast.literal_eval(node.value))
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if getattr(target, "id", "") == "_WHERE" and isinstance(node.value, ast.Dict):
                return len(node.value.keys)
    return 0


def facts(root: Path) -> dict[str, str]:
    """Everything that is counted, by its name."""
    known, graph = modules(root), import_graph(root)
    between = rooms(graph)
    lines = {name: path.read_text().count("\n") for name, path in known.items()}
    text = {name: path.read_text() for name, path in known.items()}
    twice = class_names(root)
    module_cycles = cycles({k: v - {"tempose"} for k, v in graph.items() if k != "tempose"})
    aliases = sum(bool(re.search(r"^Array = NDArray", one, re.MULTILINE)) for one in text.values())
    longest = sorted(lines.items(), key=lambda item: -item[1])[:6]
    options = _options_per_command(root)
    return {
        "modules": str(len(known)),
        "lines": str(sum(lines.values())),
        "median lines of a module": str(sorted(lines.values())[len(lines) // 2]),
        "rooms (packages and modules of the top level)": str(len(between)),
        "imports between rooms": str(sum(map(len, between.values()))),
        "cycles between rooms": _groups(cycles(between)),
        "module cycles, imports inside functions counted": _groups(module_cycles),
        "imports of another package's underscore": str(len(borrowed_underscores(graph)) + len(_private_names(root))),
        "class names that occur twice": f"{len(twice)}" + (f" ({', '.join(sorted(twice))})" if twice else ""),
        "`fmt: skip`": str(sum(one.count("fmt: skip") for one in text.values())),
        "copies of `Array = NDArray[…]`": str(aliases),
        "public names of `tempose`": str(_public_names(root)),
        "options per command": ", ".join(f"{k} {v}" for k, v in options.items()),
        "longest files": ", ".join(f"{name.removeprefix('tempose.')} {count}" for name, count in longest),
    }


def _groups(found: list[list[str]]) -> str:
    named = "; ".join(" ↔ ".join(one.removeprefix("tempose.") for one in group) for group in found)
    return "0" if not found else f"{len(found)} ({named})"


def table(columns: dict[str, dict[str, str]]) -> Iterator[str]:
    """Markdown rows, one column for each tree."""
    yield "| | " + " | ".join(columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for name in next(iter(columns.values())):
        yield f"| {name} | " + " | ".join(one[name] for one in columns.values()) + " |"


def main(*roots: str) -> int:
    """Print the table."""
    chosen = [Path(one) for one in roots] or [Path(__file__).resolve().parent.parent / "src"]
    out = io.StringIO()
    for line in table({str(one): facts(one) for one in chosen}):
        print(line, file=out)
    print(out.getvalue(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
