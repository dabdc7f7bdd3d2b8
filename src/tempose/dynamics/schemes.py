"""Splitting schemes of TG-MCMC, from their names to the operations of the kernels.

The Langevin equation on S³ × ℝ³ has four parts: geodesic motion, gradient, friction and noise. Two alphabets cut it:

===========  ====================  =========================  ====================================
letter       ``paper``             ``langevin``               where
===========  ====================  =========================  ====================================
A            geodesic motion       geodesic motion            both
B            friction ``e^(−ch)``  gradient kick ``−h∇U``     the paper's appendix / Leimkuhler–Matthews
O            gradient and noise    friction and noise, exact  the paper's appendix / Leimkuhler–Matthews
===========  ====================  =========================  ====================================

``boa`` is the paper's own name and keeps the paper's letters; every other scheme is read in the ``langevin`` letters
unless asked otherwise. A letter that occurs k times gets h/k each time: ``baoab`` is B(h/2) A(h/2) O(h) A(h/2) B(h/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tempose.dynamics.options import checked_scheme
from tempose.errors import OptionError
from tempose.numerics.layout import DRIFT, VELOCITY


@dataclass(frozen=True)
class Scheme:
    """A named order of steps.

    Parameters
    ----------
    name
        Letters A, B, O in any order and case, each at least once, for instance ``boa`` or ``baoab``.
    noise
        One of :data:`tempose.dynamics.options.NOISES`.
    letters
        ``paper`` or ``langevin`` (see the module); by default ``paper`` for ``boa``, else ``langevin``. The printed
        noises exist in the ``paper`` letters only.
    """

    name: str = "baoab"
    noise: str = "exact"
    letters: str | None = None

    def __post_init__(self) -> None:
        name, letters = checked_scheme(self.name, self.noise, self.letters)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "letters", letters)

    def operations(self, step: float, friction: float, beta: float) -> NDArray[np.float64]:
        """Rows (k, 4) for :mod:`tempose.numerics.steps`: one time step ``h`` at friction c and inverse temperature β.

        Neighbouring velocity updates are merged: ``(f₁, δ₁, s₁)`` then ``(f₂, δ₂, s₂)`` is
        ``(f₁f₂, f₂δ₁ + δ₂, √(f₂²s₁² + s₂²))``.
        """
        if not step > 0.0 or not math.isfinite(step):
            raise OptionError(f"the step size must be positive and finite, not {step}")
        if not friction >= 0.0 or not math.isfinite(friction):
            raise OptionError(f"the friction must be non-negative and finite, not {friction}")
        if not beta > 0.0:
            raise OptionError(f"the inverse temperature must be positive (inf to optimise), not {beta}")
        rows: list[tuple[float, float, float, float]] = []
        share = {letter: step / self.name.count(letter) for letter in "abo"}
        for place, letter in enumerate(self.name):
            if letter == "a":
                rows.append((DRIFT, share["a"], 0.0, 0.0))
                continue
            f, delta, s = self._velocity(letter, place, share, step, friction, beta)
            if rows and rows[-1][0] == VELOCITY:
                _, f1, delta1, s1 = rows.pop()
                f, delta, s = f1 * f, f * delta1 + delta, math.hypot(f * s1, s)
            rows.append((VELOCITY, f, delta, s))
        return np.array(rows)

    def _velocity(
        self, letter: str, place: int, share: dict[str, float], step: float, friction: float, beta: float
    ) -> tuple[float, float, float]:
        """One B or O as (decay, kick, noise)."""
        h = share[letter]
        if self.letters == "langevin":
            if letter == "b":
                return 1.0, h, 0.0
            decay = math.exp(-friction * h)
            return decay, 0.0, math.sqrt(-math.expm1(-2.0 * friction * h) / beta)
        if letter == "b":
            return math.exp(-friction * h), 0.0, 0.0
        parts = self.name.count("o")
        if self.noise == "paper":
            variance = 2.0 * friction / beta
        elif self.noise == "euler":
            variance = 2.0 * friction * step / beta
        else:  # what friction still to come in this step will take away is added beforehand
            later = friction * share["b"] * self.name[place + 1 :].count("b")
            variance = -math.expm1(-2.0 * friction * step) * math.exp(2.0 * later) / beta
        return 1.0, h, math.sqrt(variance / parts)
