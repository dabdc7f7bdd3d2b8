"""The sentence that comes first: whether to trust it all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tempose._support.words import plural, word_for
from tempose.analysis.edge_checks import EdgeChecks
from tempose.analysis.trust import Doubt, Finding, Judgement
from tempose.describe.explanations import contested
from tempose.outliers.solutions import Weighing


def judgement(found: Judgement, checks: EdgeChecks, weighing: Weighing | None, reasons: Sequence[str]) -> str:
    """Whether to trust a result, and the one reason that matters most: ``do not trust it: 600 of 814 edges contradict the rest``.

    ``reasons`` are what to say where there is no doubt.
    """
    why = doubt(found.findings[0], checks, weighing) if found.findings else ", ".join(reasons)
    return f"{found.trust}: {why}"


def further_doubts(found: Judgement, checks: EdgeChecks, weighing: Weighing | None) -> list[str]:
    """What else speaks against a result, and what to do next, one line each."""
    rest = [doubt(one, checks, weighing) for one in found.findings[1:]]
    lines = [f"also: {'; '.join(rest)}"] if rest else []
    how = "next: solve again with" if found.surely_helps else "may help:"
    return [*lines, f"{how} {' '.join(found.options)}"] if found.options else lines


def doubt(one: Finding, checks: EdgeChecks, weighing: Weighing | None) -> str:
    """A reason not to trust a result, as part of a sentence."""
    value, count = one.value, 0 if math.isnan(one.value) else round(one.value)
    if one.doubt is Doubt.UNDECIDED and weighing is not None:
        return contested(weighing)
    return {
        Doubt.NOT_CONVERGED: "the optimiser did not converge, so the poses may be far from the best",
        Doubt.NO_ERROR_BARS: "not all poses are determined, so there are no error bars",
        Doubt.HARDLY_DETERMINED: f"orientations are hardly determined, to {value:.0f}° per axis",
        Doubt.CONTRADICTIONS: f"{count} of {plural(checks.n_checked, 'edge')} contradict the rest",
        Doubt.NOISE_UNDERSTATED: f"measurements scatter {value:.2g} times as much as stated, and error bars are too small by that",
        Doubt.NOISE_OVERSTATED: f"measurements scatter only {value:.2g} times as much as stated: error bars are too wide",
        Doubt.NO_SCATTER: "measurements agree to rounding, as those do that were computed (condensed, or simulated without noise): "
        "nothing tells whether the stated noise is right",
        Doubt.DRAWS_BAD: f"the chains disagree with each other (R-hat {value:.3g}), so their error bars mean little",
        Doubt.DRAWS_TOO_FEW: f"the draws are worth {plural(count, 'independent one')}, too few to judge error bars by",
        Doubt.MODES: f"the draws lie in {count} modes whose odds are not known",
        Doubt.COMPETING: "another solution explains the measurements, too"
        if count == 1
        else f"{count} other solutions explain the measurements, too",
        Doubt.OTHER_PLACES: f"distrusted edges agree on another place of {plural(count, 'part')}",
        Doubt.ALIKE: f"wrong edges agree with each other, so that {value:.0f}% of those believed may be wrong as well",
        Doubt.MANY_DISTRUSTED: f"{value:.0f}% of the edges are distrusted",
        Doubt.MOST_LOOPS: f"{value:.0f}% of the loop closures are distrusted, so that the map rests on consecutive edges",
        Doubt.ONE_OF_MANY: f"one of {count} edges in a row is probably wrong, and nothing tells which",
        Doubt.LOOSE_PARTS: f"{plural(count, 'part')} of the graph hang{'s' * (count == 1)} on a single edge",
        Doubt.UNHELD: f"{plural(count, 'node')} {word_for(count, 'hangs', 'hang')} on no edge that is probably right",
        Doubt.CORRELATED: f"errors along the chain add up to at least {value:.2g} times what independent ones would",
        Doubt.SHARED: "edges share errors, so error bars are too small",
        Doubt.ROUGH: "rough edges contradict precise ones, which alone tell the poses",
        Doubt.UNDETERMINED: "the measurements do not tie all of it to the world",
        Doubt.UNCHECKED: "there are no loops: no edge is checked by another",
        Doubt.NOT_PROVEN: f"these poses may be a local optimum, up to {value:.2g}% of U above the best",
    }[one.doubt]
