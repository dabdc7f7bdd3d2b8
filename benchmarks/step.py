"""One step of TG-MCMC (gradient of all edges and a BOA step with noise), in nanoseconds per edge.

    python benchmarks/step.py [--quick] [--seconds 1.0]

Side by side in one run, best of many interleaved repeats: our kernels on one thread and on two, the same step in
vectorised NumPy (one thread) and in JAX (compiled, float64, on all threads), and the memory-bandwidth bound. The
bound is what must move at least, every edge once (80 bytes) and the poses and velocities of every node in and out
(208 bytes), over the bandwidth of ``a = b + s c`` on large arrays with the same number of threads. Below about 1e5
edges the data fit into the caches and the bound does not bind. Small graphs are left to one thread.

Two kinds of graphs: ``random`` has 10 edges per node between any two nodes, ``local`` is a trajectory with 3 edges per
node that stay within 200 nodes, like most files from robots.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numba
import numpy as np
from numba import njit, prange
from scipy.sparse import csr_array

from tempose._support.streams import key
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics import steps as geodesic
from tempose.numerics.layout import rows

EDGE_BYTES, NODE_BYTES = 80, 208
STEP, FRICTION = 1e-4, 100.0


def make(kind: str, m: int) -> tuple[Posterior, Poses]:
    rng = np.random.default_rng(0)
    if kind == "random":
        n = m // 10
        i = rng.integers(n, size=m)
        j = (i + rng.integers(1, n, size=m)) % n
    else:
        n = m // 3
        i = np.arange(m) % n
        j = np.where(np.arange(m) < n, i + 1, i + rng.integers(2, 200, size=m)) % n
    wxyz, position = quat.random_uniform(rng, n), rng.standard_normal((n, 3))
    back = quat.conjugate(wxyz[j])
    measured = quat.multiply(quat.exp(0.02 * rng.standard_normal((m, 3))), quat.multiply(back, wxyz[i]))
    t = quat.rotate(back, position[i] - position[j]) + 0.01 * rng.standard_normal((m, 3))
    ids = tuple(range(n))
    return Posterior(PoseGraph(ids, i, j, measured, t, np.full(m, 5e3), np.full(m, 1e4))), Poses(ids, wxyz, position)


# ---------------------------------------------------------------------- ours


def ours(posterior: Posterior, poses: Poses, threads: int, repeat: int) -> Callable[[], None]:
    n = len(poses)
    state, velocity, g = rows(n), np.zeros((n, 6)), rows(n)
    state[:, :4], state[:, 4:7] = poses.wxyz, poses.position
    work, batch, energies = posterior.workspace(), np.empty((0, 2), np.int64), np.empty(repeat)
    ops, mass, stream = Scheme("boa").operations(STEP, FRICTION, 1.0), np.ones((n, 2)), key(0, "chain")
    advance = geodesic.advance_parallel if threads > 1 else geodesic.advance

    def run() -> None:
        numba.set_num_threads(threads)
        advance(
            posterior.edge_blocks, geodesic.NO_TABLE, ops, 0, repeat, state, velocity, g, False,
            mass, stream, False, False, work, batch, energies,
        )  # fmt: skip

    return run


# ---------------------------------------------------------------------- the same in arrays


def array_step(xp, graph: PoseGraph, scatter, normal):  # type: ignore[no-untyped-def]
    """The step in terms of an array library: poses and velocities in, poses and velocities out."""
    i, j = graph.edge_i, graph.edge_j
    q, t, lam, tau = (
        graph.j_from_i_wxyz,
        graph.j_from_i_t,
        graph.concentration[:, None],
        graph.translation_precision[:, None],
    )
    conjugate = np.array([1.0, -1.0, -1.0, -1.0])
    _, decay, kick, size = Scheme("boa").operations(STEP, FRICTION, 1.0)[0]

    def multiply(a, b):  # type: ignore[no-untyped-def]
        aw, ax, ay, az = a[:, 0], a[:, 1], a[:, 2], a[:, 3]
        bw, bx, by, bz = b[:, 0], b[:, 1], b[:, 2], b[:, 3]
        return xp.stack(
            [
                aw * bw - ax * bx - ay * by - az * bz, aw * bx + ax * bw + ay * bz - az * by,
                aw * by - ax * bz + ay * bw + az * bx, aw * bz + ax * by - ay * bx + az * bw,
            ], axis=1,
        )  # fmt: skip

    def cross(a, b):  # type: ignore[no-untyped-def]
        return xp.stack(
            [a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1], a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2], a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]],
            axis=1,
        )  # fmt: skip

    def step(a, p, v, seed):  # type: ignore[no-untyped-def]
        aj, ai = a[j], a[i]
        s = multiply(multiply(aj, q), ai * conjugate)
        twice = 2.0 * cross(aj[:, 1:], t)
        m = t + aj[:, :1] * twice + cross(aj[:, 1:], twice)
        rho = m - (p[i] - p[j])
        turn, push = lam * s[:, :1] * s[:, 1:], tau * rho
        energy = xp.sum(lam * s[:, 1:] ** 2) + 0.5 * xp.sum(tau * rho**2)
        back = xp.concatenate([turn, push], axis=1)
        g = scatter(xp.concatenate([turn + cross(m, push), push], axis=1), back)
        v = decay * v - kick * g * np.array([2.0, 2.0, 2.0, 1.0, 1.0, 1.0]) + size * normal(seed, v.shape)
        u = STEP * v[:, :3]
        angle = xp.sqrt(xp.sum(u * u, axis=1, keepdims=True)) + 1e-300
        a = multiply(xp.concatenate([xp.cos(angle), xp.sin(angle) / angle * u], axis=1), a)
        return a / xp.sqrt(xp.sum(a * a, axis=1, keepdims=True)), p + STEP * v[:, 3:], v, energy

    return step


def in_numpy(posterior: Posterior, poses: Poses) -> Callable[[], None]:
    graph, n, m = posterior.graph, len(poses), posterior.graph.n_edges
    rng = np.random.default_rng(0)
    to_j, to_i = (csr_array((np.ones(m), (ends, np.arange(m))), shape=(n, m)) for ends in (graph.edge_j, graph.edge_i))
    step = array_step(
        np, graph, lambda at_j, at_i: to_j @ at_j - to_i @ at_i, lambda _, shape: rng.standard_normal(shape)
    )
    state = [poses.wxyz, poses.position, np.zeros((n, 6))]

    def run() -> None:
        *state[:], _ = step(*state, 0)

    return run


def in_jax(posterior: Posterior, poses: Poses) -> Callable[[], None] | None:
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    graph, n = posterior.graph, len(poses)

    def scatter(at_j, at_i):  # type: ignore[no-untyped-def]
        return jax.numpy.zeros((n, 6)).at[graph.edge_j].add(at_j).at[graph.edge_i].add(-at_i)

    step = jax.jit(array_step(jax.numpy, graph, scatter, jax.random.normal))
    state = [*map(jax.numpy.asarray, (poses.wxyz, poses.position, np.zeros((n, 6)))), jax.random.key(0)]

    def run() -> None:
        *state[:3], energy = step(*state)
        energy.block_until_ready()

    return run


# ---------------------------------------------------------------------- bandwidth


@njit(parallel=True)
def triad(a, b, c):  # type: ignore[no-untyped-def]
    for k in prange(a.shape[0]):
        a[k] = b[k] + 3.0 * c[k]


def bandwidth(threads: int, arrays: list[np.ndarray]) -> Callable[[], None]:
    def run() -> None:
        numba.set_num_threads(threads)
        triad(*arrays)

    return run


# ---------------------------------------------------------------------- the table


def best(calls: dict[str, Callable[[], None]], seconds: float) -> dict[str, float]:
    """Return the shortest time of each call in nanoseconds, one repeat of each after the other."""
    for call in calls.values():
        call()
    times = dict.fromkeys(calls, np.inf)
    start, rounds = time.perf_counter(), 0
    while rounds < 3 or time.perf_counter() - start < seconds * len(calls):
        for name, call in calls.items():
            before = time.perf_counter_ns()
            call()
            times[name] = min(times[name], time.perf_counter_ns() - before)
        rounds += 1
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 1e5 edges only")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each entry of the table")
    options = parser.parse_args()
    sizes = [1_000, 10_000, 100_000] if options.quick else [1_000, 10_000, 100_000, 1_000_000, 3_000_000]
    counts = [1, 2] if numba.config.NUMBA_NUM_THREADS > 1 else [1]
    fastest: dict[int, float] = {}
    arrays = [np.ones(10_000_000) for _ in range(3)]

    print("nanoseconds per edge of one step; in brackets, how many times slower than ours on one thread")
    print(f"{'graph':>8} {'edges':>8} {'nodes':>7} {'threads':>7} {'ours':>7} {'bound':>7} {'ours/bound':>10}", end="")
    print(f" {'NumPy':>14} {'JAX':>14}   GB/s", flush=True)
    for kind in ("random", "local"):
        for m in sizes:
            posterior, poses = make(kind, m)
            n, repeat = len(poses), max(1, 400_000 // m)  # steps in one call: others may have emptied the caches
            used = counts if posterior.runs_parallel else [1]
            calls = {f"ours {c}": ours(posterior, poses, c, repeat) for c in used}
            calls |= {f"bandwidth {c}": bandwidth(c, arrays) for c in counts}
            calls["numpy"] = in_numpy(posterior, poses)
            jax = in_jax(posterior, poses)
            if jax is not None:
                calls["jax"] = jax
            times = best(calls, options.seconds)
            fastest = {c: min(fastest.get(c, np.inf), times[f"bandwidth {c}"]) for c in counts}
            for c in used:
                rate = 24 * len(arrays[0]) / fastest[c]  # bytes per nanosecond, the best so far
                us = times[f"ours {c}"] / repeat / m
                bound = (EDGE_BYTES + NODE_BYTES * n / m) / rate
                print(f"{kind:>8} {m:>8} {n:>7} {c:>7} {us:>7.1f} {bound:>7.1f} {us / bound:>10.2f}", end="")
                if c == 1:
                    for name in ("numpy", "jax"):
                        other = times[name] / m if name in times else np.nan
                        print(f" {other:>7.0f} ({other / us:>4.1f})" if name in times else f" {'–':>14}", end="")
                else:
                    print(" " * 30, end="")
                print(f"  {rate:>5.1f}", flush=True)
    if jax is None:
        print("JAX is not installed: pip install jax")


if __name__ == "__main__":
    main()
