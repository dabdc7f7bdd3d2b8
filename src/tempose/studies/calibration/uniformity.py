"""Are the ranks uniform? Tests, corrected for their number, and what a failure looks like in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from tempose._typing import Array
from tempose.studies.coverage import Coverage

_GRAPHS_PER_BIN, _MOST_BINS = 10, 20
CONFIDENCE = 0.99
"""That all curves of a figure stay in their bands if all is well."""


@dataclass(frozen=True)
class RankTest:
    """One test of one quantity of one setting.

    Attributes
    ----------
    setting, quantity
        What was ranked.
    kind
        ``KS`` (Kolmogorov–Smirnov) or ``χ²`` (bins of equal probability) of the ranks of one node or pair per graph, or
        ``coverage 95%`` (Student's, from graph to graph) of the regions of all.
    p_value, corrected
        As such, and after Holm's correction for all tests of the run.
    finding
        How the ranks differ from uniform ones, in words.
    """

    setting: str
    quantity: str
    kind: str
    p_value: float
    corrected: float
    finding: str

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(self.__dict__)


def rank_tests(setting: str, quantity: str, ranks: ArrayLike) -> list[RankTest]:
    """All tests of ranks (N,) in [0, 1]; not yet corrected."""
    u = np.asarray(ranks, float)
    words = finding(u)
    found = {"KS": float(stats.kstest(u, "uniform").pvalue), "χ²": _chi_square(u)}
    return [RankTest(setting, quantity, kind, p, p, words) for kind, p in found.items()]


def _chi_square(u: Array) -> float:
    bins = int(np.clip(len(u) // _GRAPHS_PER_BIN, 2, _MOST_BINS))
    return float(stats.chisquare(np.histogram(u, bins, (0.0, 1.0))[0]).pvalue)


def uniform_band(n: int, curves: int) -> float:
    """How far from the uniform one the distribution function of ``n`` ranks may be, if it is one of so many curves."""
    return float(stats.kstwo.ppf(1.0 - (1.0 - CONFIDENCE) / curves, n))


def holm(p_values: ArrayLike) -> Array:
    """Holm's corrected p-values: the chance, at most, that any of all tests is that small if all is well."""
    p = np.asarray(p_values, float)
    order = np.argsort(p)
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    out = np.empty_like(p)
    out[order] = np.minimum(raised, 1.0)
    return out


def finding(u: Array) -> str:
    """Which way ranks of the truth differ from uniform ones, by their mean and their spread."""
    shift = (u.mean() - 0.5) * np.sqrt(12.0 * len(u))  # standard normal if uniform
    spread = (np.var(u) - 1.0 / 12.0) * np.sqrt(180.0 * len(u))
    if abs(shift) > abs(spread):
        return f"the truth is {'above' if shift > 0 else 'below'} the draws too often"
    return "the draws are too narrow" if spread > 0 else "the draws are too wide"


def coverage_test(covered: Coverage, setting: str, quantity: str) -> RankTest:
    """Whether the share inside is the level, by its distance in standard errors; not yet corrected."""
    p = float(2.0 * stats.t.sf(abs(covered.share - covered.level) / covered.error, max(covered.graphs - 1, 1)))
    words = f"regions of {covered.level:.0%} hold {covered} % of the truths"
    return RankTest(setting, quantity, f"coverage {covered.level:.0%}", p, p, words)
