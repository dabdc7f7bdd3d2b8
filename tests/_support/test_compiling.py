"""Kernels: their flags, and their source run by Python. Nothing is compiled here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tempose
from helpers.processes import ends, is_running
from tempose._support.compiling import await_ahead, compiling_ahead, inlined, interpreted, is_kept, kernel

FACTOR = 2.0


@kernel
def scaled(x: float) -> float:
    return FACTOR * x


def options(compiled: Any) -> dict[str, Any]:
    return {name: compiled.targetoptions[name] for name in sorted(compiled.targetoptions) if name != "boundscheck"}


def test_flags_are_those_asked_for() -> None:
    def plain(x: float) -> float:
        return x

    assert options(scaled) == {"nogil": True, "nopython": True}
    quick = kernel(error_model="numpy", cache=False)(plain)
    assert options(quick) == {"error_model": "numpy", "nogil": True, "nopython": True}
    assert options(kernel(parallel=True, cache=False)(plain))["parallel"] is True
    assert options(inlined(cache=False)(plain)) == {"forceinline": True, "nopython": True}
    assert options(inlined(early=True, cache=False)(plain)) == {"inline": "always", "nopython": True}


def test_arithmetic_is_not_up_to_the_compiler() -> None:
    """With ``fastmath`` the first use of a kernel and every later one differ in the last digits."""
    loose: dict[str, Any] = {"fastmath": True}
    for decorator in (kernel, inlined):
        with pytest.raises(TypeError, match="fastmath"):
            decorator(**loose)


def test_the_source_runs_with_other_globals() -> None:
    assert interpreted(scaled)(5.0) == 10.0
    assert interpreted(scaled, FACTOR=3.0)(5.0) == 15.0


def test_a_kernel_that_was_never_compiled_is_not_kept(tmp_path: Path) -> None:
    made: dict[str, Any] = {}
    source = tmp_path / "fresh.py"
    source.write_text("def one(x):\n    return x\n")
    exec(compile(source.read_text(), str(source), "exec"), made)
    assert not is_kept(kernel(made["one"]))


def test_nothing_else_compiles() -> None:
    """One style: numba's own decorator occurs in one module."""
    root = Path(tempose.__file__).parent
    users = {path.name for path in root.rglob("*.py") if "njit" in path.read_text()}
    assert users == {"compiling.py"}


def test_other_processes_compile_and_are_waited_for_or_ended() -> None:
    waited: list[str] = []
    await_ahead(lambda: waited.append("nobody"))
    with compiling_ahead(["os:getpid", "math:sqrt"]):  # the second fails, which is no harm
        await_ahead(lambda: waited.append("once"))
        await_ahead(lambda: waited.append("again"))
    assert waited == ["once"]
    with compiling_ahead(["signal:pause"]):  # would never end
        pass
    await_ahead(lambda: waited.append("nobody"))
    assert waited == ["once"]


def test_a_process_that_compiles_ends_with_a_parent_that_is_killed() -> None:
    script = (
        "import time; from tempose._support.compiling import _ahead, compiling_ahead\n"
        "with compiling_ahead(['signal:pause']):\n    print(_ahead.running[0].pid, flush=True); time.sleep(600)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=env)
    assert parent.stdout is not None
    compiler = int(parent.stdout.readline())
    assert is_running(compiler)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    assert ends(compiler)
