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


GaugeKind = Literal["anchor", "centroid", "free", "node"]


@dataclass(frozen=True, eq=False)
class Gauge:
    """A rule that fixes the frame of every component.

    Parameters
    ----------
    graph
        The graph.
    kind
        ``anchor``: the first fixed (else the first) node of every component is held; ``node``: that node is held in its
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
            raise OptionError(f"unknown gauge {self.kind!r}: use anchor, centroid, free or node:ID")
        self.anchors  # noqa: B018  (a wrong node id is found now, not after a long run)
        if self.kind == "free" and not np.all(position_determined(self.graph)):
            raise NotApplicable(
                "the free gauge turns with the positions, and some of them hang on no translation; use another"
            )

    @classmethod
    def parse(cls, graph: PoseGraph, text: str) -> Gauge:
        """The gauge that an option names: ``anchor``, ``centroid``, ``free`` or ``node:ID``."""
        if text.startswith("node:"):
            return cls(graph, "node", graph.node_ids[find_node(graph, text.removeprefix("node:"))])
        if text not in get_args(GaugeKind) or text == "node":
            raise OptionError(f"unknown gauge {text!r}: use anchor, centroid, free or node:ID")
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
        return self.kind in ("anchor", "node")

    @cached_property
    def position_anchors(self) -> Index:
        """Held row of each part of the graph whose positions hang together."""
        part = self.graph.position_component
        rows = np.full(int(part.max()) + 1 if len(part) else 0, -1, dtype=np.int64)
        for row in [*self.anchors.tolist(), *range(self.graph.n_nodes)]:
            if rows[part[row]] < 0:
                rows[part[row]] = row
        return rows

    def __str__(self) -> str:
        """What absolute uncertainties are relative to, in words: for people, never read back."""
        if self.kind == "free":
            return "the positions of each component neither shifted nor turned as a whole"
        if self.kind == "centroid":
            return "mean rotation and mean position of each component held fixed"
        names = [str(self.graph.node_ids[k]) for k in self.anchors[:3]]
        more = f" and {len(self.anchors) - 3} more" if len(self.anchors) > 3 else ""
        plural = "nodes" if len(self.anchors) > 1 else "node"
        return f"relative to {plural} {', '.join(names)}{more}, held fixed"

    def align(self, wxyz: Array, position: Array, reference: Poses) -> tuple[Array, Array]:
        """Move poses so that they agree with the reference in this gauge, component by component."""
        comp, part = self.graph.component, self.graph.position_component
        if self.kind == "free":
            return self._align_free(wxyz, position, reference)
        back = quat.multiply(reference.wxyz, quat.conjugate(wxyz))
        if self.kind == "centroid":
            turn = np.stack([quat.mean(back[comp == c]) for c in range(self.graph.n_components)])
        else:
            turn = back[self.anchors]
        wxyz = quat.multiply(turn[comp], wxyz)
        position = quat.rotate(turn[comp], position)
        if self.kind == "centroid":
            offset = part_means(reference.position - position, part)
        else:
            offset = reference.position[self.position_anchors] - position[self.position_anchors]
        return wxyz, position + offset[part]

    def _align_free(self, wxyz: Array, position: Array, reference: Poses) -> tuple[Array, Array]:
        wxyz, position = wxyz.copy(), position.copy()
        for c in range(self.graph.n_components):
            here = self.graph.component == c
            target = reference.wxyz[here], reference.position[here]
            found = align((wxyz[here], position[here]), target, "positions-se3")
            wxyz[here], position[here] = found.apply(wxyz[here], position[here])
        return wxyz, position

    def clear_held(self, covariance: Array) -> Array:
        """Set what the gauge holds to exactly zero in covariances (n, 6, 6), which have it to rounding."""
        if self.holds_nodes:
            for rows, c in ((self.anchors, slice(0, 3)), (self.position_anchors, slice(3, 6))):
                covariance[rows, c, :] = 0.0
                covariance[rows, :, c] = 0.0
        return covariance

    def functional(self) -> tuple[Array, Array]:
        """Weights (n,), (n,) whose sums over a component of ω, and over a position part of δ, the gauge takes to zero."""
        n = self.graph.n_nodes
        if self.kind == "centroid":
            comp, part = self.graph.component, self.graph.position_component
            return 1.0 / np.bincount(comp)[comp], 1.0 / np.bincount(part)[part]
        rotation, position = np.zeros(n), np.zeros(n)
        rotation[self.anchors] = 1.0
        position[self.position_anchors] = 1.0
        return rotation, position


def part_means(x: Array, part: Index) -> Array:
    """Mean of rows (n, k) over each part."""
    count = np.bincount(part)
    return np.stack([np.bincount(part, x[:, k]) / count for k in range(x.shape[1])], axis=1)


def find_node(graph: PoseGraph, name: str) -> int:
    """Row of a node given by its id as text: an integer id if there is one, else a string id."""
    text = name.strip()
    if text.lstrip("+-").isdigit() and int(text) in graph.index:
        return graph.index[int(text)]
    return graph.row(name)


def position_determined(graph: PoseGraph) -> Mask:
    """Which nodes (n,) are tied by translations to the anchor of their component, so that their position means anything."""
    return np.asarray(graph.position_component == graph.position_component[graph.anchors][graph.component])
