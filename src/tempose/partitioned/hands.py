"""The hands that reach from the root to the parts: tasks go out to an executor, results come back in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from tempose._support.parallel import in_order

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class Traffic:
    """Bytes of arrays that went to the parts and came back, the files of the parts not counted."""

    down: int = 0
    up: int = 0


@dataclass(frozen=True, eq=False)
class Hands:
    """Where parts are worked on, and what was moved; here, one after another, without an executor."""

    executor: Executor | None = None
    traffic: Traffic = field(default_factory=Traffic)

    def all(self, function: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        """What the parts make of their tasks, in order."""
        found = list(in_order(function, tasks, self.executor))
        self.traffic.down += sum(map(_bytes, tasks))
        self.traffic.up += sum(map(_bytes, found))
        return found


def _bytes(value: Any) -> int:
    """Bytes of the arrays in a task or a result."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    fields = (
        vars(value).values() if hasattr(value, "__dataclass_fields__") else value if isinstance(value, tuple) else ()
    )
    return sum(map(_bytes, fields))
