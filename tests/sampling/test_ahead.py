"""What is compiled ahead is what a solve calls: for the same types, or it is compiled twice."""

from __future__ import annotations

from typing import Any

import pytest
from numba import typeof

import tempose
from tempose.numerics import hessian
from tempose.numerics.sparse import repeated
from tempose.sampling import ahead


@pytest.mark.parametrize("planar", [False, True])
def test_ahead_is_compiled_what_a_solve_calls(monkeypatch: pytest.MonkeyPatch, planar: bool) -> None:
    asked: list[tuple[Any, tuple[Any, ...]]] = []

    def note(kernel: Any, *like: Any) -> None:
        asked.append((kernel, tuple(typeof(x) for x in like)))

    for module in (ahead, repeated, hessian):
        monkeypatch.setattr(module, "compile_for", note)
    (ahead.compile_in_the_plane if planar else ahead.compile_in_space)()
    assert len(asked) == (10 if planar else 11)
    tempose.solve(tempose.simulate(8, seed=1, planar=planar).graph, draws=8, sampler="collapsed")
    for kernel, types in asked:
        assert types in kernel.signatures, kernel.py_func.__name__
