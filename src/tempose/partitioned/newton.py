"""Newton's method on a graph in parts, the covariances of all nodes, and exact draws of the Gaussian around the optimum."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.files import make_directory
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import Array, Index, Mask
from tempose.errors import GraphError, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError, analyze
from tempose.optimum.certificate import TOLERANCE, Certificate, bound_only, certify_isotropic, isotropic_below
from tempose.optimum.hessian import Curvature
from tempose.partitioned import parts as work
from tempose.partitioned.dissection import Dissection, dissect, joined
from tempose.partitioned.elimination import packed, unpacked
from tempose.partitioned.hands import Hands, Traffic
from tempose.partitioned.matrix import QuadraticInParts
from tempose.partitioned.parts import At, BorderFactor, Drawn, Part, Spread, Step

_STEPS = 100


@dataclass(frozen=True, eq=False)
class InParts:
    """The optimum of a graph in parts; made by :func:`minimise_in_parts`, and alive as long as its context.

    Attributes
    ----------
    poses
        The optimum.
    potential
        U there.
    gradient_norm
        Largest entry of the gradient, what is held left out.
    decrement
        What a further step is predicted to gain.
    steps
        Factorisations it took.
    dissection
        Which node is where.
    traffic
        What was moved.
    """

    poses: Poses
    potential: float
    gradient_norm: float
    decrement: float
    steps: int
    dissection: Dissection
    traffic: Traffic
    _root: _Root = field(repr=False)

    def covariances(self) -> Array:
        """Covariances (n, 6, 6) of all nodes, in the gauge of the node that is held; zero for what is held."""
        return self._root.covariances()

    def draws(self, count: int, seed: int = 0) -> Array:
        """Exact draws (count, n, 6) of the Gaussian around the optimum: rotation vectors in the world's frame, then positions."""
        return self._root.draws(count, seed)

    def certificate(self, tolerance: float = TOLERANCE) -> Certificate:
        """What is proven about the optimum: that of :func:`tempose.optimum.certify`, its matrices in parts, too.

        Graphs with several precisions a measurement get the bound of an isotropic problem, whose optimum is found in parts. There
        is no staircase.

        Parameters
        ----------
        tolerance
            Largest relative suboptimality that counts as certified.
        """
        return self._root.certificate(self.poses, tolerance)


@contextmanager
def minimise_in_parts(
    graph: PoseGraph,
    start: Poses,
    *,
    parts: int = 4,
    executor: Executor | None = None,
    directory: str | Path | None = None,
    max_steps: int = _STEPS,
    progress: ProgressHook = silent,
) -> Iterator[InParts]:
    """The optimum of a graph whose parts are worked on elsewhere, equal to that of one machine to rounding.

    Parameters
    ----------
    graph
        The graph. What it leaves undetermined is refused, the gauge apart.
    start
        Poses to start from.
    parts
        How many parts; several per worker need less memory each, and have more border.
    executor
        Where the parts are worked on: any pool of the standard library, or the workers of a cluster. Here, one after another, by
        default.
    directory
        Where the parts are kept until the context ends, a folder that all workers see; that of temporary files by default.
    max_steps
        Of Newton's method.
    progress
        Told of the steps.

    Raises
    ------
    GraphError
        If the steps do not suffice, or a matrix stays singular.
    """
    home = None if directory is None else make_directory(Path(directory)).resolve()
    # a folder of a new name each time: workers that outlive this call know what they keep by where it is
    with tempfile.TemporaryDirectory(prefix="tempose-parts-", dir=home) as folder:
        yield _Root(graph, start, parts, Hands(executor), folder).minimise(max_steps, progress)


class _Root:
    """The separators, and the hands that reach to the parts."""

    def __init__(self, graph: PoseGraph, start: Poses, n_parts: int, hands: Hands, directory: str) -> None:
        self.graph, self.hands, self.directory, self.n_parts = graph, hands, directory, n_parts
        axes = graph.axes
        curvature = Curvature(Posterior(graph))
        held: Mask = curvature.held[:, axes]
        whole: Mask = np.asarray(held.all(axis=1))
        whole[curvature.rotation_anchor] = whole[curvature.position_anchor] = True
        self.cut = dissect(graph.n_nodes, graph.edge_i, graph.edge_j, n_parts, whole)
        self.between = self.cut.separators
        self.b = len(axes)
        start = start.select(graph.node_ids)
        self.inside: list[Index] = []
        self.borders: list[Index] = []
        for number, share in enumerate(self.cut.shares(graph.edge_i, graph.edge_j)):
            inside = share.inside
            part = Part(_alone(graph.with_edges(share.edges).subgraph(share.nodes)), len(inside), held[share.nodes])
            work.write_part(directory, number, part, start.wxyz[inside], start.position[inside])
            self.inside.append(inside)
            self.borders.append(np.searchsorted(self.between, share.border))
        own = _alone(graph.with_edges(self.cut.between(graph.edge_i, graph.edge_j)).subgraph(self.between))
        self.own = Part(own, 0, held[self.between])
        self.poses = np.hstack([start.wxyz, start.position])[self.between]
        self.state = 0
        self.pairs, self.places = joined(*self.own.ends, self.borders)
        self.symbolic = analyze(len(self.between), self.pairs[:, 0], self.pairs[:, 1], block=self.b)
        self.factor: Factor | None = None

    # ------------------------------------------------------------------ the way down and back

    def _at(self, exact: bool, damping: float) -> list[At]:
        return [
            At(self.directory, k, self.state, self.poses[border], exact, damping)
            for k, border in enumerate(self.borders)
        ]

    def _reduce(self, exact: bool, damping: float) -> tuple[list[At], list[BorderFactor], Factor, float, Array] | None:
        """Everything eliminated but the separators: their factor, U, and their gradient; ``None`` if not positive definite."""
        at = self._at(exact, damping)
        found = self.hands.all(work.eliminate, at)
        if any(one.matrix is None for one in found):
            return None
        b, s = self.b, len(self.between)
        value, gradient = self.own.gradient(self.poses[:, :4], self.poses[:, 4:])
        diagonal, own = Curvature(self.own.posterior).blocks(self.poses[:, :4], self.poses[:, 4:], exact=exact)
        off = np.zeros((len(self.pairs), b, b))
        off[: len(own)] = own
        k = np.arange(b)
        reduced = gradient.copy()
        for border, place, one in zip(self.borders, self.places, found, strict=True):
            assert one.matrix is not None
            S = unpacked(one.matrix).reshape(len(border), b, len(border), b).transpose(0, 2, 1, 3)
            diagonal[border] += S[np.arange(len(border)), np.arange(len(border))]
            off[place] = S[np.tril_indices(len(border), -1)]
            reduced[border] += one.gradient.reshape(-1, b)
            value += one.energy
        if damping:
            scale = np.abs(diagonal[:, k, k])
            diagonal[:, k, k] += damping * np.maximum(scale, 1e-12 * scale.max(initial=0.0))
        free = ~self.own.held
        diagonal *= free[:, :, None] & free[:, None, :]
        off *= free[self.pairs[:, 0]][:, :, None] & free[self.pairs[:, 1]][:, None, :]
        diagonal[:, k, k] += ~free
        try:
            factor = self.symbolic.factor(diagonal, off)
        except NotPositiveDefiniteError:
            return None
        return at, found, factor, value, np.where(free, reduced, 0.0).reshape(s, b)

    # ------------------------------------------------------------------ Newton

    def minimise(self, max_steps: int, progress: ProgressHook) -> InParts:
        """Steps with the exact Hessian where it is positive definite, else with Gauss–Newton's, damped where U would rise."""
        damping, exact, last = 0.0, True, False
        for step in range(max_steps):
            made = self._reduce(exact, damping)
            if made is None:
                if not exact:
                    raise GraphError(
                        "a part of the graph is singular: something in it is not determined, or nearly so; solve it whole"
                    )
                exact = False
                continue
            at, found, factor, value, reduced = made
            delta = -factor.solve(reduced.reshape(-1)).reshape(reduced.shape)
            decrement = 0.5 * (sum(one.gain for one in found) - float(np.sum(reduced * delta)))
            norm = max([float(np.abs(reduced).max(initial=0.0)), *(one.norm for one in found)])
            progress(Progress("optimum", step, max_steps))
            noise = 1e-15 * np.sqrt(max(self.graph.n_edges, 1)) * abs(value) + 1e-300
            settled = decrement <= 10.0 * noise and exact
            if settled and last:
                return self._result(value, norm, decrement, step + 1)
            moved = self._moved(delta)
            trial = self.state + 1
            steps = [
                Step(one, delta[border], _pushed(said, delta[border]), said.gradient, moved[border], trial)
                for one, said, border in zip(at, found, self.borders, strict=True)
            ]
            after = self.hands.all(work.descend, steps)
            new_value = self.own.gradient(moved[:, :4], moved[:, 4:])[0] + sum(energy for energy, _ in after)
            last = settled
            if new_value <= value + (noise if settled else 0.0):
                gain = (value - new_value) / decrement if decrement > 0.0 else 1.0
                self.poses, self.state = moved, trial
                damping = 0.0 if gain > 0.25 and damping < 1e-6 else damping * (0.1 if gain > 0.5 else 1.0)
                exact = True
            elif settled:
                return self._result(value, norm, decrement, step + 1)
            else:
                damping = max(10.0 * damping, 1e-4)
                if damping > 1e12:
                    raise GraphError("no step lowers U although its gradient is not zero; solve it whole")
        raise GraphError(f"{max_steps} steps did not suffice for the graph in parts; give a better start")

    def _moved(self, delta: Array) -> Array:
        """The separators after a step (s, b)."""
        full = np.zeros((len(delta), 6))
        full[:, self.graph.axes] = np.where(self.own.held, 0.0, delta)
        wxyz = quat.normalize(quat.multiply(quat.exp(full[:, :3]), self.poses[:, :4]))
        return np.hstack([wxyz, self.poses[:, 4:] + full[:, 3:]])

    def _result(self, value: float, norm: float, decrement: float, steps: int) -> InParts:
        out = np.empty((self.graph.n_nodes, 7))
        out[self.between] = self.poses
        for number, inside in enumerate(self.inside):
            out[inside] = work.read_state(self.directory, number, self.state)
        poses = Poses(self.graph.node_ids, out[:, :4], out[:, 4:])
        return InParts(poses, value, norm, decrement, steps, self.cut, self.hands.traffic, self)

    # ------------------------------------------------------------------ the Gaussian around the optimum

    def _final(self) -> tuple[list[At], Factor]:
        if self.factor is None:
            made = self._reduce(True, 0.0)
            if made is None:
                raise GraphError("the Hessian at the optimum is not positive definite: no Gaussian fits there")
            self.factor = made[2]
        return self._at(True, 0.0), self.factor

    def covariances(self) -> Array:
        """See :meth:`InParts.covariances`."""
        at, factor = self._final()
        diagonal, off = factor.selected_inverse()
        b, held = self.b, self.own.held
        diagonal = diagonal * ~(held[:, :, None] | held[:, None, :])
        off = off * ~(held[self.pairs[:, 0]][:, :, None] | held[self.pairs[:, 1]][:, None, :])
        tasks = []
        for one, border, place in zip(at, self.borders, self.places, strict=True):
            k = len(border)
            sigma = np.zeros((k, k, b, b))
            lower = np.tril_indices(k, -1)
            sigma[lower] = off[place]
            sigma[lower[1], lower[0]] = np.swapaxes(off[place], 1, 2)
            sigma[np.arange(k), np.arange(k)] = diagonal[border]
            fixed = held[border].reshape(-1)
            flat = sigma.transpose(0, 2, 1, 3).reshape(k * b, k * b) + np.diag(fixed.astype(float))
            tasks.append(Spread(one, packed(flat)))
        out = np.zeros((self.graph.n_nodes, 6, 6))
        axes = self.graph.axes
        for rows, blocks in zip(
            [self.between, *self.inside], [diagonal, *self.hands.all(work.marginals, tasks)], strict=True
        ):
            out[rows[:, None, None], axes[:, None], axes] = blocks
        return out

    def draws(self, count: int, seed: int) -> Array:
        """See :meth:`InParts.draws`."""
        at, factor = self._final()
        b, s = self.b, len(self.between)
        z = streams.generator(seed, "parts", 0).standard_normal((count, s * b)).T
        x = factor.solve_Lt(np.ascontiguousarray(z)).reshape(s, b, count)
        x = np.where(self.own.held[:, :, None], 0.0, x)
        tasks = [
            Drawn(one, x[border].reshape(len(border) * b, count), seed)
            for one, border in zip(at, self.borders, strict=True)
        ]
        out = np.zeros((count, self.graph.n_nodes, 6))
        for rows, found in zip([self.between, *self.inside], [x, *self.hands.all(work.draw, tasks)], strict=True):
            out[:, rows[:, None], self.graph.axes] = found.transpose(2, 0, 1)
        return out

    # ------------------------------------------------------------------ the proof

    def certificate(self, poses: Poses, tolerance: float) -> Certificate:
        """See :meth:`InParts.certificate`."""
        if not tolerance > 0.0:
            raise OptionError(f"the certificate's tolerance must be positive, not {tolerance}")
        form = functools.partial(QuadraticInParts, hands=self.hands, directory=self.directory, n_parts=self.n_parts)
        graph, exact = isotropic_below(self.graph)
        if exact:
            return certify_isotropic(graph, poses, tolerance, form)
        home = str(make_directory(Path(self.directory) / "isotropic"))
        below = _Root(graph, poses, self.n_parts, self.hands, home).minimise(_STEPS, silent)
        bound = certify_isotropic(graph, below.poses, tolerance, form).lower_bound
        return bound_only(Posterior(self.graph).potential(poses), bound, tolerance)


def _pushed(said: BorderFactor, delta: Array) -> Array:
    """S times a step (k, b) of the border; a sum, which has the same bits wherever the arrays lie in memory."""
    assert said.matrix is not None
    return np.asarray(np.sum(unpacked(said.matrix) * delta.reshape(-1), axis=1))


def _alone(graph: PoseGraph) -> PoseGraph:
    """The same without what no part needs: starts, words, where it came from."""
    return replace(graph, initial=None, notices=(), origin={})
