"""Competing explanations side by side: a card each, with a small picture, all seen from the same side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.errors import GraphError
from tempose.report.widgets import text

_WIDTH, _HEIGHT, _MARGIN = 320.0, 220.0, 14.0
_MOST_EDGES = 3_000  # in one picture


@dataclass(frozen=True, eq=False)
class ExplanationCard:
    """One explanation, as the page shows it.

    Parameters
    ----------
    title
        ``"Explanation 1"``.
    share
        Its probability, e.g. ``"55%"``.
    rows
        What else is told of it, name and value.
    positions
        Where it places the nodes, shape (n, 3), in the frame of the first.
    marked
        Nodes (n,) to be coloured: those that it places elsewhere than the first; of the first, those that others do.
    kept
        Edges (k, 2) that it believes, as rows of nodes.
    given_up
        Links (l, 2) that it calls wrong.
    """

    title: str
    share: str
    rows: Sequence[tuple[str, str]]
    positions: Array
    marked: Mask
    kept: Index
    given_up: Index

    def __post_init__(self) -> None:
        n = len(self.positions)
        if np.shape(self.positions) != (n, 3) or np.shape(self.marked) != (n,):
            raise GraphError(f"{self.title}: positions {np.shape(self.positions)}, marked {np.shape(self.marked)}")


@dataclass(frozen=True, eq=False)
class Explanations:
    """The block below the picture.

    Parameters
    ----------
    headline
        ``"Two explanations: 55% and 45%"``.
    note
        What the rest of the page refers to.
    cards
        One for each.
    planar
        Whether to look from above; else along the direction in which the first explanation extends least.
    """

    headline: str
    note: str
    cards: Sequence[ExplanationCard]
    planar: bool

    def html(self) -> str:
        """The block, escaped."""
        view = _View.of([card.positions for card in self.cards], self.planar)
        first = self.cards[0]
        cards = "\n".join(_card(card, first, view) for card in self.cards)
        lost = any(len(card.given_up) for card in self.cards)
        legend = (
            '<p class="fine legend"><span class="key moved"></span>placed differently '
            + ('<span class="key lost"></span>link given up ' if lost else "")
            + '<span class="key shade"></span>where explanation 1 has it</p>'
            if len(self.cards) > 1
            else ""
        )
        return (
            f'<section class="explanations" aria-label="Explanations"><h2>{text(self.headline)}</h2>'
            f'<p class="note">{text(self.note)}</p><ul class="cards">{cards}</ul>{legend}</section>'
        )


@dataclass(frozen=True, eq=False)
class _View:
    """From positions to places in a picture, the same for all explanations."""

    axes: Array  # (2, 3): what points right and up
    middle: Array
    scale: float

    @classmethod
    def of(cls, positions: Sequence[Array], planar: bool) -> _View:
        every = np.concatenate(list(positions))
        axes = np.eye(3)[:2]
        if not planar:
            axes = np.linalg.svd(positions[0] - positions[0].mean(axis=0), full_matrices=True)[2][:2]
            largest = np.argmax(np.abs(axes), axis=1)
            axes = axes * np.sign(axes[np.arange(2), largest])[:, None]  # the sign of a direction is anybody's guess
        flat = every @ axes.T
        low, high = flat.min(axis=0), flat.max(axis=0)
        room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
        with np.errstate(divide="ignore"):
            scale = float(np.min(room / (high - low)))
        return cls(axes, (low + high) / 2, scale if np.isfinite(scale) else 1.0)

    def places(self, positions: Array) -> Array:
        """Shape (n, 2), y downwards."""
        x, y = ((positions @ self.axes.T - self.middle) * self.scale).T
        return np.stack([_WIDTH / 2 + x, _HEIGHT / 2 - y], axis=1)


def _card(card: ExplanationCard, first: ExplanationCard, view: _View) -> str:
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in card.rows)
    return (
        f'<li class="card explanation"><p class="label">{text(card.title)}</p><p class="value">{text(card.share)}</p>'
        f"{_picture(card, first, view)}<dl>{rows}</dl></li>"
    )


def _picture(card: ExplanationCard, first: ExplanationCard, view: _View) -> str:
    """Edges and nodes as one path each, the first explanation as a shade behind the others."""
    here, there = view.places(card.positions), view.places(first.positions)
    kept = card.kept[:: -(-len(card.kept) // _MOST_EDGES) or 1]
    moved = np.flatnonzero(card.marked)
    shade = [f'<path class="shade" d="{_dots(there[moved])}"/>'] if card is not first else []
    away = np.stack([there[moved], here[moved]], axis=1) if card is not first else np.zeros((0, 2, 2))
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="Its poses">'
        f'<path class="edges" d="{_segments(here[kept])}"/><path class="away" d="{_segments(away)}"/>{"".join(shade)}'
        f'<path class="lost" d="{_segments(here[card.given_up])}"/>'
        f'<path class="nodes" d="{_dots(here[~card.marked])}"/><path class="moved" d="{_dots(here[moved])}"/></svg>'
    )


def _segments(ends: Array) -> str:
    """Lines between places, shape (k, 2, 2)."""
    return "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in ends.tolist())


def _dots(places: Array) -> str:
    """Lines of no length, which a round pen makes dots of."""
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places.tolist())
