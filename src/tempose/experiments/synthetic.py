"""What the synthetic experiments share: the paper's random graphs, and one method's numbers on one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

from tempose.baselines import METHODS, evaluate
from tempose.experiments.base import Cell, Row, RunOptions
from tempose.graph import PoseGraph
from tempose.poses import Poses
from tempose.simulation import Simulated, simulate

NODES, QUICK_NODES = 50, 15  # the paper's N = 50
COMPLETENESS = 0.5
SEEDS, QUICK_SEEDS = 30, 3
ERRORS = ("mean_rotation_deg", "mean_translation")


def random_graph(nodes: int, completeness: float, variance: float, seed: int) -> Simulated:
    """The paper's random graph, its noise of one variance per axis for both: rad² of rotations, length² of translations."""
    sigma = math.sqrt(variance)
    return simulate(
        nodes, completeness=completeness, sigma_rot_deg=math.degrees(sigma), sigma_trans=sigma, seed=seed
    )  # fmt: skip


def method_cells(options: RunOptions, settings: Sequence[Cell]) -> list[Cell]:
    """Every method on every seed of every setting."""
    seeds, methods = options.seed_list(SEEDS, QUICK_SEEDS), options.method_list(METHODS)
    return [{**setting, "seed": seed, "method": m} for setting in settings for seed in seeds for m in methods]


def method_row(method: str, graph: PoseGraph, truth: Poses) -> list[Row]:
    """Errors, consistency and U of a method on a graph, after SE(3) alignment to the truth."""
    row = asdict(evaluate(method, graph, truth))
    return [{name: value for name, value in row.items() if name not in ("method", "seconds")}]
