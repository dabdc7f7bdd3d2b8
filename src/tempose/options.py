"""Options of a solve, and the two presets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from tempose.dynamics.schemes import Scheme
from tempose.errors import OptionError
from tempose.optimum.starts import STARTS
from tempose.sampling.sampler import SAMPLERS

PRESETS = ("default", "paper")

_GEODESIC = {  # options that only the sampler geodesic has, and what they are if not given
    "scheme": "baoab", "scheme_noise": "exact", "letters": None, "step": None, "friction": None, "batch": 0,
    "mass": "diagonal", "coordinates": "position",
}  # fmt: skip


@dataclass(frozen=True)
class SolveOptions:
    """What :func:`tempose.solve` does. ``None`` means: found automatically.

    Parameters
    ----------
    preset
        ``default``: draws that are right at β = 1, step size found automatically. ``paper``: the paper's scheme, friction,
        noise as printed, and its λ and σ² in place of the graph's own precisions.
    robust
        Every edge is right or wrong, and the posterior says which (:mod:`tempose.model.robust`).
    noise
        ``given``: the graph's precisions hold; ``auto``: only relative to each other, and noise levels are estimated.
    inlier_probability
        Prior probability that an edge without one of its own is right; ``None``: estimated. Only with ``robust``.
    tail
        Of the inliers: ``auto`` (chosen by the likelihood), ``gaussian``, or ν of a heavy one. Only with ``robust``.
    trust_odometry
        Prior probability that an edge between consecutive integer ids is right; ``None``: as any other. Only with
        ``robust``.
    start
        One of :data:`tempose.optimum.starts.STARTS`; with ``robust`` only used if the poses are ``given``.
    optimiser
        ``newton``: second order, to machine precision; ``tg-mcmc``: the paper's sampler at β → ∞; ``both``: one after the
        other.
    certify
        Try to prove the estimate globally optimal, and escape by the Riemannian staircase if it is not (the escape
        not after ``tg-mcmc`` alone, whose result is left as it is).
    optimise_steps
        At most this many TG-MCMC steps at β → ∞.
    anneal
        Phases (β, steps) before β → ∞: a schedule of rising inverse temperatures, for bad starts.
    tolerance
        Relative fall of U over a block of steps below which the optimiser stops.
    beta
        Inverse temperature of the draws: 1 is the posterior.
    draws
        Kept draws in all chains together; 0 for a point estimate with Gaussian covariances.
    chains
        Independent chains.
    sampler
        One of :data:`tempose.sampling.sampler.SAMPLERS`; ``auto`` is ``geodesic`` if one of its options is given.
    thin, warmup
        Steps (``geodesic``) or trajectories (others) between kept draws, and before the first.
    scheme, scheme_noise, letters
        See :class:`tempose.dynamics.schemes.Scheme`.
    step, friction
        Step size h and friction c of the sampler.
    coordinates
        ``position`` or ``paper`` (see :data:`tempose.dynamics.chain.COORDINATES`).
    mass
        ``diagonal`` (from the Hessian) or ``identity`` (the paper's).
    batch
        Edges per stochastic gradient; 0 for all.
    gauge
        ``anchor``, ``centroid``, ``free`` or ``node:ID``: what absolute uncertainties refer to.
    starts
        Places to start the optimiser from, ``start`` and random ones: with more than one, other minima of U are looked
        for, their odds are given, and the samplers ``auto`` and ``jumping`` go to and fro between them.
    seed
        Same seed, same draws.
    """

    preset: str = "default"
    robust: bool = False
    noise: str = "given"
    inlier_probability: float | None = None
    tail: float | str = "auto"
    trust_odometry: float | None = None
    start: str = "chordal"
    optimiser: str = "newton"
    certify: bool = True
    optimise_steps: int = 400
    anneal: tuple[tuple[float, int], ...] = ()
    tolerance: float = 1e-9
    beta: float = 1.0
    draws: int = 1000
    chains: int = 4
    sampler: str = "auto"
    thin: int | None = None
    warmup: int | None = None
    scheme: str = "baoab"
    scheme_noise: str = "exact"
    letters: str | None = None
    step: float | None = None
    friction: float | None = None
    coordinates: str = "position"
    mass: str = "diagonal"
    batch: int = 0
    gauge: str = "anchor"
    starts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        def require(good: bool, message: str) -> None:
            if not good:
                raise OptionError(message)

        require(self.preset in PRESETS, f"unknown preset {self.preset!r}: choose one of {', '.join(PRESETS)}")
        require(self.start in STARTS, f"unknown start {self.start!r}: choose one of {', '.join(STARTS)}")
        require(
            self.optimiser in ("tg-mcmc", "newton", "both"),
            f"unknown optimiser {self.optimiser!r}: choose tg-mcmc, newton or both",
        )
        require(self.sampler in SAMPLERS, f"unknown sampler {self.sampler!r}: choose one of {', '.join(SAMPLERS)}")
        require(
            self.sampler in ("auto", "geodesic") or not self.geodesic_options,
            f"{', '.join(self.geodesic_options)}: for the sampler geodesic only, not for {self.sampler}",
        )
        require(self.mass in ("diagonal", "identity"), f"unknown mass {self.mass!r}: choose diagonal or identity")
        require(
            self.beta > 0 and math.isfinite(self.beta),
            f"beta must be positive and finite for draws, not {self.beta} (use draws=0 to optimise only)",
        )
        require(self.draws >= 0, f"the number of draws cannot be negative ({self.draws})")
        require(self.chains >= 1, f"at least one chain is needed, not {self.chains}")
        require(self.starts >= 1, f"at least one start is needed, not {self.starts}")
        require(self.optimise_steps >= 0, "optimise_steps cannot be negative")
        require(self.thin is None or self.thin >= 1, "thin must be at least 1 step")
        require(self.warmup is None or self.warmup >= 0, "warmup cannot be negative")
        require(self.seed >= 0, f"the seed must not be negative ({self.seed})")
        require(
            all(b > 0 and n >= 0 for b, n in self.anneal), "annealing phases need positive beta and non-negative steps"
        )
        self.splitting  # noqa: B018  (validates scheme, noise and letters)
        self._check_robust(require)

    def _check_robust(self, require: Callable[[bool, str], None]) -> None:
        require(self.noise in ("given", "auto"), f"unknown noise {self.noise!r}: choose given or auto")
        only = [name for name in ("inlier_probability", "trust_odometry") if getattr(self, name) is not None]
        only += ["tail"] if self.tail != "auto" else []
        require(self.robust or not only, f"{', '.join(only)}: only with robust")
        for name in ("inlier_probability", "trust_odometry"):
            value = getattr(self, name)
            require(value is None or 0.0 < value <= 1.0, f"{name} must be above 0 and at most 1, not {value}")
        known = self.tail in ("auto", "gaussian") if isinstance(self.tail, str) else self.tail > 0.0
        require(known, f"tail must be auto, gaussian or a positive number, not {self.tail!r}")
        unusual = self.preset != "default" or self.optimiser != "newton"
        require(
            not (unusual and (self.robust or self.noise == "auto")),
            "robust and noise auto need the preset default and the optimiser newton",
        )

    @property
    def splitting(self) -> Scheme:
        """The sampler's scheme."""
        return Scheme(self.scheme, self.scheme_noise, self.letters)

    @property
    def geodesic_options(self) -> list[str]:
        """Options given that only the sampler ``geodesic`` has."""
        return [name for name, usual in _GEODESIC.items() if getattr(self, name) != usual]

    @property
    def draws_per_chain(self) -> int:
        """Draws of each chain, rounded up so that chains are equally long."""
        return -(-self.draws // self.chains)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary for JSON."""
        return asdict(self)


def preset(name: str, **changes: Any) -> SolveOptions:
    """Options of a preset, with changes."""
    if name == "paper":
        base = SolveOptions(
            preset="paper", start="random", optimiser="tg-mcmc", optimise_steps=800, beta=1000.0, draws=40, chains=1,
            sampler="geodesic", scheme="boa", scheme_noise="paper", friction=1000.0, coordinates="paper", mass="identity",
            thin=10, warmup=100,
        )  # fmt: skip
    elif name == "default":
        base = SolveOptions()
    else:
        raise OptionError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}")
    return replace(base, **changes)
