"""The project's own answers under the signature of the other methods: the paper's sampler and the default."""

from __future__ import annotations

from typing import Any

from tempose import paper
from tempose.methods.base import Estimate, synchronisation_method
from tempose.model.graph import PoseGraph
from tempose.outliers.em import require_loops
from tempose.solver import solve


@synchronisation_method(connected=False, takes_everything=True)
def tg_mcmc(graph: PoseGraph, /, **changes: Any) -> Estimate:
    """The paper's optimiser as printed: TG-MCMC at β → ∞ from a random start, with the paper's λ and σ².

    The estimate of ``tempose.solve`` with the preset ``paper``; ``changes`` are its options.
    """
    solution = solve(graph, paper.preset(**{"draws": 0, "certify": False, **changes}), analyse=False)
    return Estimate(solution.estimate, solution.status, int(solution.trace[-1, 0]))


@synchronisation_method(connected=False, takes_everything=True)
def default(graph: PoseGraph, /, **changes: Any) -> Estimate:
    """The minimum of U: Newton steps from a chordal start, with a proof of global optimality where there is one.

    The estimate of ``tempose.solve``; ``changes`` are its options.
    """
    solution = solve(graph, **{"draws": 0, "analyse": False, **changes})
    proof = "" if solution.certificate is None else solution.certificate.status
    return Estimate(solution.estimate, solution.status, int(solution.trace[-1, 0]), message=proof)


@synchronisation_method(connected=False, takes_everything=True)
def robust(graph: PoseGraph, /, **changes: Any) -> Estimate:
    """The minimum of the robust U: wrong edges found, noise levels estimated.

    The estimate of ``tempose.solve`` with ``robust`` and ``noise="auto"``; ``changes`` are its options.
    """
    require_loops(graph)
    solution = solve(
        graph, **{"draws": 0, "analyse": False, "certify": False, "robust": True, "noise": "auto", **changes}
    )
    verdicts = solution.verdicts
    count = 0 if verdicts is None else len(verdicts.distrusted)
    return Estimate(solution.estimate, solution.status, message=f"{count} of {graph.n_edges} edges distrusted")
