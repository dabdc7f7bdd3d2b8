"""Run every bash and python block of Markdown files, in order, in one directory per file.

A block is left out only if its fence says so: ```bash no-run (it then needs a reason in the text around it).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

FENCE = re.compile(r"^```(bash|python)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def main(folder: str, *files: str) -> int:
    """Run the blocks; stop at the first that fails."""
    root = Path(__file__).resolve().parent.parent
    for name in files:
        home = Path(folder) / Path(name).stem
        home.mkdir(parents=True)
        for extra in ("examples", "benchmarks", "src", "pyproject.toml", "README.md", "LICENSE", "docs"):
            if (root / extra).is_dir():
                shutil.copytree(root / extra, home / extra, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(root / extra, home / extra)
        for language, flags, body in FENCE.findall(Path(name).read_text()):
            if "no-run" in flags or body.lstrip().startswith("pip install '.[test]'"):
                continue
            began = time.monotonic()
            command = ["bash", "-euo", "pipefail", "-c", body] if language == "bash" else [sys.executable, "-c", body]
            result = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
            print(f"{name}: {body.strip().splitlines()[0][:90]} … {time.monotonic() - began:.1f} s", flush=True)
            if result.returncode:
                print(body, result.stdout[-2000:], result.stderr[-4000:], sep="\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
