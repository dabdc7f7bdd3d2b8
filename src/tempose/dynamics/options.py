"""How TG-MCMC moves: what its sampler and its optimiser have in common."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tempose._support.options import check_choices, option, require

NOISES = {
    "exact": "the exact Ornstein–Uhlenbeck step, right for any friction and step",
    "euler": "√(2ch/β): the printed noise with its missing √h",
    "paper": "√(2c/β): as printed; samples at the inverse temperature β·h",
}
LETTERS = ("paper", "langevin")
COORDINATES = {
    "position": "world positions c_i (better conditioned)",
    "paper": "the paper's translations t_i = −R_i c_i",
}
MASSES = {"diagonal": "from the Hessian", "identity": "the paper's"}


def checked_scheme(name: str, noise: str, letters: str | None) -> tuple[str, str]:
    """Name and letters of a splitting scheme (:mod:`tempose.dynamics.schemes`), or a refusal of what is none."""
    lower = name.lower()
    require(
        set(lower) == set("abo"),
        f"scheme {name!r} must be made of the letters A, B and O, each at least once: try baoab or boa",
    )
    require(noise in NOISES, f"unknown noise {noise!r}: choose one of {', '.join(NOISES)}")
    letters = letters or ("paper" if lower == "boa" or noise != "exact" else "langevin")
    require(letters in LETTERS, f"unknown letters {letters!r}: choose one of {', '.join(LETTERS)}")
    require(
        letters == "paper" or noise == "exact",
        f"noise {noise!r} belongs to the paper's letters; use letters='paper' or noise='exact'",
    )
    return lower, letters


@dataclass(frozen=True)
class Langevin:
    """A splitting scheme and its numbers; ``None`` means: found automatically.

    Parameters
    ----------
    scheme, scheme_noise, letters
        See :class:`tempose.dynamics.schemes.Scheme`.
    step, friction
        Step size h and friction c.
    step_range
        Where no step is given: the longest stable one of BOA within this range, instead of the one suited to the graph.
    coordinates
        One of :data:`COORDINATES`.
    mass
        One of :data:`MASSES`.
    batch
        Edges per stochastic gradient; 0 for all.
    """

    scheme: str = option("baoab", "order of the steps: baoab, boa (the paper's), aboba, ...", metavar="NAME")
    scheme_noise: str = option(
        "exact", "noise of the scheme: exact, as printed (paper), or with its missing √h (euler)", choices=NOISES
    )
    letters: str | None = option(
        None, "meaning of the scheme's letters (default: the paper's for boa)", choices=LETTERS
    )
    step: float | None = option(None, "step size (default: found automatically)", metavar="H")
    friction: float | None = option(None, "friction (default: found automatically)", metavar="C")
    batch: int = option(0, "edges per stochastic gradient (default: all)", metavar="N")
    coordinates: str = option("position", "of the positions: position, or the paper's", choices=COORDINATES)
    mass: str = option("diagonal", "masses: from the Hessian's diagonal, or the identity", choices=MASSES)
    step_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.batch >= 0, f"a minibatch of {self.batch} edges makes no sense; use 0 for all edges")
        for name in ("step", "friction"):
            value = getattr(self, name)
            good = value is None or (0.0 <= value < math.inf and (value > 0.0 or name == "friction"))
            require(good, f"{name} must be {'positive' if name == 'step' else 'at least 0'} and finite, not {value}")
        checked_scheme(self.scheme, self.scheme_noise, self.letters)
