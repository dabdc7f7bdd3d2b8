"""Errors of every method against the share of wrong edges, random ones and clusters that agree with each other."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose.analysis.accuracy import pose_errors
from tempose.errors import MissingPackage, NotApplicable
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.methods import METHODS
from tempose.methods.base import Estimate
from tempose.methods.external import gtsam_gnc
from tempose.model.graph import PoseGraph
from tempose.simulation import Corrupted, Simulated, corrupt, simulate
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, over_seeds
from tempose.studies.store import Cell, Row

SHARES = {"random": (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8), "clusters": (0.1, 0.2, 0.3, 0.4, 0.5)}
QUICK_SHARES = {"random": (0.5,), "clusters": (0.3,)}
NODES, QUICK_NODES, GROUPS = 50, 20, 5
SEEDS, QUICK_SEEDS = 20, 2
SOLVED = 1.3
"""A graph is solved if the mean rotation error is at most this many times the oracle's."""
OTHERS = ("gnc", "oracle")


@dataclass(frozen=True)
class Rule:
    """Which nodes count: the prefix of the columns, and in words."""

    prefix: str
    words: str

    @property
    def rotation(self) -> str:
        """Column of the mean rotation error, degrees."""
        return f"{self.prefix}_rotation_deg"

    @property
    def translation(self) -> str:
        """Column of the mean translation error."""
        return f"{self.prefix}_translation"

    @property
    def solved(self) -> str:
        """Column that says whether a graph is solved."""
        return f"{self.prefix}_solved"

    @property
    def ratio(self) -> str:
        """Column of the ratio to the oracle's mean rotation error."""
        return f"{self.prefix}_ratio"

    def ratio_of(self, row: Row, oracle: Row) -> float | None:
        """How many times the oracle's error a row has, if both are there."""
        error, least = row.get(self.rotation), oracle.get(self.rotation)
        return None if error is None or not least else error / least

    def is_solved(self, row: Row, oracle: Row) -> float | None:
        """1 if the graph is solved."""
        ratio = self.ratio_of(row, oracle)
        return None if ratio is None else float(ratio <= SOLVED)


RULES = (Rule("mean", "all nodes held"), Rule("confirmed", "nodes confirmed"))
PANELS = {"random": "random", "clusters": "clusters that agree"}


def clusters(made: Simulated, share: float, seed: int) -> Corrupted:
    """Make a share of the edges wrong so that they agree with each other.

    Nodes fall into groups at random. Between every two groups a false motion is drawn, and the wrong edges between them measure,
    with their own noise, the poses of the one group as if all of it had been moved so. Edges within groups stay right.
    """
    graph, rng = made.graph, streams.generator(seed, "corrupt")
    i, j, m = graph.edge_i, graph.edge_j, graph.n_edges
    group = rng.permutation(graph.n_nodes) % GROUPS
    low, high = np.minimum(group[i], group[j]), np.maximum(group[i], group[j])
    turn = quat.random_uniform(rng, (GROUPS, GROUPS))
    shift = np.sqrt(2.0) * rng.standard_normal((GROUPS, GROUPS, 3))
    across = rng.permutation(np.flatnonzero(low != high))
    wrong = np.zeros(m, dtype=bool)
    wrong[across[: round(share * m)]] = True
    # the end in the lower group is moved in the world: node_from_world ∘ motion⁻¹
    q, t = made.truth.node_from_world
    motion = (turn[low, high], shift[low, high])
    ends = []
    for end in (i, j):
        moved = se3.compose((q[end], t[end]), se3.inverse(motion))
        is_low = (group[end] == low)[:, None]
        ends.append((np.where(is_low, moved[0], q[end]), np.where(is_low, moved[1], t[end])))
    true = se3.compose((q[j], t[j]), se3.inverse((q[i], t[i])))
    noise = se3.compose((graph.j_from_i_wxyz, graph.j_from_i_t), se3.inverse(true))
    wxyz = quat.multiply(noise[0], se3.compose(ends[1], se3.inverse(ends[0]))[0])
    # the noise of a translation is added, not composed
    false_t = se3.compose(ends[1], se3.inverse(ends[0]))[1] + graph.j_from_i_t - true[1]
    changed = replace(
        graph,
        j_from_i_wxyz=np.where(wrong[:, None], quat.canonical(wxyz), graph.j_from_i_wxyz),
        j_from_i_t=np.where(wrong[:, None], false_t, graph.j_from_i_t),
    )
    return Corrupted(changed, wrong)


def make(cell: Cell) -> tuple[Simulated, Corrupted]:
    """Truth, graph and wrong edges of a cell: N nodes, completeness 0.5, σ = 3° and 0.05."""
    made = simulate(cell["nodes"], completeness=0.5, sigma_rot_deg=3.0, sigma_trans=0.05, seed=cell["seed"])
    if cell["kind"] == "clusters":
        return made, clusters(made, cell["share"], cell["seed"])
    return made, corrupt(made.graph, cell["share"], seed=cell["seed"], kind="uniform")


def cells(options: RunOptions) -> list[Cell]:
    """Kind × share × seed × method."""
    shares = QUICK_SHARES if options.quick else SHARES
    return [
        {"nodes": QUICK_NODES if options.quick else NODES, "kind": kind, "share": share, "seed": seed, "method": method}
        for kind in shares
        for share in shares[kind]
        for seed in options.seed_list(SEEDS, QUICK_SEEDS)
        for method in [*options.method_list(METHODS), *OTHERS]
    ]


def run(cell: Cell) -> list[Row]:
    """Errors on two sets of nodes.

    ``mean_…`` are on all nodes that right edges hold, the largest connected part; ``confirmed_…`` on those that right edges
    also confirm, the largest part without bridges: no method can tell a lone right edge from the wrong ones beside it.
    """
    made, spoiled = make(cell)
    right = spoiled.graph.with_edges(~spoiled.is_wrong)
    checked = np.ones(right.n_edges, dtype=bool)
    checked[right.bridges] = False
    held, confirmed = _largest_part(right), _largest_part(right.with_edges(checked))
    try:
        estimate = _estimate(cell["method"], spoiled.graph, held)
    except (NotApplicable, MissingPackage) as why:
        return [{"status": "left out", "message": str(why)}]
    on_held, on_confirmed = (
        pose_errors(estimate.poses, made.truth.select(part.node_ids), robust=True) for part in (held, confirmed)
    )
    return [
        {
            "n_held": held.n_nodes,
            "n_confirmed": confirmed.n_nodes,
            "mean_rotation_deg": on_held.mean_rotation_deg,
            "mean_translation": on_held.mean_translation,
            "confirmed_rotation_deg": on_confirmed.mean_rotation_deg,
            "confirmed_translation": on_confirmed.mean_translation,
            "status": estimate.status,
            "message": estimate.message,
        }
    ]


def _largest_part(graph: PoseGraph) -> PoseGraph:
    return graph.subgraph(np.flatnonzero(graph.component == int(np.bincount(graph.component).argmax())))


def _estimate(method: str, graph: PoseGraph, held: PoseGraph) -> Estimate:
    if method == "oracle":
        return METHODS["tempose"][0](held)
    if method == "gnc":
        return gtsam_gnc(graph)
    return METHODS[method][0](graph)


def table(rows: list[Row]) -> list[Row]:
    """Mean errors by both rules, their ratios to the oracle's, and the shares of graphs that are solved."""
    best = {(r["kind"], r["share"], r["seed"]): r for r in rows if r["method"] == "oracle"}
    scored = []
    for row in rows:
        oracle = best.get((row["kind"], row["share"], row["seed"]), {})
        scored.append({**row, **{rule.solved: rule.is_solved(row, oracle) for rule in RULES}})
    values = [value for rule in RULES for value in (rule.rotation, rule.translation, rule.solved)]
    lines = over_seeds(scored, ("kind", "share", "method"), values)
    mean = {(line["kind"], line["share"]): line for line in lines if line["method"] == "oracle"}
    for line in lines:
        oracle = mean.get((line["kind"], line["share"]), {})
        line |= {rule.ratio: rule.ratio_of(line, oracle) for rule in RULES}
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Errors of every method: random wrong edges by both rules, and clusters, where right edges confirm all nodes."""
    figure, axes = figures.panels(3, width=3.8, height=3.9)
    for ax, (kind, rule) in zip(axes, (*itertools.product(["random"], RULES), ("clusters", RULES[0])), strict=True):
        figures.curves(ax, [row for row in result.table if row["kind"] == kind], "share", rule.rotation)
        y = "mean rotation error, degrees" if ax is axes[0] else ""
        figures.label(ax, "share of wrong edges", y, f"{PANELS[kind]}: {rule.words}", log_y=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Mean rotation errors by both rules, and the share of graphs that are solved."""
    parts = []
    for kind, rule in itertools.product(PANELS, RULES):
        lines = [row for row in result.table if row["kind"] == kind]
        parts.append(as_text(lines, "method", "share", rule.rotation, f"{kind}, {rule.words}: degrees"))
        parts.append(as_text(lines, "method", "share", rule.solved, f"{kind}, {rule.words}: solved"))
    return "\n\n".join(parts)


EXPERIMENT = Experiment(cells, run, table, draw, text)
