"""Whether a result can be trusted: one judgement out of everything that was found, and what to try next.

Nothing is computed here but the judgement. Each doubt has a fixed weight by what it means for somebody who uses the poses and their
error bars: an answer that may be wrong by more than it says is not to be trusted; one that is right under a condition that nobody
has checked is to be trusted with care.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose.analysis.analysis import Analysis
from tempose.analysis.components import edge_kinds
from tempose.analysis.diagnostics import Level, Trouble
from tempose.analysis.reliability import GlobalTest
from tempose.analysis.summary import median_sigma
from tempose.optimum.certificate import Certificate, Proof
from tempose.outliers.solutions import Weighing, is_by_place, is_undecided

__all__ = ["Circumstances", "Doubt", "Finding", "Judgement", "Trust", "doubts_from", "judge"]

STARTS = 20  # to look for a better optimum from, where the staircase could not tell
FEW_STARTS = 3  # where it was too large a task: each start costs as much as the solve did, which took minutes
HARDLY_DETERMINED_DEG = 30.0  # per axis: by then a frame of reference has no use
FAR_OFF = 2.0  # factor by which error bars are too small
# chosen on: what it means for regions, after one simulated graph with σ stated 0.75 times (experiment verdicts, seed 0)
NOTABLY_OFF = 1.1  # the same: 95% regions of six numbers then hold 90%; told if it is no chance
COMPUTED = 1e-6  # of the stated noise: edges that scatter less have no errors, but those of rounding
FEW_WRONG = 0.05  # share of edges; more of them pull every pose
UNSURE = 0.8  # probability of the reported explanation: below, one answer in five is another
NEARLY_ALL = 0.95  # of the edges that are believed, if these are right
MANY_DISTRUSTED = 0.1  # share of edges, where wrong ones are counted edge by edge


class Trust(StrEnum):
    """How far a result can be trusted."""

    TRUST = "trust it"
    CARE = "trust it with care"
    NOT = "do not trust it"

    @property
    def weight(self) -> int:
        """0, 1, 2: the larger, the worse."""
        return list(Trust).index(self)


class Doubt(StrEnum):
    """What speaks against trusting a result."""

    NOT_CONVERGED = "not converged"
    UNDECIDED = "several explanations"
    NO_ERROR_BARS = "no error bars"
    HARDLY_DETERMINED = "hardly determined"
    CONTRADICTIONS = "edges contradict the rest"
    NOISE_UNDERSTATED = "noise understated"
    NOISE_OVERSTATED = "noise overstated"
    NO_SCATTER = "measurements without errors"
    DRAWS_BAD = "draws bad"
    DRAWS_TOO_FEW = "too few draws"
    MODES = "modes of unknown odds"
    COMPETING = "competing solutions"
    OTHER_PLACES = "distrusted edges agree on other places"
    ALIKE = "wrong edges agree"
    MANY_DISTRUSTED = "many edges distrusted"
    MOST_LOOPS = "most loop closures distrusted"
    ONE_OF_MANY = "one of several edges is wrong"
    LOOSE_PARTS = "parts that one edge holds"
    UNHELD = "parts that no edge holds which is probably right"
    CORRELATED = "correlated errors"
    SHARED = "shared errors"
    ROUGH = "rough edges contradict precise ones"
    UNDETERMINED = "not determined in the world"
    UNCHECKED = "nothing is checked"
    NOT_PROVEN = "not proven"


@dataclass(frozen=True)
class Finding:
    """One doubt.

    Attributes
    ----------
    value
        The number that tells how bad it is: a count, a factor, a percentage or degrees, by the kind of doubt.
    options
        What to add to the command to do something about it; none if nothing helps.
    """

    doubt: Doubt
    trust: Trust
    value: float = math.nan
    options: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "doubt": self.doubt,
            "trust": self.trust,
            "value": plain(float(self.value)),
            "options": list(self.options),
        }


@dataclass(frozen=True)
class Judgement:
    """What is to be thought of a result: the findings, the gravest first."""

    findings: tuple[Finding, ...]

    @property
    def trust(self) -> Trust:
        """As far as the gravest finding allows."""
        return self.findings[0].trust if self.findings else Trust.TRUST

    @property
    def noise_is_far_off(self) -> bool:
        """Whether the measurements contradict their stated noise so much that error bars made from it mean nothing."""
        grave = {found.doubt for found in self.findings if found.trust is Trust.NOT}
        return bool(grave & {Doubt.CONTRADICTIONS, Doubt.NOISE_UNDERSTATED, Doubt.NOISE_OVERSTATED})

    @property
    def options(self) -> tuple[str, ...]:
        """What to add to the command next: for the first finding that something can be done about."""
        return next((found.options for found in self.findings if found.options), ())

    @property
    def surely_helps(self) -> bool:
        """Whether :attr:`options` are known to do something about it; else they may."""
        first = next((found.doubt for found in self.findings if found.options), None)
        return first not in (Doubt.UNDECIDED, Doubt.MODES, Doubt.NOT_PROVEN)


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What a solve knows beside its analysis.

    Attributes
    ----------
    converged
        Whether the optimiser did.
    certificate
        What is proven, or ``None``.
    probabilities
        Of the explanations, the reported one first; empty if they were not searched for.
    contested
        Whether there are others worth mentioning.
    robust, noise_estimated, odometry_trusted
        What was asked for already, so that it is not advised again.
    starts
        From how many starts the optimum was looked for.
    found
        Doubts that came up in the search for the optimum, with how many each.
    """

    converged: bool
    certificate: Certificate | None
    probabilities: Sequence[float] = ()
    contested: bool = False
    robust: bool = False
    noise_estimated: bool = False
    odometry_trusted: bool = False
    starts: int = 1
    found: Sequence[tuple[Doubt, float]] = ()


def doubts_from(facts: Sequence[Sequence[Any]]) -> tuple[tuple[Doubt, float], ...]:
    """Doubts as they stand in ``result.json``."""
    return tuple((Doubt(name), math.nan if value is None else float(value)) for name, value in facts)


def errors_told_shared(weighing: Weighing | None, doubts: Sequence[tuple[Doubt, float]]) -> bool:
    """Whether measurements say that edges share errors: those that meet err alike, or wrong ones agree with each other."""
    return is_undecided(weighing) or any(doubt is Doubt.SHARED for doubt, _ in doubts)


def judge(analysis: Analysis, evidence: Circumstances) -> Judgement:
    """Weigh everything that was found."""
    findings = [
        *_search(analysis, evidence),
        *_fit(analysis, evidence),
        *_error_bars(analysis),
        *_draws(analysis),
        *_proof(evidence),
    ]
    return Judgement(tuple(sorted(findings, key=lambda one: -one.trust.weight)))


def _search(analysis: Analysis, evidence: Circumstances) -> Iterator[Finding]:
    """Of the optimum, its competitors, and what came up on the way."""
    if not evidence.converged:
        yield Finding(Doubt.NOT_CONVERGED, Trust.NOT)
    if evidence.contested:
        first = evidence.probabilities[0]
        ordered = not is_undecided(analysis.weighing)  # else there is no odometry
        options = ("--trust-odometry",) if ordered and not evidence.odometry_trusted else ()
        yield Finding(Doubt.UNDECIDED, Trust.NOT if first < UNSURE else Trust.CARE, 100.0 * first, options)
    for doubt, value in evidence.found:
        if doubt in (Doubt.COMPETING, Doubt.OTHER_PLACES) and evidence.contested:
            continue  # told already, with probabilities
        if doubt is Doubt.SHARED and analysis.errors_shared:
            continue  # error bars allow for that
        grave = doubt is Doubt.UNHELD or (doubt is Doubt.CORRELATED and value > FAR_OFF)
        yield Finding(
            doubt,
            Trust.NOT if grave else Trust.CARE,
            value,
            ("--edge-errors", "shared") if doubt is Doubt.SHARED else (),
        )


def _fit(analysis: Analysis, evidence: Circumstances) -> Iterator[Finding]:
    """Whether the measurements agree with each other and with their noise."""
    checks, chi = (
        analysis.edge_checks,
        analysis.reduced_chi_square / analysis.scaled_by,
    )  # of the noise that error bars are for
    if checks.determined and not checks.n_checked:
        yield Finding(Doubt.UNCHECKED, Trust.CARE)
        return
    off = math.sqrt(chi)  # by which σ should be larger
    wrong = 0 if evidence.robust else len(checks.misfits)
    if wrong:
        grave = wrong > FEW_WRONG * checks.n_checked or off > FAR_OFF
        yield Finding(Doubt.CONTRADICTIONS, Trust.NOT if grave else Trust.CARE, wrong, ("--robust", "--noise", "auto"))
    elif not evidence.noise_estimated and off < COMPUTED:
        yield Finding(Doubt.NO_SCATTER, Trust.CARE)
    elif (
        not evidence.noise_estimated
        and math.isfinite(chi)
        and (not 0.5 < chi < 2.0 or (chi > NOTABLY_OFF**2 and understates(analysis.global_test)))
    ):
        doubt = Doubt.NOISE_UNDERSTATED if chi > 1.0 else Doubt.NOISE_OVERSTATED
        # error bars that are too wide mislead nobody, but ten times too wide they say nothing
        trust = Trust.NOT if off > FAR_OFF or off < 0.1 else Trust.CARE
        yield Finding(doubt, trust, off, ("--noise", "auto"))
    verdicts, predicted = analysis.verdicts, analysis.predicted_verdicts
    if predicted is not None and len(predicted.one_of):
        yield Finding(Doubt.ONE_OF_MANY, Trust.NOT, len(predicted.one_of))
    agreed = analysis.agreement
    if agreed is not None and agreed.share_right < NEARLY_ALL:
        trust = Trust.NOT if agreed.share_right < UNSURE else Trust.CARE
        yield Finding(Doubt.ALIKE, trust, 100.0 * (1.0 - agreed.share_right))
    elif verdicts is not None and not is_by_place(analysis.weighing):  # else a look-alike is one mistake
        share = len(verdicts.distrusted) / max(verdicts.graph.n_edges, 1)
        if share > MANY_DISTRUSTED:
            yield Finding(Doubt.MANY_DISTRUSTED, Trust.CARE, 100.0 * share)
    elif verdicts is not None and not evidence.odometry_trusted:
        loops = np.array(edge_kinds(verdicts.graph)) == "loops"
        share = int(loops[verdicts.distrusted].sum()) / max(int(loops.sum()), 1)
        if share > 0.5:
            yield Finding(Doubt.MOST_LOOPS, Trust.CARE, 100.0 * share)


def understates(test: GlobalTest) -> bool:
    """Whether measurements scatter more than stated, by more than chance and by more than makes no difference."""
    return test.passed is False and test.variance_factor > NOTABLY_OFF**2


def _error_bars(analysis: Analysis) -> Iterator[Finding]:
    nodes = analysis.nodes
    if nodes is None:
        yield Finding(Doubt.NO_ERROR_BARS, Trust.NOT)
        return
    if analysis.is_loose:
        yield Finding(Doubt.UNDETERMINED, Trust.CARE)
        return
    turn = median_sigma(nodes.sigma_rot_deg)
    if turn > HARDLY_DETERMINED_DEG:
        yield Finding(Doubt.HARDLY_DETERMINED, Trust.NOT, turn)


def _draws(analysis: Analysis) -> Iterator[Finding]:
    found, modes = analysis.diagnostics, analysis.modes
    if modes is not None and len(modes) > 1 and not modes.weighed:
        yield Finding(Doubt.MODES, Trust.CARE, len(modes), ("--sampler", "tempering"))
    if found is None:
        return
    worth = found.least_ess if math.isfinite(found.least_ess) else float(found.draws_per_chain * found.n_chains)
    if found.level is Level.BAD and (found.chains_disagree or found.stuck or found.not_finite):
        yield Finding(Doubt.DRAWS_BAD, Trust.NOT, found.worst_rhat.value)
    elif found.level is Level.BAD or Trouble.TOO_FEW in {trouble for trouble, _ in found.troubles}:
        yield Finding(Doubt.DRAWS_TOO_FEW, Trust.CARE, worth)


def _proof(evidence: Circumstances) -> Iterator[Finding]:
    """That the poses may be a local optimum: only where a proof was possible, and about all edges."""
    proof = evidence.certificate
    if proof is None or evidence.robust or proof.certified is not False:
        return
    if proof.proof is Proof.NEGATIVE_EIGENVALUE and proof.relative_suboptimality > 1e-3:
        enough = FEW_STARTS if proof.too_large else STARTS
        options = ("--starts", str(enough)) if evidence.starts < enough else ()
        yield Finding(Doubt.NOT_PROVEN, Trust.CARE, 100.0 * proof.relative_suboptimality, options)
