"""Which sampler: the one asked for, or the fastest one that is exact for the problem and works on it."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import Any

from tempose.dynamics.chain import Dynamics
from tempose.errors import DrawsError, NotApplicable
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.laplace import Laplace
from tempose.sampling import adjusted, collapsed, geodesic, jumping, targets, tempering
from tempose.sampling.geodesic import MetropolisSampler
from tempose.sampling.sampler import Cause, Reason, Sampler
from tempose.sampling.tuning import Tuning

# chosen on: simulated graphs, which runs is not recorded
WIDE = 0.5  # radians: standard deviation of a measured relative rotation from which a Gaussian is a bad guide


@dataclass(frozen=True)
class Choice:
    """A sampler, ready to run, and why it was chosen."""

    sampler: Sampler
    reason: Reason


@dataclass(frozen=True, eq=False)
class Problem:
    """What a sampler is made for.

    Parameters
    ----------
    posterior, center, laplace, tuning
        The target, its optimum, the Gaussian approximation there (``None`` if there is none) and time scales.
    dynamics
        Scheme, step, friction, β and coordinates of the geodesic samplers; the adjusted one tunes the step anew.
    thin, warmup
        Steps or trajectories between kept draws, and before the first; ``None`` for each sampler's own.
    spread
        Start the unadjusted geodesic chains at draws of the Gaussian approximation instead of at the centre.
    seed
        Of the pilot chains.
    modes
        Other strict minima of U, found from several starts: for jumps between them and the centre.
    """

    posterior: Posterior
    center: Poses
    laplace: Laplace | None
    tuning: Tuning
    dynamics: Dynamics
    thin: int | None = None
    warmup: int | None = None
    spread: bool = True
    seed: int = 0
    modes: tuple[Poses, ...] = ()

    def geodesic(self) -> Sampler:
        """The unadjusted schemes."""
        thin = self.thin or self.tuning.thin
        warmup = 2 if self.warmup is None else -(-self.warmup // thin)
        return geodesic.GeodesicSampler(
            self.posterior, self.center, self.laplace if self.spread else None, self.tuning.inverse_mass,
            self.dynamics, thin, warmup,
        )  # fmt: skip

    def geodesic_mh(self, settings: dict[str, Any] | None = None) -> Sampler:
        """The adjusted scheme: tuned by a pilot chain, or with settings found earlier."""
        if settings is not None:
            return self._metropolis(settings["step"], settings["steps"])
        sampler = self._metropolis(self.tuning.step, 1)
        return geodesic.tune_metropolis(sampler, self.tuning.slowest, self.seed).sampler

    def _metropolis(self, step: float, steps: int) -> MetropolisSampler:
        thin, warmup = self._trajectories(geodesic.WARMUP)
        return MetropolisSampler(
            self.posterior, self.center, self.laplace, self.tuning.inverse_mass, replace(self.dynamics, step=step),
            thin, warmup, steps=steps,
        )  # fmt: skip

    def adjusted(self, scheme: str, settings: dict[str, Any] | None = None) -> Sampler:
        """A scheme with a test at each step: tuned by a pilot chain, or with settings found earlier."""
        found = settings or {"step": self.tuning.step, "friction": self.tuning.friction, "thin": self.thin or 0}
        dynamics = replace(self.dynamics, step=found["step"], friction=found["friction"])
        sampler = adjusted.AdjustedSampler(
            self.posterior, self.center, self.laplace, self.tuning.inverse_mass, dynamics, found["thin"],
            adjusted.WARMUP, scheme,
        )  # fmt: skip
        if settings is None:
            sampler = adjusted.tune_adjusted(sampler, self.tuning.slowest, self.seed)
        if self.warmup is not None:
            sampler = replace(sampler, warmup=-(-self.warmup // sampler.thin))
        return sampler

    def collapsed(self, settings: dict[str, Any] | None = None) -> tuple[Sampler, float]:
        """The collapsed sampler and the acceptance of its pilot chain (1 if the settings were found earlier)."""
        if self.laplace is None:
            raise NotApplicable(
                "the sampler collapsed needs a strict minimum of U: the Hessian at the estimate is not positive definite; "
                "use the sampler geodesic-mh (or auto, which chooses it)",
                cause=Cause.NO_MINIMUM,
            )
        thin, warmup = self._trajectories(collapsed.WARMUP)
        if settings is not None:
            target = targets.target_of(self.laplace)
            turn = settings.get("turn", collapsed.TURN)
            return collapsed.CollapsedSampler(target, settings["kicks"], thin, warmup, turn), 1.0
        tuned = targets.tune_collapsed(self.laplace, self.seed, thin=thin, warmup=warmup)
        return tuned.sampler, tuned.acceptance

    def tempering(self, settings: dict[str, Any] | None = None) -> Sampler:
        """Parallel tempering: its ladder found by pilot sweeps, or with settings found earlier."""
        if settings is not None:
            return tempering.recorded_tempering(self._metropolis(1.0, 1), settings)
        tempering.first_guess(self.posterior, self.dynamics.beta)  # refuses what would take too long
        warmup = None if self.warmup is None else -(-self.warmup // (self.thin or 1))
        tuned = self.geodesic_mh()
        assert isinstance(tuned, MetropolisSampler)
        return tempering.tune_tempering(tuned, self.tuning.slowest, self.seed, thin=self.thin, warmup=warmup)

    def jumping(self, settings: dict[str, Any] | None = None) -> Sampler:
        """The collapsed sampler at several modes, and jumps between them."""
        if self.laplace is None or not self.modes:
            raise NotApplicable(
                "the sampler jumping needs at least two strict minima of U, and there is one; look from more starts "
                "(--starts 50), or use the sampler tempering, which needs none"
            )
        laplaces = [self.laplace, *(Laplace(self.laplace.curvature, one, self.laplace.beta) for one in self.modes)]
        thin, warmup = self._trajectories(collapsed.WARMUP)
        kicks = None if settings is None else settings["kicks"]
        return jumping.tune_jumping(laplaces, self.seed, kicks=kicks, thin=thin, warmup=warmup)

    def _trajectories(self, default: int) -> tuple[int, int]:
        thin = self.thin or 1
        return thin, default if self.warmup is None else -(-self.warmup // thin)


def choose(name: str, problem: Problem, recorded: dict[str, Any] | None = None) -> Choice:
    """Make the sampler ``name``, or choose one for ``auto``.

    Parameters
    ----------
    name
        One of :data:`tempose.sampling.options.SAMPLERS`.
    problem
        What to sample.
    recorded
        ``sampler``, ``reason`` and settings of an earlier run that is to be continued: nothing is tuned again.

    Raises
    ------
    NotApplicable
        If the sampler asked for is not exact for this problem.
    """
    if recorded is not None:
        try:
            return Choice(_make(recorded["sampler"], problem, recorded), Reason.from_facts(recorded["reason"]))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError):
            raise DrawsError(
                "draws.json does not describe a sampler of this graph; draw anew with --overwrite, or in another directory"
            ) from None
    if name != "auto":
        return Choice(_make(name, problem, None), Reason(Cause.ASKED))
    if problem.modes:
        count = len(problem.modes) + 1
        for make, cause in ((problem.jumping, Cause.MODES), (problem.tempering, Cause.MODES_WITHOUT_JUMPS)):
            with contextlib.suppress(NotApplicable):  # too large for tempering: the draws stay in one mode
                return Choice(make(), Reason(cause, count))
    if problem.laplace is not None and (sigma := collapsed.widest_edge(problem.laplace)) > WIDE:
        return Choice(problem.geodesic_mh(), Reason(Cause.WIDE, math.degrees(sigma)))
    try:
        sampler, acceptance = problem.collapsed()
    except NotApplicable as error:
        return Choice(problem.geodesic_mh(), Reason(Cause(error.cause), problem.dynamics.beta))
    if acceptance < collapsed.LEAST_ACCEPTANCE:
        return Choice(problem.geodesic_mh(), Reason(Cause.REJECTED, acceptance))
    return Choice(sampler, Reason(Cause.INTEGRATED_OUT, acceptance))


def _make(name: str, problem: Problem, recorded: dict[str, Any] | None) -> Sampler:
    """The sampler of a name, tuned, or with the settings of an earlier run."""
    if name == "collapsed":
        return problem.collapsed(recorded)[0]
    if name == "geodesic":
        return problem.geodesic()
    if name in ("baoab-mh", "aboba-mh", "boa-mh"):
        return problem.adjusted(name.removesuffix("-mh"), recorded)
    return {"geodesic-mh": problem.geodesic_mh, "tempering": problem.tempering, "jumping": problem.jumping}[name](
        recorded
    )
