"""A graph built edge by edge."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from tempose._typing import Array, NodeId
from tempose.errors import GraphError
from tempose.model import measurements, precision
from tempose.model.graph import PoseGraph
from tempose.model.measurements import Measures
from tempose.model.pose import Pose
from tempose.model.poses import Poses, plain_id


class GraphBuilder:
    """Collects nodes and edges one by one; :meth:`build` gives the :class:`PoseGraph`.

    A ``PoseGraph`` never changes once it is made, so that a posterior, draws and files made from it stay true; this is
    where it grows. Every edge is checked when it is added, in the line of the program that added it.

    Examples
    --------
    >>> graph = GraphBuilder()
    >>> graph.add_edge("a", "b", rotation=Rotation.from_euler("z", 90, degrees=True), translation=[1, 0, 0],
    ...                sigma_rot_deg=2.0, sigma_trans=0.05)
    >>> solution = tempose.solve(graph.build())
    """

    def __init__(self) -> None:
        self._rows: dict[NodeId, int] = {}
        self._poses: dict[NodeId, Pose] = {}
        self._fixed: list[NodeId] = []
        self._pairs: list[tuple[NodeId, NodeId]] = []
        self._edges: list[tuple[Array, Array, Array, Array, float]] = []

    def add_node(self, node: NodeId, pose: Pose | ArrayLike | None = None, *, fixed: bool = False) -> GraphBuilder:
        """Name a node; only needed for what edges do not say.

        Parameters
        ----------
        node
            Its id, an integer or a string.
        pose
            ``world_from_node``, a :class:`Pose` or a 4×4 matrix: where to start from, never truth. Used if every node has
            one.
        fixed
            Whether it is the node that poses and error bars are relative to (GTSAM's prior factor on the first pose; here
            it is exact and costs nothing). The first fixed node of each component counts.
        """
        node = plain_id(node)
        self._row(node)
        if pose is not None:
            self._poses[node] = pose if isinstance(pose, Pose) else Pose.from_matrix(pose)
        if fixed and node not in self._fixed:
            self._fixed.append(node)
        return self

    def add_edge(
        self,
        a: NodeId,
        b: NodeId,
        *,
        rotation: Rotation | ArrayLike | None = None,
        translation: ArrayLike | None = None,
        wxyz: ArrayLike | None = None,
        transform: Pose | ArrayLike | None = None,
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
        sigma_rot_deg, sigma_trans
            One standard deviation per axis, in degrees and in the unit of lengths: one number, or three (3,) along the
            axes of b. The latter is not needed without a translation.
        information
            In place of both: the inverse covariance (6, 6) of the error ``Z⁻¹ X_a⁻¹ X_b``, axes of b, **rotation vector
            (radians) first, then translation**, as in GTSAM (g2o has the translation first). Blocks that tie the two are
            refused: correlated noise is not in the model.
        inlier_prior
            Prior probability that this edge is right, for robust likelihoods.
        measures
            ``"b_from_a"`` if what is given is the pose of a seen from b; the same as swapping a and b.
        """
        a, b = plain_id(a), plain_id(b)
        pairs = measurements.oriented([(a, b)], measures)
        if a == b:
            raise GraphError(f"edge {a!r} → {b!r} joins a node to itself; leave it out, it says nothing about poses")
        whole = transform.matrix if isinstance(transform, Pose) else transform
        turn = rotation if isinstance(rotation, Rotation) or rotation is None else np.asarray(rotation, float)[None]
        if isinstance(turn, Rotation):
            turn = Rotation.from_quat(turn.as_quat().reshape(-1, 4))
        q, t = measurements.motions(pairs, turn, *(_one(x) for x in (translation, wxyz, whole)))
        known = np.all(np.isfinite(t), axis=1)
        if not known[0] and (translation is not None or transform is not None):
            raise GraphError(f"{measurements.name_of(pairs, 0)} has a translation that is not finite; leave it out")
        noise = measurements.precisions(pairs, q, known, *(_one(x) for x in (sigma_rot_deg, sigma_trans, information)))
        prior = np.nan if inlier_prior is None else float(inlier_prior)
        if inlier_prior is not None and not 0.0 < prior <= 1.0:
            raise GraphError(
                f"{measurements.name_of(pairs, 0)} has an inlier_prior of {prior:g}; it is above 0, at most 1"
            )
        self._row(a), self._row(b)
        self._pairs.extend(pairs)
        self._edges.append((q[0], t[0], noise[0][0], noise[1][0], prior))
        return self

    def build(self) -> PoseGraph:
        """The graph, validated and immutable; the builder may go on growing."""
        ids = tuple(self._rows)
        with_pose = [name for name in ids if name in self._poses]
        initial, notices = None, []
        if with_pose and len(with_pose) == len(ids):
            chosen = [self._poses[name] for name in ids]
            initial = Poses(ids, np.stack([p.wxyz for p in chosen]), np.stack([p.position for p in chosen]))
        elif with_pose:
            notices.append(
                f"{len(with_pose)} of {len(ids)} nodes have a pose to start from: not used, as some have none"
            )
        columns = [np.array([edge[k] for edge in self._edges], dtype=np.float64) for k in range(5)]
        shapes = ((-1, 4), (-1, 3), (-1, 3, 3), (-1, 3, 3), (-1,))
        q, t, rotation, shift, prior = (x.reshape(shape) for x, shape in zip(columns, shapes, strict=True))
        return PoseGraph(
            ids,
            np.array([self._rows[b] for _, b in self._pairs], dtype=np.int64),
            np.array([self._rows[a] for a, _ in self._pairs], dtype=np.int64),
            q,
            t,
            precision.simplest(rotation),
            precision.simplest(shift),
            initial=initial,
            fixed=tuple(self._fixed),
            notices=tuple(notices),
            inlier_prior=prior,
        )

    def __repr__(self) -> str:
        return f"GraphBuilder({len(self._rows)} nodes, {len(self._pairs)} edges so far)"

    def _row(self, node: NodeId) -> int:
        if not isinstance(node, int | str) or isinstance(node, bool):
            raise GraphError(f"node id {node!r} is a {type(node).__name__}; use an integer or a string")
        return self._rows.setdefault(node, len(self._rows))


def _one(value: ArrayLike | None) -> Array | None:
    """One edge's value as a stack of one."""
    return None if value is None else np.asarray(value, float)[None]
