"""The result of a solve: poses, draws, uncertainties, and a directory that holds all of it."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import write_atomically
from tempose._support.tables import csv_text
from tempose._typing import Array, NodeId
from tempose.analysis.accuracy import graph_consistency
from tempose.analysis.diagnostics import RHAT_BAD, Diagnostics, diagnose, diagnostics_lines
from tempose.analysis.edge_checks import EdgeChecks, check_edges
from tempose.analysis.export import to_arviz
from tempose.analysis.modes import PROBES, Modes, find_modes
from tempose.analysis.summary import NodeSummary, RelativeSummary, node_summary, relative_summary, summarise
from tempose.errors import ArgumentError, DrawsError
from tempose.io.csvfile import name_text
from tempose.model.bingham import Bingham
from tempose.model.gauge import FRAME, ORDER, Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior, Priors, Residuals, residuals
from tempose.model.robust import RobustLikelihood
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.certificate import Certificate
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.options import SolveOptions
from tempose.outliers.noise import Parameters
from tempose.outliers.verdicts import EdgeVerdicts, parameters_from_facts
from tempose.sampling.draws import Draws, read_draws

_MOST_DRAWS = 100  # to average inlier probabilities over


@dataclass(frozen=True, eq=False)
class Solution:
    """Best poses of a graph and what is known about their uncertainty.

    Attributes
    ----------
    status
        ``solved``, ``interrupted`` (ended early, what was drawn is kept), ``stalled`` or ``diverged``.
    estimate
        The poses that minimise U.
    objective
        U there.
    draws
        Posterior draws, or ``None``.
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
    """

    graph: PoseGraph
    priors: Priors
    options: SolveOptions
    status: str
    estimate: Poses
    objective: float
    draws: Draws | None
    gauge: Gauge
    trace: Array
    certificate: Certificate | None
    notices: tuple[str, ...]
    seconds: float
    version: str
    tuning: dict[str, float] = field(default_factory=dict)
    likelihood: RobustLikelihood | None = None
    parameters: Parameters | None = None
    temporary: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    # ------------------------------------------------------------------ uncertainty

    @cached_property
    def posterior(self) -> Posterior:
        """U."""
        return Posterior(self.graph, self.priors, self.likelihood)

    @cached_property
    def verdicts(self) -> EdgeVerdicts | None:
        """Which edges to distrust; ``None`` without a robust likelihood.

        The probability of an edge is the mean over the draws of that given the poses, or, without draws, the one that the
        Gaussian prediction from all the others gives. A bridge cannot be checked and keeps its prior.
        """
        if self.likelihood is None or self.parameters is None:
            return None
        if self.draws is not None and self.draws.n_draws >= 2:
            chosen = set(np.linspace(0, self.draws.n_draws - 1, _MOST_DRAWS).astype(int).tolist())
            given = [
                self.likelihood.inlier_probability(self.posterior.energies(Poses(self.estimate.ids, wxyz, position)))
                for k, (wxyz, position) in enumerate(self.draws)
                if k in chosen
            ]
            probability = np.mean(given, axis=0)
            bridges = self.graph.bridges
            probability[bridges] = self.likelihood.prior[bridges]
        else:
            probability = self.edge_checks.inlier_probability(self.likelihood)
        return EdgeVerdicts(self.graph, probability, self.parameters, self.options.noise == "auto")

    def _used(self, sigma: Array) -> Array:
        """``tr(P Σ)`` of every edge (m,), Σ (m, 6, 6) the covariance of its relative pose."""
        used = 0.5 * np.einsum("mab,mba->m", self.graph.concentration_matrices, sigma[:, :3, :3])
        return np.asarray(used + np.einsum("mab,mba->m", self.graph.translation_precision_matrices, sigma[:, 3:, 3:]))

    @cached_property
    def laplace(self) -> Laplace | None:
        """Gaussian approximation at the estimate, or ``None`` if the Hessian is not positive definite there."""
        try:
            return Laplace(Curvature(self.posterior), self.estimate, self.options.beta)
        except NotPositiveDefiniteError:
            return None

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
        if draws.sampler == "collapsed" and not found.worst_rhat.value > RHAT_BAD:
            probes = 0
        return find_modes(Curvature(self.posterior), draws, self.estimate, probes=probes)

    @cached_property
    def _own_draws(self) -> Draws | None:
        """The draws around the estimate: of its mode only, if there are several."""
        if self.draws is None or self.modes is None or len(self.modes) == 1:
            return self.draws
        return self.modes.draws(self.draws, self.modes.home)

    @cached_property
    def _own_diagnostics(self) -> Diagnostics | None:
        """Of the draws around the estimate."""
        own = self._own_draws
        return self.diagnostics if own is self.draws or own is None else diagnose(own, self.estimate, self.gauge)

    @cached_property
    def nodes(self) -> NodeSummary | None:
        """Mean, 6×6 covariance, σ and entropy of every node: from the draws, else from the Gaussian approximation.

        If the draws lie in several modes (:attr:`modes`), from those in the mode of the estimate.
        """
        if self._own_draws is not None and self._own_draws.n_draws >= 2:
            return summarise(self._own_draws, self.estimate, self.gauge)
        if self.laplace is not None:
            return node_summary(self.estimate, self.laplace.marginals(self.gauge), self.gauge, "laplace")
        return None

    def mode_nodes(self, k: int) -> NodeSummary | None:
        """Mean and covariance of every node in mode ``k`` of :attr:`modes`; ``None`` if it has fewer than two draws."""
        if self.draws is None or self.modes is None or not 0 <= k < len(self.modes):
            raise ArgumentError(f"there is no mode {k}: there are {0 if self.modes is None else len(self.modes)}")
        own = self.modes.draws(self.draws, k)
        return summarise(own, self.modes[k].poses, self.gauge) if own.n_draws >= 2 else None

    def covariance(self, node: NodeId) -> Array:
        """6×6 covariance of a node (rotation vector in radians, then position), in the solution's gauge, world frame."""
        if self.nodes is None:
            raise DrawsError("this solution has neither draws nor a Gaussian approximation: there are no covariances")
        return np.asarray(self.nodes.covariance[self.estimate.row(node)])

    def relative_covariance(self, a: NodeId, b: NodeId) -> RelativeSummary:
        """Posterior of the pose of ``b`` seen from ``a``, measured directly or not; it depends on no gauge.

        If the draws lie in several modes (:attr:`modes`), of those in the mode of the estimate.
        """
        if self._own_draws is not None and self._own_draws.n_draws >= 2:
            return relative_summary(self._own_draws, self.estimate, a, b)
        if self.laplace is None:
            raise DrawsError("this solution has neither draws nor a Gaussian approximation: there are no covariances")
        mean, covariance = self.laplace.relative(a, b)
        return RelativeSummary(a, b, mean, covariance, "laplace", 0)

    @cached_property
    def residuals(self) -> Residuals:
        """How far each measurement is from the estimate."""
        return residuals(self.graph, self.estimate)

    @cached_property
    def reduced_chi_square(self) -> float:
        """``2U*`` of the edges over its degrees of freedom: about 1 if the stated noise is right; NaN if nothing is checked.

        The measurements have d numbers, the poses take up k of them. Surveyors call it the a-posteriori variance
        factor: at 4, the true noise is twice what was stated and every σ should be doubled.
        """
        energy, measured = self.posterior.energies(self.estimate), np.where(self.graph.has_translation, 6.0, 3.0)
        weight, kept = np.ones_like(energy), np.ones_like(energy)
        if self.likelihood is not None:  # of the kept edges
            weight, kept = self.likelihood.weight(energy), self.likelihood.inlier_probability(energy)
        freedom = float(kept @ measured) - Curvature(Posterior(self.graph)).dimension
        return float(2.0 * weight @ energy / freedom) if freedom > 0 else math.nan

    @cached_property
    def surprise(self) -> Array:
        """Normalised residual of each edge (m,), about 1 if the model is right; NaN where nothing checks the edge.

        ``√(2U_edge / expected)``: an edge of d numbers pulls the estimate towards itself, so its residual is expected to
        be ``d − tr(P Σ)``, with P the edge's precision and Σ the covariance of the fitted relative pose. A bridge always
        fits: it is expected to be 0 and says nothing.
        """
        energy = self.posterior.energies(self.estimate)
        freedom = np.where(self.graph.has_translation, 6.0, 3.0)
        expected = freedom
        if self.laplace is not None:
            # an edge that was not kept does not pull: its residual is expected to be larger by as much
            pull = 1.0 if self.likelihood is None else 2.0 * self.likelihood.weight(energy) - 1.0
            expected = freedom - pull * self._used(self.laplace.edge_covariances() * self.laplace.beta)
        checked = expected > 0.01 * freedom
        ratio = 2.0 * energy / np.where(checked, expected, 1.0)
        return np.where(checked, np.sqrt(ratio), np.nan)

    @cached_property
    def diagnostics(self) -> Diagnostics | None:
        """How far the draws can be trusted: R-hat, ESS, Monte Carlo errors and a verdict; ``None`` without draws."""
        return None if self.draws is None else diagnose(self.draws, self.estimate, self.gauge)

    @cached_property
    def edge_checks(self) -> EdgeChecks:
        """How surprising each measurement is, given all the others."""
        return check_edges(self.posterior, self.estimate)

    # ------------------------------------------------------------------ in words and numbers

    def facts(self) -> dict[str, Any]:
        """The content of ``result.json``."""
        draws = self.draws
        nodes = self.nodes
        return {
            "status": self.status,
            "objective": self.objective,
            **certificate_facts(self.certificate),
            "mean_potential": _plain(draws.mean_potential if draws is not None else math.nan),
            "n_nodes": self.graph.n_nodes,
            "n_edges": self.graph.n_edges,
            "n_components": self.graph.n_components,
            "reduced_chi_square": _plain(self.reduced_chi_square),
            "graph_consistency": _plain(graph_consistency(self.graph, self.estimate)),
            "beta": self.options.beta,
            "draws": draws.n_draws if draws is not None else 0,
            "chains": draws.n_chains if draws is not None else 0,
            "sampler": _sampler_facts(draws),
            "seed": self.options.seed,
            "version": self.version,
            "seconds": self.seconds,
            "uncertainty": {
                "source": nodes.source if nodes is not None else None,
                "gauge": str(self.gauge),
                "frame": FRAME,
                "order": ORDER,
                "median_sigma_rot_deg": _plain(_median(nodes.sigma_rot_deg) if nodes is not None else math.nan),
                "median_sigma_pos": _plain(_median(nodes.sigma_pos) if nodes is not None else math.nan),
            },
            "modes": None if self.modes is None else self.modes.facts(),
            "diagnostics": None if self.diagnostics is None else self.diagnostics.facts(),
            "predictive": self.edge_checks.facts(),
            "robust": None if self.verdicts is None else self.verdicts.facts(),
            "origin": dict(self.graph.origin),
            "options": self.options.as_dict(),
            "tuning": self.tuning,
            "notices": list(self.notices),
        }

    def summary(self) -> str:
        """A few lines for people."""
        nodes = self.nodes
        lines = [
            f"{self.graph.n_nodes} nodes, {self.graph.n_edges} edges, {self.graph.n_components} component(s): {self.status}",
            f"U = {self.objective:.6g} at the estimate; graph consistency {graph_consistency(self.graph, self.estimate):.4f}",
        ]
        chi = self.reduced_chi_square
        if math.isfinite(chi) and self.parameters is None:
            verdict = (
                "the stated noise fits"
                if 0.5 < chi < 2.0
                else (
                    f"the noise is {'over' if chi < 1 else 'under'}stated: σ should be {math.sqrt(chi):.2g} times as large"
                )
            )
            lines.append(f"reduced χ² {chi:.3g}: {verdict}")
        if self.certificate is not None:
            lines.append(f"{self.certificate.status}: {self.certificate.explanation}")
        if self.draws is not None:
            lines.append(
                f"{self.draws.n_draws} draws at β = {self.options.beta:g}, mean U = {self.draws.mean_potential:.6g}"
            )
            lines.append(
                f"sampler {self.draws.sampler} ({self.draws.reason}): acceptance {self.draws.acceptance:.2f}, "
                f"{self.draws.gradients_per_draw:.3g} gradients a draw"
            )
        if self.modes is not None and len(self.modes) > 1:
            lines += self._mode_lines(self.modes)
        elif nodes is not None:
            lines.append(
                f"median 1σ per axis: {_sigmas(nodes)} "
                f"({nodes.gauge}; from {'the draws' if nodes.source == 'draws' else 'the Gaussian approximation'})"
            )
        if self.diagnostics is not None:
            verdict, *advice = diagnostics_lines(self.diagnostics)
            lines += [f"the draws are {verdict}" if self.diagnostics.level != "cannot tell" else verdict, *advice]
        lines += [self.edge_checks.sentence()] if self.verdicts is None else self.verdicts.sentences()
        return "\n".join(lines)

    def _mode_lines(self, modes: Modes) -> list[str]:
        """Each mode for itself: nothing is averaged across them."""
        lines = [modes.sentence(), *modes.advice]
        for k, mode in enumerate(modes.modes[:5]):
            nodes = self.nodes if k == modes.home else self.mode_nodes(k)
            words = "" if nodes is None else f", median 1σ per axis {_sigmas(nodes)}"
            which = ", the estimate's" if k == modes.home else f" (poses.mode-{k + 1}.csv)"
            lines.append(f"mode {k + 1}{which}: U = {mode.potential:.6g}{words}")
        if nodes is not None:
            lines.append(f"σ are {nodes.gauge}; from the draws in each mode")
        return lines

    def to_arviz(self) -> Any:
        """The draws as an ArviZ object, in the solution's gauge; see :func:`tempose.analysis.export.to_arviz`."""
        if self.draws is None:
            raise DrawsError("this solution has no draws to export")
        return to_arviz(self.draws, self.estimate, self.gauge)

    # ------------------------------------------------------------------ files

    def save(self, directory: str | Path) -> Path:
        """Write ``result.json``, the poses (CSV; g2o and TUM if all ids are integers), ``edges.csv`` and the graph.

        The draws are in ``DIR/draws`` already if the solve was given this directory, else they are copied there.
        """
        from tempose.io import write_graph, write_poses

        home = Path(directory)
        home.mkdir(parents=True, exist_ok=True)
        if all(isinstance(name, int) for name in self.graph.node_ids):
            write_poses(home / "poses.g2o", self.estimate)
            write_poses(home / "poses.tum", self.estimate)
        write_atomically(home / "poses.csv", csv_text(*self._pose_columns()).encode())
        self._save_modes(home)
        write_atomically(home / "edges.csv", csv_text(*self._edge_columns()).encode())
        write_graph(home / "graph.csv", self.graph)
        np.save(home / "trace.npy", self.trace)
        self._save_priors(home)
        if self.likelihood is not None:
            np.savez(home / "likelihood.npz", **asdict(self.likelihood))
        if self.draws is not None and self.draws.directory not in (None, home / "draws"):
            shutil.copytree(self.draws.directory, home / "draws", dirs_exist_ok=True)
        write_atomically(home / "result.json", (json.dumps(self.facts(), indent=2) + "\n").encode())
        return home

    def _pose_columns(self) -> tuple[list[str], list[list[Any]]]:
        return self._columns_of(self.estimate, self.nodes, self._own_diagnostics)

    def _save_modes(self, home: Path) -> None:
        """The poses of the other modes, each with its own σ; what an earlier run left of them goes away."""
        for old in home.glob("poses.mode-*.csv"):
            old.unlink()
        for k, mode in enumerate(self.modes.modes if self.modes is not None else ()):
            if k != self.modes.home:  # type: ignore[union-attr]
                table = csv_text(*self._columns_of(mode.poses, self.mode_nodes(k), None))
                write_atomically(home / f"poses.mode-{k + 1}.csv", table.encode())

    def _columns_of(
        self, poses: Poses, nodes: NodeSummary | None, found: Diagnostics | None
    ) -> tuple[list[str], list[list[Any]]]:
        header = ["id", "x", "y", "z", "qw", "qx", "qy", "qz", "component"]
        columns: list[Any] = [list(map(name_text, poses.ids)), *poses.position.T, *poses.wxyz.T, self.graph.component]
        if nodes is not None:
            header += ["sigma_rot_deg", "sigma_pos", "entropy"]
            header += [f"sigma_{a}" for a in ("rx_deg", "ry_deg", "rz_deg", "x", "y", "z")]
            deviation = np.sqrt(np.maximum(np.einsum("naa->na", nodes.covariance), 0.0))
            deviation[:, :3] = np.degrees(deviation[:, :3])
            deviation[~nodes.determined, 3:] = np.nan
            columns += [nodes.sigma_rot_deg, nodes.sigma_pos, nodes.entropy, *deviation.T]
            if nodes.source == "draws" and found is not None:
                sigmas = np.column_stack([nodes.sigma_rot_deg, nodes.sigma_pos, deviation])
                errors = np.column_stack([found.sigma_rot_deg_mcse, found.sigma_pos_mcse, found.mcse_sd])
                errors[:, 2:5] = np.degrees(errors[:, 2:5])
                header += [f"mcse_{name}" for name in header if name.startswith("sigma_")]
                columns += list(np.where(sigmas == 0.0, 0.0, errors).T)  # what is held has no error
        return header, columns

    def _edge_columns(self) -> tuple[list[str], list[Any]]:
        ids, r = list(map(name_text, self.graph.node_ids)), self.residuals
        header, columns = (
            ["i", "j", "rotation_deg", "translation", "surprise", "p_value"],
            [
                [ids[k] for k in self.graph.edge_i],
                [ids[k] for k in self.graph.edge_j],
                np.degrees(r.angle),
                np.linalg.norm(r.translation, axis=1),
                self.surprise,
                self.edge_checks.p_value,
            ],
        )
        if self.verdicts is not None:
            return [*header, "inlier_probability"], [*columns, self.verdicts.inlier_probability]
        return header, columns

    def _save_priors(self, home: Path) -> None:
        if not self.priors.is_flat:
            n = self.graph.n_nodes
            mean, precision = self.priors.gaussian(n)
            np.savez(
                home / "priors.npz", rotation=self.priors.rotation_matrices(n), mean=mean, precision=precision,
                on_position=self.priors.on_position,
            )  # fmt: skip

    @classmethod
    def load(cls, directory: str | Path) -> Solution:
        """Reload a saved solution: estimate, draws and settings. The Gaussian approximation is computed when asked for."""
        from tempose.io import ReadOptions, read_graph, read_poses

        home = Path(directory)
        try:
            facts = json.loads((home / "result.json").read_text())
        except FileNotFoundError:
            raise DrawsError(f"{home}: no result here (there is no result.json)") from None
        except (OSError, ValueError) as error:
            raise DrawsError(f"{home / 'result.json'}: cannot be read ({error})") from None
        graph = read_graph(home / "graph.csv", ReadOptions(precision="full"))
        estimate = read_poses(home / "poses.csv").select(graph.node_ids)
        changes = {k: v for k, v in facts["options"].items() if k != "anneal"}
        options = SolveOptions(**changes, anneal=tuple((float(b), int(n)) for b, n in facts["options"]["anneal"]))
        draws = read_draws(home / "draws") if (home / "draws" / "draws.json").exists() else None
        return cls(
            graph=graph, priors=_load_priors(home), options=options, status=facts["status"], estimate=estimate,
            objective=facts["objective"], draws=draws, gauge=Gauge.parse(graph, options.gauge),
            trace=np.load(home / "trace.npy"), certificate=certificate_from_facts(facts),
            notices=tuple(facts["notices"]), seconds=facts["seconds"],
            version=facts["version"], tuning=facts["tuning"], likelihood=_load_likelihood(home),
            parameters=None if facts.get("robust") is None else parameters_from_facts(facts["robust"]),
        )  # fmt: skip


_CERTIFICATE = ("certified", "suboptimality", "relative_suboptimality", "min_eigenvalue", "lower_bound")


def certificate_facts(certificate: Certificate | None) -> dict[str, Any]:
    """The verdict as plain values: ``certified`` is true, false, or null where there is no proof either way."""
    if certificate is None:
        return {**dict.fromkeys(_CERTIFICATE), "certificate": None}
    values = {name: getattr(certificate, name) for name in _CERTIFICATE}
    words = {"status": certificate.status, "explanation": certificate.explanation, "potential": certificate.potential}
    return {**{k: _plain(v) if isinstance(v, float) else v for k, v in values.items()}, "certificate": words}


def certificate_from_facts(facts: dict[str, Any]) -> Certificate | None:
    """The inverse of :func:`certificate_facts`."""
    if facts["certificate"] is None:
        return None
    values: dict[str, Any] = {name: facts[name] for name in _CERTIFICATE}
    values = {k: math.nan if v is None and k != "certified" else v for k, v in values.items()}
    return Certificate(**values, **facts["certificate"])


def _sampler_facts(draws: Draws | None) -> dict[str, Any] | None:
    if draws is None:
        return None
    return {
        "name": draws.sampler,
        "reason": draws.reason,
        "acceptance": _plain(draws.acceptance),
        "gradients_per_draw": _plain(draws.gradients_per_draw),
        "settings": draws.settings,
    }


def _load_priors(home: Path) -> Priors:
    if not (home / "priors.npz").exists():
        return Priors()
    with np.load(home / "priors.npz") as saved:
        rotation = tuple(Bingham.from_matrix(a) for a in saved["rotation"]) or None
        gaussian = len(saved["mean"]) > 0
        return Priors(
            rotation, saved["mean"] if gaussian else 0.0, saved["precision"] if gaussian else None,
            bool(saved["on_position"]),
        )  # fmt: skip


def _load_likelihood(home: Path) -> RobustLikelihood | None:
    if not (home / "likelihood.npz").exists():
        return None
    with np.load(home / "likelihood.npz") as saved:
        arrays = {name: saved[name] for name in saved.files}
        return RobustLikelihood(**{**arrays, "tail": float(arrays["tail"])})


def _sigmas(nodes: NodeSummary) -> str:
    return f"{_median(nodes.sigma_rot_deg):.3g}° and {_median(nodes.sigma_pos):.3g} length units"


def _median(x: Array) -> float:
    finite = x[np.isfinite(x)]
    return float(np.median(finite)) if len(finite) else math.nan


def _plain(x: float) -> float | None:
    """JSON has no NaN."""
    return x if math.isfinite(x) else None
