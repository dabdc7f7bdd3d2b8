"""Wrong measurements put into a graph, and a loop with two explanations whose odds are known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tempose._support import streams
from tempose._typing import Array, Index, Mask
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.bingham import concentration_from_sigma
from tempose.model.graph import PoseGraph
from tempose.model.order import known_order, steps_apart
from tempose.model.poses import Poses
from tempose.simulation.shapes import about_z

OUTLIER_DEG = (60.0, 80.0)  # the paper's outliers: how far they are turned,
OUTLIER_SHIFT = (0.0, 1.0)  # and shifted along each axis
KINDS = ("paper", "uniform", "scene")
EDGES = ("all", "loops", "odometry")
"""Which measurements can be made wrong; each has random numbers of its own."""


@dataclass(frozen=True, eq=False)
class Corrupted:
    """A graph with wrong measurements, which they are (m,), and of which look-alike place (m,), −1 for none."""

    graph: PoseGraph
    is_wrong: Mask
    alias: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # none, if not given

    def __post_init__(self) -> None:
        if not len(self.alias):
            object.__setattr__(self, "alias", np.full(self.graph.n_edges, -1))


def is_motion(graph: PoseGraph) -> Mask:
    """Which edges (m,) are motions between poses: not of landmarks, nor of single nodes."""
    return np.asarray(graph.has_rotation & ~graph.is_absolute)


def is_odometry(graph: PoseGraph) -> Mask:
    """Which edges (m,) are motions between poses of consecutive numbers."""
    known_order(graph)
    return np.asarray(steps_apart(graph) == 1)


def is_loop(graph: PoseGraph) -> Mask:
    """Which edges (m,) are motions between other ids: loop closures."""
    return is_motion(graph) & ~is_odometry(graph)


def corrupt(
    graph: PoseGraph,
    share: float,
    *,
    seed: int = 0,
    kind: str = "paper",
    edges: str = "all",
    poses: Poses | None = None,
) -> Corrupted:
    """Make a share of the measurements wrong.

    ``paper``, as in its appendix: each wrong ``j_from_i`` becomes ``wrong ∘ j_from_i``, where ``wrong`` turns by an angle
    uniform in :data:`OUTLIER_DEG` about an axis of uniform direction, and shifts by a vector whose three components are
    uniform in :data:`OUTLIER_SHIFT`. ``uniform``: it becomes any rotation, and a normal translation as long as the
    measured ones are; of a fix of a single node, one as far as others from their middle. ``scene``: it becomes any rotation,
    and a translation from one random place of the scene to another. In a planar graph wrong edges stay in the plane, and what
    an edge does not measure is not made up.

    The stated precisions stay: nobody is told which edges are wrong. With one seed, the wrong edges of a smaller share are
    among those of a larger one.

    Parameters
    ----------
    share
        Of the edges that ``edges`` names.
    edges
        ``all``; ``odometry``, the motions between consecutive ids; or ``loops``, all other motions between poses.
    poses
        Where the nodes are, for ``scene``.
    """
    if edges not in EDGES:
        raise OptionError(f"unknown edges {edges!r}: choose {', '.join(EDGES)}")
    among = {"loops": is_loop, "odometry": is_odometry}.get(edges, lambda one: np.ones(one.n_edges, dtype=bool))(graph)
    rng = streams.generator(seed, "corrupt", EDGES.index(edges))
    return corrupt_among(graph, share, among, rng, kind, poses)


def corrupt_among(
    graph: PoseGraph, share: float, among: Mask, rng: np.random.Generator, kind: str, poses: Poses | None = None
) -> Corrupted:
    """Make a share of the edges ``among`` (m,) wrong; see :func:`corrupt`."""
    if not 0.0 <= share <= 1.0:
        raise OptionError(f"the share of wrong edges must be in [0, 1], not {share}")
    if kind not in KINDS:
        raise OptionError(f"unknown kind of wrong edges {kind!r}: choose {', '.join(KINDS)}")
    m = graph.n_edges
    axis = rng.standard_normal((m, 3))
    if graph.is_planar:
        axis[:, :2] = 0.0
    angle = np.radians(rng.uniform(*OUTLIER_DEG, (m, 1)))
    turn = quat.exp(angle * axis / np.linalg.norm(axis, axis=1, keepdims=True))
    shift = rng.uniform(*OUTLIER_SHIFT, (m, 3))
    if graph.is_planar:
        shift[:, 2] = 0.0
    is_wrong = np.zeros(m, dtype=bool)
    rows = np.flatnonzero(among)
    is_wrong[rows[rng.permutation(len(rows))[: round(share * len(rows))]]] = True
    wxyz, t = se3.compose((turn, shift), (graph.j_from_i_wxyz, graph.j_from_i_t))
    if kind == "uniform":
        wxyz, t = _any_rotation(graph, rng), _any_translation(graph, rng)
    if kind == "scene":
        if poses is None:
            raise OptionError("wrong edges within the scene need its poses")
        wxyz, t = _any_rotation(graph, rng), _across(graph, poses, rng)
    turned = (is_wrong & (graph.ranks[0] > 0))[:, None]
    wxyz = np.where(turned, quat.canonical(wxyz), graph.j_from_i_wxyz)
    t = np.where(is_wrong[:, None], t, graph.j_from_i_t)
    return Corrupted(replace(graph, j_from_i_wxyz=wxyz, j_from_i_t=t), is_wrong)


def _across(graph: PoseGraph, poses: Poses, rng: np.random.Generator) -> Array:
    """Translations (m, 3) from a random node to another one, turned at will; NaN where an edge has none."""
    ends = poses.position[rng.integers(len(poses), size=(2, graph.n_edges))]
    t = quat.rotate(_any_rotation(graph, rng), ends[1] - ends[0])
    t[~graph.has_translation] = np.nan
    return np.asarray(t)


def _any_rotation(graph: PoseGraph, rng: np.random.Generator) -> Array:
    if graph.is_planar:
        return about_z(rng.uniform(-np.pi, np.pi, graph.n_edges))
    return quat.random_uniform(rng, graph.n_edges)


def _any_translation(graph: PoseGraph, rng: np.random.Generator) -> Array:
    """Normal translations (m, 3), as long as the measured ones; of single nodes, spread as theirs about their mean."""
    t = rng.standard_normal((graph.n_edges, 3))
    if graph.is_planar:
        t[:, 2] = 0.0
    for here in (graph.has_translation & ~graph.is_absolute, graph.has_translation & graph.is_absolute):
        if np.any(here):
            seen = graph.j_from_i_t[here]
            middle = seen.mean(axis=0) if graph.is_absolute[here][0] else np.zeros(3)
            t[here] = middle + np.sqrt(np.sum((seen - middle) ** 2) / (graph.dimension * len(seen))) * t[here]
    t[~graph.has_translation] = np.nan
    return t


def ambiguous_loop(
    nodes: int = 8, sigma_rot_deg: float = 15.0, closure_deg: float = 170.0, sigma_trans: float = 0.1
) -> PoseGraph:
    """A straight path whose last node, by one loop closure, faces another way than odometry says.

    Odometry goes straight ahead in unit steps; the closure measures the rotation from the last node to the first,
    ``closure_deg`` about the vertical axis, and no translation. All rotations have the same σ. There are two
    explanations, two minima of U: each of the n measurements errs by ``closure_deg/n``, or by ``(360° − closure_deg)/n`` the
    other way. Their odds are known: :func:`ambiguous_loop_odds`.
    """
    if nodes < 3:
        raise OptionError(f"an ambiguous loop needs at least 3 nodes, not {nodes}")
    if not 0.0 < closure_deg <= 180.0:
        raise OptionError(f"the closure must contradict odometry by an angle between 0 and 180°, not {closure_deg}")
    start = np.arange(nodes)
    wxyz, t = np.tile(quat.IDENTITY, (nodes, 1)), np.tile([-1.0, 0.0, 0.0], (nodes, 1))
    wxyz[-1], t[-1] = quat.exp([0.0, 0.0, np.radians(closure_deg)]), np.nan
    concentration = float(concentration_from_sigma(np.radians(sigma_rot_deg)))
    return PoseGraph(
        tuple(range(nodes)), start, (start + 1) % nodes, wxyz, t, np.full(nodes, concentration),
        np.full(nodes, sigma_trans**-2.0),
    )  # fmt: skip


def ambiguous_loop_odds(nodes: int = 8, sigma_rot_deg: float = 15.0, closure_deg: float = 170.0) -> float:
    r"""Exact posterior probability of the shorter way round an :func:`ambiguous_loop`.

    Translations chain the nodes up and say nothing about rotations, so the residuals :math:`r_k \in S^3`, each with
    :math:`w \ge 0`, are independent with density :math:`f(r) \propto e^{-\lambda(1 - w^2)}`, given that their product is +c (the
    shorter way) or −c (the longer), c the quaternion of the closure. f is a function of the angle alone, so the density of the
    product is the series of characters of SU(2), with :math:`w = \cos\psi`,

    .. math::  f^{*n}(\psi) = \sum_{m \ge 1} m \hat f_m^n \frac{\sin m\psi}{\sin\psi}, \qquad
               \hat f_m = \frac{1}{m} \int_0^{\pi/2} f(\psi) \sin(m\psi) \sin\psi \, d\psi .

    Its terms cancel; where nothing would be left of them, for small σ, it is refused.
    """
    concentration = float(concentration_from_sigma(np.radians(sigma_rot_deg)))
    node, weight = np.polynomial.legendre.leggauss(600)
    psi = 0.25 * np.pi * (node + 1.0)
    density = weight * np.exp(-concentration * np.sin(psi) ** 2) * np.sin(psi)
    m = np.arange(1, 400)
    transform = np.sin(np.outer(m, psi)) @ density / m
    transform /= transform[0]

    def at(angle: float) -> float:
        terms = m * transform**nodes * np.sin(m * angle) / np.sin(angle)
        if not np.sum(terms) > 1e-12 * np.sum(np.abs(terms)):
            raise NotApplicable(
                "these odds are beyond double precision: the noise is too small for such a contradiction"
            )
        return float(np.sum(terms))

    shorter, longer = at(0.5 * np.radians(closure_deg)), at(np.pi - 0.5 * np.radians(closure_deg))
    return shorter / (shorter + longer)
