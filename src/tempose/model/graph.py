"""The pose graph: named nodes, measured relative poses, and how sure each measurement is."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tempose._support.packages import require
from tempose._typing import Array, Index, Mask, NodeId
from tempose.errors import ArgumentError, GraphError
from tempose.geometry import se3
from tempose.model import measurements, precision, topology
from tempose.model.measurements import Measures
from tempose.model.poses import POSE_COLUMNS, Poses, first_repeated, html_table, plain_id, plain_ids
from tempose.model.topology import SpanningTree

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

WORLD = "world"
"""Name of the node that is the world itself."""


@dataclass(frozen=True, eq=False)
class PoseGraph:
    """Noisy relative poses between named nodes. Immutable; validated on construction.

    Edge ``k`` from node ``i = edge_i[k]`` to node ``j = edge_j[k]`` measures ``j_from_i``, the motion that takes
    coordinates in i's frame to coordinates in j's frame: ``M_ij ≈ M_j M_i⁻¹`` with ``M = node_from_world``. Several
    edges between the same nodes, in either direction, are kept as independent measurements.

    Parameters
    ----------
    node_ids
        Names of the nodes: integers (any 64-bit value) or strings, unique.
    edge_i, edge_j
        Rows in ``node_ids`` (m,) where each edge starts and ends.
    j_from_i_wxyz
        Measured relative rotations (m, 4), unit quaternions.
    j_from_i_t
        Measured relative translations (m, 3); a row of NaN means the edge carries a rotation only.
    concentration
        Bingham concentrations of the rotations, ``U = νᵀΛν`` with ``|ν| = sin(θ/2)``: a scalar λ for all edges, one per
        edge (m,), three per edge (m, 3), or full (m, 3, 3), axes of node j's frame. For small errors a standard
        deviation of σ radians is λ = 2/σ².
    translation_precision
        Gaussian precisions of the translations: a scalar 1/σ², one per edge (m,), or full (m, 3, 3) in j's frame.
        Ignored where an edge has no translation.
    initial
        Poses that came with the graph (odometry, an earlier solution): a possible start, never truth.
    fixed
        Ids of nodes that are held where they are, any number: see ``fixed_at``.
    notices
        What a reader had to say about the file, one line each.
    origin
        Where the graph came from and how it was read (file, meaning of its information blocks, …); copied into results.
    inlier_prior
        Prior probability (m,) that each edge is right, for robust likelihoods; NaN where the edge has none of its own,
        ``None`` if no edge has.
    dimension
        3, or 2 for a planar graph: every rotation is about z, every z is 0, and a node has three coordinates. Its
        concentrations are one number per edge, and its translation precisions (m, 3, 3) have no row for z.
    coupling
        How translations go with rotations where their errors are correlated: matrices B (m, 3, 3) in j's frame, with
        ``t_ij | q_ij ~ N(μ_ij − B s, P⁻¹)``, ``s = 2wν``; ``None`` if no edge has any. Of a joint information Ω (rotation
        first) ``B = Ω_tt⁻¹ Ω_tR``, ``Λ = 2(Ω_RR − Ω_Rt Ω_tt⁻¹ Ω_tR)`` and ``P = Ω_tt``.
    arm
        The point of node i that the translation is about, in i's frame (m, 3), an antenna for instance; ``None`` if all are
        zero, the nodes themselves. ``μ_ij = R_j (c_i + R_iᵀ arm − c_j)``.
    landmarks
        Ids of nodes that have a position and no orientation. Edges go from them, never to them, without a rotation.
    fixed_at
        Where the fixed nodes are held; by default where ``initial`` has them, else at the identity.
    world_origin
        What was subtracted from all coordinates of the world (3,), so that nothing is lost to rounding: user's coordinates
        are those of the graph plus this.
    measures
        How the source names edges: ``"b_from_a"`` if an edge (a, b) goes from i = a to j = b, as in the model and in CSV
        tables; ``"a_from_b"`` if it is the pose of b seen from a, as in g2o files, so that a = j and b = i. See :attr:`edge_names`.

    Notes
    -----
    A node named :data:`WORLD` is the world itself: always fixed, at the identity. What is known about single nodes (a GPS
    fix, an attitude, a prior) is an edge from the node to it, in the world's axes.
    """

    node_ids: tuple[NodeId, ...]
    edge_i: Index
    edge_j: Index
    j_from_i_wxyz: Array
    j_from_i_t: Array
    concentration: Array
    translation_precision: Array
    initial: Poses | None = None
    fixed: tuple[NodeId, ...] = ()
    notices: tuple[str, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict)
    inlier_prior: Array | None = None
    dimension: int = 3
    coupling: Array | None = None
    arm: Array | None = None
    landmarks: tuple[NodeId, ...] = ()
    fixed_at: Poses | None = None
    world_origin: Array = field(default_factory=lambda: np.zeros(3))
    measures: Measures = "b_from_a"

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        put("node_ids", plain_ids(self.node_ids))
        put("fixed", tuple(map(plain_id, self.fixed)))
        put("landmarks", tuple(map(plain_id, self.landmarks)))
        put("notices", tuple(self.notices))
        if len(self.index) != len(self.node_ids):
            raise GraphError(f"node {first_repeated(self.node_ids)!r} is declared twice; node ids must be unique")
        for name in () if set(map(type, self.node_ids)) <= {int, str} else self.node_ids:
            if not isinstance(name, int | str) or isinstance(name, bool):
                raise GraphError(f"node id {name!r} is a {type(name).__name__}; use an integer or a string")
        if WORLD in self.node_ids[:-1]:
            raise GraphError(f"the node {WORLD!r}, which is the world itself, must be the last one")
        for name in self.fixed:
            if name not in self.index:
                raise GraphError(f"fixed node {name!r} is not in the graph")
        for name in self.landmarks:
            if name not in self.index:
                raise GraphError(f"landmark {name!r} is not in the graph")
        measurements.oriented((), self.measures)  # refuses other words
        if self.dimension not in (2, 3):
            raise GraphError(f"a graph has dimension 3, or 2 if it is planar, not {self.dimension}")
        put("edge_i", np.array(self.edge_i, dtype=np.int64).reshape(-1))
        put("edge_j", np.array(self.edge_j, dtype=np.int64).reshape(-1))
        m = len(self.edge_i)
        if len(self.edge_j) != m:
            raise GraphError(f"edge_i has {m} entries and edge_j {len(self.edge_j)}; they must pair up")
        for name, width in (("j_from_i_wxyz", 4), ("j_from_i_t", 3)):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != (m, width):
                raise GraphError(f"{name} must have shape ({m}, {width}), one row per edge, not {value.shape}")
            put(name, value)
        put("concentration", _as_precision(self.concentration, m, (3,), "concentration"))
        put("translation_precision", _as_precision(self.translation_precision, m, (), "translation_precision"))
        if self.inlier_prior is not None:
            prior = np.array(self.inlier_prior, dtype=np.float64)
            if prior.shape != (m,):
                raise GraphError(f"inlier_prior must have shape ({m},), one number per edge, not {prior.shape}")
            put("inlier_prior", None if np.all(np.isnan(prior)) else prior)
        for name, shape in (("coupling", (m, 3, 3)), ("arm", (m, 3))):
            value = getattr(self, name)
            if value is not None:
                value = np.array(value, dtype=np.float64)
                if value.shape != shape:
                    raise GraphError(f"{name} must have shape {shape}, not {value.shape}")
                put(name, value if np.any(value) else None)
        put("world_origin", np.array(self.world_origin, dtype=np.float64).reshape(3))
        length = np.linalg.norm(self.j_from_i_wxyz, axis=1)
        self._check_edges(length)
        off = np.flatnonzero(np.abs(length - 1.0) > 1e-15)  # others stay as they are: files round-trip to the last bit
        self.j_from_i_wxyz[off] /= length[off, None]
        if self.initial is not None:
            given = self.initial if self.world is None else self.initial.with_identity(WORLD)
            put("initial", given.select(self.node_ids))
        put("fixed_at", self._fixed_poses())
        self._check_plane()
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # what follows from these is found again

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def _check_edges(self, length: Array) -> None:
        """Refuse edges that make no sense; ``length`` (m,) is that of their quaternions."""
        n = len(self.node_ids)
        ends = np.stack([self.edge_i, self.edge_j])
        self._refuse(np.any((ends < 0) | (ends >= n), axis=0), f"names a node outside 0…{n - 1}", by_row=True)
        self._refuse(self.edge_i == self.edge_j, "joins a node to itself; remove it, it says nothing about poses")
        finite = np.isfinite(self.j_from_i_wxyz)
        if not finite.all():
            self._refuse(~np.all(finite, axis=1), "has a rotation that is not finite")
        self._refuse(
            np.abs(length - 1.0) > 1e-3,
            "has a quaternion whose length is not 1 (within 0.001); check its order and normalise it",
        )
        given = np.isfinite(self.j_from_i_t)
        if not given.all():
            self._refuse(
                np.any(given, axis=1) & ~np.all(given, axis=1),
                "has a translation that is partly NaN or infinite; give three numbers, or three NaN for rotation only",
            )
            self._refuse(np.any(np.isinf(self.j_from_i_t), axis=1), "has an infinite translation")
        self._refuse(
            _not_psd(self.concentration), "has a rotation concentration that is not finite and positive semi-definite"
        )
        self._refuse(
            _not_psd(self.translation_precision) & self.has_translation,
            "has a translation precision that is not finite and positive semi-definite",
        )

        if self.inlier_prior is not None:
            known = ~np.isnan(self.inlier_prior)
            self._refuse(
                known & ~((self.inlier_prior > 0.0) & (self.inlier_prior <= 1.0)),
                "has a prior inlier probability that is not above 0 and at most 1",
            )

        landmark = self.is_landmark
        self._refuse(
            landmark[self.edge_j],
            "goes to a landmark, which has no axes to measure in; landmarks are where edges start",
        )
        self._refuse(
            landmark[self.edge_i] & (self.mean_concentration > 0.0),
            "has a rotation, and starts at a landmark, which has none; give it a concentration of zero",
        )
        if self.coupling is not None:
            tied = np.any(self.coupling, axis=(1, 2))
            self._refuse(~np.all(np.isfinite(self.coupling), axis=(1, 2)), "has a coupling that is not finite")
            self._refuse(tied & ~self.has_translation, "has a coupling of its translation, and no translation")
        if self.arm is not None:
            self._refuse(~np.all(np.isfinite(self.arm), axis=1), "has a lever arm that is not finite")
            self._refuse(np.any(self.arm, axis=1) & landmark[self.edge_i], "has a lever arm at a landmark")

    def _fixed_poses(self) -> Poses:
        """Where the fixed nodes are held, the world included."""
        names = [*self.fixed, *([WORLD] if self.world is not None and WORLD not in self.fixed else [])]
        at = Poses.identity(names)
        wxyz, position = at.wxyz.copy(), at.position.copy()
        unknown: dict[int, NodeId] = {}
        for row, name in enumerate(names):
            known = next(
                (poses for poses in (self.fixed_at, self.initial) if poses is not None and name in poses), None
            )
            if known is not None and name != WORLD:
                wxyz[row], position[row] = known.wxyz[known.row(name)], known.position[known.row(name)]
            elif len(names) > 1:  # at the identity, if it is alone in its component
                other = unknown.setdefault(int(self.component[self.index[name]]), name)
                if other != name:
                    raise GraphError(
                        f"nodes {other!r} and {name!r} are both fixed, and nothing says where: give their poses"
                    )
        return Poses(tuple(names), wxyz, position)

    def _check_plane(self) -> None:
        """Refuse what leaves the plane of a planar graph."""
        if not self.is_planar:
            return
        tilted = np.any(np.abs(self.j_from_i_wxyz[:, 1:3]) > 1e-9, axis=1)
        self._refuse(tilted, "turns about another axis than z, in a planar graph")
        self._refuse(np.nan_to_num(np.abs(self.j_from_i_t[:, 2])) > 0.0, "leaves the plane z = 0 of a planar graph")
        if self.concentration.ndim != 1:
            raise GraphError("a planar graph has one concentration per edge, for the rotation about z")
        if self.translation_precision.ndim == 3:
            P = self.translation_precision
            self._refuse(np.any(P[:, 2, :], axis=1), "has a precision out of the plane, in a planar graph")
        if self.coupling is not None:
            inside = np.zeros((3, 3), dtype=bool)
            inside[:2, 2] = True
            self._refuse(
                np.any(self.coupling[:, ~inside], axis=1), "has a coupling out of the plane, in a planar graph"
            )
        if self.arm is not None:
            self._refuse(self.arm[:, 2] != 0.0, "has a lever arm that leaves the plane, in a planar graph")
        if self.world_origin[2] != 0.0:
            raise GraphError("the origin of a planar graph has no height")
        for poses in (self.initial, self.fixed_at):
            if poses is not None and len(poses):
                out = np.abs(np.column_stack([poses.wxyz[:, 1:3], poses.position[:, 2]])).max(axis=1) > 1e-9
                if np.any(out):
                    raise GraphError(f"the pose of node {poses.ids[int(np.argmax(out))]!r} leaves the plane z = 0")

    def _refuse(self, bad: Mask, why: str, by_row: bool = False) -> None:
        if np.any(bad):
            k = int(np.flatnonzero(bad)[0])
            names = f"{self.edge_i[k]} → {self.edge_j[k]}" if by_row else "{!r} → {!r}".format(*self.edge_names([k])[0])
            raise GraphError(f"edge {k} ({names}) {why}")

    # ------------------------------------------------------------------ construction

    @classmethod
    def from_arrays(
        cls,
        edges: Sequence[tuple[NodeId, NodeId]] | Index,
        rotations: Rotation | ArrayLike | None = None,
        translations: ArrayLike | None = None,
        *,
        wxyz: ArrayLike | None = None,
        transforms: ArrayLike | None = None,
        angles: ArrayLike | None = None,
        sigma_rot_deg: ArrayLike | None = None,
        sigma_trans: ArrayLike | None = None,
        information: ArrayLike | None = None,
        measures: Measures = "a_from_b",
        **more: Any,
    ) -> PoseGraph:
        """Graph from pairs of ids ``(a, b)`` and the measured poses of each b seen from its a.

        All at once what :meth:`tempose.GraphBuilder.add_edge` takes one by one, in the same convention
        ``Z ≈ X_a⁻¹ X_b = a_from_b``. Nodes are numbered in order of first appearance.

        Parameters
        ----------
        edges
            Pairs of ids (m), or an array (m, 2) of integers.
        rotations
            A scipy ``Rotation`` of m rotations, or matrices (m, 3, 3).
        translations
            (m, 3); ``None``, or a row of NaN, for rotation only.
        wxyz, transforms
            In place of these: unit quaternions (m, 4), scalar first; matrices ``[R t; 0 1]`` (m, 4, 4).
        angles
            In place of all rotations, for a planar graph: (m,), radians; its ``translations`` are (m, 2).
        sigma_rot_deg, sigma_trans
            Standard deviations in degrees and length units: for all edges, for each (m,), or along the axes of b (m, 3).
        information
            In place of both: (m, 6, 6), rotation vector in radians first, correlations and all; of a planar graph (m, 3, 3),
            in the order θ, x, y.
        measures
            ``"b_from_a"`` if each is the pose of a seen from b.
        more
            ``initial``, ``fixed``, ``inlier_prior``, ``landmarks``, … as of the class.
        """
        named = [(plain_id(a), plain_id(b)) for a, b in edges]
        pairs = measurements.oriented(named, measures)
        planar = angles is not None
        if planar and (rotations is not None or wxyz is not None or transforms is not None):
            raise GraphError("give angles= for a planar graph, or rotations, not both")
        q, t = (
            measurements.planar_motions(named, angles, translations)
            if planar
            else measurements.motions(named, rotations, translations, wxyz, transforms)
        )
        known = ~np.all(np.isnan(t), axis=1)
        joint = measurements.informations(named, known, sigma_rot_deg, sigma_trans, information, planar)
        noise = precision.noise(joint, q, 2 if planar else 3)
        ids = dict.fromkeys(name for pair in named for name in pair if name != WORLD)
        ids.update(dict.fromkeys(name for pair in named for name in pair))  # the world comes last
        index = {name: row for row, name in enumerate(ids)}
        ends = np.array([(index[b], index[a]) for a, b in pairs], dtype=np.int64).reshape(-1, 2)
        more = {"dimension": 2 if planar else 3, "coupling": noise.coupling, "measures": measures, **more}
        return cls(tuple(ids), ends[:, 0], ends[:, 1], q, t, noise.concentration, noise.translation_precision, **more)

    @classmethod
    def from_concentrations(
        cls,
        edges: Sequence[tuple[NodeId, NodeId]] | Index,
        j_from_i_wxyz: ArrayLike,
        j_from_i_t: ArrayLike | None = None,
        *,
        concentration: ArrayLike,
        translation_precision: ArrayLike = 1.0,
        **more: Any,
    ) -> PoseGraph:
        """Graph in the model's own terms, from pairs of ids ``(i, j)`` and their measured ``j_from_i``.

        ``j_from_i_t=None`` makes every edge rotation-only. Nodes are numbered in order of first appearance, the world last.
        """
        names = dict.fromkeys(name for pair in edges for name in pair if name != WORLD)
        names.update(dict.fromkeys(name for pair in edges for name in pair))  # the world comes last
        ids = {name: row for row, name in enumerate(names)}
        rotations = np.asarray(j_from_i_wxyz, float).reshape(-1, 4)
        t = np.full((len(edges), 3), np.nan) if j_from_i_t is None else np.asarray(j_from_i_t, float).reshape(-1, 3)
        return cls(
            tuple(ids),
            np.array([ids[i] for i, _ in edges], dtype=np.int64),
            np.array([ids[j] for _, j in edges], dtype=np.int64),
            rotations,
            t,
            np.asarray(concentration, float),
            np.asarray(translation_precision, float),
            **more,
        )

    # ------------------------------------------------------------------ plain facts

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_ids)

    @property
    def n_edges(self) -> int:
        """Number of edges, duplicates counted."""
        return len(self.edge_i)

    @cached_property
    def index(self) -> dict[NodeId, int]:
        """Row of each node id."""
        return dict(zip(self.node_ids, range(len(self.node_ids)), strict=True))

    def row(self, node: NodeId) -> int:
        """Row of a node id; a clear error if there is none (integers and their decimal strings are kept apart)."""
        try:
            return self.index[node]
        except KeyError:
            raise GraphError(f"there is no node {node!r} in this graph of {self.n_nodes} nodes") from None

    @cached_property
    def has_translation(self) -> Mask:
        """Which edges (m,) carry a translation."""
        return ~np.isnan(self.j_from_i_t[:, 0])

    @property
    def is_isotropic(self) -> bool:
        """Whether every edge has one λ and one σ², the model of the paper; lever arms are allowed."""
        return self.concentration.ndim == 1 and self.translation_precision.ndim == 1 and self.coupling is None

    @cached_property
    def edge_ends(self) -> Index:
        """Rows (m, 2) of the nodes that each edge names, in the order of :meth:`edge_names`."""
        ends = np.stack([self.edge_i, self.edge_j], axis=1)
        backwards = ends[:, 0] == (-1 if self.world is None else self.world)
        if self.measures == "a_from_b":
            backwards = ends[:, 1] != (-1 if self.world is None else self.world)
        return np.where(backwards[:, None], ends[:, ::-1], ends)

    def edge_names(self, edges: Sequence[int] | Index | None = None) -> list[tuple[NodeId, NodeId]]:
        """The two ids of edges, by default of all, in the order in which the file, or whoever stated them, has them.

        What is known about a single node has its id first and :data:`WORLD` second. Everything that people read names edges so.
        """
        ends = self.edge_ends if edges is None else self.edge_ends[np.asarray(edges, dtype=np.int64)]
        return [(self.node_ids[a], self.node_ids[b]) for a, b in ends.tolist()]

    def edge_name(self, edge: int) -> str:
        """``12 → 57``, with the ids as in :meth:`edge_names`."""
        return "{} → {}".format(*self.edge_names([edge])[0])

    @property
    def is_planar(self) -> bool:
        """Whether all happens in the plane z = 0."""
        return self.dimension == 2

    @cached_property
    def axes(self) -> Index:
        """Which of a node's six coordinates (rotation vector, position) the graph is about: all, or ωz, x and y."""
        return np.array([2, 3, 4] if self.is_planar else [0, 1, 2, 3, 4, 5])

    @property
    def world(self) -> int | None:
        """Row of the node :data:`WORLD`, if something is known about single nodes."""
        return self.index.get(WORLD)

    @cached_property
    def is_fixed(self) -> Mask:
        """Which nodes (n,) are held, the world included."""
        return self._rows_of((*self.fixed, *([WORLD] if self.world is not None else [])))

    @cached_property
    def is_landmark(self) -> Mask:
        """Which nodes (n,) have a position and no orientation."""
        return self._rows_of(self.landmarks)

    def _rows_of(self, names: Sequence[NodeId]) -> Mask:
        out = np.zeros(self.n_nodes, dtype=bool)
        out[[self.index[name] for name in names]] = True
        return out

    @cached_property
    def free(self) -> Mask:
        """Which of the six coordinates of each node (n, 6) can change at all, whatever the gauge."""
        free = np.zeros((self.n_nodes, 6), dtype=bool)
        free[:, self.axes] = True
        free[self.is_landmark, :3] = False
        free[self.is_fixed] = False
        return free

    @cached_property
    def reported(self) -> tuple[NodeId, ...]:
        """Ids of the nodes that results are about: all but the world."""
        return tuple(name for name in self.node_ids if name != WORLD)

    @cached_property
    def is_relative(self) -> Mask:
        """Which edges (m,) are between two nodes; the others are about a single one, and join it to the world."""
        return ~self.is_absolute

    @cached_property
    def is_absolute(self) -> Mask:
        """Which edges (m,) are about a single node: one of their ends is the world."""
        if self.world is None:
            return np.zeros(self.n_edges, dtype=bool)
        return np.asarray((self.edge_i == self.world) | (self.edge_j == self.world))

    @cached_property
    def has_rotation(self) -> Mask:
        """Which edges (m,) measure a rotation, about all axes; of the others nothing may read the quaternion as one."""
        if self.concentration.ndim == 1:
            return self.concentration > 0.0
        values = self.concentration if self.concentration.ndim == 2 else np.linalg.eigvalsh(self.concentration)
        return np.asarray(values.min(axis=1, initial=np.inf) > 1e-12 * values.max(axis=1, initial=0.0))

    @cached_property
    def ranks(self) -> tuple[Array, Array]:
        """How many numbers the rotation and the translation of each edge measure (m,), (m,)."""
        return (
            _rank(self.concentration, 1 if self.is_planar else 3),
            _rank(self.translation_precision, self.dimension) * self.has_translation,
        )

    @cached_property
    def freedom(self) -> Array:
        """How many numbers each edge measures (m,): 6, or 3 in the plane, if it measures everything."""
        return self.ranks[0] + self.ranks[1]

    @cached_property
    def concentration_matrices(self) -> Array:
        """Rotation concentrations as full matrices (m, 3, 3), axes of node j's frame."""
        return _as_matrices(self.concentration)

    @cached_property
    def translation_precision_matrices(self) -> Array:
        """Translation precisions as full matrices (m, 3, 3) in j's frame; zero where there is no translation."""
        return _as_matrices(self.translation_precision) * self.has_translation[:, None, None]

    @cached_property
    def information(self) -> Array:
        """Joint information (m, 6, 6) of each edge, rotation vector in radians first, in j's frame; zero out of the plane."""
        joint = precision.joint(self.concentration_matrices, self.translation_precision_matrices, self.coupling)
        if self.is_planar:
            joint *= np.isin(np.arange(6), self.axes)[:, None] & np.isin(np.arange(6), self.axes)
        return joint

    @cached_property
    def degree(self) -> Index:
        """Number of edge ends at each node (n,)."""
        return np.bincount(np.concatenate([self.edge_i, self.edge_j]), minlength=self.n_nodes).astype(np.int64)

    def measured(self, source: Index, target: Index, edge: Index) -> tuple[Array, Array]:
        """Measured ``target_from_source`` along ``edge``, inverted where it was measured the other way round."""
        forward = (self.edge_i[edge] == source) & (self.edge_j[edge] == target)
        wxyz, t = self.j_from_i_wxyz[edge], np.nan_to_num(self.j_from_i_t[edge])
        back_wxyz, back_t = se3.inverse((wxyz, t))
        return np.where(forward[:, None], wxyz, back_wxyz), np.where(forward[:, None], t, back_t)

    # ------------------------------------------------------------------ for other programs and notebooks

    @cached_property
    def edge_sigmas(self) -> tuple[Array, Array]:
        """Standard deviation per axis (root mean square) of each edge's rotation (m,), degrees, and translation (m,).

        Infinite where an edge says nothing about an axis; NaN for the translation of a rotation-only edge.
        """
        turns, P = 0.5 * self.concentration_matrices, self.marginal_translation_precision
        if self.is_planar:
            turns, P = turns[:, 2:, 2:], P[:, :2, :2]
        return np.degrees(_mean_sigma(turns)), np.where(self.has_translation, _mean_sigma(P), np.nan)

    def to_pandas(self, of: Literal["edges", "nodes"] = "edges") -> Any:
        """A ``DataFrame`` of the edges, or of the nodes.

        Edges: ``a b``, the pose of b seen from a (``x y z qw qx qy qz``, the convention of :meth:`from_arrays`),
        ``sigma_rot_deg sigma_trans``. Nodes: ``component degree fixed``, and the initial pose if there is one.
        """
        pandas = require("pandas", "tables of graphs")
        if of == "nodes":
            n, names = len(self.reported), self.reported
            columns = {"component": self.component[:n], "degree": self.degree[:n], "fixed": self.is_fixed[:n]}
            table = pandas.DataFrame(columns, index=pandas.Index(list(names), name="id"))
            if self.initial is None:
                return table
            return table.join(self.initial.select(names).shifted(self.world_origin).to_pandas())
        measured = dict(zip(POSE_COLUMNS, np.column_stack([self.j_from_i_t, self.j_from_i_wxyz]).T, strict=True))
        sigma_rot_deg, sigma_trans = self.edge_sigmas
        a, b = ([self.node_ids[k] for k in ends] for ends in (self.edge_j, self.edge_i))
        return pandas.DataFrame(
            {"a": a, "b": b, **measured, "sigma_rot_deg": sigma_rot_deg, "sigma_trans": sigma_trans}
        )

    def to_networkx(self) -> Any:
        """A networkx ``MultiDiGraph``: an edge a → b for each measurement of the pose of b seen from a.

        Edges are keyed by their number and carry ``wxyz``, ``translation`` (``None`` if it has none), ``sigma_rot_deg`` and
        ``sigma_trans``; nodes carry ``fixed``, and ``pose`` (world_from_node) if the graph came with poses.
        """
        networkx = require("networkx", "networkx graphs")
        out = networkx.MultiDiGraph()
        placed = None if self.initial is None else self.initial.shifted(self.world_origin)
        for name in self.node_ids:
            pose = {} if placed is None else {"pose": placed[name]}
            out.add_node(name, fixed=bool(self.is_fixed[self.index[name]]), **pose)
        sigma_rot_deg, sigma_trans = self.edge_sigmas
        for k, (i, j) in enumerate(zip(self.edge_i, self.edge_j, strict=True)):
            out.add_edge(
                self.node_ids[j],
                self.node_ids[i],
                key=k,
                wxyz=self.j_from_i_wxyz[k],
                translation=self.j_from_i_t[k] if self.has_translation[k] else None,
                sigma_rot_deg=float(sigma_rot_deg[k]),
                sigma_trans=float(sigma_trans[k]),
            )
        return out

    def __repr__(self) -> str:
        return f"PoseGraph({', '.join(f'{count} {what}' for what, count in self._counts())})"

    def _repr_html_(self) -> str:
        sigma_rot, sigma_trans = self.median_sigmas
        counts = [*self._counts(), ("median σ, rotation", f"{np.degrees(sigma_rot):.3g}°")]
        if np.any(self.has_translation):
            counts.append(("median σ, translation", f"{sigma_trans:.3g}"))
        return html_table(("PoseGraph", ""), counts, len(counts), self.origin.get("file", ""))

    def _counts(self) -> list[tuple[str, object]]:
        rotation_only = int(np.sum(~self.has_translation))
        counts: list[tuple[str, object]] = [("nodes", len(self.reported)), ("edges", self.n_edges)]
        counts += [("rotation-only", rotation_only)] if rotation_only else []
        return [*counts, ("component" if self.n_components == 1 else "components", self.n_components)]

    # ------------------------------------------------------------------ structure

    @cached_property
    def component(self) -> Index:
        """Component number of each node (n,), numbered by their first node."""
        return topology.components(self.n_nodes, self.edge_i, self.edge_j)

    @cached_property
    def position_component(self) -> Index:
        """Component of each node (n,) when only edges with a translation count: positions are tied within these."""
        tied = self.has_translation
        return topology.components(self.n_nodes, self.edge_i[tied], self.edge_j[tied])

    @property
    def n_components(self) -> int:
        """Number of connected components; an isolated node is one."""
        return int(self.component.max()) + 1 if self.n_nodes else 0

    @cached_property
    def anchors(self) -> Index:
        """Row of the gauge node of each component: the world, its first ``fixed`` node, else its first pose."""
        rows = [] if self.world is None else [self.world]
        rows += [self.index[name] for name in self.fixed]
        rows += np.argsort(self.is_landmark, kind="stable").tolist()
        first = np.array(rows, dtype=np.int64)
        return first[np.unique(self.component[first], return_index=True)[1]]

    @cached_property
    def isolated(self) -> tuple[NodeId, ...]:
        """Nodes without any edge: nothing is known about them."""
        return tuple(self.node_ids[k] for k in np.flatnonzero(self.degree == 0))

    @cached_property
    def bridges(self) -> Index:
        """Edges (k,) whose removal splits a component; parallel edges are never bridges."""
        return topology.bridges(self.n_nodes, self.edge_i, self.edge_j)

    def subgraph(self, nodes: ArrayLike) -> PoseGraph:
        """Graph on the rows ``nodes``, with the edges that have both ends among them."""
        rows = np.asarray(nodes, dtype=np.int64)
        new_row = np.full(self.n_nodes, -1, dtype=np.int64)
        new_row[rows] = np.arange(len(rows))
        keep = (new_row[self.edge_i] >= 0) & (new_row[self.edge_j] >= 0)
        ids = tuple(self.node_ids[k] for k in rows)
        part = self.with_edges(keep)
        kept = set(ids)
        return replace(
            part,
            node_ids=ids,
            edge_i=new_row[part.edge_i],
            edge_j=new_row[part.edge_j],
            initial=None if self.initial is None else self.initial.select(ids),
            fixed=tuple(name for name in self.fixed if name in kept),
            landmarks=tuple(name for name in self.landmarks if name in kept),
        )

    def with_edges(self, keep: Mask | Index) -> PoseGraph:
        """The same nodes with only the edges where ``keep`` (m,) is true, or those of the rows ``keep``."""
        return replace(
            self,
            edge_i=self.edge_i[keep],
            edge_j=self.edge_j[keep],
            j_from_i_wxyz=self.j_from_i_wxyz[keep],
            j_from_i_t=self.j_from_i_t[keep],
            concentration=self.concentration[keep],
            translation_precision=self.translation_precision[keep],
            inlier_prior=None if self.inlier_prior is None else self.inlier_prior[keep],
            coupling=None if self.coupling is None else self.coupling[keep],
            arm=None if self.arm is None else self.arm[keep],
        )

    def scaled_noise(self, factor: ArrayLike) -> PoseGraph:
        """The same measurements with every stated σ times ``factor``: one number, or one per edge (m,)."""
        scale = np.broadcast_to(np.asarray(factor, dtype=np.float64), self.n_edges)
        if not np.all(np.isfinite(scale) & (scale > 0.0)):
            raise ArgumentError("factors of σ must be positive and finite")
        weight = 1.0 / scale**2
        return replace(
            self,
            concentration=self.concentration * weight.reshape(-1, *(1,) * (self.concentration.ndim - 1)),
            translation_precision=self.translation_precision
            * weight.reshape(-1, *(1,) * (self.translation_precision.ndim - 1)),
        )

    def components(self) -> list[PoseGraph]:
        """One graph per connected component."""
        return [self.subgraph(np.flatnonzero(self.component == c)) for c in range(self.n_components)]

    def spanning_tree(self, weights: ArrayLike | None = None) -> SpanningTree:
        """Maximum-weight spanning forest, rooted at the anchors.

        Parameters
        ----------
        weights
            Larger is better (m,); by default the mean rotation concentration of each edge. Among parallel edges the
            best is used.
        """
        w = self.mean_concentration if weights is None else np.asarray(weights, float)
        return topology.spanning_forest(self.n_nodes, self.edge_i, self.edge_j, w, self.anchors)

    @cached_property
    def mean_concentration(self) -> Array:
        """One number per edge (m,): the mean of its three rotation concentrations."""
        c = self.concentration
        return c if c.ndim == 1 else c.mean(1) if c.ndim == 2 else np.asarray(np.trace(c, axis1=1, axis2=2) / 3.0)

    @cached_property
    def median_sigmas(self) -> tuple[float, float]:
        """Median standard deviation per axis of measured rotations (radians) and translations; NaN if there are none.

        Of the motions between poses, if any are measured; what is known about single nodes and landmarks is apart.
        """
        (turns, moves), P = self.ranks, self.marginal_translation_precision
        usual = ~self.is_absolute & ~self.is_landmark[self.edge_i]
        usual |= not np.any(usual)
        turning, moving = usual & (turns > 0), usual & (moves > 0)
        axes = 1.0 if self.concentration.ndim == 1 else 3.0 / turns[turning]
        rotation = np.sqrt(2.0 / (self.mean_concentration[turning] * axes))
        d = self.dimension
        translation = 1.0 / np.sqrt(np.einsum("maa->m", P[moving, :d, :d]) / moves[moving])
        first, second = (float(np.median(x)) if len(x) else np.nan for x in (rotation, translation))
        return first, second

    @cached_property
    def marginal_translation_precision(self) -> Array:
        """Precisions (m, 3, 3) of the translations whatever the rotations are: the inverse of ``P⁻¹ + B Σ_R Bᵀ``."""
        P = self.translation_precision_matrices
        if self.coupling is None:
            return P
        spread = self.coupling @ np.linalg.pinv(0.5 * self.concentration_matrices, hermitian=True)
        spread = spread @ np.swapaxes(self.coupling, 1, 2)
        return np.asarray(np.linalg.solve(np.eye(3) + P @ spread, P))


def _rank(precision: Array, most: int) -> Array:
    """Along how many of ``most`` axes a precision (m,), (m, 3) or (m, 3, 3) says something (m,)."""
    if precision.ndim == 1:
        return np.where(precision > 0.0, float(most), 0.0)
    values = precision if precision.ndim == 2 else np.linalg.eigvalsh(precision)
    known = np.sum(values > 1e-12 * values.max(axis=1, initial=0.0, keepdims=True), axis=1)
    return np.asarray(np.minimum(known, most), dtype=np.float64)


def _as_precision(value: ArrayLike, m: int, vector: tuple[int, ...], name: str) -> Array:
    """Precisions of m edges as (m,), (m, 3) or (m, 3, 3); a matrix that is diagonal everywhere stays a matrix."""
    value = np.array(value, dtype=np.float64)
    if value.ndim == 0:
        value = np.full(m, float(value))
    allowed = [(m,), (m, 3, 3), *((m, k) for k in vector)]
    if value.shape not in allowed:
        raise GraphError(f"{name} has shape {value.shape}; expected a scalar or one of {', '.join(map(str, allowed))}")
    return value


def _mean_sigma(blocks: Array) -> Array:
    """Root mean square over the axes of the σ of precisions (m, d, d); infinite where one says nothing about an axis."""
    values = np.linalg.eigvalsh(0.5 * (blocks + np.swapaxes(blocks, 1, 2)))
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(np.mean(1.0 / np.maximum(values, 0.0), axis=1)))


def _as_matrices(value: Array) -> Array:
    if value.ndim == 3:
        return value
    diagonal = value if value.ndim == 2 else np.repeat(value[:, None], 3, axis=1)
    return diagonal[:, :, None] * np.eye(3)


def _not_psd(value: Array) -> Mask:
    """Which of (m,), (m, 3) or (m, 3, 3) precisions are not finite and positive semi-definite."""
    if value.ndim == 3:
        return precision.by_chunks(_are_not_psd, value)
    flat = value.reshape(len(value), int(np.prod(value.shape[1:])))
    if np.all(np.isfinite(flat)) and np.all(flat >= 0.0):
        return np.zeros(len(value), dtype=bool)
    return np.asarray(~np.all(np.isfinite(flat), axis=1) | np.any(flat < 0.0, axis=1))


def _are_not_psd(value: Array) -> Mask:
    finite = np.all(np.isfinite(value), axis=(1, 2))
    safe = np.where(finite[:, None, None], value, 0.0)
    scale = np.max(np.abs(safe), axis=(1, 2), initial=0.0)
    asymmetric = np.max(np.abs(safe - np.swapaxes(safe, 1, 2)), axis=(1, 2), initial=0.0) > 1e-9 * scale
    rounding = np.where(scale > 0.0, 0.5e-9 * scale, 1.0)
    if precision.have_roots(safe + rounding[:, None, None] * np.eye(3)):
        return np.asarray(~finite | asymmetric)
    return np.asarray(~finite | asymmetric | (np.linalg.eigvalsh(safe)[:, 0] < -1e-9 * scale))
