"""Synthetic pose graphs with known truth: poses of some shape, measured; planar or not, with all that a graph may hold."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tempose._support import streams
from tempose._support.options import teaching
from tempose._typing import Array, Index, Mask, NodeId
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.bingham import Bingham, concentration_from_sigma
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.simulation import shapes
from tempose.simulation.lookalikes import ALIAS_NODES, Alias, draw_aliases, see_displaced
from tempose.simulation.measuring import Noise, draw_noise, measured_with
from tempose.simulation.wrong import EDGES, Corrupted, corrupt, corrupt_among, is_odometry

CORRELATIONS = {
    "random": "of random strength between all errors of an edge",
    "registration": "as of scans whose points lie to one side",
}


@dataclass(frozen=True)
class Simulated:
    """A noisy graph and the poses it was made from: of its poses and landmarks, not of the world.

    Attributes
    ----------
    is_wrong
        Which edges (m,) measure something else than the truth.
    alias
        Of which look-alike place each edge (m,) is, −1 for none.
    """

    graph: PoseGraph
    truth: Poses
    is_wrong: Mask = field(default_factory=lambda: np.zeros(0, dtype=bool))  # none, if not given
    alias: Index = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if not len(self.is_wrong):
            object.__setattr__(self, "is_wrong", np.zeros(self.graph.n_edges, dtype=bool))
        if not len(self.alias):
            object.__setattr__(self, "alias", np.full(self.graph.n_edges, -1))

    @property
    def right(self) -> PoseGraph:
        """The graph without its wrong edges."""
        return self.graph.with_edges(~self.is_wrong)


@teaching
def simulate(
    nodes: int = 50,
    *,
    shape: str = "random",
    completeness: float | None = None,
    loops_per_node: float | None = None,
    loop_reach: float | None = None,
    sigma_rot_deg: float = 3.0,
    sigma_trans: float = 0.05,
    planar: bool = False,
    correlated: str | bool = False,
    gps: float = 0,
    gps_sigma: float = 0.05,
    gps_up: float = 1.0,
    lever_arm: float = 0.0,
    attitudes: float = 0,
    attitude_sigma_deg: float = 1.0,
    landmarks: int = 0,
    sightings: int = 4,
    landmark_sigma: float | None = None,
    fixed: int = 0,
    wrong_edges: float = 0.0,
    wrong_loops: float = 0.0,
    wrong_odometry: float = 0.0,
    aliases: int = 0,
    alias_nodes: int = ALIAS_NODES,
    seed: int = 0,
) -> Simulated:
    """Draw poses, choose edges, measure them with noise from the model's own likelihood.

    Parameters
    ----------
    nodes
        Number of poses (grids round to the nearest full lattice).
    shape
        One of :data:`SHAPES`.
    completeness
        Share of possible edges that are measured: of all ordered pairs ``e = |E|/N²`` for ``random``, where each
        measured pair is one edge (both directions count in e), of the shape's loop closures otherwise; by default one half, in a
        Manhattan world :data:`shapes.LOOPS_PER_NODE` closures per node.
    loops_per_node, loop_reach
        In place of the completeness, how many loop closures there are per node; and how near to an earlier place the path comes
        where it closes a loop, in steps, for ``trajectory`` and ``manhattan``.
    sigma_rot_deg, sigma_trans
        Noise per axis: degrees of the rotation vector (λ = 2/σ², drawn from the Bingham distribution, in the plane from
        von Mises') and length.
    planar
        Whether all happens in the plane: three numbers a pose and an edge.
    correlated
        Whether the errors of an edge's rotation and translation are correlated: one of :data:`CORRELATIONS`, or ``True``
        for ``registration``. Their σ stay as stated.
    gps, gps_sigma, gps_up
        How many poses have a fix of their position, a number, or a share if below 1; its σ per axis; and how many times
        larger σ is upwards.
    lever_arm
        Distance of the antenna from the pose, in a direction of its own at each.
    attitudes, attitude_sigma_deg
        How many poses have their orientation measured, a number or a share, and σ per axis, degrees.
    landmarks, sightings, landmark_sigma
        How many points there are, how many poses see each (the nearest), and σ per axis of what they see (``sigma_trans``
        by default).
    fixed
        How many poses are held at the truth.
    wrong_edges
        Share of all measurements that become any rotation and translation (``corrupt``, ``uniform``).
    wrong_loops, wrong_odometry
        Share of the loop closures that become any rotation, and a translation from one random place of the scene to another;
        and share of the motions between consecutive nodes that become any rotation, and a translation as long as theirs.
    aliases, alias_nodes
        How many places look like others, and the nodes of each: wrong edges that agree with each other, beside the loop
        closures (:mod:`tempose.simulation.lookalikes`), for ``trajectory`` and ``manhattan``.
    seed
        Same seed, same graph.
    """
    if nodes < 2:
        raise OptionError(f"a graph needs at least 2 nodes, not {nodes}")
    if completeness is not None and not 0.0 < completeness <= 1.0:
        raise OptionError(f"completeness must be in (0, 1], not {completeness}")
    if not sigma_rot_deg >= 0.0 or not sigma_trans >= 0.0:
        raise OptionError("noise levels must not be negative")
    if aliases and (aliases < 0 or shape not in shapes.LOOP_REACH):
        raise OptionError(f"places look alike on a {' or a '.join(shapes.LOOP_REACH)}, and there are 0 or more of them")
    rng, sigma_rad = streams.generator(seed, "simulate"), np.radians(sigma_rot_deg)
    wxyz, position, pairs = shapes.make(
        shape, nodes, completeness, planar, rng, loops_per_node=loops_per_node, loop_reach=loop_reach
    )
    truth = Poses(tuple(range(len(position))), wxyz, position)
    found: list[Alias] = []
    if aliases:
        reach = loop_reach or shapes.LOOP_REACH[shape]
        chance = streams.generator(seed, "corrupt", 3)
        found = draw_aliases(truth, aliases, chance, planar=planar, reach=reach, nodes=alias_nodes, taken=pairs)
        pairs = np.concatenate([pairs, *(one.pairs for one in found)])
    if not correlated and not planar:
        graph = measure(truth, pairs, sigma_rad, sigma_trans, rng)
    else:
        kind = "registration" if correlated is True else correlated or None
        graph = _measure_widely(truth, pairs, (sigma_rad, sigma_trans), planar, kind, rng)
    more = _More(graph, truth, streams.generator(seed, "simulate", 1))
    more.see(landmarks, sightings, sigma_trans if landmark_sigma is None else landmark_sigma)
    more.locate(gps, gps_sigma, gps_up, lever_arm)
    more.orient(attitudes, np.radians(attitude_sigma_deg))
    more.hold(fixed)
    made = _spoilt(Simulated(more.graph, more.truth), found, len(pairs), wrong_loops, wrong_odometry, seed)
    if wrong_edges:
        bad = corrupt(made.graph, wrong_edges, seed=seed, kind="uniform")
        alias = np.where(bad.is_wrong, -1, made.alias)
        made = Simulated(bad.graph, made.truth, made.is_wrong | bad.is_wrong, alias)
    return made


def _spoilt(
    made: Simulated, aliases: list[Alias], n_motions: int, wrong_loops: float, wrong_odometry: float, seed: int
) -> Simulated:
    """With wrong loops and odometry, and look-alikes, whose edges are the last of the motions between poses."""
    graph, is_wrong, alias = made.graph, made.is_wrong, made.alias.copy()
    sizes = [len(one.pairs) for one in aliases]
    rows = np.arange(n_motions - sum(sizes), n_motions)
    alias[rows] = np.repeat(np.arange(len(aliases)), sizes)
    if aliases:
        wxyz, t = (np.array([getattr(one, name) for one in aliases])[alias[rows]] for name in ("wxyz", "t"))
        graph = see_displaced(graph, made.truth, rows, wxyz, t)
        is_wrong = is_wrong | (alias >= 0)
    odometry = is_odometry(graph)
    loops = ~odometry & (np.arange(graph.n_edges) < n_motions) & (alias < 0)
    for share, among, kind, name in (
        (wrong_loops, loops, "scene", "loops"),
        (wrong_odometry, odometry, "uniform", "odometry"),
    ):
        if share:
            rng = streams.generator(seed, "corrupt", EDGES.index(name))
            bad: Corrupted = corrupt_among(graph, share, among, rng, kind, made.truth)
            graph, is_wrong = bad.graph, is_wrong | bad.is_wrong
    return Simulated(graph, made.truth, is_wrong, alias)


def measure(truth: Poses, pairs: Index, sigma_rad: float, sigma_trans: float, rng: np.random.Generator) -> PoseGraph:
    """Measure the motions between ``pairs`` (m, 2) of rows ``(i, j)`` with Bingham and Gaussian noise.

    Noise of zero is measured exactly, and declared as one micro-radian and a millionth of the scene.
    """
    i, j = pairs[:, 0], pairs[:, 1]
    q, t = truth.node_from_world
    wxyz, translation = se3.compose((q[j], t[j]), se3.inverse((q[i], t[i])))
    if sigma_rad > 0.0:
        noise = Bingham.from_mode(quat.IDENTITY, float(concentration_from_sigma(sigma_rad)))
        wxyz = quat.multiply(noise.sample(rng, len(pairs)), wxyz)
    if sigma_trans > 0.0:
        translation = translation + sigma_trans * rng.standard_normal(translation.shape)
    concentration, precision = _declared(truth, len(pairs), sigma_rad, sigma_trans)
    return PoseGraph(truth.ids, i, j, quat.canonical(wxyz), translation, concentration, precision)


def _declared(truth: Poses, m: int, sigma_rad: float, sigma_trans: float) -> tuple[Array, Array]:
    """Concentrations and precisions (m,); of noise of zero, one micro-radian's and a millionth of the scene's."""
    size = float(np.sqrt(np.mean(np.var(truth.position, axis=0)))) or 1.0
    concentration = float(concentration_from_sigma(sigma_rad or 1e-6))
    return np.full(m, concentration), np.full(m, 1.0 / (sigma_trans or 1e-6 * size) ** 2)


# ---------------------------------------------------------------------- planar and correlated edges


def _measure_widely(
    truth: Poses, pairs: Index, sigmas: tuple[float, float], planar: bool, kind: str | None, rng: np.random.Generator
) -> PoseGraph:
    """The motions between pairs, in the plane or with correlated errors or both."""
    m = len(pairs)
    identity, nothing = np.tile(quat.IDENTITY, (m, 1)), np.zeros((m, 3))
    concentration, precision = _declared(truth, m, *sigmas)
    coupling = None
    if kind is not None:
        declared = np.sqrt(2.0 / concentration[0]), 1.0 / np.sqrt(precision[0])
        concentration, precision, coupling = _correlated(m, *declared, kind, planar, rng)
    graph = PoseGraph(
        truth.ids, pairs[:, 0], pairs[:, 1], identity, nothing, concentration, precision,
        dimension=2 if planar else 3, coupling=coupling,
    )  # fmt: skip
    noise = draw_noise(graph, rng)
    exact = Noise(identity if sigmas[0] == 0.0 else noise.turn, nothing if sigmas[1] == 0.0 else noise.shift)
    return measured_with(graph, truth, exact)


def _correlated(
    m: int, sigma_rad: float, sigma_trans: float, kind: str, planar: bool, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Concentrations, precisions and couplings of m edges whose σ are as given and whose errors are correlated."""
    if kind not in CORRELATIONS:
        raise OptionError(f"unknown kind of correlations {kind!r}: choose one of {', '.join(CORRELATIONS)}")
    # of the errors (rotation, translation) in j's frame; in the plane, of those about z and along x and y
    use = np.array([2, 3, 4]) if planar else np.arange(6)
    covariance = _random_covariances(m, len(use), rng) if kind == "random" else _registrations(m, planar, rng)
    deviation = np.sqrt(np.einsum("maa->ma", covariance))
    sigma = np.where(use < 3, sigma_rad, sigma_trans)
    scale = sigma / deviation
    covariance = scale[:, :, None] * covariance * scale[:, None, :]
    k = int(np.sum(use < 3))
    rotation, cross = np.linalg.inv(covariance[:, :k, :k]), covariance[:, k:, :k]
    slope = cross @ rotation  # what a translation's error is on average, given the rotation's
    left = np.linalg.inv(covariance[:, k:, k:] - slope @ np.swapaxes(cross, 1, 2))
    concentration, precision, coupling = np.zeros((m, 3, 3)), np.zeros((m, 3, 3)), np.zeros((m, 3, 3))
    turns, moves = use[:k], use[k:] - 3
    concentration[:, turns[:, None], turns] = rotation + np.swapaxes(rotation, 1, 2)
    precision[:, moves[:, None], moves] = 0.5 * (left + np.swapaxes(left, 1, 2))
    coupling[:, moves[:, None], turns] = -slope
    return concentration[:, 2, 2] if planar else concentration, precision, coupling


def _random_covariances(m: int, d: int, rng: np.random.Generator) -> Array:
    """Wishart matrices (m, d, d) of few enough degrees of freedom to be strongly correlated."""
    root = rng.standard_normal((m, d, d + 2))
    return np.asarray(root @ np.swapaxes(root, 1, 2))


_POINTS = 30  # of a scan


def _registrations(m: int, planar: bool, rng: np.random.Generator) -> Array:
    """Covariances (m, 6, 6), or (m, 3, 3), of aligning points 7 to 13 lengths away to one side, each equally certain."""
    low, high = np.array([7.0, -3.0, -3.0]), np.array([13.0, 3.0, 3.0])
    side = shapes.about_z(rng.uniform(-np.pi, np.pi, m)) if planar else quat.random_uniform(rng, m)
    points = quat.rotate(side[:, None], rng.uniform(low, high, (m, _POINTS, 3)))
    if planar:
        points[..., 2] = 0.0
    moved = np.concatenate([-se3.hat(points), np.broadcast_to(np.eye(3), (m, _POINTS, 3, 3))], axis=-1)
    information = np.einsum("mpka,mpkb->mab", moved, moved)
    if planar:
        information = information[:, [2, 3, 4]][:, :, [2, 3, 4]]
    return np.asarray(np.linalg.inv(information))


# ---------------------------------------------------------------------- landmarks, the world, fixed poses


class _More:
    """A graph that grows by edges of other kinds, each measured from the truth as it comes."""

    def __init__(self, graph: PoseGraph, truth: Poses, rng: np.random.Generator) -> None:
        self.graph, self.truth, self.rng = graph, truth, rng
        self.poses = len(truth)

    def see(self, count: int, sightings: int, sigma: float) -> None:
        """Landmarks near poses, seen from the nearest ones."""
        if count < 0 or (count and not 1 <= sightings <= self.poses):
            raise OptionError(f"a landmark is seen from 1 to {self.poses} poses, not {sightings}")
        if not count:
            return
        near = self.truth.position[self.rng.integers(self.poses, size=count)]
        at = near + self.rng.standard_normal((count, 3)) * _directions(self.graph)
        distance = np.linalg.norm(at[:, None] - self.truth.position[None], axis=2)
        seen_from = np.sort(np.argsort(distance, axis=1, kind="stable")[:, :sightings], axis=1)
        names = tuple(range(self.poses, self.poses + count))
        wxyz = np.concatenate([self.truth.wxyz, np.tile(quat.IDENTITY, (count, 1))])
        self.truth = Poses((*self.truth.ids, *names), wxyz, np.concatenate([self.truth.position, at]))
        self.graph = replace(self.graph, node_ids=self.truth.ids, landmarks=names)
        rows = np.repeat(np.arange(self.poses, self.poses + count), sightings)
        self._add(rows, seen_from.reshape(-1), np.zeros(len(rows)), self._isotropic(len(rows), sigma))

    def locate(self, count: float, sigma: float, up: float, lever_arm: float) -> None:
        """Fixes of positions, of an antenna perhaps."""
        rows = self._chosen(count)
        if not len(rows):
            return
        if not up > 0.0 or (self.graph.is_planar and up != 1.0):
            raise OptionError("gps_up is a positive factor of σ, and there is no up in the plane")
        precision = self._isotropic(len(rows), sigma)
        if up != 1.0:
            precision = precision[:, None, None] * np.diag([1.0, 1.0, up**-2.0])
        arm = self.rng.standard_normal((len(rows), 3)) * _directions(self.graph)
        arm *= lever_arm / np.linalg.norm(arm, axis=1, keepdims=True)
        self._to_world(rows, np.zeros(len(rows)), precision, arm)

    def orient(self, count: float, sigma_rad: float) -> None:
        """Measured orientations."""
        rows = self._chosen(count)
        if len(rows):
            concentration = np.full(len(rows), float(concentration_from_sigma(sigma_rad)))
            self._to_world(rows, concentration, np.zeros(len(rows)), None)

    def hold(self, count: int) -> None:
        """Poses that are held at the truth."""
        if not 0 <= count <= self.poses:
            raise OptionError(f"0 to {self.poses} poses can be fixed, not {count}")
        if count:
            names: list[NodeId] = [self.truth.ids[k] for k in np.sort(self.rng.permutation(self.poses)[:count])]
            self.graph = replace(self.graph, fixed=tuple(names), fixed_at=self.truth.select(names))

    def _chosen(self, count: float) -> Index:
        wanted = round(count * self.poses) if 0.0 < count < 1.0 else round(count)
        if not 0 <= wanted <= self.poses:
            raise OptionError(f"give a share below 1, or a number of poses up to {self.poses}, not {count:g}")
        return np.sort(self.rng.permutation(self.poses)[:wanted])

    def _isotropic(self, m: int, sigma: float) -> Array:
        if not sigma > 0.0:
            raise OptionError(f"the σ of fixes and sightings must be positive, not {sigma:g}")
        return np.full(m, sigma**-2.0)

    def _to_world(self, rows: Index, concentration: Array, precision: Array, arm: Array | None) -> None:
        if self.graph.world is None:
            self.graph = replace(self.graph, node_ids=(*self.graph.node_ids, WORLD))
        assert self.graph.world is not None
        self._add(rows, np.full(len(rows), self.graph.world), concentration, precision, arm)

    def _add(self, i: Index, j: Index, concentration: Array, precision: Array, arm: Array | None = None) -> None:
        """Edges from rows i to rows j, measured with fresh noise; without a translation where the precision is zero."""
        graph, m = self.graph, len(i)
        full = precision.ndim == 3 or graph.translation_precision.ndim == 3
        known = np.any(precision.reshape(m, -1) > 0.0, axis=1, keepdims=True)
        nothing = np.where(known, np.zeros((m, 3)), np.nan)
        new = replace(
            graph, edge_i=i, edge_j=j, j_from_i_wxyz=np.tile(quat.IDENTITY, (m, 1)), j_from_i_t=nothing,
            concentration=_alike(concentration, graph.concentration.ndim == 3, np.ones(3)),
            translation_precision=_alike(precision, full, _directions(graph)),
            coupling=None, arm=arm, inlier_prior=None,
        )  # fmt: skip
        new = measured_with(new, self.truth, draw_noise(new, self.rng))
        self.graph = _joined(graph, new, full)


def _directions(graph: PoseGraph) -> Array:
    """1 along x and y, and along z unless the graph is planar (3,)."""
    return np.array([1.0, 1.0, 0.0 if graph.is_planar else 1.0])


def _alike(value: Array, full: bool, axes: Array) -> Array:
    """Precisions (m,) or (m, 3, 3), as matrices along the given axes if the others are."""
    return value[:, None, None] * np.diag(axes) if full and value.ndim == 1 else value


def _joined(graph: PoseGraph, new: PoseGraph, full: bool) -> PoseGraph:
    """The edges of both."""
    axes = _directions(graph)

    def both(name: str) -> Array:
        return np.concatenate([getattr(graph, name), getattr(new, name)])

    def padded(name: str, width: tuple[int, ...]) -> Array | None:
        parts = [getattr(one, name) for one in (graph, new)]
        if all(part is None for part in parts):
            return None
        filled = (np.zeros((one.n_edges, *width)) for one in (graph, new))
        return np.concatenate([zero if part is None else part for part, zero in zip(parts, filled, strict=True)])

    return replace(
        graph,
        edge_i=np.concatenate([graph.edge_i, new.edge_i]),
        edge_j=np.concatenate([graph.edge_j, new.edge_j]),
        j_from_i_wxyz=both("j_from_i_wxyz"),
        j_from_i_t=both("j_from_i_t"),
        concentration=both("concentration"),
        translation_precision=np.concatenate([_alike(one.translation_precision, full, axes) for one in (graph, new)]),
        coupling=padded("coupling", (3, 3)),
        arm=padded("arm", (3,)),
    )
