"""Which collapsed target an optimum has: that of right edges, or that of edges which may be wrong."""

from __future__ import annotations

from tempose.optimum.laplace import Laplace
from tempose.sampling.collapsed import LONGEST, WARMUP, CollapsedTarget, tune_target
from tempose.sampling.sampler import Tuned
from tempose.sampling.wrong_edges import RobustTarget


def target_of(laplace: Laplace) -> CollapsedTarget:
    """The target around an optimum, where edges are right or may be wrong."""
    if laplace.curvature.posterior.likelihood is None:
        return CollapsedTarget(laplace)
    return RobustTarget(laplace)


def tune_collapsed(
    laplace: Laplace, seed: int, *, thin: int = 1, warmup: int = WARMUP, longest: float = LONGEST
) -> Tuned:
    """The sampler for a Gaussian approximation, tuned; see :func:`tune_target`."""
    return tune_target(target_of(laplace), seed, thin=thin, warmup=warmup, longest=longest)
