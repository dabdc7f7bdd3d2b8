"""Pieces of the seven scans of rooms (3DMatch), with their order in time and without: verdicts, regions, errors, first lines.

    python benchmarks/pieces.py                                   # thirds and halves by turns, as recorded
    python benchmarks/pieces.py --pieces thirds,edges --without-order --independent
    python benchmarks/pieces.py --pieces windows --trust-odometry .99 --others

A piece is another graph than the scan: ``parts``, stretches of about 22 scans; ``turns``, every second one; ``windows``, stretches
of 30 that begin elsewhere; ``thirds``, every third one; ``edges``, all scans with a random 60% of the edges; ``scans``, a random
60% of the scans, three times. ``--without-order`` gives scans names without numbers. For each solve (`--robust --noise auto`):
nodes that right edges connect, mean errors on them, Brier score, edges given p > 0.9 and how many of these are right, share of the
nodes in the 95% regions of all explanations reported (and in those of edges that err each by itself), and what the first line says;
then all together, and the reliability of all verdicts. ``--independent`` does the same with wrong edges taken for independent;
``--others`` has the errors of other methods and of the oracle.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace

import numpy as np

from tempose.analysis.regions import inside
from tempose.errors import TemposeError
from tempose.model.graph import PoseGraph
from tempose.model.order import known_order
from tempose.model.poses import Poses
from tempose.outliers import Robust
from tempose.solver import solve
from tempose.studies.experiments import scenes
from tempose.studies.experiments.threedmatch import ALL_SCENES, agreeing, scene
from tempose.studies.wrong_edges import (
    NUMBERS,
    SURE,
    binned,
    largest_part,
    node_distances,
    reliability,
    scores,
    with_errors,
)

LEAST_SCANS, LEAST_HELD = 8, 6
SHARE = 0.6


def parts(graph: PoseGraph, kind: str) -> list[PoseGraph]:
    """The pieces of a scan, the largest component of each."""
    order = np.argsort(known_order(graph).place)
    if kind == "edges":
        kept = np.random.default_rng(graph.n_edges).random(graph.n_edges) < SHARE
        return [_largest(graph.with_edges(kept))]
    rows = {
        "parts": lambda: np.array_split(order, round(len(order) / 22)),
        "turns": lambda: [order[k::2] for k in range(2)],
        "scans": lambda: [order[np.random.default_rng(k).random(len(order)) < SHARE] for k in range(3)],
        "thirds": lambda: [order[k::3] for k in range(3)],
        "windows": lambda: [order[k : k + 30] for k in range(11, len(order) - 15, 15)],
    }[kind]()
    return [_largest(graph.subgraph(np.sort(one))) for one in rows]


def _largest(graph: PoseGraph) -> PoseGraph:
    return graph.subgraph(np.flatnonzero(graph.component == np.bincount(graph.component).argmax()))


def without_order(graph: PoseGraph, truth: Poses) -> tuple[PoseGraph, Poses]:
    """Names that have no numbers."""
    names = {old: "scan " + "".join(chr(97 + int(digit)) for digit in str(k)) for k, old in enumerate(graph.node_ids)}
    ids = tuple(names[old] for old in truth.ids)
    return replace(graph, node_ids=tuple(names[old] for old in graph.node_ids)), Poses(ids, truth.wxyz, truth.position)


def main() -> None:
    """Print one line for each solve, then all together."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--pieces", default="parts,turns")
    ask.add_argument("--scenes", default=",".join(ALL_SCENES))
    ask.add_argument("--without-order", action="store_true")
    ask.add_argument("--independent", action="store_true")
    ask.add_argument("--others", action="store_true")
    ask.add_argument("--trust-odometry", type=float)
    asked = ask.parse_args()
    models = {"robust": Robust(trust_odometry=asked.trust_odometry)}
    if asked.independent:
        models["independent"] = Robust(trust_odometry=asked.trust_odometry, repeats="independent")
    for name, robust in models.items():
        found, bins, trust = [], [], Counter()
        for data in asked.scenes.split(","):
            whole, truth = scene(data)
            for kind in asked.pieces.split(","):
                for k, piece in enumerate(parts(whole, kind)):
                    known = [row for row, node in enumerate(piece.node_ids) if node in truth.index]
                    if len(known) < LEAST_SCANS:
                        continue
                    here = truth.select([piece.node_ids[row] for row in known])
                    graph, here = without_order(piece, here) if asked.without_order else (piece, here)
                    among = np.isin(graph.edge_i, known) & np.isin(graph.edge_j, known)
                    judged = graph.subgraph(known)
                    right = agreeing(judged, here)
                    held = largest_part(judged.with_edges(right))
                    if held.n_nodes < LEAST_HELD:
                        continue
                    where = here.select(held.node_ids)
                    solution = solve(graph, robust=robust, noise="auto", draws=0, certify=False, analyse=False)
                    p = solution.verdicts.inlier_probability[among]
                    errors = scenes._errors(solution.poses, where)
                    row = {**scores(p, right), **errors}
                    for bars, one in (("held", solution), ("alone", with_errors(solution, shared=False))):
                        row[bars] = float(np.mean(inside(node_distances(one, where), 0.95, NUMBERS)))
                    found.append(row)
                    bins += binned(p, right)
                    trust[solution.judgement.trust.value] += 1
                    print(
                        f"{name} {data} {kind} {k}: {held.n_nodes} nodes, {errors['mean_rotation_deg']:.1f}° "
                        f"{errors['mean_translation']:.2f}; Brier {row['brier']:.3f}, sure {row['sure_right']} of {row['sure']}, "
                        f"inside {row['held']:.2f} ({row['alone']:.2f}); {solution.headline}",
                        flush=True,
                    )
                    for other in scenes.OTHERS if asked.others else ():
                        try:
                            poses = (
                                solve(held, noise="auto", draws=0).poses
                                if other == "oracle"
                                else scenes._other(other, graph)
                            )
                        except TemposeError as why:
                            print(f"    {other}: {why}")
                            continue
                        errors = scenes._errors(poses, where)
                        print(f"    {other}: {errors['mean_rotation_deg']:.1f}° {errors['mean_translation']:.2f}")
        edges, nodes = (sum(row[of] for row in found) for of in ("edges", "n_compared"))
        sure, sure_right = (sum(row[of] for row in found) for of in ("sure", "sure_right"))
        print(
            f"{name}, {len(found)} solves: Brier {sum(row['brier'] * row['edges'] for row in found) / edges:.3f}, p > {SURE}: "
            f"{sure_right} of {sure} right ({sure_right / max(sure, 1):.2f}), nodes inside "
            f"{sum(row['held'] * row['n_compared'] for row in found) / nodes:.2f} "
            f"({sum(row['alone'] * row['n_compared'] for row in found) / nodes:.2f}); "
            + ", ".join(f"{count} {words}" for words, count in trust.most_common())
        )
        for line in reliability(bins):
            print(f"  given {line['stated']:.3f}: {line['right']:.3f} ± {line['right_se']:.2g} of {line['edges']}")


if __name__ == "__main__":
    main()
