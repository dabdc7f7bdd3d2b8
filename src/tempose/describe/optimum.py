"""Sentences about the optimum and its proof."""

from __future__ import annotations

import math

from tempose._typing import Array
from tempose.analysis.reliability import GlobalTest
from tempose.analysis.trust import COMPUTED, understates
from tempose.optimum.certificate import Certificate, Proof

KEPT = "for the problem of the kept edges, each weighted by its inlier probability"
"""What proofs are about after a robust solve."""


def optimiser_trouble(status: str) -> list[str]:
    """What an optimiser that did not converge means for the estimate."""
    if status in ("stalled", "diverged"):
        return [f"the optimiser {status}: the estimate may be far from the best; try another start"]
    if status == "step limit":
        return ["the optimiser had not converged when its steps were used up; allow more, or use optimiser newton"]
    return []


def starts(count: int, odds: Array | None, undecided: bool = False) -> str:
    """What came of several starts: the odds of the minima found, the estimate's first, by their Gaussian approximations.

    ``undecided``: they may be those of explanations between which odds do not decide.
    """
    if undecided:
        return f"{count} starts change nothing: depths of U do not decide between explanations, and draws are around each of them"
    if odds is None:
        return f"{count} starts led to no other minimum of U worth mentioning"
    shares = " / ".join(f"{share:.1%}" for share in odds[:5]) + (" / …" if len(odds) > 5 else "")
    return f"{count} starts led to {len(odds)} modes; by their Gaussian approximations {shares}, the estimate's first"


def certificate(proof: Certificate) -> str:
    """What is and what is not proven, in one sentence."""
    about = f"{KEPT}: " if proof.of_kept_edges else ""
    return about + _proof(proof)


def kept_proof(proof: Certificate) -> str:
    """The same where edges were rejected, or where there are other explanations: worded so that nobody reads a promise in it."""
    return (
        f"in detail, about the kept edges alone and not about whether the right ones were kept: {proof.status}, "
        f"each edge weighted by its inlier probability: {_proof(proof)}"
    )


def _proof(c: Certificate) -> str:
    gap, relative = c.suboptimality, f"{c.relative_suboptimality:.2g} of U"
    if c.proof is Proof.CERTIFICATE:
        return (
            f"no poses whatever have a potential more than {gap:.3g} ({relative}) below these: they are the global optimum up "
            "to that, proven in double precision with an allowance for rounding."
        )
    if c.proof is Proof.NEGATIVE_EIGENVALUE:
        where = "" if c.failed_components is None else " (in {} of {} components)".format(*c.failed_components)
        return (
            f"the certificate matrix has the negative eigenvalue {c.min_eigenvalue:.3g}{where}: these poses may be a local "
            f"optimum, or the noise too large for a proof; U is at most {gap:.4g} ({relative}) above the global optimum."
            + (" The staircase, which would tell, was left out: the graph is too large for it." if c.too_large else "")
        )
    if c.proof is Proof.TOO_FAR_APART:
        return (
            "the certificate matrix has no clearly negative eigenvalue, but its weights are too far apart for a proof at "
            f"tolerance {c.tolerance:g} in double precision: U is at most {gap:.3g} ({relative}) above the global optimum."
        )
    if c.proof is Proof.RELAXATION_BELOW:
        return (
            f"the relaxation that the proof rests on was solved, and its optimum {c.lower_bound:.6g} lies below every U found: "
            f"the noise is too large for a proof; these poses, the best found, are at most {gap:.4g} ({relative}) above the "
            "global optimum."
        )
    return (
        "with anisotropic or correlated precisions the certificate does not apply, so these poses are not proven to be the global "
        "optimum; "
        f"but no poses have U below {c.lower_bound:.6g}, a bound on the isotropic problem that lies below this one, hence "
        f"U is at most {gap:.4g} ({relative}) above the global optimum."
    )


def noise_fits(test: GlobalTest) -> bool:
    """Whether the stated noise is right within a factor of √2 of σ, and not too small by more than chance."""
    return 0.5 < test.variance_factor < 2.0 and not understates(test)


def noise_fit(test: GlobalTest) -> str:
    """Whether the stated noise fits."""
    chi = test.variance_factor
    if noise_fits(test):
        return "the stated noise fits"
    if math.sqrt(chi) < COMPUTED:
        return "the measurements agree to rounding, and say nothing of the noise"
    return f"the noise is {'over' if chi < 1 else 'under'}stated: σ should be {math.sqrt(chi):.2g} times as large"
