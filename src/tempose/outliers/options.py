"""What is known beforehand about wrong edges."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tempose._support.options import check_choices, option, require
from tempose.errors import OptionError

TAILS = ("auto", "gaussian")
REPEATS = ("cluster", "independent")


def tail_of(text: str) -> float | str:
    """``auto``, ``gaussian`` or a number."""
    if text in TAILS:
        return text
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"expected auto, gaussian or a positive number, not {text!r}") from None


def ids_of(text: str) -> str:
    """``A:B``, two whole numbers, the first at most the second."""
    first, _, last = text.partition(":")
    try:
        good = int(first) <= int(last)
    except ValueError:
        good = False
    if not good:
        raise OptionError(f"expected two ids, the smaller first, for instance 0:120, not {text!r}")
    return text


@dataclass(frozen=True)
class Robust:
    """Every edge is right or wrong, and the posterior says which (:mod:`tempose.model.robust`).

    Parameters
    ----------
    inlier_probability
        Prior probability that an edge without one of its own is right; ``None``: estimated.
    tail
        Of the inliers: ``auto`` (chosen by the likelihood), ``gaussian``, or ν of a heavy one.
    trust_odometry
        Prior probability that an edge between consecutive poses, by the numbers in their names, is right; ``None``: as any other.
    trust_ids
        ``A:B``: trust odometry between these ids only; ``None``: everywhere.
    repeats
        ``cluster``: loop closures that say the same are right or wrong together (:mod:`tempose.outliers.reading`), and where ids
        are no order in time it counts how often wrong edges agree (:mod:`tempose.outliers.agreement`); ``independent``: each wrong
        edge is a mistake of its own.
    """

    inlier_probability: float | None = option(
        None, "prior probability that an edge is right, where the file gives none (default: estimated)", metavar="P"
    )
    tail: float | str = option(
        "auto",
        "of the right edges: auto (chosen by the likelihood), gaussian, or nu of a heavy tail",
        metavar="NU",
        parse=tail_of,
    )
    trust_odometry: float | None = option(
        None,
        "edges between consecutive ids are right with prior probability P (0.99 if not given)",
        metavar="P",
        everyday=True,
    )

    trust_ids: str | None = option(
        None, "trust only consecutive ids from A to B (default: all), for instance 0:120", metavar="A:B", parse=ids_of
    )
    repeats: str = option(
        "cluster",
        "wrong edges that say the same: cluster (their evidence counts once if ids are an order in time, else it counts how often "
        "they agree), or independent (every wrong edge is a mistake of its own)",
        choices=REPEATS,
    )

    @property
    def trusted_range(self) -> tuple[int, int] | None:
        """First and last id between which odometry is trusted; ``None``: everywhere."""
        if self.trust_ids is None:
            return None
        first, _, last = self.trust_ids.partition(":")
        return int(first), int(last)

    def __post_init__(self) -> None:
        check_choices(self)
        if self.tail == math.inf:
            object.__setattr__(self, "tail", "gaussian")  # the same, and JSON has no infinity
        for name in ("inlier_probability", "trust_odometry"):
            value = getattr(self, name)
            good = value is None or 0.0 < value <= 1.0
            require(good, f"{name.replace('_', ' ')} must be above 0 and at most 1, not {value}")
        if self.trust_ids is not None:
            ids_of(self.trust_ids)
            require(self.trust_odometry is not None, "trust ids need trust odometry: how much these ids are trusted")
        known = self.tail in TAILS if isinstance(self.tail, str) else self.tail > 0.0
        require(known, f"tail must be auto, gaussian or a positive number, not {self.tail!r}")
