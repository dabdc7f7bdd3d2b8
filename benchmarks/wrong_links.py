"""Worlds in which links of the chain are wrong as well as loop closures, each by itself: verdicts, regions and first lines.

    python benchmarks/wrong_links.py [--worlds 4] [--seed 31000] [--nodes 60]
    python benchmarks/wrong_links.py --aliases 2 --nodes 45 --shares .02,.1 [--trust-odometry .99]

A world is a way on streets or a wandering one, by turns, in the plane and in space; `--robust --noise auto`, nothing trusted
unless asked for. With look-alike places they are harder than those of `tempose experiment lookalikes`: links are three times as
noisy, so that the chain drifts as far as look-alikes lie apart.
By share of wrong links and wrong loop closures: Brier score of links and of loop closures, how many of those given p > 0.9 are
right, true nodes inside the 95% regions of all explanations reported together, and how far first lines trust the result. At last
the reliability of all verdicts on loop closures.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

import tempose
from tempose._support import streams
from tempose.outliers import Robust
from tempose.simulation.wrong import is_odometry
from tempose.studies.wrong_edges import SURE, binned, coverage, reliability

SHARES = ((0.0, 0.5), (0.03, 0.1), (0.03, 0.3), (0.08, 0.3))  # wrong links, wrong loop closures


def main() -> None:
    """Print one line for each pair of shares, then the reliability."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--worlds", type=int, default=4)
    ask.add_argument("--seed", type=int, default=31000)
    ask.add_argument("--nodes", type=int, default=60)
    ask.add_argument("--aliases", type=int, default=0, help="look-alike places")
    ask.add_argument("--shares", help="LINKS,LOOPS wrong, in place of the four pairs")
    ask.add_argument("--trust-odometry", type=float)
    asked = ask.parse_args()
    robust = Robust(trust_odometry=asked.trust_odometry)
    bins = []
    for wrong_links, wrong_loops in [tuple(map(float, asked.shares.split(",")))] if asked.shares else SHARES:
        stated, right, links, inside = [], [], [], []
        trust: Counter[str] = Counter()
        for seed in range(asked.seed, asked.seed + asked.worlds):
            for planar in (True, False):
                made = tempose.simulate(
                    asked.nodes, shape=("manhattan", "trajectory")[seed % 2], planar=planar,
                    wrong_odometry=wrong_links, wrong_loops=wrong_loops, aliases=asked.aliases, seed=seed,
                )  # fmt: skip
                solution = tempose.solve(made.graph, robust=robust, noise="auto", draws=0, certify=False, analyse=False)
                assert solution.verdicts is not None
                p, is_link = solution.verdicts.inlier_probability, is_odometry(made.graph)
                stated.append(p)
                right.append(~made.is_wrong)
                links.append(is_link)
                inside.append(coverage(solution, made.truth, streams.generator(seed, "resample"))["nodes_95"])
                trust[solution.judgement.trust.value] += 1
                bins += binned(p[~is_link], ~made.is_wrong[~is_link])
        p, true, of_chain = (np.concatenate(one) for one in (stated, right, links))
        squared, sure = (p - true) ** 2, p > SURE
        print(
            f"links {wrong_links}, loops {wrong_loops} wrong: Brier {squared[of_chain].mean():.3f} and "
            f"{squared[~of_chain].mean():.3f}, p > 0.9: {true[sure & of_chain].mean():.3f} of {np.sum(sure & of_chain)} and "
            f"{true[sure & ~of_chain].mean():.3f} of {np.sum(sure & ~of_chain)} right; nodes inside {np.mean(inside):.2f}; "
            + ", ".join(f"{count} {words}" for words, count in trust.most_common()),
            flush=True,
        )
    for line in reliability(bins):
        print(
            f"loop closures given {line['stated']:.3f}: {line['right']:.3f} ± {line['right_se']:.2g} of {line['edges']}"
        )


if __name__ == "__main__":
    main()
