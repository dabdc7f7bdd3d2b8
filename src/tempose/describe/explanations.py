"""Sentences about explanations that compete, and parts that hang loose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tempose._support.words import plural, word_for
from tempose._typing import Index
from tempose.analysis.summary import NodeSummary
from tempose.describe.common import listed, shares, sigmas
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.order import recorded
from tempose.outliers.competing import Alternative
from tempose.outliers.loose_parts import LoosePart
from tempose.outliers.solutions import Competitor, Explanation, RobustSolution, Weighing

IF_FIRST = "if explanation 1 is the true one"
"""What error bars of the estimate refer to where there are several explanations."""
_NUMBERS = ("no", "one", "two", "three", "four")
_MOST_ODDS = 1000  # larger ones would say more about the model than about the graph


def competing(found: RobustSolution, most: int = 3) -> list[str]:
    """Competing explanations, one line each."""
    return [*map(competitor, found.competitors[:most]), *map(alternative, found.alternatives[:most])]


def explained(explanations: Sequence[Explanation]) -> str:
    """How many explanations there are and how probable each is: ``two explanations: 55% and 45%``."""
    *each, rest = shares([one.probability for one in explanations])
    number = _NUMBERS[len(each)] if len(each) < len(_NUMBERS) else str(len(each))
    several = f"{', '.join(each[:-1])} and {each[-1]}" if len(each) > 1 else each[0]
    others = f"; {rest} for others" if rest else ""
    return f"{number} explanation{'s' * (len(each) > 1)}: {several}{others}"


def contested(weighing: Weighing) -> str:
    """What the first line says where other explanations have to be told: how many, or which parts single edges hold."""
    if weighing.loose is None:
        return explained(weighing.explanations)
    parts, nodes = len(np.unique(weighing.loose[weighing.loose >= 0])), int(np.sum(weighing.loose >= 0))
    share, *_ = shares([weighing.explanations[0].probability])
    verb = word_for(nodes, "hangs", "hang")
    return (
        f"{plural(nodes, 'node')} of {len(weighing.loose)}, in {plural(parts, 'part')}, {verb} on single edges that others "
        f"contradict; all of these are right with probability {share}"
    )


def explanations(
    found: Sequence[Explanation], graph: PoseGraph, nodes: Sequence[NodeSummary | None], believed: Sequence[int] | None
) -> list[str]:
    """The explanations, one line each; ``nodes`` are the error bars of each.

    ``believed`` are the numbers of edges that each believes; ``None`` where the links that it gives up say more.
    """
    lines = []
    for k, (one, own) in enumerate(zip(found, nodes, strict=True)):
        what = [f"nodes elsewhere: {nodes_elsewhere(graph, one)}"] if k else []
        if believed is not None:
            what.append(f"believes {believed[k]} of {plural(int(graph.is_relative.sum()), 'edge')}")
        elif len(one.given_up):
            what.append(f"gives up {links_given_up(graph, one)}")
        else:
            what.append("gives up no edge between consecutive ids")
        if k and own is not None:
            what.append(f"median 1σ per axis {sigmas(own)}, by its Gaussian approximation")
        reported = ", the one reported" if k == 0 else ""
        lines.append(f"explanation {k + 1}{reported} ({explanation_file(k)}): {'; '.join(what)}")
    return lines


def explanation_file(k: int) -> str:
    """Where a result has the poses of explanation ``k``, from 0."""
    return f"poses.explanation-{k + 1}.csv" if k else "poses.csv"


def nodes_elsewhere(graph: PoseGraph, one: Explanation, most: int = 8) -> str:
    """Which nodes lie elsewhere than in the first explanation, and how many: ``8 (3, 12 to 18)``."""
    return f"{len(one.moved)} ({listed(_runs(graph, one.moved), most)})" if len(one.moved) else "none"


def _runs(graph: PoseGraph, rows: Index) -> list[str]:
    """Names of nodes, three or more that follow each other in time as ``12 to 18``."""
    order = recorded(graph)
    place = None if order is None else order.place
    runs: list[list[int]] = []
    for row in rows.tolist():
        if runs and place is not None and place[runs[-1][-1]] >= 0 and place[row] == place[runs[-1][-1]] + 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    names = [[str(graph.node_ids[row]) for row in run] for run in runs]
    return [part for run in names for part in (run if len(run) < 3 else [f"{run[0]} to {run[-1]}"])]


def links_given_up(graph: PoseGraph, one: Explanation, most: int = 4) -> str:
    """Which links between consecutive ids an explanation calls wrong, and how many others may be the wrong ones instead."""
    given_up, instead = ([graph.edge_name(e) for e in edges] for edges in (one.given_up, one.or_instead))
    others = f" (or {instead[0]} instead)" if len(instead) == 1 else f" (or some of {len(instead)} others near)"
    return (listed(given_up, most) or "none") + others * bool(instead)


def explanation_facts(graph: PoseGraph, one: Explanation) -> dict[str, Any]:
    """Plain values for JSON."""
    ids = graph.node_ids
    return {
        "probability": one.probability,
        "nodes_elsewhere": [ids[v] for v in one.moved],
        "given_up": [list(pair) for pair in graph.edge_names(one.given_up)],
        "or_instead": [list(pair) for pair in graph.edge_names(one.or_instead)],
    }


def competitor(other: Competitor) -> str:
    """Another solution that explains the measurements nearly as well."""
    ids = other.fit.graph.node_ids
    if other.log_odds < 0.0:
        odds = "the measurements alone would prefer it"
    else:
        ratio = (
            f"{math.exp(other.log_odds):.3g}" if other.log_odds < math.log(_MOST_ODDS) else f"more than {_MOST_ODDS}"
        )
        odds = f"odds {ratio} to 1 for the one reported, if wrong edges are independent of each other"
    return (
        f"a competing solution keeps {other.kept} edges where the one reported keeps {other.kept_by_chosen} ({odds}); "
        f"it has {plural(len(other.moved), 'node')} elsewhere: {listed([ids[v] for v in other.moved], 8)}"
    )


def alternative(other: Alternative) -> str:
    """Another place of a part of the graph, on which distrusted edges agree."""
    n, names = len(other.nodes), listed([other.node_ids[v] for v in other.nodes], 8)
    angle = math.degrees(float(quat.angle(other.motion[0])))
    return (
        f"a competing explanation: {len(other.edges)} distrusted edges agree with each other, as independent wrong edges would "
        f"not; by them {n} node{'s' * (n > 1)} ({names}) would lie elsewhere, turned by {angle:.0f}°; "
        f"{other.against} edges that fit the reported poses speak against that"
    )


def loose_parts(graph: PoseGraph, parts: Sequence[LoosePart], most: int = 5) -> list[str]:
    """Parts whose place nothing confirms, one line each."""
    lines = []
    for part in parts[:most]:
        names = listed([graph.node_ids[v] for v in part.nodes], 8)
        what = f"node {names}" if len(part.nodes) == 1 else f"{len(part.nodes)} nodes ({names})"
        if part.edge < 0:
            lines.append(
                f"not identified: no edge that fits the reported poses holds {what}; these mean nothing relative to the rest"
            )
        else:
            verb = word_for(len(part.nodes), "hangs", "hang")
            lines.append(
                f"in the reported poses {what} {verb} on the edge {graph.edge_name(part.edge)} alone, which nothing confirms"
            )
    if len(parts) > most:
        lines.append(f"and {plural(len(parts) - most, 'more part')} that a single edge holds, or none")
    return lines
