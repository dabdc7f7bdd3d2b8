"""What a scheme draws on a Gaussian posterior, in closed form, and the small graphs it is compared with."""

from __future__ import annotations

import math

import numpy as np

from tempose._typing import Array
from tempose.dynamics.schemes import Scheme
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import Minimum, minimise
from tempose.simulation import simulate


def small_graph(seed: int) -> tuple[Posterior, Curvature, Minimum]:
    """A random graph of 8 nodes and 22 edges with σ = 0.05 rad and 0.1, flat priors, and its optimum."""
    made = simulate(8, completeness=22 / 32, sigma_rot_deg=math.degrees(0.05), sigma_trans=0.1, seed=seed)
    posterior = Posterior(made.graph)
    curvature = Curvature(posterior)
    return posterior, curvature, minimise(curvature, made.truth)


def squared_frequencies(curvature: Curvature, minimum: Minimum) -> Array:
    """Eigenvalues ω² (6n − 6,) of the Hessian at the optimum for unit masses, without the six motions of the whole.

    Rotations are measured by arc length on S³, half the rotation angle, as in the kernels.
    """
    diagonal, off = curvature.blocks(minimum.poses.wxyz, minimum.poses.position)
    n, table = len(diagonal), curvature.posterior.edge_table
    source, target = table.source, np.repeat(np.arange(n), np.diff(table.start))
    hessian = np.zeros((n, n, 6, 6))
    hessian[np.arange(n), np.arange(n)] = diagonal
    np.add.at(hessian, (source, target), off)
    np.add.at(hessian, (target, source), np.swapaxes(off, 1, 2))
    unit = np.tile([2.0, 2.0, 2.0, 1.0, 1.0, 1.0], n)
    flat = unit[:, None] * hessian.transpose(0, 2, 1, 3).reshape(6 * n, 6 * n) * unit
    return np.asarray(np.linalg.eigvalsh(flat)[6:])


def stationary_mean(scheme: Scheme, step: float, friction: float, beta: float, omega2: Array) -> float:
    """⟨U⟩ − U* of a scheme on a Gaussian posterior whose modes have squared frequencies ``omega2``.

    BOA moves each mode as the autoregression ``x'' = (1 + f − h²ω²) x' − f x + h s z``, f = e^(−ch), s² the variance of
    the noise; its stationary variance gives ``⟨½ω²x²⟩ = ½ · s²/(2(1 − f)) / (1 − h²ω²/(2(1 + f)))``. BAOAB is exact.
    """
    if scheme.name == "baoab":
        return len(omega2) / (2.0 * beta)
    f = math.exp(-friction * step)
    noise2 = scheme.operations(step, friction, beta)[0, 3] ** 2
    return float(0.5 * np.sum(noise2 / (2.0 * (1.0 - f)) / (1.0 - step**2 * omega2 / (2.0 * (1.0 + f)))))
