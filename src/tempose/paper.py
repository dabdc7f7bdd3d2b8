"""All that is only the paper's: its numbers, each with its place in the text, and the preset that solves as it did.

Birdal, Şimşekli, Eken & Ilic, *Bayesian Pose Graph Optimization via Bingham Distributions and Tempered Geodesic MCMC*,
NeurIPS 2018.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tempose._typing import Array, Mask
from tempose.model.graph import PoseGraph
from tempose.optimum.options import TgMcmc
from tempose.options import SolveOptions
from tempose.sampling.options import Geodesic

__all__ = [
    "BETA",
    "DRAWS",
    "FRICTION",
    "LAMBDA",
    "NODES",
    "SIGMA2",
    "SIZES",
    "STEP",
    "STEPS",
    "TABLE_1",
    "longest_step",
    "preset",
    "with_paper_noise",
]

# ---------------------------------------------------------------------- appendix, "Hyper-parameter Selection"

FRICTION = 1000.0
"""c, in all experiments."""
STEP = (0.001, 0.008)
"""h, "depending on the dataset"."""
LAMBDA = (350.0, 900.0)
"""λ of the Bingham distribution of an edge."""
SIGMA2 = (0.01, 0.1)
"""σ² of the Gaussian of an edge, length²."""
STEPS = 800
"""Integration steps of an optimisation: "typically in range [350, 800]"."""

# ---------------------------------------------------------------------- section "Experiments"

BETA = 1000.0
"""Inverse temperature of the draws ("∼1000"), after an optimisation at β → ∞."""
DRAWS = 40
"""Samples of the posterior behind a picture of uncertainty."""
NODES = 50
"""Poses of the random graphs (Figure 2)."""

TABLE_1: dict[str, dict[str, tuple[float, float]]] = {
    scene: dict(
        zip(
            ("ozyesil", "r-godec", "govindu", "torsello", "eig-se3", "tg-mcmc"),
            zip(numbers[::2], numbers[1::2], strict=True),
            strict=True,
        )
    )
    for scene, numbers in {
        "Herz-Jesus-P8": (0.060, 0.007, 0.040, 0.009, 0.106, 0.015, 0.106, 0.015, 0.040, 0.004, 0.106, 0.015),
        "Herz-Jesus-P25": (0.140, 0.065, 0.130, 0.038, 0.081, 0.020, 0.081, 0.020, 0.070, 0.010, 0.081, 0.020),
        "fountain-P11": (0.030, 0.004, 0.030, 0.006, 0.071, 0.004, 0.071, 0.004, 0.030, 0.004, 0.071, 0.004),
        "entry-P10": (0.560, 0.203, 0.440, 0.433, 0.101, 0.035, 0.101, 0.035, 0.040, 0.009, 0.090, 0.035),
        "castle-P19": (3.690, 1.769, 1.570, 1.493, 0.393, 0.147, 0.393, 0.147, 1.480, 0.709, 0.393, 0.148),
        "castle-P30": (1.970, 1.393, 0.780, 1.123, 0.631, 0.323, 0.629, 0.321, 0.530, 0.212, 0.622, 0.285),
    }.items()
}
"""Mean rotation error (degrees) and mean position error (metres) by scene of the EPFL benchmark and method."""

# ---------------------------------------------------------------------- appendix, Table 2

SIZES = {"Madrid": (394, 23784), "South Building": (128, 4096)}
"""Nodes and edges of its graphs; the edges of South Building are not given: half of all pairs."""

# ---------------------------------------------------------------------- solving as the paper did


def preset(**changes: Any) -> SolveOptions:
    """The paper's scheme as printed: BOA, its friction and noise, its λ and σ² in place of the graph's own, β = 1000.

    ``changes`` are options of :class:`~tempose.options.SolveOptions`.
    """
    printed = SolveOptions(
        noise="paper",
        start="random",
        optimiser=TgMcmc(
            scheme="boa", scheme_noise="paper", friction=FRICTION, step_range=STEP, coordinates="paper", mass="identity",
            steps=STEPS,
        ),
        beta=BETA,
        draws=DRAWS,
        chains=1,
        sampler=Geodesic(
            scheme="boa", scheme_noise="paper", friction=FRICTION, step_range=STEP, coordinates="paper", mass="identity",
            thin=10, warmup=100, spread=False,
        ),
    )  # fmt: skip
    return printed.changed(**changes)


def with_paper_noise(graph: PoseGraph) -> PoseGraph:
    """The graph with one λ and one σ² of the paper's ranges for every motion between poses, in place of its own.

    Rotations and translations that are not measured stay so, and what the paper does not have (landmarks, measurements of
    single nodes) keeps its noise.
    """
    motion = graph.is_relative & ~graph.is_landmark[graph.edge_i]
    turns = motion & graph.has_rotation
    moves = motion & (graph.has_translation <= (graph.ranks[1] == graph.dimension))
    lam = np.median(np.clip(graph.mean_concentration[turns], *LAMBDA)) if np.any(turns) else math.nan
    sigma2 = math.sqrt(math.prod(SIGMA2))
    return replace(
        graph,
        concentration=_replaced(graph.concentration, turns, float(lam), np.eye(3)),
        translation_precision=_replaced(
            graph.translation_precision, moves, 1.0 / sigma2, np.diag(np.arange(3) < graph.dimension).astype(np.float64)
        ),
        coupling=None if graph.coupling is None else np.where(motion[:, None, None], 0.0, graph.coupling),
    )


def _replaced(stated: Array, where: Mask, number: float, axes: Array) -> Array:
    """Precisions with one number for some edges, as simple as the others allow."""
    if np.all(where):
        return np.full(len(where), number)
    if stated.ndim == 1:
        return np.where(where, number, stated)
    if stated.ndim == 2:
        return np.where(where[:, None], number, stated)
    kept = stated[~where]
    if np.all(kept == kept[:, :1, :1] * axes):
        return np.where(where, number, stated[:, 0, 0])
    return np.where(where[:, None, None], number * axes, stated)


def longest_step(fastest: float, friction: float, within: tuple[float, float] = STEP) -> float:
    """The longest stable step of BOA within a range: ``h²ω² < 2(1 + e^(−ch))``, with half to spare."""
    low, high = within
    for step in np.geomspace(high, low, 50):
        if (step * fastest) ** 2 < 1.0 + math.exp(-friction * step):
            return float(step)
    return low
