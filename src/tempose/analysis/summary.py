"""What the draws say about each node, and about any two of them.

Every covariance here is 6×6 in the order (rotation, position), of the world-frame perturbation
``R = Exp(ω) R̂``, ``p = p̂ + δ`` (world_from_node; radians, then length units), about the mean pose, in a stated gauge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.parallel import on_threads
from tempose._typing import Array, Index, Mask, Motion, NodeId
from tempose.analysis import aligned
from tempose.errors import DrawsError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.gauge import Gauge, position_determined
from tempose.model.graph import PoseGraph
from tempose.model.poses import SHOWN, Poses, html_table
from tempose.model.relative import RelativeSummary
from tempose.sampling.draws import Draws

_BLOCK_VALUES = 100_000  # coordinates × draws that are looked at together, so that they stay in a cache


@dataclass(frozen=True, eq=False, repr=False)
class NodeSummary:
    """Means and covariances of all nodes in one gauge; the world, which has no uncertainty, is not among them.

    Attributes
    ----------
    mean
        Mean poses, in the user's coordinates.
    covariance
        (n, 6, 6), order and frame as in :mod:`tempose.model.gauge`; zero for what cannot change, in a planar graph all
        but the rotation about z and the position in the plane.
    sigma_rot_deg, sigma_pos
        Standard deviation per axis (root mean square over the axes that there are), degrees and length units (n,); NaN for
        the rotation of a landmark, which has none.
    entropy
        Differential entropy (n,) of the Gaussian with this covariance, nats, over the coordinates that the node has; −inf
        where a node is held.
    determined
        Whether a node's position is tied to its gauge by translations at all (n,).
    gauge
        What absolute uncertainties refer to.
    source
        ``draws``, or ``laplace`` for the Gaussian approximation at the optimum.
    n_draws
        Draws behind the summary (0 for ``laplace``).
    """

    mean: Poses
    covariance: Array
    sigma_rot_deg: Array
    sigma_pos: Array
    entropy: Array
    determined: Mask
    gauge: Gauge
    source: str
    n_draws: int

    def arrays(self) -> dict[str, Any]:
        """Plain arrays, from which :meth:`from_arrays` makes it again."""
        return {
            "wxyz": self.mean.wxyz, "position": self.mean.position, "covariance": self.covariance,
            "sigma_rot_deg": self.sigma_rot_deg, "sigma_pos": self.sigma_pos, "entropy": self.entropy,
            "determined": self.determined, "n_draws": np.array(self.n_draws),
        }  # fmt: skip

    @classmethod
    def from_arrays(cls, gauge: Gauge, arrays: Mapping[str, Any]) -> NodeSummary:
        """The inverse of :meth:`arrays`."""
        mean = Poses(gauge.graph.reported, arrays["wxyz"], arrays["position"])
        n_draws = int(arrays["n_draws"])
        return cls(
            mean, arrays["covariance"], arrays["sigma_rot_deg"], arrays["sigma_pos"], arrays["entropy"],
            arrays["determined"].astype(bool), gauge, "draws" if n_draws else "laplace", n_draws,
        )  # fmt: skip

    def to_pandas(self) -> Any:
        """A ``DataFrame``, a row for each node: mean pose ``x y z qw qx qy qz`` and ``sigma_rot_deg sigma_pos entropy``."""
        table = self.mean.to_pandas()
        for name in _COLUMNS:
            table[name] = getattr(self, name)
        return table

    def __len__(self) -> int:
        """How many nodes."""
        return len(self.mean)

    def __repr__(self) -> str:
        rot, pos = median_sigma(self.sigma_rot_deg), median_sigma(self.sigma_pos)
        return f"NodeSummary({len(self)} nodes, median 1σ per axis {rot:.3g}° and {pos:.3g}; {self.gauge}; from {self.source})"

    def _repr_html_(self) -> str:
        rows = [
            (name, *(f"{x:.4g}" for x in (*p, *(getattr(self, column)[k] for column in _COLUMNS))))
            for k, (name, p) in enumerate(zip(self.mean.ids[:SHOWN], self.mean.position, strict=False))
        ]
        return html_table(("node", "x", "y", "z", *_COLUMNS), rows, len(self), str(self.gauge))


_COLUMNS = ("sigma_rot_deg", "sigma_pos", "entropy")


def median_sigma(sigma: Array) -> float:
    """Median of the σ of what is neither held nor unknown (0 and NaN); 0 if all that is known is held, NaN if nothing is."""
    known = sigma[np.isfinite(sigma)]
    free = known[known > 0.0]
    return float(np.median(free)) if len(free) else 0.0 if len(known) else math.nan


def tangent(wxyz: Array, position: Array, reference: Poses) -> Array:
    """World-frame coordinates (..., n, 6) of poses about a reference."""
    return aligned.tangent(wxyz, position, reference.wxyz, reference.position)


def summarise(draws: Draws, reference: Poses, gauge: Gauge) -> NodeSummary:
    """Mean pose and covariance of each node, some nodes at a time."""
    if draws.n_draws < 2:
        raise DrawsError(f"a summary needs at least 2 draws, there are {draws.n_draws}")
    poses = aligned.AlignedDraws(draws.arrays, reference, gauge)

    def moments(group: list[slice]) -> list[tuple[Array, Array, Array]]:
        some = poses.read(aligned.whole(group))
        return [some.moments(aligned.within(rows, group)) for rows in group]

    parts = [part for found in on_threads(moments, poses.parts(_BLOCK_VALUES)) for part in found]
    wxyz, position, scatter = (np.concatenate(part) for part in zip(*parts, strict=True))
    mean = Poses(reference.ids, wxyz, position)
    covariance = gauge.clear_held(scatter / (draws.n_draws - 1))
    return node_summary(mean, covariance, gauge, "draws", draws.n_draws)


def node_summary(mean: Poses, covariance: Array, gauge: Gauge, source: str, n_draws: int = 0) -> NodeSummary:
    """Derive σ and entropy from covariances (n, 6, 6) of all nodes of the gauge's graph."""
    graph = gauge.graph
    shown = [graph.index[name] for name in graph.reported]
    covariance, landmark, determined = covariance[shown], graph.is_landmark[shown], position_determined(graph)[shown]
    turns = int(np.sum(graph.axes < 3))
    rot = np.sqrt(np.trace(covariance[:, :3, :3], axis1=1, axis2=2) / turns)
    pos = np.sqrt(np.trace(covariance[:, 3:, 3:], axis1=1, axis2=2) / graph.dimension)
    rot, pos = np.where(landmark, np.nan, rot), np.where(determined, pos, np.nan)
    entropy = np.where(
        landmark, _entropy(covariance, graph.axes[graph.axes >= 3]), _entropy(covariance, graph.axes)
    )  # fmt: skip
    mean = reported(graph, mean)
    return NodeSummary(mean, covariance, np.degrees(rot), pos, entropy, determined, gauge, source, n_draws)


def reported(graph: PoseGraph, poses: Poses) -> Poses:
    """Poses as people get them: those of the nodes without the world, in the coordinates that they came in."""
    shown = poses.select(graph.reported)
    return Poses(shown.ids, shown.wxyz, shown.position + graph.world_origin) if np.any(graph.world_origin) else shown


def _entropy(covariance: Array, axes: Index) -> Array:
    """Of the Gaussian along some of the coordinates (n,)."""
    sign, logdet = np.linalg.slogdet(covariance[:, axes[:, None], axes])
    return np.where(sign > 0, 0.5 * (len(axes) * np.log(2.0 * np.pi * np.e) + logdet), -np.inf)


def relative_summary(draws: Draws, reference: Poses, a: NodeId, b: NodeId) -> RelativeSummary:
    """Mean and covariance of ``a_from_b`` over the draws."""
    if draws.n_draws < 2:
        raise DrawsError(f"a covariance needs at least 2 draws, there are {draws.n_draws}")
    motions = relative_draws(draws, reference.row(a), reference.row(b))
    mean = mean_motion(motions)
    x = displacement(motions, mean)
    x -= x.mean(axis=0)
    return RelativeSummary(a, b, mean, x.T @ x / (len(x) - 1), "draws", len(x))


def relative_draws(draws: Draws, row_a: int, row_b: int) -> Motion:
    """``a_from_b`` of all draws, chain after chain, for the rows of two nodes."""
    rows = np.concatenate([np.asarray(array[:, [row_a, row_b]]) for array in draws.arrays])
    return se3.a_from_b((rows[:, 0, :4], rows[:, 0, 4:]), (rows[:, 1, :4], rows[:, 1, 4:]))


def mean_motion(motions: Motion) -> Motion:
    """The mean rotation (4,), by which the others turn to zero on average, and the mean translation (3,)."""
    wxyz = quat.mean(motions[0])
    for _ in range(5):
        omega = quat.log(quat.multiply(motions[0], quat.conjugate(wxyz)))
        wxyz = quat.normalize(quat.multiply(quat.exp(omega.mean(axis=0)), wxyz))
    return wxyz, motions[1].mean(axis=0)


def displacement(motions: Motion, mean: Motion) -> Array:
    """``(ω, δ)`` (..., 6) with ``R = Exp(ω) R̂`` and ``t = t̂ + δ``: rotation in radians first."""
    omega = quat.log(quat.multiply(motions[0], quat.conjugate(mean[0])))
    return np.concatenate([omega, motions[1] - mean[1]], axis=-1)
