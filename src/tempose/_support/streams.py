"""The random-stream rule: every random number belongs to a seed, a purpose and an index, and to nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PURPOSES = ("simulate", "start", "optimise", "chain", "tune", "corrupt", "calibrate", "resample", "check", "parts")


def _sequence(seed: int, purpose: str, index: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(PURPOSES.index(purpose), index))


def generator(seed: int, purpose: str, index: int = 0) -> np.random.Generator:
    """NumPy generator of a stream."""
    return np.random.Generator(np.random.PCG64(_sequence(seed, purpose, index)))


def of_draw(seed: int, chain: int, number: int) -> np.random.Generator:
    """NumPy generator of one draw of one chain, counted from the chain's very first, warm-up included."""
    return generator(seed, "chain", (chain << 32) | number)


def key(seed: int, purpose: str, index: int = 0) -> NDArray[np.uint64]:
    """Key (2,) of a stream for the counter-based generator of the kernels: two 32-bit words."""
    return _sequence(seed, purpose, index).generate_state(2, np.uint32).astype(np.uint64)
