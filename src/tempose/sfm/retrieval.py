r"""Which photographs look alike: a small vocabulary made of their own features.

Descriptors fall to the nearest of ``WORDS`` centres, found by k-means on some of them; a photograph is described by the sums of the
differences of its descriptors to each centre (VLAD). Each sum has length one, and then all of them together, so that one repeated
texture does not decide; two photographs are as alike as their descriptions are parallel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tempose._support import streams
from tempose._typing import Array, Index

WORDS = 64
"""Centres: few enough for every photograph to have features at most of them."""
_ROUNDS = 10
_MOST_SAMPLES = 20_000
_AT_ONCE = 4096

Descriptors = Callable[[int], NDArray[np.uint8]]
"""Descriptors (k, d) of photograph i."""


def similarity(descriptors: Descriptors, n: int, seed: int = 0) -> Array:
    """How alike photographs are, (n, n), at most 1; a photograph without features is like no other, 0.

    Parameters
    ----------
    descriptors
        Of each of them; asked for twice, one photograph at a time.
    n
        Photographs.
    seed
        Same seed, same numbers.
    """
    centres = _centres(descriptors, n, seed)
    if not len(centres):
        return np.zeros((n, n))
    signature = np.stack([_signature(_rows(descriptors(i)), centres) for i in range(n)])
    return np.asarray(signature @ signature.T, dtype=float)


def most_similar(alike: Array, count: int) -> set[tuple[int, int]]:
    """Pairs (i < j) of each photograph with the so many that are most like it."""
    alike = alike.copy()
    np.fill_diagonal(alike, -np.inf)
    count = min(count, len(alike) - 1)
    nearest = np.argsort(-alike, axis=1, kind="stable")[:, :count]
    return {(min(i, j), max(i, j)) for i, row in enumerate(nearest.tolist()) for j in row}


def _rows(descriptor: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Descriptors of length one."""
    rows = descriptor.astype(np.float32)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), dtype=np.float32)


def _centres(descriptors: Descriptors, n: int, seed: int) -> NDArray[np.float32]:
    """k-means of some descriptors of every photograph."""
    rng = streams.generator(seed, "resample", 1 << 24)
    samples = []
    for i in range(n):
        rows = descriptors(i)
        if len(rows):
            samples.append(_rows(rows[rng.permutation(len(rows))[: max(_MOST_SAMPLES // n, 1)]]))
    if not samples:
        return np.zeros((0, 0), dtype=np.float32)
    some = np.concatenate(samples)
    centres = some[rng.permutation(len(some))[:WORDS]]
    for _ in range(_ROUNDS):
        word = _nearest(some, centres)
        count = np.bincount(word, minlength=len(centres))
        total = np.zeros(centres.shape)
        np.add.at(total, word, some)
        used = count > 0
        centres[used] = total[used] / count[used, None]
    return centres


def _nearest(rows: NDArray[np.float32], centres: NDArray[np.float32]) -> Index:
    """The nearest centre of each row."""
    square = 0.5 * np.sum(centres**2, axis=1)
    parts = [
        np.argmax(rows[at : at + _AT_ONCE] @ centres.T - square, axis=1) for at in range(0, max(len(rows), 1), _AT_ONCE)
    ]
    return np.concatenate(parts)


def _signature(rows: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.float32]:
    total = np.zeros(centres.shape, dtype=np.float32)
    if len(rows):
        word = _nearest(rows, centres)
        order = np.argsort(word, kind="stable")
        first = np.searchsorted(word[order], np.arange(len(centres)))
        filled = np.flatnonzero(np.bincount(word, minlength=len(centres)))
        total[filled] = np.add.reduceat(rows[order] - centres[word[order]], first[filled], axis=0)
        total /= np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-9)
    length = float(np.linalg.norm(total))
    return total.ravel() / np.float32(length if length > 0.0 else 1.0)
