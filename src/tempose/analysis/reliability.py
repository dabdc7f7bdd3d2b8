r"""What surveyors ask of a network: could an error be seen, and what would it do if it were not (Baarda's reliability).

The whitened residual r of an edge has covariance V, the rest of the graph uses up :math:`S = A\Sigma A^T` of its noise
(:mod:`tempose.optimum.prediction`). An error ∇ of the measurement (rotation vector in radians, translation; axes of node j) moves r
by :math:`N^{1/2}A\nabla` and the test :math:`z^2 = r^TV^{-1}r` is then χ² with the noncentrality

.. math::  \lambda = \nabla^T A^T N A \nabla, \qquad N = (I - wS)(I + (1 - w)S)^{-1} \quad (= I - S\ \text{for}\ w = 1).

- **Redundancy number**: :math:`\mathrm{tr} V / d`, the share of the edge's own noise that shows up in its residual, 0 … 1.
- **Minimal detectable error**: the smallest error that the test of the edge (the ``p_value`` of ``edges.csv``, at ``level``)
  finds with probability ``power``: :math:`\lambda = \lambda_0`, in the direction where it is hardest to see; of a rotation alone
  and of a translation alone. Infinite where nothing checks it.
- **External reliability**: by how many of their own standard deviations an error that just stays undetected can move the poses, in
  the worst direction: :math:`\sqrt{\lambda_0 \max s/(1-s)}`, s the eigenvalues of S.

With one number per test this is Baarda's :math:`\nabla = \sigma\,\delta_0/\sqrt{r}`, δ₀ = 4.13 for a level of 0.1% and a power
of 80%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from tempose._typing import Array
from tempose.errors import OptionError
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.prediction import CHECKED, Predictions, whitened_residuals

LEVEL, POWER = 0.001, 0.8
"""Baarda's: chance of a false alarm of one test, and of finding an error of the minimal detectable size."""
GLOBAL_LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class Reliability:
    """Reliability of every edge.

    Attributes
    ----------
    redundancy
        Share (m,) of the edge's noise that its residual shows, 0 … 1.
    mde_rot_deg, mde_trans
        Minimal detectable errors (m,) of the rotation, degrees, and of the translation, in the direction where each is hardest
        to see; infinite where nothing checks it, NaN where the edge does not measure it.
    external
        External reliability (m,): largest effect of an error that just stays undetected, in σ of the poses.
    level, power
        Of the test of one edge.
    """

    redundancy: Array
    mde_rot_deg: Array
    mde_trans: Array
    external: Array
    level: float = LEVEL
    power: float = POWER

    @classmethod
    def joined(cls, parts: Sequence[Reliability]) -> Reliability:
        """That of some edges after that of others."""
        names = ("redundancy", "mde_rot_deg", "mde_trans", "external")
        arrays: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in parts]) for name in names}
        return parts[0] if len(parts) == 1 else replace(parts[0], **arrays)

    @property
    def weakest(self) -> int | None:
        """The edge whose undetected error could do most; ``None`` without edges."""
        return int(np.argmax(self.external)) if len(self.external) else None


def noncentrality(freedom: int, level: float = LEVEL, power: float = POWER) -> float:
    """λ₀ at which a χ² test of ``freedom`` numbers at ``level`` rejects with probability ``power``."""
    if not 0.0 < level < power < 1.0:
        raise OptionError(f"level {level:g} and power {power:g}: expected 0 < level < power < 1")
    return float(special.chndtrinc(special.chdtri(freedom, level), freedom, 1.0 - power))


def reliability(
    graph: PoseGraph, poses: Poses, found: Predictions | None, level: float = LEVEL, power: float = POWER
) -> Reliability:
    """Reliability of every edge, from what the others predict for it; nothing is checked if there are no predictions."""
    m = graph.n_edges
    if found is None:
        unseen = [np.where(rank > 0, np.inf, np.nan) for rank in graph.ranks]
        return Reliability(np.zeros(m), unseen[0], unseen[1], np.full(m, np.inf), level, power)
    A = whitened_residuals(graph, poses)[1]
    size = np.einsum("maa->m", found.range_)
    redundancy = np.clip(np.einsum("maa->m", found.covariance) / np.maximum(size, 1.0), 0.0, 1.0)
    s, vectors = np.linalg.eigh(0.5 * (found.taken + np.swapaxes(found.taken, 1, 2)))
    s, w = np.clip(s, 0.0, None), found.weight[:, None]
    left = np.maximum(1.0 - w * s, 0.0)
    kept = np.where(left > CHECKED, left / (1.0 + (1.0 - w) * s), 0.0)
    measured = np.einsum("mab,mbc,mca->ma", np.swapaxes(vectors, 1, 2), found.range_, vectors) > 0.5
    freedom = np.sum((kept > 0.0) & measured, axis=1)
    by_freedom = np.array([np.nan, *(noncentrality(k, level, power) for k in range(1, 7))])
    smallest = by_freedom[freedom]
    N = (vectors * (kept * measured)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    M = np.swapaxes(A, 1, 2) @ N @ A
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(measured, np.where(kept > 0.0, s / kept, np.where(s > CHECKED, np.inf, 0.0)), 0.0)
        external = np.sqrt(np.where(freedom > 0, smallest, 1.0) * np.max(effect, axis=1, initial=0.0))
    turn = _worst(M[:, :3, :3], graph, slice(0, 3), smallest)
    shift = _worst(M[:, 3:, 3:], graph, slice(3, 6), smallest)
    return Reliability(redundancy, np.degrees(turn), shift, np.where(freedom > 0, external, np.inf), level, power)


def _worst(M: Array, graph: PoseGraph, part: slice, smallest: Array) -> Array:
    """``√(λ₀ / least eigenvalue)`` (m,) over the axes that exist; infinite where nothing checks one, NaN if not measured."""
    axes = [k - part.start for k in graph.axes if part.start <= k < part.stop]
    own = M[:, axes][:, :, axes]
    scale = np.max(np.abs(graph.information[:, part, part]), axis=(1, 2))
    least = np.linalg.eigvalsh(0.5 * (own + np.swapaxes(own, 1, 2)))[:, 0]
    measured = graph.ranks[0 if part.start == 0 else 1] > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(least > CHECKED * 1e-3 * scale, np.sqrt(smallest / np.maximum(least, 1e-300)), np.inf)
    return np.where(measured, size, np.nan)


@dataclass(frozen=True)
class GlobalTest:
    """Whether the measurements fit each other as well as their noise says.

    Attributes
    ----------
    statistic, freedom
        ``2U*`` of the edges and its degrees of freedom.
    level
        Of the two-sided test.
    """

    statistic: float
    freedom: float
    level: float = GLOBAL_LEVEL

    @property
    def variance_factor(self) -> float:
        """``statistic / freedom``, 1 if the noise is right; NaN without redundancy."""
        return self.statistic / self.freedom if self.freedom > 0 else math.nan

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which the variance factor lies with probability ``1 − level``."""
        if not self.freedom > 0:
            return math.nan, math.nan
        low, high = (special.chdtri(self.freedom, p) / self.freedom for p in (1.0 - 0.5 * self.level, 0.5 * self.level))
        return float(low), float(high)

    @property
    def passed(self) -> bool | None:
        """Whether the factor is within its bounds; ``None`` without redundancy."""
        low, high = self.bounds
        return None if math.isnan(low) else low <= self.variance_factor <= high

    def facts(self) -> dict[str, object]:
        """Plain values for JSON."""
        known = self.passed is not None
        return {
            "statistic": self.statistic,
            "degrees_of_freedom": self.freedom,
            "variance_factor": self.variance_factor if known else None,
            "bounds": list(self.bounds) if known else None,
            "level": self.level,
            "passed": self.passed,
        }
