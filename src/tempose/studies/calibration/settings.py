r"""Kinds of graphs to calibrate on, and how to draw one of them with its truth so that calibration is exact.

Simulation-based calibration needs truth and measurements from the *joint* distribution of the model: truth from the
prior, measurements from the likelihood. Then truth and posterior draws are exchangeable given the measurements, and the
rank of the truth among the draws is uniform in every scalar, whatever the noise.

**With priors** (Bingham on every rotation, Gaussian on every translation) that is what is done.

**Flat priors** on positions are improper: no truth can be drawn from them. But conditioned on the measurements of a
spanning tree the posterior is proper, and can be drawn from exactly. With ``j_from_i = (R, τ)`` along each tree edge as
coordinates, the flat measure :math:`\prod_i dR_i\, dp_i` is :math:`\prod_e dR_e\, d\tau_e` times that of the root, and the
tree's likelihood is a product over its edges. So given *any* measured values ``(q, t)`` of the tree,

.. math::  R_e = \varepsilon_e^{-1} q_e, \quad \tau_e = t_e - \eta_e, \qquad
           \varepsilon_e \sim \mathrm{Bingham}(\Lambda_e), \quad \eta_e \sim N(0, P_e^{-1}),

independently, is an exact draw. This is the prior; the other edges, measured from that truth, are the data. The posterior
of all edges under flat priors is the posterior of this experiment (Säilynoja, Schmitt, Bürkner & Vehtari, *Posterior SBC*,
2025), and everything that does not depend on the gauge must be calibrated, at any noise. Graphs with fixes and landmarks are
drawn in the same way (:mod:`tempose.studies.calibration.tree_truth`); there, what is tied to the world must be calibrated, too.

**Controls** are read wrongly on purpose after they were measured (:data:`MISREADINGS`), and must be found out.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tempose._typing import Array
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.bingham import Bingham, concentration_from_sigma
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.priors import Priors
from tempose.optimum.trees import tree_poses
from tempose.simulation import simulate
from tempose.simulation.measuring import draw_noise, measured_with
from tempose.studies.calibration.tree_truth import given_edges, truth_given


@dataclass(frozen=True)
class Setting:
    """A family of random graphs.

    Parameters
    ----------
    name
        For tables and figures; graphs of the same name and number are the same in every run of one seed.
    nodes, completeness
        Number of poses, and the share of all ordered pairs that are measured; never less than a spanning tree.
    sigma_rot_deg, sigma_trans
        Noise per axis: degrees (λ = 2/σ²; the noise is Bingham's, not a small angle) and length. Positions are normal
        with unit variance.
    anisotropy
        Ratio of the largest to the smallest σ of an edge, along random axes, for rotation and translation; 1 for none.
    rotation_only
        Share of the edges outside a spanning tree that carry a rotation only.
    prior_sigma_rot_deg, prior_sigma_trans
        Bingham prior on every rotation and Gaussian on every translation; both or none (flat).
    planar, correlated, gps, gps_sigma, lever_arm, landmarks, sightings
        As of :func:`tempose.simulation.simulate`.
    misread
        One of :data:`MISREADINGS`; none by default.
    """

    name: str
    nodes: int = 8
    completeness: float = 0.5
    sigma_rot_deg: float = 3.0
    sigma_trans: float = 0.05
    anisotropy: float = 1.0
    rotation_only: float = 0.0
    prior_sigma_rot_deg: float | None = None
    prior_sigma_trans: float | None = None
    planar: bool = False
    correlated: str | None = None
    gps: float = 0
    gps_sigma: float = 0.1
    lever_arm: float = 0.0
    landmarks: int = 0
    sightings: int = 3
    misread: str | None = None

    def __post_init__(self) -> None:
        def require(good: bool, message: str) -> None:
            if not good:
                raise OptionError(f"setting {self.name!r}: {message}")

        require(3 <= self.nodes <= 200, f"3 to 200 nodes make sense here, not {self.nodes}")
        require(0.0 < self.completeness <= 1.0, f"completeness must be in (0, 1], not {self.completeness}")
        require(0.0 < self.sigma_rot_deg < np.inf, f"the rotation noise must be positive, not {self.sigma_rot_deg}")
        require(0.0 < self.sigma_trans < np.inf, f"the translation noise must be positive, not {self.sigma_trans}")
        require(1.0 <= self.anisotropy < np.inf, f"anisotropy is a ratio of at least 1, not {self.anisotropy}")
        require(0.0 <= self.rotation_only <= 1.0, f"rotation_only is a share in [0, 1], not {self.rotation_only}")
        prior = (self.prior_sigma_rot_deg, self.prior_sigma_trans)
        require((prior[0] is None) == (prior[1] is None), "give both priors, or none: only then a truth can be drawn")
        require(all(s is None or 0.0 < s < np.inf for s in prior), "the σ of a prior must be positive")
        require(self.misread is None or self.misread in MISREADINGS, f"unknown misreading {self.misread!r}")
        plain = self.anisotropy == 1.0 and not self.rotation_only and prior[0] is None
        require(plain or not self.is_wide, "anisotropy, rotation_only and priors are of graphs of poses in space alone")

    @property
    def is_wide(self) -> bool:
        """Whether there is more than poses in space with uncorrelated errors."""
        return self.planar or self.correlated is not None or self.gps > 0 or self.landmarks > 0

    @property
    def checks_fit(self) -> bool:
        """Whether χ² and the edges' p-values are ranked, too: they are uniform where noise is small."""
        return self.is_wide and self.sigma_rot_deg <= SMALL_DEG

    @property
    def has_priors(self) -> bool:
        """Whether absolute poses mean something."""
        return self.prior_sigma_rot_deg is not None

    def priors(self) -> Priors:
        """The priors; flat if there are none."""
        if self.prior_sigma_rot_deg is None or self.prior_sigma_trans is None:
            return Priors()
        concentration = float(concentration_from_sigma(np.radians(self.prior_sigma_rot_deg)))
        return Priors(Bingham.from_mode(_PRIOR_MODE, concentration), translation_precision=self.prior_sigma_trans**-2)

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def words(self) -> str:
        """One line for people."""
        parts = [
            f"{self.nodes} {'planar ' if self.planar else ''}nodes",
            f"completeness {self.completeness:g}",
            f"noise {self.sigma_rot_deg:g}° and {self.sigma_trans:g}",
        ]
        if self.anisotropy > 1.0:
            parts.append(f"anisotropic 1:{self.anisotropy:g}")
        if self.rotation_only:
            parts.append(f"{self.rotation_only:.0%} of the loop edges rotation only")
        if self.has_priors:
            parts.append(f"priors {self.prior_sigma_rot_deg:g}° and {self.prior_sigma_trans:g}")
        if self.correlated:
            parts.append(f"correlated ({self.correlated})")
        if self.gps:
            parts.append(
                f"{self.gps:g} fixes to {self.gps_sigma:g}" + (f", arm {self.lever_arm:g}" * (self.lever_arm > 0))
            )
        if self.landmarks:
            parts.append(f"{self.landmarks} landmarks seen {self.sightings} times")
        if self.misread:
            parts.append(f"control: {MISREADINGS[self.misread]}")
        return ", ".join(parts)


MISREADINGS = {
    "lifted": "the plane is taken for space",
    "dropped": "correlations are dropped, and the blocks of the information kept",
    "fixes": "the precision of fixes is read 4 times too large",
    "sightings": "the noise of sightings is halved",
}
"""Ways to read a graph wrongly, for negative controls."""
SMALL_DEG = 5.0
_PRIOR_MODE = quat.normalize([0.8, 0.2, -0.4, 0.4])

SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("dense-low", 8, 0.6, 2.0, 0.05),
        Setting("dense-high", 8, 0.6, 20.0, 0.3),
        Setting("sparse-low", 10, 0.2, 2.0, 0.05),
        Setting("sparse-high", 8, 0.25, 20.0, 0.3),
        Setting("sparse-40", 6, 0.35, 40.0, 0.5),
        Setting("anisotropic", 8, 0.5, 8.0, 0.1, anisotropy=4.0),
        Setting("rotation-only", 8, 0.5, 8.0, 0.1, rotation_only=0.6),
        Setting("priors", 8, 0.4, 10.0, 0.2, prior_sigma_rot_deg=50.0, prior_sigma_trans=1.0),
        Setting("planar", 8, 0.5, 5.0, 0.1, planar=True),
        Setting("planar-high", 8, 0.3, 30.0, 0.3, planar=True),
        Setting("planar-correlated", 8, 0.4, 5.0, 0.1, planar=True, correlated="random"),
        Setting("correlated", 8, 0.4, 4.0, 0.1, correlated="registration"),
        Setting("absolute", 8, 0.3, 4.0, 0.1, gps=5, gps_sigma=0.1, lever_arm=0.3),
        Setting("landmarks", 7, 0.3, 4.0, 0.1, landmarks=5, sightings=4),
        Setting("mixed", 7, 0.3, 4.0, 0.1, correlated="random", gps=4, lever_arm=0.2, landmarks=4, sightings=4),
    )
}
CONTROLS = {
    setting.name: setting
    for setting in (
        Setting("planar-lifted", 8, 0.5, 5.0, 0.1, planar=True, misread="lifted"),
        Setting("correlations-dropped", 8, 0.4, 4.0, 0.1, correlated="registration", misread="dropped"),
        Setting("fixes-misread", 8, 0.3, 4.0, 0.1, gps=5, gps_sigma=0.1, lever_arm=0.3, misread="fixes"),
        Setting("sightings-misread", 7, 0.3, 4.0, 0.1, landmarks=5, sightings=4, misread="sightings"),
    )
}
"""Settings that must fail."""


@dataclass(frozen=True, eq=False)
class Case:
    """One simulated experiment."""

    graph: PoseGraph
    truth: Poses
    priors: Priors


def draw_case(setting: Setting, rng: np.random.Generator) -> Case:
    """Truth and measurements from the joint distribution of the setting (see the module)."""
    if setting.is_wide:
        return _draw_wide(setting, rng)
    plan = simulate(
        setting.nodes,
        completeness=setting.completeness,
        sigma_rot_deg=0.0,
        sigma_trans=0.0,
        seed=int(rng.integers(1 << 62)),
    ).graph
    m = plan.n_edges
    concentration = _matrices(m, concentration_from_sigma(np.radians(setting.sigma_rot_deg)), setting.anisotropy, rng)
    precision = _matrices(m, setting.sigma_trans**-2, setting.anisotropy, rng)
    noise = _noise(concentration, precision, rng)
    graph = replace(plan, concentration=concentration, translation_precision=precision)
    tree = np.zeros(m, dtype=bool)
    if setting.has_priors:
        truth = _from_priors(setting.priors(), graph, rng)
    else:
        rooted = graph.spanning_tree(rng.random(m))
        tree[rooted.edge[rooted.edge >= 0]] = True
        # the plan's exact motions are taken as the tree's measurements; the truth is drawn given them
        back = quat.conjugate(noise[0])
        given = replace(
            graph, j_from_i_wxyz=quat.multiply(back, graph.j_from_i_wxyz), j_from_i_t=graph.j_from_i_t - noise[1]
        )
        truth = tree_poses(given, rooted)
    wxyz, t = _motions(graph, truth)
    wxyz, t = quat.multiply(noise[0], wxyz), t + noise[1]
    t[~tree & (rng.random(m) < setting.rotation_only)] = np.nan
    keep = tree[:, None]
    return Case(
        replace(
            graph,
            j_from_i_wxyz=quat.canonical(np.where(keep, graph.j_from_i_wxyz, wxyz)),
            j_from_i_t=np.where(keep, graph.j_from_i_t, t),
        ),
        truth,
        setting.priors(),
    )


def _draw_wide(setting: Setting, rng: np.random.Generator) -> Case:
    """The same for graphs in the plane, with correlated errors, fixes or landmarks."""
    plan = simulate(
        setting.nodes,
        completeness=setting.completeness,
        sigma_rot_deg=setting.sigma_rot_deg,
        sigma_trans=setting.sigma_trans,
        planar=setting.planar,
        correlated=setting.correlated or False,
        gps=setting.gps,
        gps_sigma=setting.gps_sigma,
        lever_arm=setting.lever_arm,
        landmarks=setting.landmarks,
        sightings=setting.sightings,
        seed=int(rng.integers(1 << 62)),
    ).graph
    noise = draw_noise(plan, rng)
    edges, placed = given_edges(plan, rng)
    truth = truth_given(plan, edges, placed, noise, rng)
    keep = np.zeros((plan.n_edges, 1), dtype=bool)
    keep[edges] = True
    measured = measured_with(plan, truth, noise)
    graph = replace(
        plan,
        j_from_i_wxyz=np.where(keep, plan.j_from_i_wxyz, measured.j_from_i_wxyz),
        j_from_i_t=np.where(keep, plan.j_from_i_t, measured.j_from_i_t),
    )
    return Case(misread(graph, setting.misread), truth.select(graph.reported), Priors())


def misread(graph: PoseGraph, how: str | None) -> PoseGraph:
    """The graph as it would be read wrongly: one of :data:`MISREADINGS`."""
    precision = graph.translation_precision
    if how == "lifted":
        return replace(graph, dimension=3)
    if how == "dropped" and graph.coupling is not None:
        B, P = graph.coupling, graph.translation_precision_matrices
        block = graph.concentration_matrices + 2.0 * np.swapaxes(B, 1, 2) @ P @ B
        return replace(graph, coupling=None, concentration=0.5 * (block + np.swapaxes(block, 1, 2)))
    if how in ("fixes", "sightings"):
        here = graph.is_absolute if how == "fixes" else graph.is_landmark[graph.edge_i]
        factor = np.where(here, 4.0, 1.0).reshape(-1, *(1,) * (precision.ndim - 1))
        return replace(graph, translation_precision=factor * precision)
    return graph


def _motions(graph: PoseGraph, poses: Poses) -> tuple[Array, Array]:
    """``j_from_i`` of every edge, (m, 4) and (m, 3)."""
    q, t = poses.node_from_world
    i, j = graph.edge_i, graph.edge_j
    return se3.compose((q[j], t[j]), se3.inverse((q[i], t[i])))


def _matrices(m: int, scalar: float | Array, anisotropy: float, rng: np.random.Generator) -> Array:
    """Precisions (m,), or (m, 3, 3) with σ spread by ``anisotropy`` about random axes, the same determinant."""
    if anisotropy == 1.0:
        return np.full(m, float(scalar))
    axes = quat.to_matrix(quat.random_uniform(rng, m))
    return np.asarray(float(scalar) * (axes * [anisotropy, 1.0, 1.0 / anisotropy]) @ np.swapaxes(axes, 1, 2))


def _noise(concentration: Array, precision: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rotations ε (m, 4) and translations η (m, 3) from the model's likelihood, in j's frame."""
    m = len(concentration)
    normal = rng.standard_normal((m, 3))
    if concentration.ndim == 1:
        same = Bingham.from_mode(quat.IDENTITY, float(concentration[0]))
        return same.sample(rng, m), normal / np.sqrt(precision)[:, None]
    turns = np.stack([Bingham.from_mode(quat.IDENTITY, c).sample(rng) for c in concentration])
    root = np.linalg.cholesky(precision)
    shifts = np.linalg.solve(np.swapaxes(root, 1, 2), normal[..., None])[..., 0]
    return turns, np.asarray(shifts, float)


def _from_priors(priors: Priors, graph: PoseGraph, rng: np.random.Generator) -> Poses:
    assert isinstance(priors.rotation, Bingham)
    n = graph.n_nodes
    mean, precision = priors.gaussian(n)
    wxyz = priors.rotation.sample(rng, n)
    t = mean + rng.standard_normal((n, 3)) / np.sqrt(precision[0, 0, 0])
    return Poses.from_node_from_world(graph.node_ids, wxyz, t)
