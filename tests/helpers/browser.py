"""Pages in a real browser, and names that would like to run there."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable
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


_FLAGS = [
    *(
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
    ),
    *("--disable-component-update", "--enable-logging=stderr"),
]


def shown(address: str, profile: Path, milliseconds: int = 4000, flags: tuple[str, ...] = ()) -> tuple[str, str]:
    """The document after so much of the page's own time, and what the browser wrote; skips where it does not start."""
    command = [*_FLAGS, "--disable-gpu", *flags, f"--user-data-dir={profile}"]
    command += [f"--virtual-time-budget={milliseconds}", "--dump-dom", address]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "<html" not in run.stdout:
        pytest.skip("the browser does not start here")
    return run.stdout, run.stderr


def title_after(address: str, profile: Path, ready: Callable[[], bool], seconds: float = 60.0) -> str | None:
    """The title of a page in real time, a moment after it is ``ready``; ``None`` if it never is."""
    command = [*_FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", address]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline or browser.poll() is not None:
                return None
            time.sleep(0.1)
        time.sleep(2.0)
        port = int((profile / "DevToolsActivePort").read_text().split()[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=20) as answer:
            return str(next(page["title"] for page in json.load(answer) if page["type"] == "page"))
    finally:
        browser.kill()
        browser.wait()
