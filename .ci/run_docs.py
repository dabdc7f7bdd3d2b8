"""Run every bash and python block of Markdown files, in order: one directory and one Python session per file.

A block is left out only if its fence says why: ```bash no-run=minutes (the words are in REASONS; tests/test_docs.py counts
them). Cells of notebooks (```{code-cell}) are run when the site is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

FENCE = re.compile(r"^```(bash|python)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
REASONS = {
    "minutes": "takes minutes or more",
    "data": "needs data sets that are not part of the project",
    "photographs": "needs photographs, or a model of them, of your own",
    "elsewhere": "the same is run on another page, or by the gate itself",
    "docker": "needs Docker",
}
"""Why a block is not run."""
ROOT = Path(__file__).resolve().parent.parent


def run_file(name: str, folder: str) -> None:
    """Run the blocks of one file in a copy of what a reader has: the checkout."""
    home = Path(folder)
    home.mkdir(parents=True)
    for extra in ("examples", "benchmarks", "src", "docs"):
        shutil.copytree(ROOT / extra, home / extra, ignore=shutil.ignore_patterns("__pycache__"))
    for extra in ("pyproject.toml", "README.md", "LICENSE"):  # what pip install . needs
        shutil.copy(ROOT / extra, home / extra)
    text = Path(name).read_text()
    os.chdir(home)
    session: dict[str, object] = {}
    for language, flags, body in FENCE.findall(text):
        if "no-run" in flags:
            continue
        began = time.monotonic()
        if language == "bash":
            subprocess.run(["bash", "-euo", "pipefail", "-c", body], check=True, stdout=subprocess.DEVNULL)
        else:
            exec(compile(body, name, "exec"), session)
        print(
            f"{name}: {body.strip().splitlines()[0][:90]} … {time.monotonic() - began:.1f} s",
            file=sys.stderr,
            flush=True,
        )


def pages(*names: str) -> list[str]:
    """The files named, and all Markdown files of the folders named."""
    found = [sorted(Path(name).rglob("*.md")) if Path(name).is_dir() else [Path(name)] for name in names]
    return [str(page) for some in found for page in some]


def main(folder: str, *names: str) -> int:
    """Run each file in a process of its own; stop at the first that fails."""
    for name in pages(*names):
        target = str(Path(folder) / Path(name).with_suffix(""))
        result = subprocess.run(
            [sys.executable, __file__, "--one", name, target], check=False, stdout=subprocess.DEVNULL
        )
        if result.returncode:
            return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        run_file(*sys.argv[2:])
    else:
        sys.exit(main(*sys.argv[1:]))
