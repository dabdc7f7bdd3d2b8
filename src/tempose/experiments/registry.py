"""Which experiments there are. Imports nothing, so that ``--help`` answers at once."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """An experiment in words, and the module of this package it is in."""

    module: str
    summary: str  # one line
    paper: str  # what the paper shows, and where


EXPERIMENTS: dict[str, Entry] = {
    "noise": Entry(
        "noise",
        "rotation and translation error of every method against the noise",
        "Figure 2a and 2b: mean Riemannian and Euclidean error against the variance of the noise. The paper: on par with or "
        "better than the state of the art, with a clear advantage as the noise grows.",
    ),
    "completeness": Entry(
        "completeness",
        "the same against the completeness of the graph",
        "Figure 2c and 2d: mean Riemannian and Euclidean error against e = |E|/N², N = 50. The paper: a clear advantage as the "
        "graph becomes sparse.",
    ),
    "outliers": Entry(
        "outliers",
        "errors and consistency of every method against the share of wrong edges",
        "Appendix, figure 'Robustness to outliers': edges are corrupted by rotations of 60° to 80° about random axes and "
        "translations in [0, 1]. The paper: most methods alike, TG-MCMC's advantage grows with the share.",
    ),
}
"""Entry of each experiment by its name on the command line."""
