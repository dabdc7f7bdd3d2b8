r"""The collapsed sampler at several modes, and jumps between them: exact, and indifferent to how far apart they are.

Every mode k has the chart, the metric and the whitened coordinates y of :mod:`tempose.sampling.collapsed`, in which the
target is :math:`e^{-\frac12|y|^2 - W_k(y)} \sqrt{\det C_k} / \det L_k`, nearly a standard normal, with :math:`C_k` the
precision of the dummy positions at the mode, whose density is normalised. The space of rotations is divided: what is nearer to
mode k than to any other (by :math:`\sum \lambda_{ij} \sin^2(\theta_{ij}/2)`, θ the angle by which a relative rotation differs
from the mode's) belongs to chart k.

* Within a mode the sampler is the collapsed one; a trajectory that ends in the region of another mode is refused.
* A jump takes y over to another mode, drawn without a look at the state, if that ends in the mode's own region, with
  probability :math:`\min(1, e^{W_k(y) - W_m(y)} \sqrt{\det C_m / \det C_k} \det L_k / \det L_m)`, the ratio of the target there and
  here.

Both leave the tempered posterior as it is. What the modes have in common cancels in the second, which an independent draw of
a Gaussian at m would not achieve. (Tjelmeland & Hegstad, *Mode jumping proposals in MCMC*, Scand. J. Stat. 2001; Pompe,
Holmes & Łatuszyński, *A framework for adaptive MCMC targeting multimodal distributions*, Ann. Stat. 2020.) Modes that are not
known beforehand are not jumped to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.sampling.collapsed import (
    LEAST_ACCEPTANCE,
    TURN,
    WARMUP,
    CollapsedChain,
    CollapsedSampler,
    CollapsedTarget,
    Point,
    inside,
)
from tempose.sampling.sampler import Draw
from tempose.sampling.targets import tune_collapsed


class Regions:
    """Which mode rotations are nearest to; no gauge enters."""

    def __init__(self, graph: PoseGraph, modes: Sequence[Poses]) -> None:
        self.graph, self.weight = graph, graph.mean_concentration
        self.relative = np.stack([self._relative(one.wxyz) for one in modes])

    def _relative(self, wxyz: Array) -> Array:
        return quat.multiply(quat.conjugate(wxyz[self.graph.edge_i]), wxyz[self.graph.edge_j])

    def of(self, wxyz: Array) -> int:
        """Number of the mode."""
        cosine = np.sum(self.relative * self._relative(wxyz), axis=2)  # of half the angle
        return int(np.argmax(np.einsum("km,m->k", cosine * cosine, self.weight)))  # without threads of its own


@dataclass(frozen=True, eq=False)
class JumpingSampler:
    """Chains of :class:`JumpingChain`; see the module.

    Parameters
    ----------
    targets, kicks
        The collapsed target at each mode, and the kicks of a trajectory there.
    """

    targets: tuple[CollapsedTarget, ...]
    kicks: tuple[int, ...]
    regions: Regions
    thin: int = 1
    warmup: int = WARMUP
    name: str = "jumping"

    def settings(self) -> dict[str, object]:
        """What decides the draws."""
        return {"kicks": list(self.kicks), "thin": self.thin, "warmup": self.warmup}

    def start(self, rng: np.random.Generator) -> JumpingChain:
        """A chain that starts at a random mode."""
        mode = int(rng.integers(len(self.targets)))
        y = inside(self.targets[mode], rng)
        while self.regions.of(self.targets[mode].at(y).state[:, :4]) != mode:
            y *= 0.5
        return JumpingChain(self, mode, y)

    def resume(self, arrays: dict[str, Array]) -> JumpingChain:
        """A chain that goes on from :meth:`JumpingChain.arrays`."""
        return JumpingChain(self, int(arrays["mode"]), arrays["y"])

    def advance(self, chains: Sequence[JumpingChain], rngs: Sequence[np.random.Generator]) -> list[Draw]:
        """The next draw of each of several chains, which may be at different modes: one after the other."""
        return [chain.advance(rng) for chain, rng in zip(chains, rngs, strict=True)]


class JumpingChain(CollapsedChain):
    """A running chain; see :class:`tempose.sampling.sampler.Chain`."""

    def __init__(self, sampler: JumpingSampler, mode: int, y: Array) -> None:
        super().__init__(sampler.targets[mode], y, sampler.kicks[mode], sampler.thin)
        self.sampler, self.mode = sampler, mode

    def arrays(self) -> dict[str, Array]:
        """What the chain continues from."""
        return {**super().arrays(), "mode": np.array(float(self.mode))}

    def advance(self, rng: np.random.Generator) -> Draw:
        """The next draw: trajectories, each with a jump after it."""
        draw = super().advance(rng)
        return Draw(draw.wxyz, draw.position, draw.potential, draw.acceptance, draw.gradients + self.thin)

    def trajectory(self, rng: np.random.Generator, kicks: int) -> float:
        """Propose, accept or reject, then jump or not; return the probability of acceptance of the former."""
        before = self.point
        probability = super().trajectory(rng, kicks)
        if self.point is not before and not self._belongs(self.point, self.mode):
            self.point, probability = before, 0.0
        self.jump(rng)
        return probability

    def jump(self, rng: np.random.Generator) -> bool:
        """Try to go to another mode; return whether it went."""
        targets = self.sampler.targets
        mode = (self.mode + 1 + int(rng.integers(len(targets) - 1))) % len(targets)
        level = rng.random()
        point, gain = self.other_side(mode)
        if math.isnan(gain) or not math.log(max(level, 1e-300)) < gain or not self._belongs(point, mode):
            return False
        self.point, self.mode = point, mode
        self.target, self.kicks = targets[mode], self.sampler.kicks[mode]
        return True

    def other_side(self, mode: int) -> tuple[Point, float]:
        """The same y at another mode, and the log of the target's ratio there and here."""
        point = self.sampler.targets[mode].at(self.point.y)
        here, there = (half_log_determinant(one) for one in (self.target, self.sampler.targets[mode]))
        return point, self.point.remainder - point.remainder + here - there

    def _belongs(self, point: Point, mode: int) -> bool:
        return self.sampler.regions.of(point.state[:, :4]) == mode


def half_log_determinant(target: CollapsedTarget) -> float:
    """``log det L − ½ log det C`` at a mode; C is the same at all of them unless it turns with the rotations."""
    positions = target.precision.factor().log_determinant() if target.precision.is_turning else 0.0
    return 0.5 * (target.laplace.factor.log_determinant() - positions)


def tune_jumping(
    laplaces: Sequence[Laplace], seed: int, *, kicks: Sequence[int] | None = None, thin: int = 1, warmup: int = WARMUP
) -> JumpingSampler:
    """The sampler with the number of kicks that pilot chains found best at each mode, or those given.

    Raises
    ------
    NotApplicable
        If positions cannot be integrated out, or the posterior at a mode is too far from Gaussian.
    """
    first = laplaces[0]
    if first.curvature.posterior.likelihood is not None:
        raise NotApplicable(
            "the sampler jumping does not work with a robust likelihood, whose positions are no Gaussian; "
            "use the sampler tempering"
        )
    framed = [
        Laplace(first.curvature, in_frame_of(first.curvature, first.poses, one.poses), first.beta) for one in laplaces
    ]
    regions = Regions(first.curvature.posterior.graph, [one.poses for one in framed])
    if kicks is not None:
        return JumpingSampler(tuple(map(CollapsedTarget, framed)), tuple(kicks), regions, thin, warmup)
    targets, found = [], []
    for laplace in framed:
        tuned = tune_collapsed(laplace, seed, longest=TURN)
        assert isinstance(tuned.sampler, CollapsedSampler)
        if tuned.acceptance < LEAST_ACCEPTANCE:
            raise NotApplicable(
                "the sampler jumping does not work on this posterior, a mode of it is too far from Gaussian; "
                "use the sampler tempering"
            )
        targets.append(tuned.sampler.target)
        found.append(tuned.sampler.kicks)
    return JumpingSampler(tuple(targets), tuple(found), regions, thin, warmup)


def in_frame_of(curvature: Curvature, reference: Poses, poses: Poses) -> Poses:
    """Poses moved, component by component, so that what the Hessian holds agrees with the reference.

    Only motions that cost nothing are made.
    """
    graph = curvature.posterior.graph
    turn = np.tile(quat.IDENTITY, (graph.n_components, 1))
    rows = curvature.rotation_anchor
    turn[graph.component[rows]] = quat.multiply(reference.wxyz[rows], quat.conjugate(poses.wxyz[rows]))
    each = turn[graph.component]
    position = quat.rotate(each, poses.position)
    part = graph.position_component
    shift = np.zeros((int(part.max(initial=-1)) + 1, 3))
    rows = curvature.position_anchor
    shift[part[rows]] = reference.position[rows] - position[rows]
    wxyz = quat.normalize(quat.multiply(np.where(graph.is_landmark[:, None], quat.IDENTITY, each), poses.wxyz))
    return Poses(poses.ids, wxyz, position + shift[part])
