"""Projected gradient descent on U."""

from __future__ import annotations

import numpy as np

from tempose._support import streams
from tempose._typing import Array
from tempose.dynamics.descent import Hook, Watch
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.methods.base import Estimate, synchronisation_method, typical_length
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.starts import start_poses
from tempose.sampling.tuning import tune


@synchronisation_method(connected=False)
def pgd(
    graph: PoseGraph, *, step: float | None = None, iterations: int = 2000, tolerance: float = 1e-11,
    start: str | Poses = "tree", seed: int = 0, hook: Hook | None = None,
) -> Estimate:  # fmt: skip
    """Step against the gradient of U in ℝ⁴ × ℝ³ and scale the quaternions back to unit length.

    In the paper's coordinates, node_from_world ``(q_i, t_i)``, and with its step convention: TG-MCMC at β → ∞ and strong
    friction moves by ``h² ∇U`` in a step of size h, and so does this. U is extended to quaternions of any length by
    their direction, so that its gradient is tangential; the walk leaves the sphere along it and is projected back.

    Parameters
    ----------
    step
        h; by default the inverse of the fastest frequency of U at the start. Halved whenever U would rise.
    iterations, tolerance
        Stop when no quaternion moves by more than ``tolerance`` and no translation by that times the typical length
        of an edge.
    start
        Poses, or one of :data:`tempose.optimum.starts.STARTS`; the paper starts at ``random``.
    seed
        Of a random start.
    hook
        Called with a :class:`~tempose.dynamics.descent.Watch` after every step.
    """
    if step is not None and not step > 0.0:
        raise OptionError(f"the step must be positive, not {step}")
    posterior = Posterior(graph)
    first = start_poses(graph, start, streams.generator(seed, "start")) if isinstance(start, str) else start
    h = step or 1.0 / tune(Curvature(posterior), first, identity_mass=True).fastest
    work = posterior.workspace()
    length = typical_length(graph.j_from_i_t[graph.has_translation]) if np.any(graph.has_translation) else 1.0

    q, t = first.node_from_world
    value, q_slope, t_slope = _gradient(posterior, q, t, work)
    status, done = "iteration limit", 0
    while done < iterations:
        done += 1
        while True:
            new_q, new_t = quat.normalize(q - h * h * q_slope), t - h * h * t_slope
            new = _gradient(posterior, new_q, new_t, work)
            if new[0] <= value + 1e-13 * abs(value) or h < 1e-150:  # but for rounding
                break
            h *= 0.5
        moved = max(float(np.abs(new_q - q).max()), float(np.abs(new_t - t).max()) / length)
        q, t, (value, q_slope, t_slope) = new_q, new_t, new
        if hook is not None:
            hook(Watch("optimise", 0, done, value, np.inf, Poses.from_node_from_world(graph.node_ids, q, t)))
        if moved < tolerance:
            status = "converged"
            break
    poses = Poses.from_node_from_world(graph.node_ids, q, t)
    return Estimate(poses, status, done, message=f"step h = {h:.3g}")


def _gradient(posterior: Posterior, q: Array, t: Array, work: Array) -> tuple[float, Array, Array]:
    """U and its gradients by q (n, 4), tangential, and by t (n, 3), for node_from_world poses."""
    a, p = se3.inverse((q, t))
    value, slope = posterior.gradient_at(a, p, work)
    by_turn, by_position = slope[:, :3], slope[:, 3:]
    # p = −R t: with t held, turning the node about the world's origin carries its position along
    by_turn = by_turn + np.cross(p, by_position)
    by_t = -quat.rotate(q, by_position)
    # a → exp(ω/2) a is q → q exp(−ω/2): the tangent vector of ω is −½ q (0, ω), of length |ω|/2
    pure = np.concatenate([np.zeros((len(q), 1)), by_turn], axis=1)
    return value, -2.0 * quat.multiply(q, pure), by_t
