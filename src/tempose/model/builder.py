"""A graph built edge by edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array, NodeId
from tempose.errors import GraphError
from tempose.geometry import quaternion as quat
from tempose.model import absolute, measurements, precision
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.measurements import Measures
from tempose.model.pose import Pose
from tempose.model.poses import Poses, plain_id

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation


@dataclass(frozen=True)
class _Edge:
    """A measurement of b seen from a: its joint information (6, 6) is about axes that ``turn`` takes to those of a."""

    a: NodeId
    b: NodeId
    wxyz: Array
    t: Array
    information: Array
    turn: Array
    arm: Array
    inlier_prior: float
    says: str
    """What it is, for messages."""


class GraphBuilder:
    """Collects nodes and edges one by one; :meth:`build` gives the :class:`PoseGraph`.

    A ``PoseGraph`` never changes once it is made, so that a posterior, draws and files made from it stay true; this is
    where it grows. Every edge is checked when it is added, in the line of the program that added it.

    Examples
    --------
    >>> graph = GraphBuilder()
    >>> graph.add_edge("a", "b", rotation=Rotation.from_euler("z", 90, degrees=True), translation=[1, 0, 0],
    ...                sigma_rot_deg=2.0, sigma_trans=0.05)
    >>> graph.add_position("b", [691002.1, 5335010.4, 519.8], sigma=[0.02, 0.02, 0.05])
    >>> solution = tempose.solve(graph.build())

    Parameters
    ----------
    planar
        Whether all happens in the plane: rotations are angles in radians (``angle=``), translations and positions two
        numbers, a pose ``x, y, θ``, and a joint information 3×3 in the order θ, x, y.
    """

    def __init__(self, planar: bool = False) -> None:
        self.planar = planar
        self._rows: dict[NodeId, int] = {}
        self._poses: dict[NodeId, Pose] = {}
        self._fixed: list[NodeId] = []
        self._landmarks: list[NodeId] = []
        self._edges: list[_Edge] = []
        self._measures: Measures | None = None  # how the edges between poses are named, by the first of them

    def add_node(self, node: NodeId, pose: Pose | ArrayLike | None = None, *, fixed: bool = False) -> GraphBuilder:
        """Name a node; only needed for what edges do not say.

        Parameters
        ----------
        node
            Its id, an integer or a string.
        pose
            ``world_from_node``, a :class:`Pose` or a 4×4 matrix, in the plane ``x, y, θ``: where to start from, never truth.
            Used if every node has one.
        fixed
            Whether it is held there (GTSAM's prior factor on the first pose; here it is exact and costs nothing). Any number
            of nodes may be. One that is alone may do without a pose: it is then the origin.
        """
        node = self._named(_not_the_world(node))
        if pose is not None:
            self._poses[node] = self._pose(node, pose)
        return self._fix(node, fixed)

    def add_landmark(self, node: NodeId, position: ArrayLike | None = None, *, fixed: bool = False) -> GraphBuilder:
        """Name a landmark, a node with a position and no orientation; only needed for what :meth:`add_sighting` does not say.

        ``position`` (3,), in the plane (2,), is where to start from, or where it is held if ``fixed``: a control point.
        """
        node = self._landmark(node)
        if position is not None:
            self._poses[node] = Pose(quat.IDENTITY, self._point(f"landmark {node!r}", position))
        return self._fix(node, fixed)

    def add_edge(
        self,
        a: NodeId,
        b: NodeId,
        *,
        rotation: Rotation | ArrayLike | None = None,
        translation: ArrayLike | None = None,
        wxyz: ArrayLike | None = None,
        transform: Pose | ArrayLike | None = None,
        angle: float | None = None,
        sigma_rot_deg: ArrayLike | None = None,
        sigma_trans: ArrayLike | None = None,
        information: ArrayLike | None = None,
        inlier_prior: float | None = None,
        measures: Measures = "a_from_b",
    ) -> GraphBuilder:
        """Add a measurement of the pose of ``b`` seen from ``a``.

        It is ``Z ≈ X_a⁻¹ X_b = a_from_b`` with ``X = world_from_node``: ``rotation`` turns b's axes into a's, and
        ``translation`` is where b is, in a's frame. That is g2o's ``EDGE_SE3:QUAT a b …`` and GTSAM's
        ``BetweenFactor(a, b, Z)``. Nodes that are new are added.

        Parameters
        ----------
        a, b
            Ids of the nodes, integers or strings.
        rotation
            A scipy ``Rotation`` or a 3×3 matrix.
        translation
            (3,), in the unit of all lengths; ``None`` for an edge that measures a rotation only.
        wxyz
            The rotation as a unit quaternion (4,), scalar first, in place of ``rotation``.
        transform
            Rotation and translation in one: a :class:`Pose` or a 4×4 matrix ``[R t; 0 1]``.
        angle
            In place of all rotations, for a planar graph: radians.
        sigma_rot_deg, sigma_trans
            One standard deviation per axis, in degrees and in the unit of lengths: one number, or three (3,) along the
            axes of b. The latter is not needed without a translation.
        information
            In place of both: the inverse covariance (6, 6) of the error ``Z⁻¹ X_a⁻¹ X_b``, axes of b, **rotation vector
            (radians) first, then translation**, as in GTSAM (g2o has the translation first), with what ties the two. In the
            plane (3, 3), **θ first, then x and y** (GTSAM's ``Pose2`` and g2o have θ last).
        inlier_prior
            Prior probability that this edge is right, for robust likelihoods.
        measures
            ``"b_from_a"`` if what is given is the pose of a seen from b; the same as swapping a and b.
        """
        a, b = _not_the_world(a), _not_the_world(b)
        named = [(a, b)]
        pairs = measurements.oriented(named, measures)
        if a == b:
            raise GraphError(f"edge {a!r} → {b!r} joins a node to itself; leave it out, it says nothing about poses")
        what = measurements.name_of(named, 0)
        for name in (a, b):
            if name in self._landmarks:
                raise GraphError(f"{what}: {name!r} is a landmark, which has no orientation; use add_sighting")
        q, t = self._motion(named, rotation, translation, wxyz, transform, angle)
        known = np.all(np.isfinite(t), axis=1)
        if not known[0] and (translation is not None or transform is not None):
            raise GraphError(f"{what} has a translation that is not finite; leave it out")
        joint = measurements.informations(
            named, known, _one(sigma_rot_deg), _one(sigma_trans), _one(information), self.planar
        )
        prior = _probability(what, inlier_prior)
        for name in (a, b):
            self._named(name)
        self._measures = measures if self._measures in (None, measures) else "a_from_b"
        self._edges.append(_Edge(*pairs[0], q[0], t[0], joint[0], q[0], np.zeros(3), prior, what))
        return self

    def add_sighting(
        self,
        node: NodeId,
        landmark: NodeId,
        position: ArrayLike,
        *,
        sigma: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        information: ArrayLike | None = None,
        inlier_prior: float | None = None,
    ) -> GraphBuilder:
        """Add a measurement of where ``landmark`` is, in the frame of ``node``: g2o's ``EDGE_SE3_TRACKXYZ``, ``EDGE_SE2_XY``.

        Parameters
        ----------
        node, landmark
            Ids; those that are new are added.
        position
            (3,), in the plane (2,). A direction or a distance alone is not in the model.
        sigma, covariance, information
            How sure it is, one of the three, in the axes of ``node``: one σ, or one per axis, infinite along an axis that was
            not measured; or a matrix (3, 3), in the plane (2, 2).
        inlier_prior
            Prior probability that it is right, for robust likelihoods.
        """
        node = _not_the_world(node)
        what = f"the sighting of {landmark!r} from {node!r}"
        if node in self._landmarks or node == landmark:
            raise GraphError(f"{what}: it must be seen from a node that has an orientation")
        t, joint = self._point(what, position), np.zeros((6, 6))
        joint[3:, 3:] = measurements.position_informations(what, self._d, sigma, covariance, information)
        prior = _probability(what, inlier_prior)
        landmark = self._landmark(landmark)
        self._named(node)
        still = quat.IDENTITY
        self._edges.append(_Edge(node, landmark, still, t, joint, still, np.zeros(3), prior, what))
        return self

    # ------------------------------------------------------------------ what is known about single nodes

    def add_position(
        self,
        node: NodeId,
        position: ArrayLike,
        *,
        sigma: ArrayLike | None = None,
        covariance: ArrayLike | None = None,
        information: ArrayLike | None = None,
        lever_arm: ArrayLike | None = None,
        inlier_prior: float | None = None,
    ) -> GraphBuilder:
        """Add a measured position of a node or a landmark in the world: a GPS fix, a control point.

        Parameters
        ----------
        node
            Its id. It must occur elsewhere: in an edge, or in :meth:`add_node`.
        position
            (3,), in the plane (2,), in any coordinates, also of maps (UTM, ECEF): an origin is subtracted and kept.
        sigma, covariance, information
            How sure it is, one of the three, in the world's axes: as of :meth:`add_sighting`.
        lever_arm
            Where the antenna is in the frame of the node (3,), in the plane (2,); by default in its origin.
        inlier_prior
            Prior probability that it is right, for robust likelihoods.
        """
        node = _not_the_world(node)
        what = f"the position of node {node!r}"
        t, joint = self._point(what, position), np.zeros((6, 6))
        joint[3:, 3:] = measurements.position_informations(what, self._d, sigma, covariance, information)
        return self._known(node, what, quat.IDENTITY, t, joint, quat.IDENTITY, lever_arm, inlier_prior)

    def add_attitude(
        self,
        node: NodeId,
        *,
        rotation: Rotation | ArrayLike | None = None,
        wxyz: ArrayLike | None = None,
        angle: float | None = None,
        sigma_rot_deg: ArrayLike | None = None,
        information: ArrayLike | None = None,
        inlier_prior: float | None = None,
    ) -> GraphBuilder:
        """Add a measured orientation ``world_from_node`` of a node.

        ``rotation``, ``wxyz``, in the plane ``angle`` (radians), and ``sigma_rot_deg`` as of :meth:`add_edge`, along the axes
        of the node; or ``information`` (3, 3) of the rotation vector in radians, in these axes.
        """
        node = _not_the_world(node)
        what = f"the attitude of node {node!r}"
        pairs = [(WORLD, node)]
        q, _ = self._motion(pairs, rotation, None, wxyz, None, angle)
        if information is not None and not self.planar:
            given = np.asarray(information, float)
            if given.shape != (3, 3):
                raise GraphError(f"{what}: information is 3×3, of the rotation vector in radians")
            information = np.block([[given, np.zeros((3, 3))], [np.zeros((3, 6))]])
        nothing = np.zeros(1, dtype=bool)
        joint = measurements.informations(pairs, nothing, _one(sigma_rot_deg), None, _one(information), self.planar)
        return self._known(node, what, q[0], np.full(3, np.nan), joint[0], q[0], None, inlier_prior)

    def add_pose_prior(
        self,
        node: NodeId,
        pose: Pose | ArrayLike,
        *,
        sigma_rot_deg: ArrayLike | None = None,
        sigma_trans: ArrayLike | None = None,
        information: ArrayLike | None = None,
        lever_arm: ArrayLike | None = None,
        inlier_prior: float | None = None,
    ) -> GraphBuilder:
        """Add a measured pose ``world_from_node`` of a node: GTSAM's ``PriorFactor``, g2o's ``EDGE_SE3_PRIOR``.

        ``pose`` is a :class:`Pose` or a 4×4 matrix, in the plane ``x, y, θ``; its noise is that of the error ``Z⁻¹ X`` in the
        axes of the node, as of :meth:`add_edge`. With a ``lever_arm`` the position is that of this point of the node.
        """
        node = _not_the_world(node)
        what = f"the pose prior of node {node!r}"
        if node in self._landmarks:
            raise GraphError(f"{what}: it is a landmark, which has no orientation; use add_position")
        given = self._pose(node, pose)
        known = np.ones(1, dtype=bool)
        joint = measurements.informations(
            [(WORLD, node)], known, _one(sigma_rot_deg), _one(sigma_trans), _one(information), self.planar
        )
        return self._known(node, what, given.wxyz, given.position, joint[0], given.wxyz, lever_arm, inlier_prior)

    def add_direction(
        self,
        node: NodeId,
        in_node: ArrayLike,
        in_world: ArrayLike,
        *,
        sigma_deg: float,
        inlier_prior: float | None = None,
    ) -> GraphBuilder:
        """Add a direction that is known in the world and was seen from a node: gravity, the sun, north.

        Parameters
        ----------
        node
            Its id.
        in_node, in_world
            The same direction in the frame of the node, as measured, and in the world (3,), of any length.
        sigma_deg
            Standard deviation of the tilt about each of the two axes across it, degrees. The turn about the direction itself
            stays unknown.
        inlier_prior
            Prior probability that it is right, for robust likelihoods.
        """
        node = _not_the_world(node)
        what = f"the direction seen from node {node!r}"
        if self.planar:
            raise GraphError(f"{what}: in the plane a direction is an attitude; use add_attitude")
        vectors = [np.asarray(v, float) for v in (in_node, in_world)]
        if any(v.shape != (3,) or not np.all(np.isfinite(v)) or not np.any(v) for v in vectors):
            raise GraphError(f"{what}: give both directions as three finite numbers, not all zero")
        if not 0.0 < sigma_deg < np.inf:
            raise GraphError(f"{what} has a sigma_deg that is not above zero")
        q, concentration = absolute.direction(vectors[0][None], vectors[1][None], np.radians([sigma_deg]) ** -2.0)
        joint = np.zeros((6, 6))
        joint[:3, :3] = 0.5 * concentration[0]
        return self._known(node, what, q[0], np.full(3, np.nan), joint, quat.IDENTITY, None, inlier_prior)

    def _known(
        self,
        node: NodeId,
        what: str,
        wxyz: Array,
        t: Array,
        joint: Array,
        turn: Array,
        lever_arm: ArrayLike | None,
        inlier_prior: float | None,
    ) -> GraphBuilder:
        arm = np.zeros(3) if lever_arm is None else self._point(f"the lever arm of {what}", lever_arm)
        self._edges.append(_Edge(WORLD, node, wxyz, t, joint, turn, arm, _probability(what, inlier_prior), what))
        return self

    # ------------------------------------------------------------------ the graph

    def build(self) -> PoseGraph:
        """The graph, validated and immutable; the builder may go on growing."""
        rows = dict(self._rows)
        for edge in self._edges:
            if edge.b not in rows:
                raise GraphError(f"{edge.says}: there is no such node in the graph; name it with add_edge or add_node")
            if edge.b in self._landmarks and (np.any(edge.information[:3, :3]) or np.any(edge.arm)):
                raise GraphError(f"{edge.says}: it is a landmark, which has a position only")
        ids = (*rows, *([WORLD] if any(edge.a == WORLD for edge in self._edges) else []))
        index = {name: k for k, name in enumerate(ids)}
        origin = self._origin()
        poses = {name: Pose(pose.wxyz, pose.position - origin) for name, pose in self._poses.items()}
        poses.setdefault(WORLD, Pose.identity())
        placed = [name for name in ids if name in poses]
        own = [name for name in placed if name != WORLD]
        initial, notices = None, []
        if own and len(placed) == len(ids):
            initial = _poses(ids, poses)
        elif any(name not in self._fixed for name in own):
            notices.append(
                f"{len(own)} of {len(self._reported(ids))} nodes have a pose to start from: not used, as some have none"
            )
        held = tuple(name for name in self._fixed if name in self._poses)
        dimension = 2 if self.planar else 3
        columns: dict[str, Array] = {
            name: np.array([getattr(edge, name) for edge in self._edges], dtype=np.float64).reshape(-1, *shape)
            for name, shape in (("wxyz", (4,)), ("t", (3,)), ("information", (6, 6)), ("turn", (4,)), ("arm", (3,)))
        }
        to_world = np.array([edge.a == WORLD for edge in self._edges], dtype=bool)
        columns["t"][to_world] -= origin
        noise = precision.noise(columns["information"], columns["turn"], dimension)
        graph = PoseGraph(
            ids,
            np.array([index[edge.b] for edge in self._edges], dtype=np.int64),
            np.array([index[edge.a] for edge in self._edges], dtype=np.int64),
            columns["wxyz"],
            columns["t"],
            noise.concentration,
            noise.translation_precision,
            initial=initial,
            fixed=tuple(self._fixed),
            notices=tuple(notices),
            inlier_prior=np.array([edge.inlier_prior for edge in self._edges], dtype=np.float64),
            dimension=dimension,
            coupling=noise.coupling,
            arm=columns["arm"],
            landmarks=tuple(self._landmarks),
            fixed_at=_poses(held, poses),
            world_origin=origin,
            measures=self._measures or "a_from_b",
        )
        for k, sigmas in zip(*absolute.contradictions(graph), strict=True):
            raise GraphError(
                f"{self._edges[k].says} is {sigmas:.3g} σ from where the node is fixed; one of the two is wrong"
            )
        return graph

    def _origin(self) -> Array:
        """What is subtracted from coordinates of the world."""
        points = [pose.position for pose in self._poses.values()]
        points += [edge.t for edge in self._edges if edge.a == WORLD and np.all(np.isfinite(edge.t))]
        return measurements.origin_of(np.array(points).reshape(-1, 3))

    def __repr__(self) -> str:
        return f"GraphBuilder({len(self._rows)} nodes, {len(self._edges)} edges so far)"

    @staticmethod
    def _reported(ids: tuple[NodeId, ...]) -> list[NodeId]:
        return [name for name in ids if name != WORLD]

    # ------------------------------------------------------------------ checks

    @property
    def _d(self) -> int:
        return 2 if self.planar else 3

    def _named(self, node: NodeId) -> NodeId:
        node = plain_id(node)
        if not isinstance(node, int | str) or isinstance(node, bool):
            raise GraphError(f"node id {node!r} is a {type(node).__name__}; use an integer or a string")
        self._rows.setdefault(node, len(self._rows))
        return node

    def _landmark(self, node: NodeId) -> NodeId:
        node = _not_the_world(node)
        if node not in self._landmarks:
            if node in self._rows:
                raise GraphError(f"node {node!r} has an orientation elsewhere, so that it cannot be a landmark")
            self._landmarks.append(self._named(node))
        return node

    def _fix(self, node: NodeId, fixed: bool) -> GraphBuilder:
        if fixed and node not in self._fixed:
            self._fixed.append(node)
        return self

    def _point(self, what: str, value: ArrayLike) -> Array:
        """A point (3,), z = 0 in the plane."""
        point = np.asarray(value, float)
        if point.shape != (self._d,) or not np.all(np.isfinite(point)):
            raise GraphError(f"{what}: give {self._d} finite numbers, not {point.tolist()}")
        return point if self._d == 3 else np.array([*point, 0.0])

    def _pose(self, node: NodeId, value: Pose | ArrayLike) -> Pose:
        if isinstance(value, Pose):
            return value
        if not self.planar:
            return Pose.from_matrix(value)
        given = np.asarray(value, float)
        if given.shape != (3,) or not np.all(np.isfinite(given)):
            raise GraphError(f"the pose of node {node!r} is x, y, θ in a planar graph, not {given.tolist()}")
        return Pose(measurements.about_z(given[2]), np.array([*given[:2], 0.0]))

    def _motion(self, pairs: Any, rotation: Any, translation: Any, wxyz: Any, transform: Any, angle: Any) -> Any:
        """Quaternion (1, 4) and translation (1, 3) of one measurement."""
        what = measurements.name_of(pairs, 0)
        if angle is not None and (not self.planar or any(x is not None for x in (rotation, wxyz, transform))):
            raise GraphError(f"{what}: angle= is for a planar graph, GraphBuilder(planar=True), and stands alone")
        if angle is not None:
            return measurements.planar_motions(pairs, np.array([angle], dtype=float), _one(translation))
        if self.planar and not isinstance(transform, Pose):
            raise GraphError(f"{what}: a planar graph takes angle= in radians and a translation of two numbers")
        whole = transform.matrix if isinstance(transform, Pose) else transform
        from scipy.spatial.transform import Rotation

        turn = rotation if isinstance(rotation, Rotation) or rotation is None else np.asarray(rotation, float)[None]
        if isinstance(turn, Rotation):
            turn = Rotation.from_quat(turn.as_quat().reshape(-1, 4))
        return measurements.motions(pairs, turn, *(_one(x) for x in (translation, wxyz, whole)))


def _not_the_world(node: NodeId) -> NodeId:
    """The id as Python has it, of a node that is not the world."""
    node = plain_id(node)
    if isinstance(node, str) and node == WORLD:
        raise GraphError(
            f"{WORLD!r} is the world itself: use add_position, add_attitude, add_pose_prior or add_direction for what is "
            "known there, and another name for a node of your own"
        )
    return node


def _probability(what: str, value: float | None) -> float:
    prior = np.nan if value is None else float(value)
    if value is not None and not 0.0 < prior <= 1.0:
        raise GraphError(f"{what} has an inlier_prior of {prior:g}; it is above 0, at most 1")
    return prior


def _poses(ids: tuple[NodeId, ...], poses: dict[NodeId, Pose]) -> Poses:
    wxyz = np.array([poses[name].wxyz for name in ids]).reshape(-1, 4)
    return Poses(ids, wxyz, np.array([poses[name].position for name in ids]).reshape(-1, 3))


def _one(value: ArrayLike | None) -> Array | None:
    """One edge's value as a stack of one."""
    return None if value is None else np.asarray(value, float)[None]
