"""The data of a result, and the questions people ask of it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tempose._typing import Array, Mask, NodeId
from tempose.analysis.analysis import Analysis
from tempose.analysis.diagnostics import Diagnostics, diagnose
from tempose.analysis.edge_checks import EdgeChecks
from tempose.analysis.ellipses import CONFIDENCE, Ellipses, error_ellipses
from tempose.analysis.modes import Modes
from tempose.analysis.reliability import GlobalTest, Reliability
from tempose.analysis.summary import NodeSummary, relative_summary, reported, summarise
from tempose.analysis.trust import Circumstances, Doubt, Judgement, judge
from tempose.errors import ArgumentError, DrawsError
from tempose.geometry import align
from tempose.io.covariances import CovarianceTable
from tempose.model.conventions import axes_of, converted
from tempose.model.gauge import Gauge, tied_components
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.relative import RelativeSummary
from tempose.model.residuals import Residuals
from tempose.model.robust import RobustLikelihood
from tempose.optimum.certificate import Certificate
from tempose.optimum.laplace import Laplace
from tempose.options import SolveOptions
from tempose.outliers.noise import Parameters
from tempose.outliers.solutions import Explanation, Weighing
from tempose.outliers.verdicts import DISTRUSTED, EdgeVerdicts
from tempose.sampling.draws import Draws
from tempose.solution.parts import NodeEstimate, Status

_SURE = 0.95  # probability from which a single explanation is told without it


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """Best poses of a graph and what is known about their uncertainty.

    Attributes
    ----------
    status
        How the solve ended.
    estimate
        The poses that minimise U, of all nodes of the graph in its own coordinates; :attr:`poses` are for people.
    potential
        U there.
    draws
        Posterior draws, or ``None``; of all :attr:`explanations`, in proportion to their probabilities
        (``draws.explanation`` says which is of which). Error bars and diagnostics of the estimate are from those of the first.
    gauge
        What absolute uncertainties refer to.
    trace
        (k, 2): step number and U along the optimisation.
    certificate
        What is proven about the estimate, or ``None`` if no proof was asked for.
    notices
        One line each: what the reader and the solver had to say.
    likelihood, parameters
        Of a robust solve, or of one that estimated the noise; ``graph`` then has the precisions that were estimated.
    optimiser_status, optimum_notices
        How the optimiser ended, and what it had to say.
    others
        Other minima of U that were found from other starts.
    weighing
        Explanations of a robust solve, if ids are an order in time; :attr:`explanations` for short.
    doubts
        That came up in the search for the optimum, with how many or how much of each; :attr:`judgement` weighs them.
    scaled_by
        Variance factor that the stated variances were multiplied by, as the option ``scale`` asks; ``graph`` has the scaled ones.
    fingerprint
        Of the solve: what a run that goes on from here must share.
    draws_fingerprint
        Of the draws that belong to it.
    analysis
        What the estimate and the draws say; each answer is computed once.
    record
        What else :meth:`save` was told to keep, of a solution that was loaded.
    """

    graph: PoseGraph
    options: SolveOptions
    status: Status
    estimate: Poses
    potential: float
    draws: Draws | None
    gauge: Gauge
    trace: Array
    certificate: Certificate | None
    notices: tuple[str, ...]
    seconds: float
    version: str
    analysis: Analysis
    optimiser_status: str = ""
    optimum_notices: tuple[str, ...] = ()
    tuning: dict[str, float] = field(default_factory=dict)
    likelihood: RobustLikelihood | None = None
    parameters: Parameters | None = None
    others: tuple[Poses, ...] = ()
    weighing: Weighing | None = None
    doubts: tuple[tuple[Doubt, float], ...] = ()
    scaled_by: float = 1.0
    fingerprint: str = ""
    draws_fingerprint: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    temporary: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    # ------------------------------------------------------------------ asking

    def __getitem__(self, node: NodeId) -> NodeEstimate:
        """Pose and error bars of a node."""
        row, nodes = self.poses.row(node), self.nodes
        if nodes is None:
            return NodeEstimate(node, self.poses[node], None, math.nan, math.nan, self.gauge)
        sigma_rot_deg, sigma_pos = float(nodes.sigma_rot_deg[row]), float(nodes.sigma_pos[row])
        covariance = np.asarray(nodes.covariance[row])
        return NodeEstimate(node, self.poses[node], covariance, sigma_rot_deg, sigma_pos, self.gauge)

    @cached_property
    def poses(self) -> Poses:
        """The best poses of the graph's nodes, in the user's coordinates: without the world, with what was subtracted from all."""
        return reported(self.graph, self.estimate)

    def covariance(self, node: NodeId) -> Array:
        """6×6 covariance of a node (rotation vector in radians, then position), in the solution's gauge, world frame."""
        if self.nodes is None:
            raise DrawsError("this solution has neither draws nor a Gaussian approximation: there are no covariances")
        return np.asarray(self.nodes.covariance[self.poses.row(node)])

    def relative(self, a: NodeId, b: NodeId) -> RelativeSummary:
        """Posterior of the pose of ``b`` seen from ``a``, measured directly or not; it depends on no gauge.

        If the draws lie in several modes (:attr:`modes`), of those in the mode of the estimate.
        """
        graph = self.graph
        for name in (a, b):
            self.poses.row(name)  # refuses the world, which is no node of the result
        if a in graph.landmarks:
            raise ArgumentError(
                f"{a!r} is a landmark, which has no axes to see another node in; ask the other way round"
            )
        axes = 0 if b in graph.landmarks else int(np.sum(graph.axes < 3)), graph.dimension
        if self.analysis.own_draws is not None and not self.analysis.errors_shared:
            return replace(relative_summary(self.analysis.own_draws, self.estimate, a, b), axes=axes)
        if self.analysis.error_bars is None:
            raise DrawsError("this solution has neither draws nor a Gaussian approximation: there are no covariances")
        return replace(self.analysis.error_bars.relative(a, b), axes=axes)

    def covariances(
        self,
        convention: str = "tempose",
        nodes: Sequence[NodeId] | None = None,
        pairs: Sequence[tuple[NodeId, NodeId]] | None = None,
    ) -> CovarianceTable:
        """Covariances of nodes, or of the relative poses of pairs, in the frame and order of other software.

        Parameters
        ----------
        convention
            One of :data:`tempose.model.conventions.CONVENTIONS`: ``tempose``, ``gtsam``, ``ros``, ``g2o``, ``colmap``.
        nodes
            Ids; by default all.
        pairs
            In place of nodes: pairs (a, b), of which ``a_from_b`` is told, which depends on no gauge.
        """
        planar = self.graph.is_planar
        axes = axes_of(convention, planar)
        if pairs is not None:
            found = [self.relative(a, b) for a, b in pairs]
            wxyz, position = (np.array([one.mean[k] for one in found]).reshape(-1, 4 - k) for k in (0, 1))
            sigma = np.array([one.covariance for one in found]).reshape(-1, 6, 6)
            names: tuple[tuple[NodeId, ...], ...] = tuple(pairs)
            points = np.array([b in self.graph.landmarks for _, b in pairs], dtype=bool)
            known, gauge = np.ones(len(names), dtype=bool), "relative poses: none"
            source = found[0].source if found else ""
        else:
            summary = self.nodes
            if summary is None:
                raise DrawsError(
                    "this solution has neither draws nor a Gaussian approximation: there are no covariances"
                )
            rows = [self.poses.row(name) for name in (self.poses.ids if nodes is None else nodes)]
            wxyz, position, sigma = self.poses.wxyz[rows], self.poses.position[rows], summary.covariance[rows]
            names = tuple((self.poses.ids[row],) for row in rows)
            points = np.array([self.poses.ids[row] in self.graph.landmarks for row in rows], dtype=bool)
            known, gauge, source = summary.determined[rows], str(summary.gauge), summary.source
        out = converted(sigma, wxyz, position, convention, planar)
        turning = np.array([axis in ("rx", "ry", "rz", "qx", "qy", "qz", "theta") for axis in axes])
        lost = np.where(points[:, None], turning, False) | np.where(known[:, None], False, ~turning)
        out = np.where(lost[:, :, None] | lost[:, None, :], np.nan, out)
        wxyz = np.where(points[:, None], np.nan, wxyz)
        return CovarianceTable(names, position, wxyz, out, axes, convention, gauge, source)

    @property
    def posterior(self) -> Posterior:
        """U."""
        return self.analysis.posterior

    @property
    def nodes(self) -> NodeSummary | None:
        """Mean pose, covariance, σ of every node, a table in notebooks and by ``nodes.to_pandas()``; ``None`` if nothing is known.

        From the draws around the estimate, else from the Gaussian approximation
        (:attr:`Analysis.nodes <tempose.analysis.analysis.Analysis.nodes>`).
        """
        return self.analysis.nodes

    @property
    def laplace(self) -> Laplace | None:
        """Gaussian approximation at the estimate."""
        return self.analysis.laplace

    @property
    def modes(self) -> Modes | None:
        """Separate modes that the draws lie in."""
        return self.analysis.modes

    def mode_nodes(self, k: int) -> NodeSummary | None:
        """Mean and covariance of every node in mode ``k`` of :attr:`modes`; ``None`` if it has fewer than two draws."""
        count = len(self.analysis.mode_nodes)
        if not 0 <= k < count:
            raise ArgumentError(f"there is no mode {k}: there are {count}")
        return self.analysis.mode_nodes[k]

    @property
    def diagnostics(self) -> Diagnostics | None:
        """How far the draws can be trusted."""
        return self.analysis.diagnostics

    @property
    def edge_checks(self) -> EdgeChecks:
        """How surprising each measurement is, given all the others."""
        return self.analysis.edge_checks

    @property
    def reliability(self) -> Reliability:
        """Of every measurement: redundancy number, minimal detectable error, external reliability."""
        return self.analysis.reliability

    @property
    def global_test(self) -> GlobalTest:
        """Whether the variance factor :attr:`reduced_chi_square` is within its bounds."""
        return self.analysis.global_test

    def ellipses(
        self,
        nodes: Sequence[NodeId] | None = None,
        pairs: Sequence[tuple[NodeId, NodeId]] | None = None,
        confidence: float = CONFIDENCE,
    ) -> Ellipses:
        """Horizontal error ellipses and vertical σ of nodes, by default of all, or relative ones of pairs.

        Relative is ``p_b − p_a`` in the axes of the world, from the Gaussian approximation, in the gauge of the solution, that must
        hold nodes. x is taken for east, y for north (:mod:`tempose.analysis.ellipses`).
        """
        if pairs is None:
            if self.nodes is None:
                raise DrawsError(
                    "this solution has neither draws nor a Gaussian approximation: there are no covariances"
                )
            rows = [self.poses.row(name) for name in (self.poses.ids if nodes is None else nodes)]
            known = np.where(self.nodes.determined[rows], 1.0, np.nan)[:, None, None]
            return error_ellipses(self.nodes.covariance[rows][:, 3:, 3:] * known, confidence)
        found = self.analysis.error_bars
        if found is None:
            raise DrawsError("this solution has no Gaussian approximation: there are no covariances of pairs")
        if self.gauge.kind not in ("world", "anchor"):
            raise ArgumentError(
                f"relative ellipses refer to held nodes, and the gauge is {self.gauge.kind}; use world or anchor"
            )
        difference = np.hstack([np.zeros((3, 3)), -np.eye(3), np.zeros((3, 3)), np.eye(3)])
        sigma = [difference @ found.joint(a, b) @ difference.T for a, b in pairs]
        return error_ellipses(np.array(sigma).reshape(-1, 3, 3), confidence)

    @property
    def verdicts(self) -> EdgeVerdicts | None:
        """Which edges to distrust; ``None`` without a robust likelihood."""
        return self.analysis.verdicts

    @cached_property
    def explanations(self) -> tuple[Explanation, ...]:
        """Explanations of the measurements with their probabilities, the estimate's first; none if they were not searched for.

        All are in the frame of the estimate: nodes that an explanation does not move lie about where they lie in the first.
        :meth:`explanation_nodes` has the error bars of each.
        """
        if self.weighing is None:
            return ()
        first, *others = self.weighing.explanations
        return (first, *(_beside(self.graph, first.poses, other) for other in others))

    def explanation_nodes(self, k: int) -> NodeSummary | None:
        """Mean and covariance of every node if explanation ``k`` of :attr:`explanations` is the true one.

        Those of the first, 0, are :attr:`nodes`; those of the others come from Gaussian approximations. ``None`` if there is none.
        """
        return self.nodes if k == 0 and self.explanations else self._explanation(k).nodes

    def explanation_diagnostics(self, k: int) -> Diagnostics | None:
        """How far the draws of explanation ``k`` can be trusted; ``None`` without draws. Of the first: :attr:`diagnostics`."""
        own = self._explanation(k)
        if k == 0 or self.draws is None:
            return self.diagnostics
        return diagnose(self.draws.of_explanation(k), own.estimate, self.gauge)

    @cached_property
    def overall_nodes(self) -> NodeSummary | None:
        """Mean and covariance of every node over all explanations together, from the draws; ``None`` without draws.

        With a single explanation they are those of :attr:`nodes`. A node that lies in one of two places has its mean in between,
        and σ as wide as they are apart: to see the places, ask each explanation (:meth:`explanation_nodes`).
        """
        if len(self.explanations) < 2:
            return self.nodes
        draws = self.draws
        return None if draws is None or draws.n_draws < 2 else summarise(draws, self.estimate, self.gauge)

    def explanation_inliers(self, k: int) -> Array:
        """Probability (m,) that each edge is right if explanation ``k`` is the true one; :attr:`verdicts` are of all together."""
        own = self._explanation(k).verdicts
        assert own is not None  # only robust solves have explanations
        return own.inlier_probability

    def explanation_kept(self, k: int) -> Mask:
        """Which edges between poses (m,) explanation ``k`` keeps: whose measurements are right by its poses."""
        return np.asarray(self.graph.is_relative & (self._explanation(k).given_poses > DISTRUSTED))

    def _explanation(self, k: int) -> Analysis:
        count = len(self.explanations)
        if not 0 <= k < count:
            raise ArgumentError(f"there is no explanation {k}: there are {count}, from 0")
        return self._explained[k]

    @cached_property
    def _explained(self) -> tuple[Analysis, ...]:
        if self.weighing is None:
            return ()
        aligned = replace(self.analysis, weighing=replace(self.weighing, explanations=self.explanations))
        first = replace(self.analysis, draws=None, weighing=None)  # its verdicts are not mixed with those of the others
        return (first, *(aligned.explanation(k) for k in range(1, len(self.explanations))))

    @property
    def is_contested(self) -> bool:
        """Whether other explanations have to be told: there are several, or one that is less than 95% sure."""
        found = self.explanations
        return len(found) > 1 or (len(found) == 1 and found[0].probability < _SURE)

    @property
    def is_proof_a_detail(self) -> bool:
        """Whether the certificate says little: it is about the kept edges, and others were rejected or may be right instead."""
        return self.is_contested or (self.verdicts is not None and len(self.verdicts.distrusted) > 0)

    @property
    def residuals(self) -> Residuals:
        """How far each measurement is from the estimate."""
        return self.analysis.residuals

    @property
    def surprise(self) -> Array:
        """Normalised residual of each edge (m,)."""
        return self.analysis.surprise

    @property
    def reduced_chi_square(self) -> float:
        """About 1 if the stated noise is right."""
        return self.analysis.reduced_chi_square

    @cached_property
    def judgement(self) -> Judgement:
        """Whether to trust all this, why not, and what to try next."""
        robust = self.options.robust
        ended = self.status not in (Status.STALLED, Status.DIVERGED) and self.optimiser_status != "step limit"
        evidence = Circumstances(
            converged=ended,
            certificate=self.certificate,
            probabilities=[one.probability for one in self.explanations],
            contested=self.is_contested,
            robust=robust is not None,
            noise_estimated=self.options.noise == "auto",
            odometry_trusted=robust is not None and robust.trust_odometry is not None,
            starts=self.options.starts,
            found=self.doubts,
        )
        return judge(self.analysis, evidence)


def _beside(graph: PoseGraph, first: Poses, other: Explanation) -> Explanation:
    """An explanation in the frame of the first one, component by component, by the nodes that it does not move."""
    wxyz, position = np.array(other.poses.wxyz), np.array(other.poses.position)
    stays = ~graph.is_landmark
    stays[other.moved] = False
    for k in np.flatnonzero(~tied_components(graph)):  # what is tied to the world is in its frame already
        rows = graph.component == k
        common = rows & stays if np.any(rows & stays) else rows & ~graph.is_landmark
        frame = align((wxyz[common], position[common]), (first.wxyz[common], first.position[common]))
        wxyz[rows], position[rows] = frame.apply(wxyz[rows], position[rows])
    return replace(other, poses=Poses(other.poses.ids, wxyz, position))
