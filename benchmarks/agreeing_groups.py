"""Graphs without an order in time whose wrong edges agree: verdicts that count how often they do, beside those that do not.

    python benchmarks/agreeing_groups.py [--graphs 10] [--seed 500]

The graphs of `tempose experiment robust`: 50 nodes, half of all pairs measured, 3° and 0.05 of noise. ``random``: wrong edges err
each by itself. ``groups``: nodes fall into five groups, and between two groups all wrong edges measure one false motion. By kind
and share of wrong edges, for both models of wrong edges: Brier score, how many edges given p > 0.9 are right, and first lines.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

import tempose
from tempose.outliers import Robust
from tempose.studies.experiments.robust import clusters
from tempose.studies.wrong_edges import SURE, binned, reliability

CASES = (("random", 0.3), ("random", 0.6), ("groups", 0.2), ("groups", 0.4), ("groups", 0.5), ("groups", 0.6))
MODELS = {"counted": "cluster", "independent": "independent"}


def main() -> None:
    """Print a line for each kind, share and model, then the reliability of each model."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--graphs", type=int, default=10)
    ask.add_argument("--seed", type=int, default=500)
    asked = ask.parse_args()
    bins: dict[str, list] = {model: [] for model in MODELS}
    for kind, share in CASES:
        found: dict[str, list] = {model: [] for model in MODELS}
        trust = {model: Counter() for model in MODELS}
        for seed in range(asked.seed, asked.seed + asked.graphs):
            wrong_edges = share if kind == "random" else 0.0
            made = tempose.simulate(50, completeness=0.5, wrong_edges=wrong_edges, seed=seed)
            bad = clusters(made, share, seed) if kind == "groups" else made
            for model, repeats in MODELS.items():
                robust = Robust(repeats=repeats)
                solution = tempose.solve(bad.graph, robust=robust, noise="auto", draws=0, certify=False, analyse=False)
                p = solution.verdicts.inlier_probability
                found[model].append((p, ~bad.is_wrong))
                bins[model] += binned(p, ~bad.is_wrong)
                trust[model][solution.judgement.trust.value] += 1
        for model in MODELS:
            p, right = (np.concatenate(one) for one in zip(*found[model], strict=True))
            sure = p > SURE
            print(
                f"{kind} {share:g}, {model}: Brier {np.mean((p - right) ** 2):.3f}, p > {SURE}: {np.sum(right & sure)} of "
                f"{np.sum(sure)} right; "
                + ", ".join(f"{count} {words}" for words, count in trust[model].most_common()),
                flush=True,
            )
    for model in MODELS:
        print(model)
        for line in reliability(bins[model]):
            print(f"  given {line['stated']:.3f}: {line['right']:.3f} ± {line['right_se']:.2g} of {line['edges']}")


if __name__ == "__main__":
    main()
