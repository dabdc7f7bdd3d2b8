"""What the workers do with a part of any symmetric matrix: eliminate its interior, and solve with what they have eliminated.

As in :mod:`.parts`, every function is a pure function of its task and of files that do not change.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempose._support.files import write_atomically
from tempose._typing import Array, Index
from tempose.numerics.sparse import NotPositiveDefiniteError, Symbolic
from tempose.partitioned.elimination import Eliminated, border_last, packed


@dataclass(frozen=True, eq=False)
class BlockPart:
    """A part of a matrix: nodes, the interior first and then its border, and the blocks that touch the interior.

    Attributes
    ----------
    source, target
        Rows and columns (m,) of the blocks off the diagonal.
    diagonal
        Blocks (n, b, b) of the interior.
    off
        Blocks (m, b, b).
    stiff
        Numbers (k, b) of the size of the border's own blocks, which are the root's.
    """

    source: Index
    target: Index
    diagonal: Array
    off: Array
    stiff: Array


@dataclass(frozen=True)
class Held:
    """Where a part of a matrix is: the file, and what the pattern is called, which other matrices share."""

    path: str
    pattern: str


def write_block_part(held: Held, part: BlockPart) -> None:
    """Keep a part."""
    write_atomically(Path(held.path), pickle.dumps(part))


class _KeptBlocks:
    """The last pattern and the last factor that this process has worked on: one, so that memory is that of one."""

    def __init__(self) -> None:
        self.pattern: tuple[str, Symbolic] | None = None
        self.eliminated: tuple[str, Eliminated] | None = None

    def of(self, held: Held) -> Eliminated:
        """A part with its interior eliminated."""
        if self.eliminated is not None and self.eliminated[0] == held.path:
            return self.eliminated[1]
        self.eliminated = None
        part: BlockPart = pickle.loads(Path(held.path).read_bytes())
        n, (k, b) = len(part.diagonal), part.stiff.shape
        if self.pattern is None or self.pattern[0] != held.pattern:
            self.pattern = held.pattern, border_last(n, k, part.source, part.target, b)
        diagonal = np.concatenate([part.diagonal, np.zeros((k, b, b))])
        made = Eliminated(self.pattern[1], n, diagonal, part.off, part.stiff)
        self.eliminated = held.path, made
        return made


_kept = _KeptBlocks()


# ---------------------------------------------------------------------- tasks


def eliminate_blocks(held: Held) -> Array | None:
    """``−A_BI A_II⁻¹ A_IB`` (k b, k b), packed; ``None`` if A_II is not positive definite."""
    try:
        made = _kept.of(held)
    except NotPositiveDefiniteError:
        return None
    return packed(made.reduced_matrix(made.end_of_factor()))


@dataclass(frozen=True, eq=False)
class Right:
    """A right-hand side (n b, c) of the interior, and what the border is (k b, c), once that is known."""

    held: Held
    inside: Array
    border: Array | None = None


def seen(right: Right) -> Array:
    """``A_BI A_II⁻¹ r`` (k b, c): what the border sees of a right-hand side inside."""
    made = _kept.of(right.held)
    return made.seen_from_border(right.inside, made.end_of_factor())


def inside(right: Right) -> Array:
    """``A_II⁻¹ (r − A_IB x_B)`` (n b, c)."""
    assert right.border is not None
    return _kept.of(right.held).inside_from(right.border, right.inside)
