r"""The normal equations of a bundle with the points eliminated, their sparse factor, and blocks of the inverse.

With U, V, W the blocks of :math:`\sum w J^T J` of frames and cameras, of points, and between them, the matrix of frames and cameras
alone is :math:`S = U - W V^{-1} W^T`. Its inverse, in some gauge, is their covariance per squared pixel of noise; a point's is

.. math:: V_p^{-1} + K_p\, \Sigma\, K_p^T, \qquad K_p = V_p^{-1} W_p^T,

its own plus what it inherits. Only blocks of Σ between nodes that see a common point are needed: those on the pattern of S, which
the factor's selected inverse gives at once.

**Gauge.** Nothing changes when everything is moved together: :math:`S G = 0` for the columns of G, rotation, translation and
(without a rig of known size) scale. Σ depends on which seven numbers :math:`B^T x = 0` are held. S is factored with seven
coordinates pinned; the projection :math:`P = I - G (B^T G)^{-1} B^T` then takes any such inverse, and any displacement, to the
gauge of B. A point follows its cameras, :math:`x_p = -K_p x`, in every gauge.

A depth that no observation knows (parallel rays) takes no part: it is left out of :math:`V^{-1}`, and the point has an infinite σ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from tempose._typing import Array, Index, Mask
from tempose.errors import NotApplicable
from tempose.numerics.sparse.block_cholesky import Factor, NotPositiveDefiniteError, analyze
from tempose.sfm.adjustment import _elimination
from tempose.sfm.adjustment.linear import BLOCK, Linear

_MOST_SHARES, _MOST_BYTES = 16, 1 << 28  # of points, and what their results take together
_SOUND = 1e-6  # beyond this ratio the inverse needs no eigenvalues
_PARALLEL = 1e-10  # ratio of a point's smallest to its largest information: rays within about 1e-5 rad


@dataclass(frozen=True, eq=False)
class Reduced:
    """Normal equations of frames and cameras.

    Attributes
    ----------
    linear, weight
        What they were made of; a weight (k,) of each observation.
    point_inverse
        :math:`V_p^{-1}` (p, 3, 3) without unknown depths.
    unknown
        Points (p,) with a depth that nothing is known of, or fewer than two observations.
    link_node, link_first
        Nodes that point p hangs on: ``link_node[link_first[p]:link_first[p+1]]``, ascending.
    link
        :math:`K_p` towards each of them (l, 3, 6).
    diagonal, off_diagonal, pairs
        Blocks of S (n, 6, 6) and (e, 6, 6) at node pairs (e, 2), first < second.
    """

    linear: Linear
    weight: Array
    point_inverse: Array
    unknown: Mask
    link_node: Index
    link_first: Index
    link: Array
    diagonal: Array
    off_diagonal: Array
    pairs: Index

    def gradient(self, residual: Array, group: Index, count: int) -> Array:
        r"""Right-hand sides (6 n, count): :math:`\sum J^T w r` of the observations of each group, points eliminated.

        ``group`` (k,) from 0 to ``count`` − 1; all observations of a point must be in one group.
        """
        column = np.zeros(len(self.unknown), dtype=np.int64)
        column[self.linear.bundle.point_of] = group
        return self._pull(residual[:, :, None], column, count)[0]

    def pull(self, displacement: Array) -> tuple[Array, Array]:
        """Right-hand sides (6 n, m) and own shifts of points (p, 3, m) of displaced image points (k, 2, m).

        Points seen at other places by δ pull as residuals of −δ do: frames and cameras move by ``S⁻¹`` times the right-hand
        sides, points by their own shift and as they follow (:meth:`follow`).
        """
        return self._pull(displacement, np.zeros(len(self.unknown), dtype=np.int64), displacement.shape[2])

    def _pull(self, displacement: Array, column: Index, count: int) -> tuple[Array, Array]:
        """The same where the displacements (k, 2, m) of each point act on the columns from ``column`` (p,) on, of ``count``."""
        lin, p, rows = self.linear, len(self.unknown), BLOCK * self.linear.nodes.count
        share = _shares(p, 8 * rows * count)
        out, own = np.zeros((len(share) - 1, rows, count)), np.empty((p, 3, displacement.shape[2]))
        made_of = self.weight, lin.by_frame, lin.by_camera, lin.by_point, self.point_inverse
        links = self.link_first, self.link_node, self.link
        given = np.ascontiguousarray(displacement)
        _elimination.pull(*_ends(lin), *made_of, *links, share, column, given, out, own)
        return out.sum(axis=0), own

    def own_decrease(self, residual: Array) -> float:
        """What points alone would take from the sum of squares, frames and cameras held: ``bᵀ V⁻¹ b`` with ``b = Jᵀ w r``."""
        own = self.pull(residual[:, :, None])[1][self.linear.bundle.point_of, :, 0]
        return float(np.einsum("k,ka,kab,kb->", self.weight, residual, self.linear.by_point, own))

    def follow(self, x: Array) -> Array:
        """How points follow (p, 3, m) when frames and cameras are displaced by x (6 n, m)."""
        out = np.empty((len(self.unknown), 3, x.shape[1]))
        _elimination.follow(self.link_first, self.link_node, self.link, np.ascontiguousarray(x), out)
        return out

    def factor(self) -> Factor:
        """Cholesky factor of S with one gauge pinned: the first frame, and the scale by the frame farthest from it.

        Raises
        ------
        NotApplicable
            When more than the gauge is undetermined.
        """
        bundle, diagonal = self.linear.bundle, self.diagonal.copy()
        n = len(diagonal)
        graph: Any = csr_array((np.ones(len(self.pairs)), self.pairs.T), shape=(n, n))
        count, part = connected_components(graph, directed=False)
        if count > 1 and len(np.unique(part[: bundle.n_frames])) > 1:
            sizes = np.bincount(part[: bundle.n_frames])
            raise NotApplicable(
                f"the model falls into {np.sum(sizes > 0)} parts that share no points (of {', '.join(map(str, sizes[sizes > 0]))} "
                "frames): their places to each other are unknown; split it and take one at a time"
            )
        step = np.arange(BLOCK)
        diagonal[0, step, step] *= 2.0
        if not bundle.metric:
            away = bundle.frame_position - bundle.frame_position[0]
            far = int(np.argmax(np.linalg.norm(away, axis=1)))
            axis = 3 + int(np.argmax(np.abs(away[far])))
            diagonal[far, axis, axis] *= 2.0
        try:
            return analyze(n, self.pairs[:, 0], self.pairs[:, 1], block=BLOCK).factor(diagonal, self.off_diagonal)
        except NotPositiveDefiniteError as error:
            raise NotApplicable(
                f"do not trust it: {self._name(error.node)} is not determined by what was seen; {_REMEDY}"
            ) from None

    def _name(self, node: int) -> str:
        bundle, nodes = self.linear.bundle, self.linear.nodes
        if node < nodes.n_frames:
            return f"the pose of {bundle.names[int(np.argmax(bundle.frame_of == node))]}"
        row = int(np.searchsorted(nodes.first, node, side="right")) - 1
        return f"the calibration of camera {bundle.cameras[row].number}"


_REMEDY = (
    "it has too few points, or they do not tell it from others: leave it out, or hold more of the intrinsics fixed"
)


def _ends(lin: Linear) -> tuple[Index, Index, Index, Index]:
    """First observation of each point, and of each observation the node of its frame and the range of its camera's."""
    bundle, first = lin.bundle, lin.nodes.first
    camera = bundle.camera_of[bundle.image_of]
    return bundle.first, bundle.frame_of[bundle.image_of], first[camera], first[camera + 1]


def _shares(p: int, size: int) -> Index:
    """Bounds of shares of p points: as many whatever the number of threads, so that sums have the same bits.

    Each has a result of its own, of ``size`` bytes, until they are summed.
    """
    count = int(np.clip(_MOST_BYTES // max(size, 1), 1, _MOST_SHARES))
    return np.asarray(np.arange(count + 1) * p // count)


def reduce(lin: Linear, weight: Array | None = None, prior: Array | None = None) -> Reduced:
    """Eliminate the points.

    Parameters
    ----------
    lin
        Residuals and derivatives.
    weight
        Of each observation (k,); 1 if not given.
    prior
        Information (6 n,) on each unknown that is known from elsewhere, in units of one over the squared pixels of noise.
    """
    bundle, nodes, p = lin.bundle, lin.nodes, len(lin.bundle.position)
    n = nodes.count
    w = np.where(lin.kept, 1.0 if weight is None else weight, 0.0)
    inverse, unknown = _inverses(lin, w)
    unknown |= np.bincount(bundle.point_of[lin.kept], minlength=p) < 2

    ends = _ends(lin)
    widest, count = lin.by_camera.shape[2] // BLOCK, np.empty(p, dtype=np.int64)
    padded = np.empty((1 + widest) * len(w), dtype=np.int64)
    _elimination.point_nodes(*ends, widest, padded, count)
    first = np.concatenate([[0], np.cumsum(count)])
    node, shared = np.empty(first[-1], dtype=np.int64), np.zeros((n, -(-n // 64)), dtype=np.uint64)
    _elimination.pattern(bundle.first, widest, padded, first, node, shared)
    row, column = _places(shared, n)
    row_first = np.searchsorted(row, np.arange(n + 1))
    share = _shares(p, 8 * BLOCK**2 * len(column))
    blocks = np.zeros((len(share) - 1, len(column), BLOCK, BLOCK))
    link = np.empty((len(node), 3, BLOCK))
    made_of = w, lin.by_frame, lin.by_camera, lin.by_point, inverse, first, node
    _elimination.eliminate(*ends, *made_of, row_first, column, share, int(count.max(initial=0)), link, blocks)
    blocks = blocks.sum(axis=0)
    diagonal, off = blocks[row_first[:-1]], blocks[row < column]
    if prior is not None:
        diagonal.reshape(n, -1)[:, :: BLOCK + 1] += prior.reshape(n, BLOCK)
    spare = nodes.unused
    diagonal[spare // BLOCK, spare % BLOCK, spare % BLOCK] = 1.0
    pairs = np.stack([row, column], axis=1)[row < column]
    return Reduced(lin, w, inverse, unknown, node, first, link, diagonal, off, pairs)


def _places(shared: NDArray[np.uint64], n: int) -> tuple[Index, Index]:
    """Rows and columns of all blocks on and above the diagonal, from the bits of which nodes share a point."""
    rows, columns = [], []
    for a, bits in enumerate(shared):
        beyond = np.flatnonzero(np.unpackbits(bits.astype("<u8").view(np.uint8), bitorder="little")[:n])
        columns.append(np.concatenate([[a], beyond]))
        rows.append(np.full(1 + len(beyond), a))
    return np.concatenate(rows), np.concatenate(columns)


def _inverses(lin: Linear, weight: Array) -> tuple[Array, Mask]:
    """Inverses of the points' information (p, 3, 3), and which points have a direction of none."""
    p = len(lin.bundle.position)
    V, inverse, sound = np.empty((p, 3, 3)), np.empty((p, 3, 3)), np.empty(p, dtype=bool)
    _elimination.point_inverses(lin.bundle.first, weight, lin.by_point, _SOUND, V, inverse, sound)
    unknown, rest = np.zeros(p, dtype=bool), np.flatnonzero(~sound)
    inverse[rest], unknown[rest] = _known_inverse(V[rest])
    return inverse, unknown


def _known_inverse(V: Array) -> tuple[Array, Mask]:
    """Inverses of (p, 3, 3) information, directions of no information left out, and which points have such."""
    value, vector = np.linalg.eigh(V)
    known = value > _PARALLEL * np.maximum(value[:, -1:], 1e-300)
    inverse = np.einsum("pab,pb,pcb->pac", vector, np.where(known, 1.0 / np.where(known, value, 1.0), 0.0), vector)
    return inverse, ~known.all(axis=1)
