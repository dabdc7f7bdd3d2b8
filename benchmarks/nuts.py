"""The posterior once more, written independently in JAX, and BlackJAX's NUTS on it: a peer, for benchmarks and tests.

Rotation matrices instead of quaternions, automatic instead of derived gradients: with ``R = R̂ Exp(−ω)`` (node_from_world;
``Exp(ω)`` turns the node in the world) and ``p = p̂ + δ``, one node held, the density of (ω, δ) is

    exp(−β Σ_edges [ λ/8 ‖R_ij − R_j R_iᵀ‖² + τ/2 |t_ij − R_j (p_i − p_j)|² ]) Π_nodes 2(1 − cos|ω|)/|ω|²,   |ω| < π.

Needs ``pip install '.[bench]'``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def _matrix(wxyz):
    """Rotation matrices (n, 3, 3) of quaternions, by the textbook."""
    w, x, y, z = np.moveaxis(wxyz, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), -1, 0)


def _exp(omega):
    """Rodrigues' formula, and the logarithm of the volume factor; smooth at zero."""
    square = jnp.sum(omega**2, axis=-1)
    small = square < 1e-6
    safe = jnp.where(small, 1.0, square)
    theta = jnp.sqrt(safe)
    a = jnp.where(small, 1.0 - square / 6.0, jnp.sin(theta) / theta)
    b = jnp.where(small, 0.5 - square / 24.0, (1.0 - jnp.cos(theta)) / safe)
    x, y, z = omega[:, 0], omega[:, 1], omega[:, 2]
    zero = jnp.zeros_like(x)
    hat = jnp.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(-1, 3, 3)
    turn = jnp.eye(3) + a[:, None, None] * hat + b[:, None, None] * (hat @ hat)
    return turn, jnp.log(2.0 * b), square


def log_density(graph, center, beta=1.0):
    """Logarithm of the density of (6(n−1),) coordinates, nodes after the first, rotation vector then position each."""
    if not graph.is_isotropic:
        raise ValueError("only graphs with scalar precisions")
    i, j = np.asarray(graph.edge_i), np.asarray(graph.edge_j)
    R_ij, t_ij = _matrix(np.asarray(graph.j_from_i_wxyz)), np.nan_to_num(graph.j_from_i_t)
    lam = np.asarray(graph.concentration)
    tau = np.where(np.isfinite(graph.j_from_i_t).all(axis=1), graph.translation_precision, 0.0)
    world, position = _matrix(center.wxyz), np.asarray(center.position)

    def value(x):
        x = jnp.concatenate([jnp.zeros((1, 6)), x.reshape(-1, 6)])
        turn, log_volume, square = _exp(x[:, :3])
        R = jnp.swapaxes(turn @ world, 1, 2)  # node_from_world
        p = position + x[:, 3:]
        rotation = jnp.sum((R_ij - R[j] @ jnp.swapaxes(R[i], 1, 2)) ** 2, axis=(1, 2))
        shift = jnp.sum((t_ij - jnp.einsum("eab,eb->ea", R[j], p[i] - p[j])) ** 2, axis=1)
        energy = jnp.sum(lam / 8.0 * rotation) + jnp.sum(0.5 * tau * shift)
        inside = jnp.all(square < jnp.pi**2)
        return jnp.where(inside, -beta * energy + jnp.sum(log_volume[1:]), -jnp.inf)

    return value


@dataclass(frozen=True)
class NutsRun:
    """Draws (draws, d), leapfrog steps and acceptance of each, processor seconds of warm-up and of sampling."""

    draws: np.ndarray
    leapfrogs: np.ndarray
    acceptance: np.ndarray
    warmup_seconds: float
    seconds: float


def run(value, start, draws, warmup, seed, *, dense=False):
    """One chain of NUTS with BlackJAX's window adaptation; compilation is not timed."""
    adaptation = blackjax.window_adaptation(blackjax.nuts, value, is_mass_matrix_diagonal=not dense)

    def adapt(key, x):
        (state, parameters), _ = adaptation.run(key, x, num_steps=warmup)
        return state, parameters

    def sample(key, state, parameters):
        kernel = blackjax.nuts(value, **parameters).step

        def one(state, key):
            state, info = kernel(key, state)
            return state, (state.position, info.num_integration_steps, info.acceptance_rate)

        return jax.lax.scan(one, state, jax.random.split(key, draws))[1]

    keys = jax.random.split(jax.random.PRNGKey(seed), 2)
    adapt = jax.jit(adapt).lower(keys[0], jnp.asarray(start)).compile()
    began = time.process_time()
    state, parameters = jax.block_until_ready(adapt(keys[0], jnp.asarray(start)))
    warmup_seconds = time.process_time() - began
    sample = jax.jit(sample).lower(keys[1], state, parameters).compile()
    began = time.process_time()
    found = jax.block_until_ready(sample(keys[1], state, parameters))
    seconds = time.process_time() - began
    return NutsRun(*(np.asarray(x) for x in found), warmup_seconds, seconds)


def gradient_seconds(value, start, repeats=10):
    """Processor time of one value and gradient."""
    evaluate = jax.jit(jax.value_and_grad(value))
    x = jnp.asarray(start)
    jax.block_until_ready(evaluate(x))
    began = time.process_time()
    for _ in range(repeats):
        jax.block_until_ready(evaluate(x))
    return (time.process_time() - began) / repeats
