"""The gauge: which frame absolute poses, and their uncertainties, refer to.

A graph fixes its poses up to a motion of each component. A gauge picks one representative; for small perturbations it
is a linear map that takes coordinates (ω, δ) of all nodes to the motion that has to be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast, get_args

import numpy as np

from tempose._typing import Array, Index, Mask, NodeId
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import align
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

FRAME = "world frame, world_from_node: R = Exp(omega) R_mean, p = p_mean + delta"
ORDER = "rotation vector (radians), then position"


GaugeKind = Literal["world", "anchor", "centroid", "free", "node"]
_CHOICES = "auto, world, anchor, centroid, free or node:ID"


@dataclass(frozen=True, eq=False)
class Gauge:
    """A rule that fixes the frame of every component.

    Parameters
    ----------
    graph
        The graph.
    kind
        ``world``: what is tied to the world or to fixed nodes is left where they put it, and other components are held by their
        anchor; ``anchor``: the first fixed (else the first) node of every component is held; ``node``: that node is held in its
        component; ``centroid``: the mean rotation and the mean position of every component are held; ``free``: the
        positions of every component are not shifted and not turned as a whole (the free network of surveyors).
    node
        The node that is held, of the kind ``node`` only.
    """

    graph: PoseGraph
    kind: GaugeKind = "anchor"
    node: NodeId | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(GaugeKind) or (self.kind == "node") != (self.node is not None):
            raise OptionError(f"unknown gauge {self.kind!r}: use {_CHOICES}")
        self.anchors  # noqa: B018  (a wrong node id is found now, not after a long run)
        if self.node is not None and self.graph.is_landmark[self.graph.row(self.node)]:
            raise NotApplicable(
                f"landmark {self.node!r} has no orientation to hold the others by; name a node that has one"
            )
        if self.kind == "free" and not np.all(_hangs_together(self.graph)):
            raise NotApplicable(
                "the free gauge turns with the positions, and some of them hang on no translation; use another"
            )

    @classmethod
    def parse(cls, graph: PoseGraph, text: str) -> Gauge:
        """The gauge that an option names: ``auto``, ``world``, ``anchor``, ``centroid``, ``free`` or ``node:ID``.

        ``auto`` is ``world`` where something ties the graph to it beyond one fixed node per component, else ``anchor``.
        """
        if text == "auto":
            return cls(graph, "world" if np.any(tied_components(graph)) else "anchor")
        if text.startswith("node:"):
            return cls(graph, "node", graph.node_ids[find_node(graph, text.removeprefix("node:"))])
        if text not in get_args(GaugeKind) or text == "node":
            raise OptionError(f"unknown gauge {text!r}: use {_CHOICES}")
        return cls(graph, cast(GaugeKind, text))

    @cached_property
    def anchors(self) -> Index:
        """Held row of each component (of no meaning for ``centroid`` and ``free``)."""
        rows = self.graph.anchors.copy()
        if self.node is not None:
            row = self.graph.row(self.node)
            rows[self.graph.component[row]] = row
        return rows

    @property
    def holds_nodes(self) -> bool:
        """Whether single nodes are held, rather than means."""
        return self.kind in ("world", "anchor", "node")

    @cached_property
    def position_anchors(self) -> Index:
        """Held row of each part of the graph whose positions hang together."""
        graph = self.graph
        part = graph.position_component
        rows = np.full(int(part.max()) + 1 if len(part) else 0, -1, dtype=np.int64)
        others = np.lexsort((graph.is_landmark, ~graph.is_fixed)).tolist()
        for row in [*self.anchors.tolist(), *others]:
            if rows[part[row]] < 0:
                rows[part[row]] = row
        return rows

    @cached_property
    def _left_alone(self) -> tuple[Mask, Mask]:
        """Which components are not turned, and which parts are not shifted: in the gauge ``world`` those that are tied."""
        graph = self.graph
        parts = np.zeros(len(self.position_anchors), dtype=bool)
        components = np.zeros(graph.n_components, dtype=bool)
        if self.kind == "world":
            components = tied_components(graph)
            parts = components[graph.component[self.position_anchors]] & graph.is_fixed[self.position_anchors]
        return components, parts

    def __str__(self) -> str:
        """What absolute uncertainties are relative to, in words: for people, never read back."""
        graph = self.graph
        if self.kind == "free":
            return "the positions of each component neither shifted nor turned as a whole"
        if self.kind == "centroid":
            return "mean rotation and mean position of each component held fixed"
        anchors, before = self.anchors, ""
        if self.kind == "world":
            anchors = self.anchors[~self._left_alone[0]]
            before = "relative to the world" if graph.world is not None else "relative to the fixed nodes"
            if len(anchors) == 0:
                return before
            before += "; what is not tied to it, " if graph.world is not None else "; what is not tied to them, "
        names = [str(graph.node_ids[k]) for k in anchors[:3]]
        more = f" and {len(anchors) - 3} more" if len(anchors) > 3 else ""
        plural = "nodes" if len(anchors) > 1 else "node"
        return f"{before}relative to {plural} {', '.join(names)}{more}, held fixed"

    @property
    def counted_positions(self) -> Mask:
        """Nodes (n,) whose positions make up the mean, or the network, of their component: all but the world."""
        return self._counted[1]

    def middle(self, position: Array) -> Array:
        """Mean position of each component (c, 3), the world not counted."""
        rows = self._counted[1]
        return part_means(position[rows], self.graph.component[rows], self.graph.n_components)

    @cached_property
    def _counted(self) -> tuple[Mask, Mask]:
        """Nodes (n,) that count in means of rotations, and of positions."""
        position = np.ones(self.graph.n_nodes, dtype=bool)
        if self.graph.world is not None:
            position[self.graph.world] = False
        return position & ~self.graph.is_landmark, position

    def align(self, wxyz: Array, position: Array, reference: Poses) -> tuple[Array, Array]:
        """Move poses, (..., n, 4) and (..., n, 3), so that they agree with the reference in this gauge, component by component."""
        turn, center, offset = self.motions(wxyz, position, reference)
        each, at = turn[..., self.graph.component, :], center[self.graph.component]
        wxyz = np.where(self.graph.is_landmark[:, None], wxyz, quat.multiply(each, wxyz))
        position = at + quat.rotate(each, position - at)
        return wxyz, position + offset[..., self.graph.position_component, :]

    def motions(self, wxyz: Array, position: Array, reference: Poses) -> tuple[Array, Array, Array]:
        """What :meth:`align` does: a turn (..., c, 4) of each component about a center (c, 3), then an offset (..., parts, 3).

        Components are turned about their middle, so that large coordinates cost no digits; parts are those whose positions hang
        together. Where nodes are held, only their poses are looked at.
        """
        graph, center = self.graph, self.middle(reference.position)
        of_part = graph.component[self.position_anchors]
        if self.kind == "free":
            if wxyz.ndim > 2:
                found = [self.motions(a, p, reference) for a, p in zip(wxyz, position, strict=True)]
                return np.stack([turn for turn, _, _ in found]), center, np.stack([offset for _, _, offset in found])
            turn = self._turns_of_networks(position, reference)
            lag = center - self.middle(position)
            return turn, center, quat.rotate(turn, lag)[of_part]
        if self.kind == "centroid":
            turn = self._mean_turns(wxyz, reference)
        else:
            turn = quat.multiply(reference.wxyz[self.anchors], quat.conjugate(wxyz[..., self.anchors, :]))
            turn[..., self._left_alone[0], :] = quat.IDENTITY
        if graph.is_planar:
            turn[..., 1:3] = 0.0
        about, each = center[of_part], turn[..., of_part, :]
        if self.kind == "centroid":
            rows = self._counted[1]
            part, parts = graph.position_component[rows], len(of_part)
            mean, there = (
                part_means((x - center[graph.component])[..., rows, :], part, parts)
                for x in (position, reference.position)
            )
            offset = there - quat.rotate(each, mean)
        else:
            held = self.position_anchors
            offset = reference.position[held] - about - quat.rotate(each, position[..., held, :] - about)
            offset[..., self._left_alone[1], :] = 0.0
        return turn, center, offset

    def _mean_turns(self, wxyz: Array, reference: Poses) -> Array:
        """Mean of the turns (..., c, 4) that take the rotations of each component to those of the reference."""
        comp, turned = self.graph.component, self._counted[0]
        back = quat.multiply(reference.wxyz, quat.conjugate(wxyz))
        turn = np.tile(quat.IDENTITY, (*back.shape[:-2], self.graph.n_components, 1))
        for c in np.unique(comp[turned]):
            turn[..., c, :] = quat.mean(back[..., turned & (comp == c), :])
        return turn

    def _turns_of_networks(self, position: Array, reference: Poses) -> Array:
        """The turn (c, 4) of each component that takes its positions (n, 3) nearest to those of the reference."""
        turn = np.tile(quat.IDENTITY, (self.graph.n_components, 1))
        for c in range(self.graph.n_components):
            rows = (self.graph.component == c) & self._counted[1]
            there = reference.position[rows]
            a, b = position[rows] - position[rows].mean(axis=0), there - there.mean(axis=0)
            if self.graph.is_planar:
                half = 0.5 * np.arctan2(float(np.sum(np.cross(a, b)[:, 2])), float(np.sum(a * b)))
                turn[c] = np.cos(half), 0.0, 0.0, np.sin(half)
            else:
                turn[c] = align((reference.wxyz[rows], a), (reference.wxyz[rows], b), "positions-se3").wxyz
        return turn

    def clear_held(self, covariance: Array) -> Array:
        """Set what the gauge holds to exactly zero in covariances (n, 6, 6), which have it to rounding."""
        if self.holds_nodes:
            turn, shift = self._left_alone
            for rows, c in ((self.anchors[~turn], slice(0, 3)), (self.position_anchors[~shift], slice(3, 6))):
                covariance[rows, c, :] = 0.0
                covariance[rows, :, c] = 0.0
        return covariance

    def functional(self) -> tuple[Array, Array]:
        """Weights (n,), (n,) whose sums over a component of ω, and over a position part of δ, the gauge takes to zero."""
        n = self.graph.n_nodes
        if self.kind == "centroid":
            weights = [
                counted / np.maximum(np.bincount(label, counted), 1.0)[label]
                for counted, label in zip(
                    self._counted, (self.graph.component, self.graph.position_component), strict=True
                )
            ]
            return weights[0], weights[1]
        rotation, position = np.zeros(n), np.zeros(n)
        turn, shift = self._left_alone
        rotation[self.anchors[~turn]] = 1.0
        position[self.position_anchors[~shift]] = 1.0
        return rotation, position


def _hangs_together(graph: PoseGraph) -> Mask:
    """Which components have all their positions, the world's apart, tied together by translations."""
    rows = np.ones(graph.n_nodes, dtype=bool)
    if graph.world is not None:
        rows[graph.world] = False
    pairs = np.unique(np.stack([graph.component[rows], graph.position_component[rows]], axis=1), axis=0)
    return np.asarray(np.bincount(pairs[:, 0], minlength=graph.n_components) <= 1)


def part_means(x: Array, part: Index, parts: int = 0) -> Array:
    """Mean of rows (..., n, k) over each part; zero for parts without any, of which there may be up to ``parts``."""
    count = np.maximum(np.bincount(part, minlength=parts), 1)
    many, size = x.reshape(-1, *x.shape[-2:]), len(count)
    place = (part + size * np.arange(len(many))[:, None]).reshape(-1)
    sums = [np.bincount(place, many[..., k].reshape(-1), size * len(many)) for k in range(x.shape[-1])]
    return np.stack([total.reshape(*x.shape[:-2], size) / count for total in sums], axis=-1)


def find_node(graph: PoseGraph, name: str) -> int:
    """Row of a node given by its id as text: an integer id if there is one, else a string id."""
    text = name.strip()
    if text.lstrip("+-").isdigit() and int(text) in graph.index:
        return graph.index[int(text)]
    return graph.row(name)


def position_determined(graph: PoseGraph) -> Mask:
    """Which nodes (n,) are tied by translations to the anchor or to a fixed node, so that their position means anything."""
    held = np.unique(graph.position_component[graph.is_fixed])
    with_anchor = graph.position_component == graph.position_component[graph.anchors][graph.component]
    return np.asarray(with_anchor | np.isin(graph.position_component, held))


def tied_components(graph: PoseGraph) -> Mask:
    """Which components are tied to something beyond themselves: to the world, or by two fixed nodes or more.

    One fixed node alone only says where the component is held; a fixed landmark has no axes to hold it by.
    """
    fixed = graph.is_fixed
    count = np.bincount(graph.component[fixed], minlength=graph.n_components)
    tied = count > 1
    if graph.world is not None:
        tied[graph.component[graph.world]] = True
    tied[graph.component[fixed & graph.is_landmark]] = True
    return np.asarray(tied)
