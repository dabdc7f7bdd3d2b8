"""Everything that an optimum and its draws say: each answer computed once, when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tempose._support.parallel import on_threads
from tempose._support.progress import Progress, ProgressHook
from tempose._typing import Array
from tempose.analysis.diagnostics import Diagnostics, diagnose
from tempose.analysis.edge_checks import EdgeChecks, checks_and_reliability
from tempose.analysis.modes import PROBES, Modes, find_modes
from tempose.analysis.reliability import GlobalTest, Reliability
from tempose.analysis.shared_errors import shared_laplace
from tempose.analysis.summary import NodeSummary, node_summary, summarise
from tempose.model.gauge import Gauge
from tempose.model.pieces import alone, pieces
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import Residuals, residuals
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.leverage import used_of_edges
from tempose.outliers.agreement import Agreement, agreement_without_order
from tempose.outliers.noise import Parameters
from tempose.outliers.other_places import most_believed
from tempose.outliers.solutions import Weighing
from tempose.outliers.verdicts import DISTRUSTED, EdgeVerdicts, one_wrong_of_each
from tempose.sampling.draws import Draws

_MOST_DRAWS = 100  # to average inlier probabilities over


@dataclass(frozen=True, eq=False)
class Analysis:
    """What is known about the uncertainty around an estimate.

    Parameters
    ----------
    posterior, estimate, beta
        U, the poses that minimise it, and the inverse temperature of the draws.
    gauge
        What absolute uncertainties refer to.
    draws
        Posterior draws, or ``None``.
    parameters, noise_estimated
        Of a robust solve, or of one that estimated the noise.
    known_laplace
        The Gaussian approximation if it has been made, a tuple of one (``None`` where there is none).
    weighing
        Other explanations, if there may be some, for the verdicts on edges.
    errors_shared
        Whether error bars are for edges that share errors, instead of independent ones.
    scaled_by
        Factor of the stated variances that ``posterior`` has.
    may_repeat
        Whether wrong edges may repeat each other.
    """

    posterior: Posterior
    estimate: Poses
    gauge: Gauge
    beta: float
    draws: Draws | None
    parameters: Parameters | None = None
    noise_estimated: bool = False
    known_laplace: tuple[Laplace | None, ...] = ()
    weighing: Weighing | None = None
    errors_shared: bool = False
    scaled_by: float = 1.0
    may_repeat: bool = False

    def complete(self, progress: ProgressHook) -> None:
        """Compute every answer now, one after the other."""
        stage = "error bars" if self.draws is None else "diagnostics"
        for done, name in enumerate(_ANSWERS):
            progress(Progress(stage, done, len(_ANSWERS)))
            getattr(self, name)
        if self.laplace is not None:
            self.laplace.give_up_factor()
            self.laplace.curvature.symbolic.release()
        progress(Progress(stage, len(_ANSWERS), len(_ANSWERS)))

    def with_draws(self, draws: Draws | None) -> Analysis:
        """The same with other draws; what has been computed and does not depend on them is kept."""
        other = replace(self, draws=draws)
        other.__dict__.update({name: self.__dict__[name] for name in _OF_THE_ESTIMATE if name in self.__dict__})
        return other

    def with_nodes(self, nodes: NodeSummary) -> Analysis:
        """The same with error bars that were computed before."""
        other = replace(self)
        other.__dict__["nodes"] = nodes
        return other

    # ------------------------------------------------------------------ around the estimate

    @cached_property
    def laplace(self) -> Laplace | None:
        """Gaussian approximation at the estimate, or ``None`` if the Hessian is not positive definite there."""
        if self.known_laplace:
            return self.known_laplace[0]
        try:
            return Laplace(Curvature(self.posterior), self.estimate, self.beta)
        except NotPositiveDefiniteError:
            return None

    @cached_property
    def error_bars(self) -> Laplace | None:
        """The Gaussian approximation that error bars come from: :attr:`laplace`, or the one for edges that share errors."""
        return shared_laplace(self.posterior, self.estimate, self.beta) if self.errors_shared else self.laplace

    @cached_property
    def residuals(self) -> Residuals:
        """How far each measurement is from the estimate."""
        return residuals(self.posterior.graph, self.estimate)

    @cached_property
    def edge_checks(self) -> EdgeChecks:
        """How surprising each measurement is, given all the others."""
        return self._of_edges[0]

    @cached_property
    def _of_edges(self) -> tuple[EdgeChecks, Reliability]:
        curvature = None
        if self.laplace is not None and self.laplace.curvature.posterior is self.posterior:
            curvature = self.laplace.curvature
            self.laplace.give_up_factor()
        return checks_and_reliability(self.posterior, self.estimate, curvature)

    @cached_property
    def reliability(self) -> Reliability:
        """Whether an error of each measurement could be seen, and what it would do if it were not."""
        return self._of_edges[1]

    @cached_property
    def global_test(self) -> GlobalTest:
        """Whether the measurements fit each other as well as their noise says: :attr:`reduced_chi_square` and its bounds.

        It is about the noise that was stated, also where it was scaled since. If the noise was estimated they do fit, whatever it
        is: then this says nothing.
        """
        statistic, freedom = self._fit
        return GlobalTest(statistic * self.scaled_by, freedom)

    @cached_property
    def reduced_chi_square(self) -> float:
        """``2U*`` of the edges over its degrees of freedom: about 1 if the stated noise is right; NaN if nothing is checked.

        The measurements have d numbers, the poses take up k of them. Surveyors call it the a-posteriori variance
        factor: at 4, the true noise is twice what was stated and every σ should be doubled.
        """
        return self.global_test.variance_factor

    @cached_property
    def _fit(self) -> tuple[float, float]:
        """``2U*`` of the edges, and its degrees of freedom."""
        graph, likelihood = self.posterior.graph, self.posterior.likelihood
        energy, measured = self.posterior.energies(self.estimate), graph.freedom
        weight, kept = np.ones_like(energy), np.ones_like(energy)
        if likelihood is not None:  # of the kept edges
            weight, kept = likelihood.weight(energy), likelihood.moving_probability(energy)
        freedom = float(kept @ measured) - Curvature(Posterior(graph)).determined(self.estimate)
        return float(2.0 * weight @ energy), freedom

    @cached_property
    def surprise(self) -> Array:
        """Normalised residual of each edge (m,), about 1 if the model is right; NaN where nothing checks the edge.

        ``√(2U_edge / expected)``: an edge of d numbers pulls the estimate towards itself, so its residual is expected to
        be ``d − tr(ΩΣ)``, with Ω the edge's information and Σ the covariance of the fitted relative pose. A bridge always
        fits: it is expected to be 0 and says nothing.
        """
        likelihood = self.posterior.likelihood
        energy = self.posterior.energies(self.estimate)
        freedom = self.posterior.graph.freedom
        expected = freedom
        if self.laplace is not None:
            # an edge that was not kept does not pull: its residual is expected to be larger by as much
            pull = 1.0 if likelihood is None else 2.0 * likelihood.weight(energy) - 1.0
            expected = freedom - pull * self._used
        checked = (expected > 0.01 * freedom) & (freedom > 0.0)
        ratio = 2.0 * energy / np.where(checked, expected, 1.0)
        return np.where(checked, np.sqrt(ratio), np.nan)

    @cached_property
    def _used(self) -> Array:
        """``tr(ΩΣ)`` of every edge (m,), some edges at a time."""
        laplace, graph = self.laplace, self.posterior.graph
        assert laplace is not None

        def of(edges: slice) -> Array:
            used = used_of_edges(alone(graph, self.estimate, edges)[0], laplace.edge_covariances(edges) * laplace.beta)
            return used[0] + used[1]

        laplace.edge_covariances(slice(0))  # what all threads need, by one of them
        return np.concatenate(list(on_threads(of, pieces(graph.n_edges))))

    # ------------------------------------------------------------------ of the draws

    @cached_property
    def diagnostics(self) -> Diagnostics | None:
        """How far the draws can be trusted: R-hat, ESS, Monte Carlo errors and a level; ``None`` without draws."""
        return None if self.draws is None else diagnose(self.draws, self.estimate, self.gauge)

    @cached_property
    def modes(self) -> Modes | None:
        """Separate modes that the draws lie in, with their probabilities; ``None`` without draws.

        All draws are looked through after ``tempering`` and ``jumping``. After other samplers some are followed down to a
        minimum of U, and after ``collapsed``, which does not leave a mode, only if the chains disagree.
        """
        draws, found = self.draws, self.diagnostics
        if draws is None or found is None or draws.n_draws < 2 or not np.isfinite(draws.mean_potential):
            return None
        probes = PROBES if draws.sampler in ("tempering", "jumping") else 2 * draws.n_chains
        if draws.sampler == "collapsed" and not found.chains_disagree:
            probes = 0
        return find_modes(Curvature(self.posterior), draws, self.estimate, probes=probes)

    @cached_property
    def own_draws(self) -> Draws | None:
        """The draws around the estimate: of its mode only, if there are several; ``None`` if they are fewer than two."""
        own = self.draws
        if own is not None and self.modes is not None and len(self.modes) > 1:
            own = self.modes.draws(own, self.modes.home)
        return own if own is not None and own.n_draws >= 2 else None

    @cached_property
    def own_diagnostics(self) -> Diagnostics | None:
        """Of the draws around the estimate."""
        own = self.own_draws
        return self.diagnostics if own is self.draws or own is None else diagnose(own, self.estimate, self.gauge)

    @cached_property
    def nodes(self) -> NodeSummary | None:
        """Mean, 6×6 covariance, σ and entropy of every node: from the draws, else from the Gaussian approximation.

        If the draws lie in several modes (:attr:`modes`), from those in the mode of the estimate. What is not determined takes
        a chain longer to explore than there is time: with such, from the Gaussian approximation, which knows about it. So it is
        if edges share errors, which draws know nothing of.
        """
        if self.own_draws is not None and not self.is_loose and not self.errors_shared:
            return summarise(self.own_draws, self.estimate, self.gauge)
        if self.error_bars is not None:
            return node_summary(self.estimate, self.error_bars.marginals(self.gauge), self.gauge, "laplace")
        return None

    @cached_property
    def is_loose(self) -> bool:
        """Whether something that σ refers to is not determined: σ refers to the world, and parts can be moved in it at no cost."""
        if self.gauge.kind not in ("world", "anchor") or self.laplace is None:
            return False
        return bool(self.laplace.curvature.free_motions(self.estimate.position, self.estimate.wxyz))

    @cached_property
    def mode_nodes(self) -> tuple[NodeSummary | None, ...]:
        """The same for each mode; ``None`` for one with fewer than two draws."""
        if self.draws is None or self.modes is None:
            return ()
        found = []
        for k, mode in enumerate(self.modes.modes):
            own = self.modes.draws(self.draws, k) if k != self.modes.home else None
            if own is None:
                found.append(self.nodes)
            elif self.errors_shared:
                found.append(replace(self, estimate=mode.poses, draws=None, known_laplace=()).nodes)
            else:
                found.append(summarise(own, mode.poses, self.gauge) if own.n_draws >= 2 else None)
        return tuple(found)

    @cached_property
    def verdicts(self) -> EdgeVerdicts | None:
        """Which edges to distrust; ``None`` without a robust likelihood.

        The probability of an edge is the mean over the draws of that given the poses, or, without draws, what is predicted for it.
        """
        graph, likelihood = self.posterior.graph, self.posterior.likelihood
        if likelihood is None or self.draws is None or self.draws.n_draws < 2:
            return self.predicted_verdicts
        chosen = set(np.linspace(0, self.draws.n_draws - 1, _MOST_DRAWS).astype(int).tolist())
        given = [
            likelihood.inlier_probability(self.posterior.energies(Poses(self.estimate.ids, wxyz, position)))
            for k, (wxyz, position) in enumerate(self.draws)
            if k in chosen
        ]
        probability = np.mean(given, axis=0)
        probability[graph.bridges] = likelihood.prior[graph.bridges]
        return self._verdicts(probability)

    @cached_property
    def predicted_verdicts(self) -> EdgeVerdicts | None:
        """The same by the Gaussian prediction of each edge from all the others, draws or not.

        Of edges in a row at most one is wrong. A bridge cannot be checked and keeps its prior.
        """
        likelihood = self.posterior.likelihood
        if likelihood is None:
            return None
        alone = self.edge_checks.inlier_probability(likelihood)
        return self._verdicts(one_wrong_of_each(self.posterior.graph, self.given_poses > DISTRUSTED, alone))

    @cached_property
    def given_poses(self) -> Array:
        """Probability (m,) that each edge is right given the poses of the estimate, those that are wrong being independent."""
        likelihood = self.posterior.likelihood
        if likelihood is None:
            return np.ones(self.posterior.graph.n_edges)
        return likelihood.inlier_probability(self.posterior.energies(self.estimate))

    def _verdicts(self, probability: Array) -> EdgeVerdicts | None:
        if self.parameters is None:
            return None
        alone = None if self.agreement is None else probability
        if self.weighing is not None:
            probability = self.weighing.verdict(probability)
        elif self.agreement is not None:
            probability = self.agreement.verdict(probability)
        if self.most_believed is not None:
            alone, probability = probability, np.minimum(probability, self.most_believed)
        return EdgeVerdicts(self.posterior.graph, probability, self.parameters, self.noise_estimated, alone)

    @cached_property
    def agreement(self) -> Agreement | None:
        """How often wrong edges agree with each other.

        ``None`` where an order in time tells what repeats what, nobody cares, or there are rotations alone, which agree by chance
        too often.
        """
        if self.posterior.likelihood is None or not self.may_repeat:
            return None
        if self.weighing is not None and not self.weighing.of_solutions:
            return None
        return agreement_without_order(
            self.posterior.graph, self.estimate, self.given_poses, self.posterior.likelihood.prior
        )

    @cached_property
    def most_believed(self) -> Array | None:
        """The most (m,) that edges may be believed by what other places say, on long ways; ``None`` elsewhere.

        Where explanations are weighed, they tell.
        """
        if self.posterior.likelihood is None or not self.may_repeat:
            return None
        if self.weighing is not None and self.weighing.loose is None:
            return None
        return most_believed(self.posterior, self.estimate, self.given_poses)

    def explanation(self, k: int) -> Analysis:
        """The same for explanation ``k``, by its Gaussian approximation, with the noise of the first; 0 is this one."""
        if k == 0 or self.weighing is None:
            return self
        assert self.posterior.likelihood is not None
        one = self.weighing.explanations[k]
        posterior = Posterior(self.posterior.graph, replace(self.posterior.likelihood, prior=one.prior))
        return Analysis(
            posterior, one.poses, self.gauge, self.beta, None, self.parameters, self.noise_estimated,
            errors_shared=self.errors_shared, may_repeat=self.may_repeat,
        )  # fmt: skip


_OF_THE_ESTIMATE = (
    "laplace", "error_bars", "residuals", "edge_checks", "_of_edges", "reliability", "global_test", "_fit", "surprise",
    "is_loose", "given_poses", "agreement", "most_believed",
)  # fmt: skip
_ANSWERS = (
    "diagnostics", "modes", "own_diagnostics", "nodes", "mode_nodes", "residuals", "edge_checks", "surprise",
    "reduced_chi_square", "verdicts",
)  # fmt: skip
