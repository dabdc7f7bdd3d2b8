"""Readable twins of the compiled kernels: the paper's equations in ℝ⁴, a line each, slowly.

Nothing here shares a formula with the kernels: points on S³ are unit vectors of ℝ⁴ (the paper's node_from_world
``q_i``), velocities are ambient tangent vectors, gradients are Euclidean and projected afterwards.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from tempose.geometry import quaternion as quat
from tempose.model.posterior import Posterior
from tempose.numerics.random import fill_normals

Array = NDArray[np.float64]

CONJUGATE = np.diag([1.0, -1.0, -1.0, -1.0])


def pure(x: Array) -> Array:
    """Vectors (..., 3) as quaternions without scalar part."""
    return np.concatenate([np.zeros((*x.shape[:-1], 1)), x], axis=-1)


def left(a: Array) -> Array:
    """Matrices (..., 4, 4) with ``a ⊗ x = left(a) x``."""
    return np.stack([quat.multiply(a, e) for e in np.eye(4)], axis=-1)


def right(a: Array) -> Array:
    """Matrices (..., 4, 4) with ``x ⊗ a = right(a) x``."""
    return np.stack([quat.multiply(e, a) for e in np.eye(4)], axis=-1)


def turned(q: Array, x: Array) -> tuple[Array, Array, Array]:
    """``vec(q ⊗ x ⊗ q̄)``, and its derivatives by q in ℝ⁴ (..., 3, 4) and by x (..., 3, 3)."""
    value = quat.multiply(quat.multiply(q, pure(x)), quat.conjugate(q))[..., 1:]
    by_q = right(quat.multiply(pure(x), quat.conjugate(q))) + left(quat.multiply(q, pure(x))) @ CONJUGATE
    by_x = left(q) @ right(quat.conjugate(q))
    return value, by_q[..., 1:, :], by_x[..., 1:, 1:]


def pull(jacobian: Array, covector: Array) -> Array:
    """``Jᵀ f``, batched."""
    return np.einsum("...ab,...a->...b", jacobian, covector)


def euclidean_gradient(posterior: Posterior, q: Array, x: Array, coordinates: str) -> tuple[Array, Array]:
    """Gradient of U by ``q_i`` in ℝ⁴ (n, 4) and by x, which is t_i ("paper") or c_i ("position") (n, 3)."""
    graph, n = posterior.graph, len(q)
    i, j = graph.edge_i, graph.edge_j
    gq, gx = np.zeros((n, 4)), np.zeros((n, 3))

    error_by_i = left(graph.j_from_i_wxyz) @ right(quat.conjugate(q[j]))  # q_ij ⊗ q_i ⊗ q̄_j is linear in both
    error_by_j = left(quat.multiply(graph.j_from_i_wxyz, q[i])) @ CONJUGATE
    nu = np.einsum("mab,mb->ma", error_by_i, q[i])[:, 1:]
    twice = 2.0 * np.einsum("mab,mb->ma", graph.concentration_matrices, nu)
    np.add.at(gq, i, pull(error_by_i[:, 1:], twice))
    np.add.at(gq, j, pull(error_by_j[:, 1:], twice))

    if coordinates == "paper":
        relative = quat.multiply(q[j], quat.conjugate(q[i]))
        moved, by_relative, by_ti = turned(relative, x[i])
        mu = x[j] - moved
        mu_by_xi, mu_by_xj = -by_ti, np.broadcast_to(np.eye(3), by_ti.shape)
        mu_by_qj = -by_relative @ right(quat.conjugate(q[i]))
        mu_by_qi = -by_relative @ left(q[j]) @ CONJUGATE
    else:
        mu, mu_by_qj, mu_by_xi = turned(q[j], x[i] - x[j])
        mu_by_xj, mu_by_qi = -mu_by_xi, np.zeros_like(mu_by_qj)
    force = -np.einsum("mab,mb->ma", graph.translation_precision_matrices, np.nan_to_num(graph.j_from_i_t) - mu)
    np.add.at(gq, i, pull(mu_by_qi, force))
    np.add.at(gq, j, pull(mu_by_qj, force))
    np.add.at(gx, i, pull(mu_by_xi, force))
    np.add.at(gx, j, pull(mu_by_xj, force))
    return gq, gx


def geodesic(q: Array, v: Array, h: float) -> tuple[Array, Array]:
    """The appendix's step A on S³, as printed, and back to the sphere.

    As printed, rounding errors off the sphere grow exponentially, because ``P(q)`` is a projector for unit q only;
    a run of a hundred steps would lose half of its digits.
    """
    alpha = np.linalg.norm(v, axis=-1, keepdims=True)
    direction = np.divide(v, alpha, out=np.zeros_like(v), where=alpha > 0.0)
    q, v = (
        q * np.cos(alpha * h) + direction * np.sin(alpha * h),
        -alpha * q * np.sin(alpha * h) + v * np.cos(alpha * h),
    )
    q = quat.normalize(q)
    return q, projected(q, v)


def projected(q: Array, z: Array) -> Array:
    """``P(q) z = (I − q qᵀ) z``."""
    return np.einsum("nab,nb->na", np.eye(4) - q[:, :, None] * q[:, None, :], z)


def noise_sizes(name: str, noise: str, h: float, c: float, beta: float) -> list[float]:
    """Size of the noise of each O of a scheme in the paper's letters, in their order."""
    count = name.count("o")
    if noise == "paper":
        return [math.sqrt(2.0 * c / beta / count)] * count
    if noise == "euler":
        return [math.sqrt(2.0 * c * h / beta / count)] * count
    # exact: after all the friction of the step the noise has the variance of an Ornstein–Uhlenbeck process
    target = (1.0 - math.exp(-2.0 * c * h)) / beta / count
    sizes = []
    for place, letter in enumerate(name):
        if letter == "o":
            decay = math.exp(-c * h * name[place:].count("b") / name.count("b"))
            sizes.append(math.sqrt(target) / decay)
    return sizes


def simulate(
    posterior: Posterior,
    wxyz: Array,
    position: Array,
    velocity: Array,
    *,
    name: str,
    letters: str,
    noise: str,
    coordinates: str,
    h: float,
    c: float,
    beta: float,
    inverse_mass: Array,
    key: NDArray[np.uint64],
    steps: int,
) -> tuple[Array, Array, Array]:
    """Run a scheme letter by letter; arguments and results as in :class:`tempose.dynamics.chain.ChainState`."""
    rng = np.random.default_rng(99)
    q = quat.conjugate(wxyz)
    x = quat.rotate(q, -position) if coordinates == "paper" else position.copy()
    v, w = -quat.multiply(q, pure(velocity[:, :3])), velocity[:, 3:].copy()  # ȧ = u ⊗ a, so q̇ = −q ⊗ u
    share = {letter: h / name.count(letter) for letter in "abo"}
    printed = noise_sizes(name, noise, h, c, beta)
    inverse_turn, inverse_push = inverse_mass[:, :1], inverse_mass[:, 1:]

    def kick(size: float) -> None:
        nonlocal v, w
        gq, gx = euclidean_gradient(posterior, q, x, coordinates)
        v = v - size * inverse_turn * projected(q, gq)
        w = w - size * inverse_push * gx

    def shake(size: float, step: int, operation: int) -> None:
        nonlocal v, w
        normals = np.empty((len(q), 6))
        fill_normals(key[0], key[1], step, 3 * operation, normals)
        # a standard normal in ℝ⁴ seen in the frame of q; its part along q is projected away
        z = -quat.multiply(q, np.concatenate([rng.standard_normal((len(q), 1)), normals[:, :3]], axis=1))
        v = v + size * np.sqrt(inverse_turn) * projected(q, z)
        w = w + size * np.sqrt(inverse_push) * normals[:, 3:]

    for step in range(steps):
        operation, nth_o = 0, 0
        for is_drift, run in itertools.groupby(name, key=lambda letter: letter == "a"):
            for letter in run:
                size = share[letter]
                if letter == "a":
                    q, v = geodesic(q, v, size)
                    x = x + size * w
                    operation += 1
                elif letters == "paper":
                    if letter == "b":
                        v, w = v * math.exp(-c * size), w * math.exp(-c * size)
                    else:
                        kick(size)
                        shake(printed[nth_o], step, operation)
                        nth_o += 1
                elif letter == "b":
                    kick(size)
                else:
                    v, w = v * math.exp(-c * size), w * math.exp(-c * size)
                    shake(math.sqrt((1.0 - math.exp(-2.0 * c * size)) / beta), step, operation)
            operation += not is_drift  # the kernel merges neighbouring velocity updates into one operation
    u = -quat.multiply(quat.conjugate(q), v)[:, 1:]
    world = quat.conjugate(q)
    return world, (-quat.rotate(world, x) if coordinates == "paper" else x), np.concatenate([u, w], axis=1)
