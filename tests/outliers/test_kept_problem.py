"""The problem whose optimum is proven after a robust solve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import tempose
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.optimum.certificate import certify_isotropic
from tempose.outliers.correlation import weighted
from tempose.outliers.estimate import kept_problem


def torn() -> tuple[Posterior, Poses]:
    """One node lies so far off that all of its edges have a weight of exactly zero."""
    made = tempose.simulate(12, completeness=0.6, sigma_trans=0.02, seed=1)
    position = made.truth.position.copy()
    position[3] += 100.0
    return Posterior(made.graph, RobustLikelihood.of(made.graph, 0.9)), replace(made.truth, position=position)


def test_a_part_that_nothing_holds_is_a_problem_of_its_own() -> None:
    """The proof took for ever: no shift makes the matrix definite if a position is not determined."""
    posterior, poses = torn()
    assert posterior.likelihood is not None
    weight = posterior.likelihood.weight(posterior.energies(poses))
    assert weight[(posterior.graph.edge_i == 3) | (posterior.graph.edge_j == 3)].max() == 0.0
    kept = kept_problem(posterior, poses).graph
    assert kept.n_components == 2 and kept.n_edges == int(np.sum(weight > 1e-12))
    solved = tempose.solve(kept, draws=0, certify=False).estimate
    assert certify_isotropic(kept, solved, 1e-6).certified
    whole = weighted(posterior.graph, weight)  # the negative control: it ends, without a proof
    assert not certify_isotropic(whole, poses, 1e-6).certified
