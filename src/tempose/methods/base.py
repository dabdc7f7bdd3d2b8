"""What all methods share: their result, how they refuse, weights, and averaging on a graph."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Concatenate, ParamSpec

import numpy as np

from tempose._typing import Array
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.numerics import relaxation as _kernels
from tempose.numerics.laplacian import Laplacian
from tempose.optimum.relaxations import pattern
from tempose.optimum.trees import most_certain_tree, rotation_weights, tree_poses

P = ParamSpec("P")


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a method found.

    Attributes
    ----------
    poses
        In the graph's node order.
    status
        ``closed form``, ``converged``, ``iteration limit``, or what else the method says of itself.
    iterations
        Outer iterations; 0 for a closed form.
    seconds, cpu_seconds
        Time of the call: on the clock, and of the processor, all threads together, which other programs do not lengthen.
    message
        One line about the result, or nothing.
    """

    poses: Poses
    status: str
    iterations: int = 0
    seconds: float = 0.0
    message: str = ""
    cpu_seconds: float = 0.0


def synchronisation_method(
    connected: bool, *, takes_everything: bool = False
) -> Callable[[Callable[Concatenate[PoseGraph, P], Estimate]], Callable[Concatenate[PoseGraph, P], Estimate]]:
    """Decorator of a method: measures its time, and refuses what it cannot take.

    Parameters
    ----------
    connected
        It refuses graphs in pieces.
    takes_everything
        It knows landmarks, fixed nodes and measurements of single nodes; the others synchronise relative poses only.
    """

    def decorate(
        method: Callable[Concatenate[PoseGraph, P], Estimate],
    ) -> Callable[Concatenate[PoseGraph, P], Estimate]:
        @functools.wraps(method)
        def run(graph: PoseGraph, /, *args: P.args, **kwargs: P.kwargs) -> Estimate:
            if graph.n_edges == 0:
                raise NotApplicable("the graph has no edges")
            if connected and graph.n_components > 1:
                raise NotApplicable(f"needs a connected graph; this one has {graph.n_components} components")
            if not takes_everything:
                _refuse_more_than_relative_poses(graph)
            began, cpu_began = time.perf_counter(), time.process_time()
            estimate = method(graph, *args, **kwargs)
            cpu = time.process_time() - cpu_began
            if graph.is_planar:
                estimate = replace(estimate, poses=in_the_plane(estimate.poses))
            return replace(estimate, seconds=time.perf_counter() - began, cpu_seconds=cpu)

        return run

    return decorate


def _refuse_more_than_relative_poses(graph: PoseGraph) -> None:
    held = np.bincount(graph.component[graph.is_fixed], minlength=1)
    for found, what in (
        (bool(graph.landmarks), "there are landmarks"),
        (graph.world is not None, "there are measurements of single nodes"),
        (bool(np.any(held > 1)), "several nodes are fixed"),
        (not bool(np.all(graph.has_rotation)), "some edges measure no rotation"),
    ):
        if found:
            raise NotApplicable(f"synchronises relative poses only, and {what}")


def in_the_plane(poses: Poses) -> Poses:
    """The nearest poses in the plane z = 0: what is out of it is rounding."""
    wxyz, position = poses.wxyz.copy(), poses.position.copy()
    wxyz[:, 1:3], position[:, 2] = 0.0, 0.0
    return Poses(poses.ids, quat.normalize(wxyz), position)


# ---------------------------------------------------------------------- measurements and weights


def motions(graph: PoseGraph) -> tuple[Array, Array]:
    """Measured ``j_from_i`` (m, 4), (m, 3) for methods on SE(3).

    If no edge has a translation, all are zero, and the method becomes its own version on SO(3); a graph that has both
    kinds of edges is refused.
    """
    missing = int(np.sum(~graph.has_translation))
    if 0 < missing < graph.n_edges:
        raise NotApplicable(
            f"needs a translation on every edge, or on none; {missing} of {graph.n_edges} edges carry a rotation only"
        )
    return graph.j_from_i_wxyz, np.nan_to_num(graph.j_from_i_t)


def typical_length(t: Array) -> float:
    """Root mean square length of translations (m, 3); 1 if they are all zero."""
    return float(np.sqrt(np.mean(np.sum(t * t, axis=1)))) or 1.0


def translation_weights(graph: PoseGraph) -> Array:
    """Positive weight of each edge's translation (m,): its mean precision; ones if no edge has a translation."""
    value = (
        graph.translation_precision
        if graph.translation_precision.ndim == 1
        else np.trace(graph.translation_precision, axis1=1, axis2=2) / graph.dimension
    )
    value = np.where(graph.has_translation, value, 0.0)
    positive = value[value > 0.0]
    return np.where(value > 0.0, value, float(positive.min()) * 1e-3) if len(positive) else np.ones(graph.n_edges)


def motion_weights(graph: PoseGraph) -> Array:
    """One weight per edge (m,) for methods that cannot weigh rotation and translation apart.

    The geometric mean of the two weights, or that of the rotation if there are no translations, with a mean of 1.
    """
    weight = rotation_weights(graph)
    if graph.has_translation.any():
        weight = np.sqrt(weight) * np.sqrt(translation_weights(graph))
    return np.asarray(weight / weight.mean())


# ---------------------------------------------------------------------- poses


def start_on_tree(graph: PoseGraph) -> Poses:
    """Poses chained along the most certain spanning tree."""
    return tree_poses(graph, most_certain_tree(graph))


def anchored(graph: PoseGraph, wxyz: Array, position: Array) -> Poses:
    """Poses seen from the anchor of a connected graph, as all methods return them."""
    anchor = graph.anchors[0]
    moved = se3.a_from_b((wxyz[anchor], position[anchor]), (wxyz, position))
    return Poses(graph.node_ids, quat.normalize(moved[0]), moved[1])


def nearest_rotations(matrices: Array) -> Array:
    """Quaternions (n, 4) of the rotations nearest to matrices (n, 3, 3)."""
    wxyz = np.empty((len(matrices), 4))
    _kernels.nearest_rotations(np.ascontiguousarray(matrices), wxyz)
    return wxyz


# ---------------------------------------------------------------------- averaging


class Averaging:
    """Weighted least squares on the differences of a connected graph: ``min Σ w |x_i − x_j − b|²``, anchor at zero."""

    def __init__(self, graph: PoseGraph, weights: Array) -> None:
        self.graph, self.weights = graph, weights
        held = np.zeros(graph.n_nodes, dtype=bool)
        held[graph.anchors[0]] = True
        self.laplacian = Laplacian(graph.n_nodes, graph.edge_i, graph.edge_j, held, pattern(graph, 1))
        self.factor = self.laplacian.factor(weights)

    def solve(self, b: Array) -> Array:
        """Values x (n, k) for differences b (m, k)."""
        return np.asarray(self.factor.solve(self.laplacian.pull(self.weights, b)))
