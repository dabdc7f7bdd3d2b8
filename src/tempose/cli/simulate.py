"""``tempose simulate``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tempose.cli import console


def run(arguments: argparse.Namespace) -> int:
    """Write a synthetic graph and its truth."""
    from tempose.io import write_graph, write_poses
    from tempose.optimum.starts import most_certain_tree, tree_poses
    from tempose.simulation import corrupt, simulate

    made = simulate(
        arguments.nodes,
        shape=arguments.shape,
        completeness=arguments.completeness,
        sigma_rot_deg=arguments.sigma_rot_deg,
        sigma_trans=arguments.sigma_trans,
        seed=arguments.seed,
    )
    graph = made.graph
    if arguments.wrong_edges:
        graph = corrupt(graph, arguments.wrong_edges, seed=arguments.seed, kind="uniform").graph
    path = Path(arguments.output)
    truth = path.with_name(f"{path.stem}.truth{path.suffix}")
    write_graph(path, graph, tree_poses(graph, most_certain_tree(graph)))
    write_poses(truth, made.truth)
    console.say(arguments, f"{path}: {made.graph.n_nodes} nodes, {made.graph.n_edges} edges; the truth is in {truth}")
    console.emit(
        arguments,
        {
            "graph": str(path), "truth": str(truth), "seed": arguments.seed, "shape": arguments.shape,
            "n_nodes": made.graph.n_nodes, "n_edges": made.graph.n_edges,
        },
    )  # fmt: skip
    return 0
