"""From a start to the certified optimum: Newton, certificate, and the Riemannian staircase where that fails.

:mod:`tempose.optimum.certificate` proves, :mod:`tempose.optimum.staircase` escapes; here the two take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tempose.errors import OptionError
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.certificate import (
    TOLERANCE,
    Certificate,
    bound_only,
    certify_isotropic,
    energy_between_fixed,
    isotropic_below,
    with_lower_bound,
)
from tempose.optimum.hessian import Curvature
from tempose.optimum.merged import merged
from tempose.optimum.newton import Minimum, minimise
from tempose.optimum.quadratic import Quadratic
from tempose.optimum.staircase import MOST_WORK, LiftedStep, climb, expected_work


def certify(posterior: Posterior, poses: Poses, *, tolerance: float = TOLERANCE) -> Certificate:
    """Certify poses as the global optimum of U, or say how far from it they can be.

    Parameters
    ----------
    poses
        In the graph's node order; need not be stationary, though only optimal ones can be certified.
    tolerance
        Largest relative suboptimality that counts as certified.
    """
    if not tolerance > 0.0:
        raise OptionError(f"the certificate's tolerance must be positive, not {tolerance}")
    graph, exact = isotropic_below(posterior.graph)
    if exact:
        return certify_isotropic(graph, poses, tolerance)
    return _bound(posterior, graph, poses, tolerance)


def _bound(posterior: Posterior, below: PoseGraph, poses: Poses, tolerance: float) -> Certificate:
    energy = posterior.potential(poses)
    solved = solve_to_certificate(Posterior(below), poses, tolerance=tolerance)
    return bound_only(energy, solved.certificate.lower_bound, tolerance)


@dataclass(frozen=True)
class Solved:
    """Result of :func:`solve_to_certificate`.

    Attributes
    ----------
    poses, potential
        The best poses found and their U.
    certificate
        What is proven about them.
    minimum
        The Newton run that ended there.
    staircase
        The ranks climbed; empty if the first certificate settled it.
    """

    poses: Poses
    potential: float
    certificate: Certificate
    minimum: Minimum
    staircase: tuple[LiftedStep, ...] = field(default=())


def solve_to_certificate(
    posterior: Posterior,
    start: Poses,
    *,
    tolerance: float = TOLERANCE,
    max_rank: int = 8,
    curvature: Curvature | None = None,
) -> Solved:
    """Newton from ``start``, certificate; if that fails, the staircase, Newton again, certificate again.

    Graphs so large that a climb would take more than :data:`tempose.optimum.staircase.MOST_WORK` get no staircase: the certificate
    is that of the first optimum, with the bound it proves, and says so (``too_large``).

    Parameters
    ----------
    tolerance
        Largest relative suboptimality that counts as certified.
    max_rank
        Highest rank of the lifting; 3, that of space, switches the staircase off. For planar graphs all ranks are less by one.
    curvature
        Of this posterior, if there is one already: saves its analysis.
    """
    if max_rank < 3:
        raise OptionError(f"the rank of the lifting starts at 3, not {max_rank}")
    curvature = Curvature(posterior) if curvature is None else curvature
    best = minimise(curvature, start)
    curvature.symbolic.release()
    certificate = certify(posterior, best.poses, tolerance=tolerance)
    if certificate.direction is None or max_rank == 3:
        return Solved(best.poses, best.potential, certificate, best)
    graph = isotropic_below(posterior.graph)[
        0
    ]  # the same: a certificate with a direction is that of an isotropic graph
    part = merged(graph)
    problem = Quadratic(part.graph)
    if expected_work(problem) > MOST_WORK:
        return Solved(best.poses, best.potential, replace(certificate, too_large=True), best)
    climbed = climb(
        problem,
        part.reduce(best.poses),
        certificate.direction,
        tolerance=tolerance,
        max_rank=max_rank - (3 - graph.dimension),
    )
    after = minimise(curvature, part.expand(climbed.poses))
    if after.potential < best.potential:
        best = after
        certificate = certify(posterior, best.poses, tolerance=tolerance)
    bound = climbed.lower_bound + energy_between_fixed(graph, best.poses)
    certificate = with_lower_bound(certificate, bound, tolerance, is_relaxation_optimum=climbed.passed)
    return Solved(best.poses, best.potential, certificate, best, climbed.steps)
