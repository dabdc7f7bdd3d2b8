"""Progress as people see it: stages that end, forecasts before long draws, and news of what is compiled."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

import tempose
from tempose._support import bars, compiling
from tempose._support.progress import CompilerNews, Progress
from tempose.errors import ArgumentError


def test_every_stage_of_a_solve_has_a_name_and_ends() -> None:
    seen: list[Progress] = []
    tempose.solve(tempose.simulate(8, seed=1).graph, draws=10, starts=2, progress=seen.append)
    last = {one.phase: one for one in seen}
    wanted = {
        "looking for a start",
        "optimising and proving",
        "other starts",
        "choosing a sampler",
        "warming up",
        "drawing",
    }
    assert wanted | {"diagnostics"} == set(last)
    assert all(one.done == one.total for one in last.values())
    assert last["drawing"].total == 10
    assert [one.done for one in seen if one.phase == "drawing"] == sorted(
        one.done for one in seen if one.phase == "drawing"
    )


def test_progress_true_is_a_line_for_each_stage_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    tempose.solve(tempose.simulate(8, seed=1).graph, draws=10, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert "looking for a start" in lines[0] and any(re.fullmatch(r"drawing: 10 in \d+\.\d s", line) for line in lines)
    tempose.solve(tempose.simulate(8, seed=1).graph, draws=0, progress=False)
    assert not capsys.readouterr().err
    with pytest.raises(ArgumentError, match=r"progress is True, or a function"):
        tempose.solve(tempose.simulate(8, seed=1).graph, progress="yes")  # type: ignore[arg-type]


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with bars.bars(transient=False) as (hook, say):
        hook(Progress("optimising", 0, 1))
        say("a line")
        hook(Progress("optimising", 1, 1))
    shown = capsys.readouterr().err
    assert "a line" in shown and "1/1" in shown.splitlines()[-2]


def forecast(monkeypatch: pytest.MonkeyPatch, seconds_each: float, total: int, warm: int = 10) -> list[str]:
    """What is said before draws that take so long each, of which ``warm`` are not kept."""
    clock, said = [0.0], list[str]()
    monkeypatch.setattr(bars.time, "monotonic", lambda: clock[0])
    hook = bars.Forecast(lambda now: None, said.append, "warming up", "drawing")
    for k in range(1, warm + 1):
        hook(Progress("warming up", k, warm))
        clock[0] += seconds_each
    for k in range(5):
        hook(Progress("drawing", k, total))
        clock[0] += seconds_each
    return said


def test_long_draws_are_announced_with_the_time_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    [line] = forecast(monkeypatch, 0.1, 100_000_000)
    assert line.startswith("100000000 draws will take about 116 days")
    assert forecast(monkeypatch, 0.1, 500) == []  # less than a minute
    [line] = forecast(monkeypatch, 1.0, 600, warm=0)  # by the draws themselves
    assert line.startswith("600 draws will take about 10 min")
    assert [bars.duration_text(s) for s in (3, 89, 120, 7200, 1e6)] == ["3 s", "89 s", "2 min", "2 h", "12 days"]


def test_what_is_compiled_is_told_once_with_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    news, told = CompilerNews(), list[tuple[str, float]]()
    monkeypatch.setattr(compiling, "compiler_news", news)
    listener = compiling._Compiles()

    def begins(module: str) -> None:
        def py_func() -> None: ...

        py_func.__module__ = module
        event: Any = SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=py_func)})
        listener.on_start(event)

    begins("tempose.sampling._kernels")  # nobody listens
    news.listener = lambda what, seconds: told.append((what, seconds))
    for module in (
        "tempose.sampling._kernels",
        "tempose.sampling.collapsed",
        "numpy.linalg",
        "tempose.numerics.potential",
    ):
        begins(module)
    assert [what for what, _ in told] == [compiling.KERNELS[room][0] for room in ("sampling", "numerics")]
