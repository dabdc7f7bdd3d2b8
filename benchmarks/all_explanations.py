"""Worlds with look-alike places, all explanations of up to two breaks listed: what verdicts are where nothing is left out.

    python benchmarks/all_explanations.py [--worlds 200] [--seed 21400] [--alike 0.02]

The truth tells which loop closures agree with each other across which links, so that no search can miss any. Verdicts of clusters
with and without the evidence that a cluster goes on where another ends, by trust in odometry, against what is right; ``--alike`` is
how often wrong clusters agree with each other (v). Then how many clusters of each kind are right, and in how many worlds none is.
The last line is about clusters that are right although they are given 0.02 to 0.1 without that evidence, with trust: next to how
many the wrong link is.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.outliers.beliefs import Beliefs, Clues, Evidence, log_score
from tempose.outliers.clusters import KINDS
from tempose.outliers.explanations import ExplanationSearch
from tempose.outliers.search.skeleton import skeleton
from tempose.outliers.sequence import Sequence
from tempose.simulation import Simulated
from tempose.studies.experiments.lookalikes import QUICK_NODES, SIGMA, SIGMA_DEG, TRUST, world
from tempose.studies.wrong_edges import binned, reliability

Says = tuple[frozenset[int], object]
"""Wrong links between the ends of a loop closure, and what it saw: "right", or the mistake that it is."""


@dataclass(frozen=True, eq=False)
class Listed:
    """All explanations of a world: which loop closures fit, and in how many ways."""

    made: Simulated
    search: ExplanationSearch
    fits: Array
    evidence: list[Evidence]
    ways: Array

    def stated(self, beliefs: Beliefs, trust: float | None, goes_on: bool) -> Array:
        """Probability (c,) that each cluster is right."""
        clues: Clues = self.search.clues
        if trust is not None:
            clues = replace(clues, own_links=np.full(len(clues.own_links), trust))
        scores = []
        known: dict[object, float] = {}  # all links are trusted alike: only their number counts
        for one in self.evidence:
            seen = one if goes_on else replace(one, chance=())
            what = (
                seen.role.tobytes(),
                int(seen.given_up.sum()),
                seen.agreeing.tobytes(),
                seen.bends,
                seen.splits,
                seen.chance,
                None if seen.again is None else seen.again.tobytes(),
            )
            if what not in known:
                known[what] = log_score(clues, seen, beliefs)
            scores.append(known[what])
        weight = self.ways * np.exp(np.array(scores) - max(scores))
        return self.search.clusters.mean(weight @ self.fits / weight.sum())


def listed(made: Simulated) -> Listed:
    """Explanations with no break, one, and two that loop closures place."""
    sequence = Sequence.of(skeleton(made.graph).graph)
    assert sequence is not None
    search = ExplanationSearch(sequence, np.full(made.graph.n_edges, np.nan), np.random.default_rng(0))
    search.set_level(math.radians(SIGMA_DEG), SIGMA)
    found = list(_explanations(made, sequence))
    fits = np.array([one for one, _ in found])
    return Listed(made, search, fits, [search._made_of(one)[0] for one in fits], np.array([ways for _, ways in found]))


def _explanations(made: Simulated, sequence: Sequence) -> Iterator[tuple[Mask, int]]:
    first, last = sequence.rank[sequence.earlier], sequence.rank[sequence.later]
    links = {int(first[k]): int(k) for k in np.flatnonzero(sequence.is_link)}
    wrong = [rank for rank, k in links.items() if made.is_wrong[k]]
    loops = np.flatnonzero(~sequence.is_link)
    says: dict[int, Says] = {}
    for k in loops.tolist():
        mistake = made.alias[k] if made.alias[k] >= 0 else -1 - k
        across = frozenset(x for x in wrong if first[k] <= x < last[k])
        says[k] = across, mistake if made.is_wrong[k] else "right"
    chained = sequence.is_link.copy()
    chained[[k for k in loops if says[k] == (frozenset(), "right")]] = True
    yield chained, 1
    ends = np.zeros(made.graph.n_nodes, dtype=bool)
    ends[first[loops]] = ends[last[loops]] = True
    of = np.cumsum(ends)
    stretches = [list(group) for _, group in itertools.groupby(sorted(links), key=lambda rank: int(of[rank]))]

    def spanning(rank: int) -> Mask:
        return (first <= rank) & (last > rank) & ~sequence.is_link

    def wanted(edges: Mask) -> list[Says | None]:
        found = dict.fromkeys(says[k] for k in np.flatnonzero(edges).tolist())
        return [None, *(one for one in found if one != (frozenset(), "right"))]

    def fitting(parts: list[tuple[Mask, Says | None]], given_up: list[int]) -> Mask:
        fits = chained.copy()
        fits[[links[rank] for rank in given_up]] = False
        for edges, one in parts:
            rows = np.flatnonzero(edges)
            fits[rows] = [says[k] == one for k in rows.tolist()]
        return fits

    for stretch in stretches:
        across = spanning(stretch[0])
        for one in wanted(across):
            yield fitting([(across, one)], stretch[:1]), len(stretch)
    for a, b in itertools.combinations(stretches, 2):
        one, other = spanning(a[0]), spanning(b[0])
        parts = [one & ~other, other & ~one, one & other]
        for placed in itertools.product(*(wanted(edges) for edges in parts)):
            if _places_both(placed, [set(wanted(edges)) for edges in parts]):
                yield fitting(list(zip(parts, placed, strict=True)), [a[0], b[0]]), len(a) * len(b)


def _places_both(placed: tuple[Says | None, ...], offered: list[set[Says | None]]) -> bool:
    """Whether two of three ways say how three segments lie, and the third says the same, or nothing that would fit."""
    if sum(one is not None for one in placed) < 2:
        return False
    between, after, over = placed
    right = [None if one is None or one[1] != "right" else one[0] for one in placed]
    if over is None:
        third = None if right[0] is None or right[1] is None else (right[0] | right[1], "right")
        return third not in offered[2] if third is not None else True
    if between is not None and after is not None:
        return right[0] is not None and right[1] is not None and right[2] == right[0] | right[1]
    known, missing = (right[0], 1) if after is None else (right[1], 0)
    if known is None or right[2] is None or not known <= right[2]:
        return True
    return (right[2] - known, "right") not in offered[missing]


def _beside_a_wrong_link(one: Listed, c: int, ranks: Index) -> bool:
    """Whether a wrong link is within 2 ids of where a cluster begins or ends."""
    sequence, members = one.search.sequence, one.search.clusters.members[c]
    first, last = sequence.rank[sequence.earlier[members]], sequence.rank[sequence.later[members]]
    inside = [x for x in ranks.tolist() if np.mean((first <= x) & (last > x)) > 0.5]
    return any(min(x - first.max(), last.min() - 1 - x) <= 2 for x in inside)


def main() -> None:
    """Print reliability and scores of each way to weigh."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--worlds", type=int, default=200)
    ask.add_argument("--seed", type=int, default=21400)
    ask.add_argument("--alike", type=float, default=Beliefs().alike)
    asked = ask.parse_args()
    beliefs, of_kind, without = Beliefs(alike=asked.alike), np.zeros((len(KINDS), 2), dtype=int), 0
    settings = list(itertools.product((None, TRUST), (False, True)))
    stated: dict[tuple[float | None, bool], list[tuple[Array, Mask]]] = {one: [] for one in settings}
    doubted = beside = 0
    for seed in range(asked.seed, asked.seed + asked.worlds):
        one = listed(world(seed, QUICK_NODES))
        right = one.search.clusters.mean((~one.made.is_wrong).astype(float)) > 0.5
        for setting in settings:
            stated[setting].append((one.stated(beliefs, *setting), right))
        np.add.at(of_kind, (one.search.clusters.kind, right.astype(int)), 1)
        without += not right.any()
        sequence = one.search.sequence
        wrong = sequence.rank[sequence.earlier[sequence.is_link & one.made.is_wrong]]
        p, _ = stated[TRUST, False][-1]
        for c in np.flatnonzero(right & (p > 0.02) & (p < 0.1)).tolist():
            doubted += 1
            beside += _beside_a_wrong_link(one, c, wrong)
    for (trust, goes_on), found in stated.items():
        p, right = (np.concatenate(all_of) for all_of in zip(*found, strict=True))
        log = -np.mean(np.log(np.clip(np.where(right, p, 1.0 - p), 1e-6, 1.0)))
        name = "nothing trusted" if trust is None else f"odometry {trust:g}"
        print(
            f"{name}, {'with' if goes_on else 'without'} what goes on: Brier {np.mean((p - right) ** 2):.4f}, log {log:.4f}"
        )
        for line in reliability([row for each in found for row in binned(*each)]):
            print(f"  {line['stated']:.3f}: {line['right']:.3f} ± {line['right_se']:.3f} of {line['edges']}")
    shares = ", ".join(f"{name} {good} of {bad + good}" for name, (bad, good) in zip(KINDS, of_kind, strict=True))
    print(f"right clusters: {shares}; worlds without any: {without} of {asked.worlds}")
    print(f"right, given .02 to .1: {doubted}, beside the wrong link: {beside}")


if __name__ == "__main__":
    main()
