"""Options of a solve: what is said of the whole, and the objects that say the rest."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tempose._support.options import check_choices, option, require
from tempose.optimum.options import STARTS, Newton, Optimiser, TgMcmc, optimiser_named
from tempose.outliers.options import Robust
from tempose.sampling.options import Auto, SamplerOptions, sampler_named

NOISES = {
    "given": "the graph's noise levels hold",
    "auto": "they hold relative to each other, and are estimated",
    "paper": "the paper's λ and σ² in place of the graph's own",
}

EDGE_ERRORS = {
    "auto": "shared where only precise edges tell the poses, or where noise is estimated and either loop closures that say the "
    "same count once, or edges may be wrong and the measurements say so; else independent",
    "independent": "every edge errs by itself: each adds its information",
    "shared": "edges that meet share errors, as registrations of one scan do: those between two places count as one, or, where ids "
    "are no order in time, five do",
}

SCALES = {
    "never": "error bars are those of the stated noise",
    "always": "they are scaled by the variance factor (reduced χ²), as if only relative weights had been stated",
    "if-test-fails": "they are scaled if the global test rejects the stated noise, at a level of 5%",
}


@dataclass(frozen=True)
class SolveOptions:
    """What :func:`tempose.solve` does.

    Parameters
    ----------
    noise
        ``given``: the graph's precisions hold; ``auto``: only relative to each other, and noise levels are estimated;
        ``paper``: the paper's λ and σ² in place of the graph's own.
    edge_errors
        What error bars take for granted: errors of edges are ``independent``, or ``shared`` by edges that meet
        (:mod:`tempose.analysis.shared_errors`); then they are wider, and come from a Gaussian approximation. ``auto`` has shared
        ones where rough edges contradict precise ones, and, if noise is estimated, where loop closures that say the same count once
        or where edges may be wrong and the measurements say that errors are shared. Estimate, draws and verdicts are the same.
    scale
        Whether all σ are multiplied by the root of the variance factor: ``never``, ``always``, or ``if-test-fails``. The estimate
        stays where it is; error bars and draws are those of the scaled noise. ``noise="auto"`` is finer, and needs no such factor.
    robust
        What is known about wrong edges (:class:`tempose.outliers.Robust`, or ``True`` for its defaults); ``None``:
        every edge is right.
    start
        One of :data:`tempose.optimum.options.STARTS`; with ``robust`` only used if the poses are ``given``.
    starts
        Places to start the optimiser from, ``start`` and random ones: with more than one, other minima of U are looked
        for, their odds are given, and the samplers ``auto`` and ``jumping`` go to and fro between them; not where several
        solutions are explanations because odds do not decide between them.
    optimiser
        :class:`tempose.optimum.Newton` or :class:`tempose.optimum.TgMcmc`, or a name of
        :data:`tempose.optimum.options.OPTIMISERS`.
    certify
        Try to prove the estimate globally optimal, and escape by the Riemannian staircase if it is not (the escape
        not after TG-MCMC alone, whose result is left as it is).
    draws
        Kept draws in all chains together; 0 for a point estimate with Gaussian covariances.
    chains
        Independent chains.
    beta
        Inverse temperature of the draws: 1 is the posterior.
    sampler
        An object of :mod:`tempose.sampling`, or a name of :data:`tempose.sampling.options.SAMPLERS`.
    gauge
        What absolute uncertainties refer to: ``world``, ``anchor``, ``centroid``, ``free`` or ``node:ID``; ``auto`` is ``world``
        where something ties the graph to it, else ``anchor``.
    seed
        Same seed, same draws.
    """

    noise: str = option(
        "given",
        "noise levels: as the file gives them (default), estimated (auto), or the paper's",
        choices=NOISES,
        everyday=True,
    )
    edge_errors: str = option(
        "auto",
        "what error bars take for granted: errors of edges are independent, or shared by edges that meet, as those of "
        "registrations of one scan are (default auto: shared where only precise edges tell the poses, or where noise is estimated "
        "and either loop closures that say the same count once, or edges may be wrong and the measurements say so)",
        choices=EDGE_ERRORS,
    )
    scale: str = option(
        "never",
        "whether to scale the noise by the variance factor, as surveyors do: never (default), always, or if-test-fails",
        choices=SCALES,
    )
    robust: Robust | None = option(
        None, "expect wrong edges: the posterior says which they are, and the poses survive them", everyday=True
    )
    start: str = option("chordal", "where to start (default: chordal)", choices=STARTS)
    starts: int = option(1, "look for other modes from N - 1 random starts (default 1: do not)", metavar="N")
    optimiser: Optimiser = option(Newton(), "newton (default), the paper's tg-mcmc, or both, one after the other")
    certify: bool = option(True, "try to prove global optimality")
    draws: int = option(1000, "draws to keep, all chains together (default 1000; 0: none)", metavar="N", everyday=True)
    chains: int = option(4, "independent chains (default 4)", metavar="N")
    beta: float = option(1.0, "inverse temperature of the draws (default 1, the posterior)")
    sampler: SamplerOptions = option(Auto(), "how draws are made (default: the fastest exact way)")
    gauge: str = option(
        "auto",
        "what error bars refer to: auto (default: the world, if fixes or fixed nodes tie the graph to it, else anchor), world, "
        "anchor (the FIXed or first node), centroid, free, or node:ID",
        everyday=True,
    )
    seed: int = option(0, "same seed, same draws (default 0)", everyday=True)

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        if isinstance(self.sampler, str):
            put("sampler", sampler_named(self.sampler))
        if isinstance(self.optimiser, str):
            put("optimiser", optimiser_named(self.optimiser))
        if isinstance(self.robust, bool):
            put("robust", Robust() if self.robust else None)
        require(isinstance(self.sampler, SamplerOptions), f"sampler must be an object or a name, not {self.sampler!r}")
        require(isinstance(self.optimiser, Optimiser), f"optimiser must be an object or a name, not {self.optimiser!r}")
        require(
            self.robust is None or isinstance(self.robust, Robust), f"robust must be Robust(…), not {self.robust!r}"
        )
        for name in ("starts", "draws", "chains", "seed"):
            value = getattr(self, name)
            require(isinstance(value, int), f"{name} must be a whole number, not {value!r}")
        require(isinstance(self.beta, int | float), f"beta must be a number, not {self.beta!r}")
        check_choices(self)
        require(
            self.beta > 0 and math.isfinite(self.beta),
            f"beta must be positive and finite for draws, not {self.beta} (use draws=0 to optimise only)",
        )
        require(self.draws >= 0, f"the number of draws cannot be negative ({self.draws})")
        require(self.chains >= 1, f"at least one chain is needed, not {self.chains}")
        require(self.starts >= 1, f"at least one start is needed, not {self.starts}")
        require(self.seed >= 0, f"the seed must not be negative ({self.seed})")
        estimated = self.robust is not None or self.noise == "auto"
        require(
            not estimated or (self.noise != "paper" and isinstance(self.optimiser, Newton)),
            "robust and noise auto need the graph's own noise and the optimiser newton",
        )
        require(
            self.scale == "never" or not estimated,
            "scale is for noise that was stated: robust and noise auto have an estimate of their own",
        )

    @property
    def chain_draws(self) -> tuple[int, ...]:
        """Draws of each chain, :attr:`draws` together: the first chains have one more where they cannot all be alike."""
        each, more = divmod(self.draws, self.chains)
        return tuple(each + (chain < more) for chain in range(self.chains))

    def shares_errors(self, by_place: bool, precise_only: bool, told: bool) -> bool:
        """Whether error bars are for edges that share errors.

        ``by_place``: loop closures that say the same have counted once; ``precise_only``: edges contradict each other too much for
        independent errors, so that only the precise ones tell the poses; ``told``: the measurements say so.
        """
        seen = precise_only or (self.noise == "auto" and (by_place or (told and self.robust is not None)))
        return self.edge_errors == "shared" or (self.edge_errors == "auto" and seen)

    @property
    def may_repeat(self) -> bool:
        """Whether wrong edges may repeat each other, for all that was asked."""
        return self.robust is not None and self.robust.repeats == "cluster"

    def changed(self, **changes: Any) -> SolveOptions:
        """The same with some options changed; those that are ``None`` stay."""
        known = {one.name for one in fields(self)}
        unknown = [name for name in changes if name not in known]
        require(not unknown, f"unknown option {', '.join(unknown)}: choose from {', '.join(sorted(known))}")
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary for JSON; sampler and optimiser with their names."""
        plain = asdict(self)
        plain["sampler"] = {"name": self.sampler.name, **plain["sampler"]}
        plain["optimiser"] = {"name": self.optimiser.name, **plain["optimiser"]}
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> SolveOptions:
        """The inverse of :meth:`as_dict`, also after a way through JSON."""
        known = {one.name for one in fields(cls)}
        strange = [name for name in plain if name not in known]
        require(not strange, f"unknown option {', '.join(strange)} in the record of a solve")
        values = dict(plain)
        if isinstance(values.get("robust"), Mapping):
            values["robust"] = Robust(**values["robust"])
        if isinstance(values.get("sampler"), Mapping):
            values["sampler"] = sampler_named(**_tuples(values["sampler"]))
        if isinstance(values.get("optimiser"), Mapping):
            own = _tuples(values["optimiser"])
            require(own.get("name") in (Newton.name, TgMcmc.name), f"unknown optimiser {own.get('name')!r}")
            values["optimiser"] = Newton() if own.pop("name") == Newton.name else TgMcmc(**own)
        return cls(**values)


def _tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has lists where options have tuples."""
    return {name: _tuple(value) if isinstance(value, list) else value for name, value in plain.items()}


def _tuple(value: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuple(one) if isinstance(one, list) else one for one in value)
