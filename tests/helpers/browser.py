"""Pages in a real browser, and names that would like to run there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

HOSTILE = [
    '</script><script>document.title="hit"</script>',
    "<img src=x onerror=\"document.title='hit'\">",
    "<svg onload=\"document.title='hit'\">",
    "\"><script>document.title='hit'</script>",
    "' onmouseover='document.title=1' x='",
    "javascript:document.title='hit'",
    "${document.title='hit'}",
    "{{constructor.constructor('document.title=1')()}}",
    "<!--",
    "\u202egpj.exe",
    "日本 é\u2028",
    "[a](javascript:document.title='hit')",
]


def shown(address: str, profile: Path, milliseconds: int = 4000) -> tuple[str, str]:
    """The document after so much of the page's own time, and what the browser wrote; skips where it does not start."""
    command = [
        *(str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
        *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr"),
        *(f"--user-data-dir={profile}", f"--virtual-time-budget={milliseconds}", "--dump-dom", address),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "<html" not in run.stdout:
        pytest.skip("the browser does not start here")
    return run.stdout, run.stderr
