"""Which TG-MCMC schemes sample the right distribution: ⟨U⟩ − U* on graphs of 8 nodes and 22 edges.

With flat priors the exact value is ``(6n − 6)/(2β) = 21.0`` at β = 1, up to the square of the noise. Every scheme
runs at three settings of friction c and step h, on several graphs drawn alike; biased schemes depend on the graph,
right ones do not. Beside each mean stand its Monte Carlo error and, in brackets, the spread between graphs. ``linear
theory`` is the closed form for a Gaussian posterior (:func:`stationary_mean`), ``reference`` an independent
measurement on another such graph.

    python examples/schemes_table.py
    python examples/schemes_table.py --quick
    python examples/schemes_table.py --coordinates position --batch 22
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from tempose._support import streams
from tempose.dynamics.chain import Dynamics, GeodesicChain
from tempose.dynamics.options import COORDINATES
from tempose.dynamics.schemes import Scheme
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import Minimum, minimise
from tempose.simulation import simulate

Array = NDArray[np.float64]

SETTINGS = ((1000.0, 0.001), (1000.0, 0.003), (10.0, 0.003))  # friction c, step h
NONE = (math.nan,) * len(SETTINGS)
SCHEMES = {  # scheme, β, reference values
    "BOA, noise as printed": (Scheme("boa", "paper"), 1.0, (32016.0, 26027.0, 8337.0)),
    "the same, β = 1000": (Scheme("boa", "paper"), 1000.0, NONE),
    "BOA, noise √(2ch/β)": (Scheme("boa", "euler"), 1.0, (33.4, 69.1, 22.3)),
    "BOA, exact OU": (Scheme("boa", "exact"), 1.0, (14.5, 11.4, 21.5)),
    "BAOAB, exact OU": (Scheme("baoab", "exact"), 1.0, (21.1, 21.1, 21.1)),
}
BATCHES = 30


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


def measure(
    posterior: Posterior, minimum: Minimum, dynamics: Dynamics, steps: int, key: NDArray[np.uint64]
) -> tuple[float, float]:
    """⟨U⟩ − U* over one chain that starts at the optimum, its first tenth left out, and the error by batch means."""
    chain = GeodesicChain(posterior, minimum.poses, key)
    energy = chain.run(dynamics, steps)[steps // 10 :] - minimum.potential
    batches = energy[: len(energy) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)
    return float(energy.mean()), float(batches.std(ddof=1) / math.sqrt(BATCHES))


def digits(value: float) -> int:
    """Decimals worth printing."""
    return 0 if abs(value) >= 1000.0 else 1 if abs(value) >= 100.0 else 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all schemes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=5, help="graphs of 8 nodes to run on (default 5)")
    parser.add_argument("--steps", type=int, default=300_000, help="steps of each chain (default 300000)")
    parser.add_argument("--coordinates", choices=tuple(COORDINATES), default="paper", help="default: paper")
    parser.add_argument("--batch", type=int, default=0, help="edges per stochastic gradient (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph (default 0)")
    parser.add_argument("--quick", action="store_true", help="two graphs, 30000 steps")
    options = parser.parse_args(arguments)
    if options.quick:
        options.graphs, options.steps = min(options.graphs, 2), min(options.steps, 30_000)

    value = np.empty((options.graphs, len(SCHEMES), len(SETTINGS)))
    error, linear = np.empty_like(value), np.empty_like(value)
    work = [(g, s, k) for g in range(options.graphs) for s in range(len(SCHEMES)) for k in range(len(SETTINGS))]
    schemes = [(scheme, beta) for scheme, beta, _ in SCHEMES.values()]
    for g, s, k in track(work, "chains", console=Console(stderr=True)):
        if s == k == 0:
            posterior, curvature, minimum = small_graph(options.seed + g)
            omega2 = squared_frequencies(curvature, minimum)
        (scheme, beta), (friction, step) = schemes[s], SETTINGS[k]
        dynamics = Dynamics(scheme, step, friction, beta, options.coordinates, options.batch)
        key = streams.key(options.seed + g, "chain", s * len(SETTINGS) + k)
        value[g, s, k], error[g, s, k] = measure(posterior, minimum, dynamics, options.steps, key)
        linear[g, s, k] = stationary_mean(scheme, step, friction, beta, omega2)

    where = f"{options.graphs} graphs, {options.steps} steps each, coordinates {options.coordinates}"
    print(f"⟨U⟩ − U* at β = 1 over {where}" + (f", {options.batch} edges per gradient" if options.batch else ""))
    print("mean ± Monte Carlo error [spread between graphs]; linear theory; reference\n")
    print("| scheme |" + "".join(f" c = {c:g}, h = {h:g} |" for c, h in SETTINGS) + "\n|---|" + "---|" * len(SETTINGS))
    mean, spread = value.mean(axis=0), value.std(axis=0, ddof=1) if options.graphs > 1 else np.zeros(value.shape[1:])
    sampling = np.sqrt((error**2).sum(axis=0)) / options.graphs
    for s, (name, (_, _, reference)) in enumerate(SCHEMES.items()):
        cells = []
        for k in range(len(SETTINGS)):
            d = digits(mean[s, k])
            theory = linear[:, s, k].mean()
            known = "–" if math.isnan(reference[k]) else f"{reference[k]:g}"
            measured = f"{mean[s, k]:.{d}f} ± {sampling[s, k]:.{d}f} [{spread[s, k]:.{d}f}]"
            cells.append(f" {measured}; {theory:.{max(d - 1, 0)}f}; {known} |")
        print(f"| {name} |" + "".join(cells))
    print("\nexact: 21.0 + O(noise²) at β = 1, a thousandth of it at β = 1000")


if __name__ == "__main__":
    main()
