"""Whether processes live."""

from __future__ import annotations

import os
import subprocess
import time


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie that waits for its new parent only."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.startswith("Z") and bool(state)


def ends(pid: int, seconds: float = 60.0) -> bool:
    """Whether a process ends by itself, waiting for it."""
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)
