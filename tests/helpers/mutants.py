"""Files with small defects: every reader reads them or refuses them in a line, and never anything else."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from helpers.mutations import cut, flip, lines, words
from tempose.errors import TemposeError

_MUTATIONS: list[Callable[[np.random.Generator, bytes], bytes]] = [flip, words, words, lines, cut]


def mutant(rng: np.random.Generator, data: bytes) -> bytes:
    """The same after one to three mutations."""
    for _ in range(int(rng.integers(1, 4))):
        data = _MUTATIONS[rng.integers(len(_MUTATIONS))](rng, data) if data else data
    return data


def read_or_refused(read: Callable[[Path], Any], path: Path, seed: bytes, n: int) -> Counter[str]:
    """How ``n`` mutants of a file end: ``"read"`` or the name of the error; anything unexpected is raised."""
    outcomes: Counter[str] = Counter()
    for k in range(n):
        data = mutant(np.random.default_rng([11, k]), seed)
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                read(path)
                outcomes["read"] += 1
            except TemposeError as error:
                if "\n" in str(error):
                    raise AssertionError(f"an error of more than one line: {error}") from error
                outcomes[type(error).__name__] += 1
            except Exception as error:
                raise AssertionError(f"mutant {k}: {data!r}") from error
    return outcomes
