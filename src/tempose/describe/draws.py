"""Sentences about the draws and their modes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tempose._support.files import bytes_text
from tempose._support.words import plural, word_for
from tempose.analysis.diagnostics import (
    ESS_GOOD,
    FEWEST_DRAWS,
    RHAT_BAD,
    RHAT_GOOD,
    Diagnostics,
    Level,
    Trouble,
)
from tempose.analysis.modes import Mode, Modes
from tempose.sampling.sampler import Cause, Reason

_LOWER = 1.0  # of U: less makes no difference
_MUCH_ROOM = 1 << 30  # bytes of draws that are worth a word


def room_for_draws(count: int, needed: int) -> list[str]:
    """How much room draws will take on disk, if it is much."""
    return [f"{count} draws will take {bytes_text(needed)} on disk"] if needed > _MUCH_ROOM else []


NOT_DRAWN = (
    "no draws were made: the measurements contradict their stated noise, so that error bars of draws would be as wrong as those "
    "of the Gaussian approximation; --draws N makes N of them all the same"
)
"""Why a solve that nobody gave a number of draws has ended without any."""
BEFORE_DRAWS = "written before the draws: error bars are those of the Gaussian approximation"
"""What a result says that is on disk while draws are made."""


def lower_draws(lower_by: float) -> list[str]:
    """That draws lead to a deeper minimum than the estimate's, if they do."""
    if lower_by < _LOWER:
        return []
    return [
        f"the draws lead to other poses with U lower by {lower_by:.3g}: the estimate is not the best place, but one of several "
        "nearby, and error bars from the draws are of all of these"
    ]


def draws_of(counts: Sequence[int]) -> str:
    """How many draws are of each explanation, to be put into a sentence; nothing if there is one: ``, 29 / 29 / 12 of …``."""
    if len(counts) < 2:
        return ""
    numbers = " / ".join(str(count) for count in counts)
    return f", {numbers} of explanations 1 to {len(counts)}"


def verdict(d: Diagnostics) -> str:
    """What the draws are worth, in one sentence that begins with the level."""
    return f"{d.level}: {verdict_reason(d)}"


def verdict_reason(d: Diagnostics) -> str:
    """The same without the level."""
    reasons = "; ".join(_trouble(d, trouble) for trouble, _ in d.troubles)
    if d.level is Level.CANNOT_TELL:
        return reasons
    sigma = d.worst_sigma_error.value
    if d.level is Level.USABLE:
        return f"every σ is known to ±{100.0 * sigma:.2g}% or better, but {reasons}"
    # the errors themselves come from these draws: they mean nothing if the draws are bad
    known = f"; σ known to ±{100.0 * sigma:.2g}% or better" if math.isfinite(sigma) and d.level != Level.BAD else ""
    if reasons:
        return f"{reasons}{known}"
    return (
        f"R-hat ≤ {d.worst_rhat.value:.3f}, bulk ESS ≥ {d.worst_ess_bulk.value:.0f}, "
        f"tail ESS ≥ {d.worst_ess_tail.value:.0f}{known}"
    )


def _few(d: Diagnostics) -> str:
    return f"{plural(d.draws_per_chain, 'draw')} a chain {word_for(d.draws_per_chain, 'is', 'are')}"


def _trouble(d: Diagnostics, trouble: Trouble) -> str:
    if trouble is Trouble.TOO_FEW:
        return f"{_few(d)} too few to judge, at least {FEWEST_DRAWS} are needed"
    if trouble is Trouble.NOT_FINITE:
        return f"{plural(d.not_finite, 'draw')} {word_for(d.not_finite, 'is', 'are')} not finite, the sampler diverged"
    if trouble is Trouble.NOTHING_MOVES:
        return "nothing moves, every node is held by the gauge"
    if trouble is Trouble.STUCK:
        return f"{plural(d.stuck, 'coordinate')} never moved"
    if trouble is Trouble.TOO_SHORT:
        return f"{_few(d)} too few to see whether the chains agree: R-hat up to {d.worst_rhat}, as chance may have it"
    if trouble in (Trouble.CHAINS_DISAGREE, Trouble.RHAT):
        many, of = int(np.sum(d.rhat > RHAT_GOOD)), int(np.sum(np.isfinite(d.rhat)))
        far = "chains disagree, " if trouble is Trouble.CHAINS_DISAGREE else ""
        return f"{far}R-hat up to {d.worst_rhat}, above {RHAT_GOOD} in {many} of {of} coordinates"
    if trouble in (Trouble.BULK_ESS, Trouble.TAIL_ESS):
        bulk = trouble is Trouble.BULK_ESS
        worst, each = (d.worst_ess_bulk, d.ess_bulk) if bulk else (d.worst_ess_tail, d.ess_tail)
        usual = f", median {np.nanmedian(each):.0f}" if np.any(np.isfinite(each)) else ""
        return f"{'bulk' if bulk else 'tail'} ESS only {worst}{usual}"
    if trouble is Trouble.CREEPS:
        return f"U creeps, energy mixing {d.energy_mixing:.2g} (2 if independent)"
    if trouble is Trouble.ONE_CHAIN:
        return "one chain cannot show that it has seen everything"
    return f"{plural(d.chains_made - d.n_chains, 'chain')} left out, too short"


def advice(d: Diagnostics) -> list[str]:
    """What to do about the draws, one line each; nothing if all is well."""
    found = {trouble for trouble, _ in d.troubles}
    if Trouble.TOO_FEW in found:
        return [f"draw more (--draws {int(ESS_GOOD)} or more)"]
    if Trouble.NOT_FINITE in found:
        return ["use a shorter step (--step)"]
    if Trouble.NOTHING_MOVES in found:
        return []
    lines = []
    total, worst_rhat, least_ess = d.n_chains * d.draws_per_chain, d.worst_rhat.value, d.least_ess
    if d.stuck:
        lines.append("something never moves: most likely every proposal is refused; use a shorter step (--step)")
    if d.chains_disagree:
        lines.append(
            "the chains have not met: allow a longer warm-up (--warmup); if they still differ they sit in separate modes, "
            "which --sampler tempering (small graphs) or --starts 20 can weigh"
        )
    if least_ess < ESS_GOOD:
        factor = 1.2 * ESS_GOOD / max(least_ess, 1.0)
        more = f"--draws {_round_up(total * factor)}"
        if least_ess < 0.2 * total:
            lines.append(f"draws are correlated: keep them {math.ceil(factor)}× further apart (--thin), or take {more}")
        else:
            lines.append(f"for a good verdict take more draws: {more} should do")
    elif RHAT_GOOD < worst_rhat <= RHAT_BAD:
        lines.append(f"take longer chains: --draws {_round_up(2.0 * total)}")
    if d.n_chains == 1:
        lines.append("run several chains (--chains 4): only they can disagree")
    return lines


def _round_up(x: float) -> int:
    """To two digits."""
    unit = int(10 ** max(math.floor(math.log10(x)) - 1, 0))
    return math.ceil(x / unit) * unit


_SAMPLERS = {
    "collapsed": "Hamiltonian steps on the rotations, positions integrated out",
    "geodesic": "the paper's geodesic steps",
    "geodesic-mh": "geodesic steps with a test of each trajectory",
    "tempering": "parallel tempering",
    "jumping": "jumps between the modes found",
}


def sampler(name: str) -> str:
    """How draws were made, in words; the name of the option may be read as a failure."""
    return _SAMPLERS.get(name, f"the scheme {name.removesuffix('-mh')} with a test of each step")


def legend(*, draws: bool) -> str:
    """What the letters mean that a summary uses."""
    more = (
        "; R-hat is 1 where chains agree; ESS is how many independent draws the draws are worth, bulk for means and tail for "
        "intervals"
    )
    return f"(U is how badly poses explain the measurements, 0 at best{more * draws}; all words: docs/reference/glossary.md)"


def reason(why: Reason) -> str:
    """Why a sampler was chosen."""
    if why.cause in (Cause.MODES, Cause.MODES_WITHOUT_JUMPS):
        jumps = ", and jumps between them are not possible" if why.cause is Cause.MODES_WITHOUT_JUMPS else ""
        return f"several starts led to {why.value:.0f} modes{jumps}"
    cannot = {
        Cause.NO_MINIMUM: "there is no strict minimum",
        Cause.ANISOTROPIC_EDGES: "there is a translation with a different precision along different axes",
        Cause.ANISOTROPIC_PRIORS: "there is a prior with a different precision along different axes",
        Cause.PARTLY_DETERMINED: "something that is tied to the world can still be moved at no cost",
        Cause.TEMPERED_MIXTURE: f"wrong edges at β = {why.value:g}",
        Cause.LOOSE_WITHOUT_WRONG_EDGES: "the kept edges have no strict minimum",
    }
    if why.cause in cannot:
        return f"positions cannot be integrated out: {cannot[why.cause]}"
    return {
        Cause.ASKED: "asked for",
        Cause.WIDE: f"the posterior is wide: σ = {why.value:.0f}° for the rotation along an edge",
        Cause.REJECTED: "the posterior is far from Gaussian: a pilot run with positions integrated out was rejected",
        Cause.INTEGRATED_OUT: f"positions can be integrated out, and {why.value:.0%} of a pilot run was accepted",
    }[why.cause]


def slow_mixing(thin: int) -> str:
    """That draws are far apart and still alike."""
    return (
        f"this posterior mixes slowly: draws are {thin} steps apart and still not independent, so their σ may be too small; "
        "set --thin, or trust relative over absolute uncertainties"
    )


def modes(found: Modes) -> str:
    """The modes and their probabilities."""
    if len(found) == 1:
        return "one mode: all draws lie around the estimate" if found.home == 0 else "one mode, not the estimate's"
    if found.crossings == 0:
        counts = " / ".join(str(mode.n_draws) for mode in found.modes)
        return f"{len(found)} modes with {counts} draws, and no chain went from one to another: their odds are unknown"
    shares = " / ".join(_percent(mode) for mode in found.modes[:5]) + (" / …" if len(found) > 5 else "")
    doubt = "" if found.weighed else "; the chains crossed too seldom to be sure of it"
    return f"{len(found)} modes: {shares} ({found.crossings} crossings{doubt})"


def modes_advice(found: Modes) -> list[str]:
    """What to do about modes whose odds are not known, one line each."""
    if found.weighed:
        return []
    if found.crossings == 0:
        return [
            "the chains sit in separate modes: use --sampler tempering (small graphs), or --starts 20 --sampler jumping, to "
            "learn how probable each is"
        ]
    return [
        "the odds of the modes are not yet known well: take more draws (--draws), or keep them further apart (--thin)"
    ]


def _percent(mode: Mode) -> str:
    digits = 0 if not mode.error < 0.005 else 1
    return f"{100.0 * mode.probability:.{digits}f}% ± {max(100.0 * mode.error, 10.0**-digits):.{digits}f}"
