"""The result of a solve: data, and the questions people ask of it."""

from __future__ import annotations

import html
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tempose import describe
from tempose._support.files import at_work_in
from tempose._support.packages import require
from tempose._support.plain import plain
from tempose._support.words import plural
from tempose._typing import Array, NodeId
from tempose.analysis.accuracy import graph_consistency
from tempose.analysis.analysis import Analysis
from tempose.analysis.diagnostics import Diagnostics, Level, diagnose
from tempose.analysis.edge_checks import EdgeChecks
from tempose.analysis.ellipses import CONFIDENCE, Ellipses, error_ellipses
from tempose.analysis.export import to_arviz
from tempose.analysis.modes import Modes
from tempose.analysis.overview import precisions
from tempose.analysis.reliability import GlobalTest, Reliability
from tempose.analysis.summary import NodeSummary, median_sigma, relative_summary, reported, summarise
from tempose.analysis.trust import Circumstances, Doubt, Judgement, doubts_from, judge
from tempose.errors import ArgumentError, DrawsError, GraphError, OptionError, printable
from tempose.geometry import align
from tempose.io.covariances import CovarianceTable
from tempose.io.csvfile import name_text
from tempose.io.result_directory import StoredResult, Table, read_result, with_poses, write_result
from tempose.model.conventions import axes_of, converted
from tempose.model.gauge import FRAME, ORDER, Gauge, tied_components
from tempose.model.graph import PoseGraph
from tempose.model.pose import Pose
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.relative import RelativeSummary
from tempose.model.residuals import Residuals
from tempose.model.robust import RobustLikelihood
from tempose.optimum.certificate import Certificate
from tempose.optimum.laplace import Laplace
from tempose.options import SolveOptions
from tempose.outliers.noise import Parameters
from tempose.outliers.solutions import Explanation, Weighing, is_by_place
from tempose.outliers.verdicts import EdgeVerdicts
from tempose.sampling.draws import Draws, copy_draws, read_draws, refuse_other_run

__all__ = ["NodeEstimate", "Solution", "Status"]

_SURE = 0.95  # probability from which a single explanation is told without it


class Status(StrEnum):
    """How a solve ended."""

    SOLVED = "solved"
    INTERRUPTED = "interrupted"  # ended early; what was drawn is kept
    OPTIMISED = "optimised"  # killed while sampling: the optimum is there
    STALLED = "stalled"
    DIVERGED = "diverged"


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
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

    # ------------------------------------------------------------------ for other programs

    def to_arviz(self) -> Any:
        """The draws as an ArviZ object, in the solution's gauge; see :func:`tempose.analysis.export.to_arviz`."""
        if self.draws is None:
            raise DrawsError("this solution has no draws to export")
        return to_arviz(self.draws, self.estimate, self.gauge)

    def to_pandas(self) -> Any:
        """The nodes as a pandas table, a row each: the columns of ``poses.csv``, indexed by id."""
        pandas = require("pandas", "tables")
        header, columns = with_poses(self.poses, self.pose_columns(), self.graph.is_planar)
        table = pandas.DataFrame(dict(zip(header[1:], columns[1:], strict=True)), index=list(self.poses.ids))
        table.index.name = "id"
        turns = [name for name in ("qw", "qx", "qy", "qz", "theta_deg") if name in table]
        table.loc[list(self.graph.landmarks), turns] = math.nan  # have no orientation
        return table

    def __repr__(self) -> str:
        """One line: everything else has a name to ask for."""
        draws = "no draws" if self.draws is None else f"{self.draws.n_draws} draws"
        return f"Solution({describe.counts(self.graph)}: {self.status}; U = {self.potential:.6g}; {draws})"

    def _repr_html_(self) -> str:
        """A few lines in a notebook."""
        first, *lines = self._summary_lines()
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        return f"<div><b>{html.escape(first)}</b><ul>{items}</ul></div>"

    # ------------------------------------------------------------------ in words and numbers

    def facts(self) -> dict[str, Any]:
        """The content of ``result.json``."""
        found = self.judgement
        trust = {
            "verdict": found.trust,
            "findings": [
                {**one.facts(), "sentence": describe.doubt(one, self.edge_checks, self.weighing)}
                for one in found.findings
            ],
            "next": list(found.options),
            "surely_helps": found.surely_helps,
        }
        return {"headline": self.headline, "trust": trust, **self.bare_facts(), **self._findings()}

    def bare_facts(self) -> dict[str, Any]:
        """What is known without looking at the draws: what a run that goes on from here needs."""
        draws, proof = self.draws, self.certificate
        return {
            "status": self.status,
            "potential": self.potential,
            "certified": None if proof is None else proof.certified,
            "certificate": None if proof is None else {**proof.facts(), "sentence": describe.certificate(proof)},
            "n_nodes": len(self.graph.reported),
            "n_edges": self.graph.n_edges,
            "n_components": self.graph.n_components,
            "graph_consistency": plain(graph_consistency(self.graph, self.estimate)),
            "beta": self.options.beta,
            "draws": draws.n_draws if draws is not None else 0,
            "chains": draws.n_chains if draws is not None else 0,
            "mean_potential": plain(draws.of_explanation(0).mean_potential if draws is not None else math.nan),
            "sampler": _sampler_facts(draws),
            "seed": self.options.seed,
            "version": self.version,
            "seconds": self.seconds,
            "parameters": None if self.parameters is None else self.parameters.facts(),
            "scaling": {
                "choice": self.options.scale,
                "applied": self.scaled_by != 1.0,
                "variance_factor": self.scaled_by,
            },
            "optimiser": {
                "status": self.optimiser_status,
                "notices": list(self.optimum_notices),
                "doubts": [[doubt, plain(value)] for doubt, value in self.doubts],
            },
            "origin": dict(self.graph.origin),
            "edges_measure": self.graph.measures,
            "precisions": _precision_facts(self.graph),
            "options": self.options.as_dict(),
            "tuning": self.tuning,
            "notices": list(self.notices),
            "fingerprint": self.fingerprint,
            "draws_fingerprint": self.draws_fingerprint,
        }

    def _findings(self) -> dict[str, Any]:
        """What the analysis says."""
        nodes, found = self.nodes, self.diagnostics
        words = {} if found is None else {"verdict": describe.verdict(found), "advice": describe.advice(found)}
        return {
            "reduced_chi_square": plain(self.reduced_chi_square),
            "global_test": self.global_test.facts(),
            "uncertainty": {
                "source": nodes.source if nodes is not None else None,
                "gauge": str(self.gauge),
                "edge_errors": "shared" if self.analysis.errors_shared else "independent",
                "frame": FRAME,
                "order": ORDER,
                "median_sigma_rot_deg": plain(median_sigma(nodes.sigma_rot_deg) if nodes is not None else math.nan),
                "median_sigma_pos": plain(median_sigma(nodes.sigma_pos) if nodes is not None else math.nan),
            },
            "modes": None if self.modes is None else self.modes.facts(),
            "diagnostics": None if found is None else {**found.facts(), **words},
            "predictive": {"sentence": describe.edge_checks(self.edge_checks), **self.edge_checks.facts()},
            "robust": None if self.verdicts is None else self.verdicts.facts(),
            "explanations": [
                {**describe.explanation_facts(self.graph, one), "draws": self._facts_of_draws(k)}
                for k, one in enumerate(self.explanations)
            ],
        }

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
            found=self.doubts,
        )
        return judge(self.analysis, evidence)

    @property
    def headline(self) -> str:
        """The first line of :meth:`summary`: whether to trust the result, and the one reason that matters most."""
        return describe.judgement(self.judgement, self.edge_checks, self.weighing, self._reasons())

    def _reasons(self) -> list[str]:
        """What speaks for the result, where nothing speaks against it."""
        checked, verdicts = self.edge_checks.n_checked, self.verdicts
        noise = "estimated" if self.options.noise == "auto" else "stated"
        if verdicts is None or not len(verdicts.distrusted):
            reasons = [f"{checked} edges agree with each other within the {noise} noise"]
        else:
            kept = self.graph.n_edges - len(verdicts.distrusted)
            reasons = [
                f"{kept} of {self.graph.n_edges} edges agree with each other within the {noise} noise and outweigh the rest"
            ]
        if self.certificate is not None and self.certificate.certified and not self.is_proof_a_detail:
            reasons.append("no better poses exist")
        if self.diagnostics is not None:
            reasons.append(f"draws are {self.diagnostics.level}")
        return reasons

    @property
    def _n_draws(self) -> int:
        return 0 if self.draws is None else self.draws.n_draws

    @property
    def _counts(self) -> str:
        return f"{describe.counts(self.graph)}: {self.status}"

    def summary(self) -> str:
        """A few lines for people."""
        return "\n".join(map(printable, self._summary_lines()))

    def _summary_lines(self) -> list[str]:
        graph = self.graph
        lines = [
            self.headline,
            *describe.further_doubts(self.judgement, self.edge_checks, self.weighing),
            *self._explanation_lines(),
            self._counts,
            f"U = {self.potential:.6g} at the estimate; graph consistency {graph_consistency(graph, self.estimate):.4f}",
        ]
        chi = self.reduced_chi_square
        if math.isfinite(chi) and self.parameters is None:
            lines.append(f"reduced χ² {chi:.3g}: {describe.noise_fit(self.global_test)}")
            lines += describe.scaling(self.options.scale, self.scaled_by)
        elif self.parameters is not None and self.verdicts is None:
            lines.append(describe.estimated_noise(graph, self.parameters))
        found = precisions(graph)
        if found is not None:
            lines.append(describe.precisions(found))
        if self.certificate is not None and not self.is_proof_a_detail:
            lines.append(f"{self.certificate.status}: {describe.certificate(self.certificate)}")
        if self.draws is not None:
            lines += self._draw_lines(self.draws)
        lines += self.error_bar_lines()
        if self.nodes is not None:
            lines.append(describe.error_bars(self.analysis.errors_shared, is_by_place(self.analysis.weighing)))
        if self.diagnostics is not None:
            verdict = describe.verdict(self.diagnostics)
            known = self.diagnostics.level is not Level.CANNOT_TELL
            lines += [f"the draws are {verdict}" if known else verdict, *describe.advice(self.diagnostics)]
        if self.verdicts is None:
            lines.append(describe.edge_checks(self.edge_checks))
        else:
            lines += [describe.noise(self.verdicts), describe.distrusted(self.verdicts, contested=self.is_contested)]
            by_edge = self.weighing is None or self.weighing.loose is not None
            if by_edge and len(self.verdicts.distrusted):
                lines.append(describe.INDEPENDENT)
        if self.certificate is not None and self.is_proof_a_detail:
            lines.append(describe.kept_proof(self.certificate))
        return [*lines, describe.legend(draws=self.draws is not None)]

    def _explanation_lines(self) -> list[str]:
        if self.weighing is None or not self.is_contested:
            return []
        nodes = [self.explanation_nodes(k) for k in range(len(self.explanations))]
        return describe.explanations(self.explanations, self.graph, nodes)

    @property
    def _condition(self) -> str:
        """What everything about the estimate depends on, to be put into a sentence."""
        return f", {describe.IF_FIRST}" if self.is_contested else ""

    def _draw_counts(self) -> list[int]:
        """How many draws are of each explanation; of the only one, if there are no others."""
        if self.draws is None:
            return []
        label = np.concatenate([np.zeros(0, dtype=np.int64), *self.draws.explanation])
        return [int(c) for c in np.bincount(label, minlength=max(len(self.explanations), 1))]

    def _facts_of_draws(self, k: int) -> dict[str, Any] | None:
        """How many draws are of an explanation, and what they are worth."""
        found = self.explanation_diagnostics(k)
        if found is None:
            return None
        rhat, ess = found.worst_rhat.value, found.least_ess
        return {"count": self._draw_counts()[k], "level": found.level, "rhat": plain(rhat), "ess": plain(ess)}

    def _draw_lines(self, draws: Draws) -> list[str]:
        own = draws.of_explanation(0)
        of_which = describe.draws_of(self._draw_counts())
        return [
            f"{draws.n_draws} draws at β = {self.options.beta:g}{of_which}, mean U = {own.mean_potential:.6g}{self._condition}",
            f"drawn by {describe.sampler(draws.sampler)} ({describe.reason(draws.reason)}): acceptance {draws.acceptance:.2f}, "
            f"{plural(draws.gradients_per_draw, 'gradient')} a draw",
        ]

    def error_bar_lines(self) -> list[str]:
        """The lines of :meth:`summary` about error bars, in words; each mode for itself, since nothing is averaged across them."""
        nodes, modes = self.nodes, self.modes
        if modes is None or len(modes) == 1:
            if nodes is None:
                return []
            source = "the draws" if nodes.source == "draws" else "the Gaussian approximation"
            return [f"median 1σ per axis{self._condition}: {describe.sigmas(nodes)} ({nodes.gauge}; from {source})"]
        lines = [describe.modes(modes), *describe.modes_advice(modes)]
        for k, mode in enumerate(modes.modes[:5]):
            own = self.mode_nodes(k)
            words = "" if own is None else f", median 1σ per axis {describe.sigmas(own)}"
            which = ", the estimate's" if k == modes.home else f" (poses.mode-{k + 1}.csv)"
            lines.append(f"mode {k + 1}{which}: U = {mode.potential:.6g}{words}")
        return (
            lines if nodes is None else [*lines, f"σ are {nodes.gauge}; from the draws in each mode{self._condition}"]
        )

    # ------------------------------------------------------------------ files

    def save(self, directory: str | Path, *, bare: bool = False, record: Mapping[str, Any] | None = None) -> Path:
        """Write the result (:mod:`tempose.io.result_directory`); ``bare``: only what a run that goes on needs.

        ``record`` is kept in ``result.json`` as well, for instance what file the graph was read from.

        The draws are in ``DIR/draws`` already if the solve was given this directory, else they are copied there. A directory
        that holds draws of another solve is refused.
        """
        with at_work_in(directory) as home:
            return self._save(home, bare=bare, record=record or {})

    def _save(self, home: Path, *, bare: bool, record: Mapping[str, Any]) -> Path:
        refuse_other_run(home / "draws", {"fingerprint": self.draws_fingerprint})
        facts = {**(self.bare_facts() if bare else self.facts()), **self.record, **record}
        stored = StoredResult(
            facts,
            self.graph,
            self.likelihood,
            self.estimate,
            self.trace,
            self.others,
            {} if self.weighing is None else self.weighing.arrays(),
            {} if bare or self.nodes is None else {**self.nodes.arrays(), "all_draws": np.array(self._n_draws)},
        )
        if bare:
            write_result(home, stored)
            return home
        tables = {"edges.csv": self._edge_table()}
        for k, mode in enumerate(self.modes.modes if self.modes is not None else ()):
            if self.modes is not None and k != self.modes.home:
                columns = self._sigma_columns(self.mode_nodes(k), None)
                tables[f"poses.mode-{k + 1}.csv"] = with_poses(
                    reported(self.graph, mode.poses), columns, self.graph.is_planar
                )
        for k, one in enumerate(self.explanations[1:], start=1):
            columns = self._sigma_columns(self.explanation_nodes(k), None)
            shown = reported(self.graph, one.poses)
            tables[describe.explanation_file(k)] = with_poses(shown, columns, self.graph.is_planar)
        if self.draws is not None and self.draws.directory is not None:
            there = home / "draws"
            if self.draws.directory.resolve() != there.resolve():
                copy_draws(self.draws, there)
        write_result(home, stored, self.pose_columns(), tables)
        return home

    @classmethod
    def load(cls, directory: str | Path) -> Solution:
        """Reload a saved solution: estimate, draws and settings. What the draws say is computed when asked for."""
        home = Path(directory)
        stored = read_result(home)
        try:
            return cls._from_stored(home, stored)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, OptionError, GraphError):
            raise DrawsError(f"{home}: not a result of this version of tempose; solve the graph again") from None

    @classmethod
    def _from_stored(cls, home: Path, stored: StoredResult) -> Solution:
        facts = stored.facts
        options = SolveOptions.from_dict(facts["options"])
        gauge = Gauge.parse(stored.graph, options.gauge)
        draws = read_draws(home / "draws") if (home / "draws" / "draws.json").exists() else None
        if draws is not None and draws.fingerprint != facts["draws_fingerprint"]:
            raise DrawsError(
                f"{home}: the draws there belong to another solve than result.json; solve again, with --overwrite"
            )
        parameters = None if facts["parameters"] is None else Parameters.from_facts(facts["parameters"])
        proof = None if facts["certificate"] is None else Certificate.from_facts(facts["certificate"])
        scaled_by = facts["scaling"]["variance_factor"]
        if type(scaled_by) not in (int, float) or not 0.0 < scaled_by < math.inf:
            raise ValueError(scaled_by)
        posterior = Posterior(stored.graph, stored.likelihood)
        weighing = Weighing.from_arrays(stored.graph.node_ids, stored.explanations) if stored.explanations else None
        analysis = Analysis(
            posterior,
            stored.estimate,
            gauge,
            options.beta,
            None if draws is None else draws.of_explanation(0),
            parameters,
            options.noise == "auto",
            weighing=weighing,
            errors_shared=options.shares_errors(is_by_place(weighing)),
            scaled_by=scaled_by,
        )
        found = 0 if draws is None else draws.n_draws
        if stored.nodes and int(stored.nodes["all_draws"]) == found:  # else there are more by now
            analysis = analysis.with_nodes(NodeSummary.from_arrays(gauge, stored.nodes))
        return cls(
            graph=stored.graph,
            options=options,
            status=Status(facts["status"]),
            estimate=stored.estimate,
            potential=facts["potential"],
            draws=draws,
            gauge=gauge,
            trace=stored.trace,
            certificate=proof,
            notices=tuple(facts["notices"]),
            seconds=facts["seconds"],
            version=facts["version"],
            analysis=analysis,
            optimiser_status=facts["optimiser"]["status"],
            optimum_notices=tuple(facts["optimiser"]["notices"]),
            doubts=doubts_from(facts["optimiser"]["doubts"]),
            scaled_by=scaled_by,
            tuning=facts["tuning"],
            likelihood=stored.likelihood,
            parameters=parameters,
            others=stored.others,
            weighing=weighing,
            fingerprint=facts["fingerprint"],
            draws_fingerprint=facts["draws_fingerprint"],
            record={name: facts[name] for name in ("input",) if name in facts},
        )

    def pose_columns(self) -> Table:
        """What stands beside the poses in ``poses.csv``."""
        return self._sigma_columns(self.nodes, self.analysis.own_diagnostics)

    def _sigma_columns(self, nodes: NodeSummary | None, found: Diagnostics | None) -> Table:
        graph, axes = self.graph, self.graph.axes
        rows = [graph.index[name] for name in graph.reported]
        header: list[str] = ["component"]
        columns: list[Any] = [graph.component[rows]]
        if nodes is None:
            return header, columns
        names = np.array(["rx_deg", "ry_deg", "rz_deg", "x", "y", "z"])
        header += ["sigma_rot_deg", "sigma_pos", "entropy", *(f"sigma_{a}" for a in names[axes])]
        deviation = np.sqrt(np.maximum(np.einsum("naa->na", nodes.covariance), 0.0))
        deviation[:, :3] = np.degrees(deviation[:, :3])
        deviation[~nodes.determined, 3:] = np.nan
        deviation[graph.is_landmark[rows], :3] = np.nan
        columns += [nodes.sigma_rot_deg, nodes.sigma_pos, nodes.entropy, *deviation[:, axes].T]
        if nodes.source == "draws" and found is not None:
            sigmas = np.column_stack([nodes.sigma_rot_deg, nodes.sigma_pos, deviation[:, axes]])
            mcse = found.mcse_sd * np.where(np.arange(6) < 3, np.degrees(1.0), 1.0)
            errors = np.column_stack([found.sigma_rot_deg_mcse, found.sigma_pos_mcse, mcse[:, axes]])[rows]
            header += [f"mcse_{name}" for name in header if name.startswith("sigma_")]
            columns += list(np.where(sigmas == 0.0, 0.0, errors).T)  # what is held has no error
        return header, columns

    def _edge_table(self) -> Table:
        graph, names, r = self.graph, self.graph.edge_names(), self.residuals
        table: dict[str, Any] = {
            "i": [name_text(a) for a, _ in names],
            "j": [name_text(b) for _, b in names],
            "rotation_deg": np.where(graph.ranks[0] > 0, np.degrees(r.angle), np.nan),
            "translation": np.linalg.norm(r.translation, axis=1),
            "surprise": self.surprise,
            "p_value": self.edge_checks.p_value,
            "redundancy": self.reliability.redundancy,
            "mde_rot_deg": self.reliability.mde_rot_deg,
            "mde_trans": self.reliability.mde_trans,
            "external_reliability": self.reliability.external,
        }
        if self.verdicts is not None:
            table["inlier_probability"] = self.verdicts.inlier_probability
        for k in range(1, len(self.explanations)):  # if that explanation is the true one
            table[f"inlier_probability_if_{k + 1}"] = self.explanation_inliers(k)
        return list(table), list(table.values())


@dataclass(frozen=True, eq=False)
class NodeEstimate:
    """One node of a solution.

    Attributes
    ----------
    pose
        world_from_node.
    covariance
        6×6: rotation vector (radians), then position, world frame; ``None`` if nothing is known.
    sigma_rot_deg, sigma_pos
        Standard deviation per axis, degrees and length units; NaN if nothing is known, or no translation ties the position.
    gauge
        What all this refers to.
    """

    node: NodeId
    pose: Pose
    covariance: Array | None
    sigma_rot_deg: float
    sigma_pos: float
    gauge: Gauge

    @property
    def position(self) -> Array:
        """Of the node in the world (3,)."""
        return self.pose.position

    @property
    def planar_covariance(self) -> Array | None:
        """3×3 of a planar node: rotation about z (radians), x, y."""
        return None if self.covariance is None else self.covariance[np.ix_([2, 3, 4], [2, 3, 4])]

    @property
    def theta_deg(self) -> float:
        """Angle about z of a planar node, degrees."""
        w, _, _, z = self.pose.wxyz
        return math.degrees(2.0 * math.atan2(z, w) if w >= 0.0 else 2.0 * math.atan2(-z, -w))


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


def _precision_facts(graph: PoseGraph) -> dict[str, Any]:
    found = precisions(graph)
    return {"used": "isotropic"} if found is None else {**found, "sentence": describe.precisions(found)}


def _sampler_facts(draws: Draws | None) -> dict[str, Any] | None:
    if draws is None:
        return None
    return {
        "name": draws.sampler,
        "reason": describe.reason(draws.reason),
        "acceptance": plain(draws.acceptance),
        "gradients_per_draw": plain(draws.gradients_per_draw),
        "settings": draws.settings,
    }
