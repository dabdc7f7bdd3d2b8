"""Pieces of sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tempose.analysis.summary import NodeSummary, median_sigma

ANY_TURN_DEG = 100.0  # a rotation of which nothing is known has 180°/√3 = 104° per axis


def listed(names: Sequence[object], most: int) -> str:
    """The first names, and an ellipsis if there are more."""
    return ", ".join(map(str, names[:most])) + (", …" if len(names) > most else "")


def sigmas(nodes: NodeSummary) -> str:
    """Median error bars."""
    rot, pos = median_sigma(nodes.sigma_rot_deg), median_sigma(nodes.sigma_pos)
    open_ = " (rotations are not determined)" if rot > ANY_TURN_DEG else ""
    return f"{rot:.3g}°{open_} and {pos:.3g} length units"


def shares(probabilities: Sequence[float]) -> list[str]:
    """Whole percentages, and what is left for others (empty if that rounds to nothing): together at most 100, equal ones alike."""
    exact = 100.0 * np.append(probabilities, max(1.0 - float(np.sum(probabilities)), 0.0))
    whole = np.floor(exact + 1e-6)
    over = np.round(exact - whole, 6)
    # the largest remainders are rounded up, as long as there is room for all alike
    for least in np.unique(over[over > 0.0])[::-1]:
        if np.sum(whole) + np.sum(over == least) > 100.0:
            break
        whole[over == least] += 1.0
    *each, rest = (f"{number:.0f}%" if number >= 1.0 else "<1%" for number in whole)
    return [*each, rest if whole[-1] >= 1.0 else ""]
