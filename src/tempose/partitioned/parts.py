"""What the workers do: eliminate the interior of a part, and find it again from its border.

Every function here is a pure function of its task and of files that do not change: whichever worker gets a task computes the same.
A worker keeps the last factor it made, which the next task of the same part can often use.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.files import write_atomically
from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import NotPositiveDefiniteError, Symbolic
from tempose.optimum.hessian import Curvature
from tempose.partitioned.elimination import Eliminated, border_last, packed, unpacked


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a graph: its nodes, the interior first and then its border, and the edges that touch the interior.

    Attributes
    ----------
    graph
        Of these nodes and edges.
    n_interior
        How many nodes are inside.
    held
        Coordinates (n, b) that do not change, on the graph's axes.
    """

    graph: PoseGraph
    n_interior: int
    held: Mask

    @property
    def n_border(self) -> int:
        """How many nodes are on the border."""
        return self.graph.n_nodes - self.n_interior

    @cached_property
    def posterior(self) -> Posterior:
        """Of the edges of this part alone."""
        return Posterior(self.graph)

    @cached_property
    def ends(self) -> tuple[Index, Index]:
        """Rows and columns (m,) of the blocks off the diagonal."""
        table = self.posterior.edge_table
        return table.source.astype(np.int64), np.repeat(np.arange(self.graph.n_nodes), np.diff(table.start))

    @cached_property
    def symbolic(self) -> Symbolic:
        """Order of elimination of all nodes, the border last and every pair of it joined."""
        return border_last(self.n_interior, self.n_border, *self.ends, len(self.graph.axes))

    def gradient(self, wxyz: Array, position: Array) -> tuple[float, Array]:
        """U of the part's edges, and its gradient (n, b), zero where held."""
        value, gradient = self.posterior.gradient_at(wxyz, position)
        return value, np.where(self.held, 0.0, gradient[:, self.graph.axes])


@dataclass(frozen=True, eq=False)
class At:
    """A part, and where it is: what every task says.

    Attributes
    ----------
    directory, part
        Where the files are, and which part.
    state
        Number of the poses of the interior, which are in a file.
    border
        Poses (k, 7) of the border: wxyz, position.
    exact, damping
        Which matrix: the Hessian or Gauss–Newton's, and the share of its diagonal that is added.
    """

    directory: str
    part: int
    state: int
    border: Array
    exact: bool = True
    damping: float = 0.0

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others."""
        return self.directory, self.part, self.state, self.exact, self.damping, self.border.tobytes()


@dataclass(frozen=True, eq=False)
class BorderFactor:
    """What a part says about its border; nothing but its energy if its matrix is not positive definite."""

    energy: float
    norm: float
    """Largest entry of the gradient inside."""
    gain: float = 0.0
    """``g_Iᵀ H_II⁻¹ g_I``."""
    matrix: Array | None = None
    """S (k b, k b), :func:`packed`."""
    gradient: Array = field(default_factory=lambda: np.empty(0))
    """r (k b,)."""


def part_file(directory: str | Path, part: int) -> Path:
    """Where a part is kept."""
    return Path(directory) / f"part-{part:05d}.pickle"


def state_file(directory: str | Path, part: int, state: int) -> Path:
    """Where the poses of its interior are kept."""
    return Path(directory) / f"state-{part:05d}-{state}.npy"


def write_part(directory: str | Path, number: int, part: Part, wxyz: Array, position: Array) -> None:
    """Keep a part and the poses (n, 4), (n, 3) of its interior, which become state 0."""
    write_atomically(part_file(directory, number), pickle.dumps(part))
    _write_state(directory, number, 0, np.hstack([wxyz, position]))


def _write_state(directory: str | Path, part: int, state: int, poses: Array) -> None:
    path = state_file(directory, part, state)
    write_atomically(path, poses.astype(np.float64).tobytes())


def read_state(directory: str | Path, part: int, state: int) -> Array:
    """Poses (n, 7) of the interior of a part."""
    return np.frombuffer(state_file(directory, part, state).read_bytes()).reshape(-1, 7)


class EliminatedPart(Eliminated):
    """A part of the Hessian, or of Gauss–Newton's matrix, whose interior is eliminated."""

    def __init__(self, part: Part, at: At) -> None:
        self.part = part
        inside = read_state(at.directory, at.part, at.state)
        self.wxyz = np.concatenate([inside[:, :4], at.border[:, :4]])
        self.position = np.concatenate([inside[:, 4:], at.border[:, 4:]])
        self.energy, self.gradient = part.gradient(self.wxyz, self.position)
        n, b = part.n_interior, len(part.graph.axes)
        diagonal, off = Curvature(part.posterior).blocks(self.wxyz, self.position, exact=at.exact)
        k = np.arange(b)
        if at.damping:
            scale = np.abs(diagonal[:n, k, k])
            diagonal[:n, k, k] += at.damping * np.maximum(scale, 1e-12 * scale.max(initial=0.0))
        source, target = part.ends
        free = ~part.held
        diagonal *= free[:, :, None] & free[:, None, :]
        off *= free[source][:, :, None] & free[target][:, None, :]
        diagonal[:, k, k] += part.held
        stiff = np.maximum(np.abs(diagonal[n:, k, k]), 1e-9 * np.abs(diagonal[:, k, k]).max(initial=1.0))
        super().__init__(part.symbolic, n, diagonal, off, stiff)

    def reduced(self) -> BorderFactor:
        """What is left for the border."""
        n = self.n_interior
        inside, own = self.gradient[:n].reshape(-1), self.gradient[n:].reshape(-1)
        end = self.end_of_factor()
        seen = self.seen_from_border(inside, end)
        solved = self.factor.solve(np.concatenate([inside, seen]))[: len(inside)]
        norm = float(np.abs(inside).max(initial=0.0))
        gain = float(np.sum(inside * solved))
        return BorderFactor(self.energy, norm, gain, packed(self.reduced_matrix(end)), own - seen)


class _Kept:
    """The last part that this process has worked on: one, so that memory is that of one."""

    def __init__(self) -> None:
        self.part: tuple[tuple[str, int], Part] | None = None
        self.eliminated: tuple[tuple[object, ...], EliminatedPart] | None = None

    def of(self, at: At) -> EliminatedPart:
        """A part with its interior eliminated."""
        if self.eliminated is not None and self.eliminated[0] == at.key:
            return self.eliminated[1]
        self.eliminated = None
        made = EliminatedPart(self.part_of(at), at)
        self.eliminated = at.key, made
        return made

    def part_of(self, at: At) -> Part:
        """A part, from its file unless it was the last."""
        name = at.directory, at.part
        if self.part is None or self.part[0] != name:
            self.part = self.eliminated = None
            self.part = name, pickle.loads(part_file(*name).read_bytes())
        return self.part[1]


_kept = _Kept()


# ---------------------------------------------------------------------- tasks


def eliminate(at: At) -> BorderFactor:
    """Eliminate the interior of a part."""
    try:
        return _kept.of(at).reduced()
    except NotPositiveDefiniteError:
        return BorderFactor(np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class Step:
    """A step of the border, of which that of the interior follows.

    Attributes
    ----------
    at
        Before it.
    delta
        Change (k, b) of the border.
    pushed, reduced
        S times that change, and r (k b,): what the part said about its border, which it need not find again.
    border
        Its poses (k, 7) afterwards.
    state
        Number of the poses of the interior afterwards.
    """

    at: At
    delta: Array
    pushed: Array
    reduced: Array
    border: Array
    state: int


def descend(step: Step) -> tuple[float, float]:
    """Move the interior as the border asks; U of the part's edges there, and the largest entry of the gradient inside."""
    at = step.at
    made = _kept.of(at)
    part, n = made.part, made.part.n_interior
    b = step.delta.shape[1]
    seen = made.gradient[n:].reshape(-1) - step.reduced
    stiffly = step.pushed + np.einsum("kab,kb->ka", made.added, step.delta).reshape(-1)
    right = np.concatenate([-made.gradient[:n].reshape(-1), stiffly - seen])
    delta = made.factor.solve(right)[: n * b].reshape(n, b)
    moved = np.zeros((n, 6))
    moved[:, part.graph.axes] = np.where(part.held[:n], 0.0, delta)
    wxyz = quat.normalize(quat.multiply(quat.exp(moved[:, :3]), made.wxyz[:n]))
    position = made.position[:n] + moved[:, 3:]
    _write_state(at.directory, at.part, step.state, np.hstack([wxyz, position]))
    everywhere = np.concatenate([wxyz, step.border[:, :4]]), np.concatenate([position, step.border[:, 4:]])
    value, gradient = part.gradient(*everywhere)
    return value, float(np.abs(gradient[:n]).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Spread:
    """How sure the whole graph is of a border: its covariance (k b, k b), :func:`packed`; the identity for what is held."""

    at: At
    border: Array


def marginals(task: Spread) -> Array:
    """Covariances (n, b, b) of the nodes inside: a selected inverse, the border as sure as the whole graph makes it."""
    made = _kept.of(task.at)
    n, b, k = made.n_interior, made.block, made.n_border
    order = made.factor.symbolic.order[n:] - n
    sigma = unpacked(task.border).reshape(k, b, k, b)[order][:, :, order].reshape(k * b, k * b)
    inverse = made.factor.selected_inverse_given(sigma)[0] if k else made.factor.selected_inverse()[0]
    held = made.part.held[:n]
    return np.asarray(inverse[:n] * ~(held[:, :, None] | held[:, None, :]))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Draws of the border (k b, count), of which those of the interior follow."""

    at: At
    border: Array
    seed: int


def draw(task: Drawn) -> Array:
    """Draws (n, b, count) of the nodes inside, displacements from the optimum."""
    made = _kept.of(task.at)
    n, b = made.n_interior, made.block
    count = task.border.shape[1]
    size = made.part.graph.n_nodes * b
    z = streams.generator(task.seed, "parts", task.at.part + 1).standard_normal((count, size)).T
    free = made.factor.solve_Lt(
        np.ascontiguousarray(z)
    )  # of inside and border; then the border is put where it belongs
    nothing = np.zeros((n * b, count))
    x = free[: n * b] + made.inside_from(task.border - free[n * b :], nothing)
    return np.asarray(np.where(made.part.held[:n, :, None], 0.0, x.reshape(n, b, count)))
