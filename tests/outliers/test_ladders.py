"""Ladders tell the noise of a chain with loop closures, right and wrong ones alike."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose.outliers.noise import FEWEST_SPARE
from tempose.outliers.search import ladders
from tempose.outliers.search.ladders import _closures, _neighbours, ladder_noise
from tempose.outliers.sequence import Sequence
from tempose.simulation import Simulated, simulate
from tempose.studies.experiments import lookalikes

SIGMA_DEG, SIGMA = 2.0, 0.1


def world(seed: int, *, planar: bool) -> Simulated:
    """A path of 60 nodes with two look-alike places, single wrong loops and a wrong link."""
    return simulate(
        60, shape="manhattan", planar=planar, sigma_rot_deg=SIGMA_DEG, sigma_trans=SIGMA, aliases=2, wrong_loops=0.1,
        wrong_odometry=1 / 59, seed=seed,
    )  # fmt: skip


def sequence_of(made: Simulated) -> Sequence:
    found = Sequence.of(made.graph)
    assert found is not None
    return found


@pytest.mark.parametrize("planar", [True, False])
def test_noise_is_told_in_spite_of_wrong_edges(planar: bool) -> None:
    shown = []
    for seed in range(900, 912):
        found = ladder_noise(sequence_of(world(seed, planar=planar)), FEWEST_SPARE)
        if found is not None:
            shown.append((math.degrees(found[0]) / SIGMA_DEG, found[1] / SIGMA))
    assert len(shown) >= 9
    ratio = np.array(shown)
    assert np.sum((ratio < 0.5) | (ratio > 1.6)) <= 1  # next door, displaced by little, one mistake looks like noise
    assert np.all(np.abs(np.median(ratio, axis=0) - 0.9) < 0.15)  # the scale of Student's core is that much smaller


def test_look_alikes_that_stand_alike_are_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two mistakes of nearly the same turn, a unit apart: a third of the ladders agree in turn and not in place."""
    made = lookalikes.world(80027, lookalikes.QUICK_NODES)
    found = ladder_noise(sequence_of(made), FEWEST_SPARE)
    assert found is not None
    assert 0.7 < found[1] / lookalikes.SIGMA < 1.2 and 0.7 < math.degrees(found[0]) / lookalikes.SIGMA_DEG < 1.2
    both_or_neither = np.array([[True, True], [False, False]])  # as it was
    monkeypatch.setattr(ladders, "_CLOSES", both_or_neither)
    wide = ladder_noise(sequence_of(made), FEWEST_SPARE)
    assert wide is not None and wide[1] / lookalikes.SIGMA > 3.0


def test_without_the_gate_wrong_edges_would_count_as_noise() -> None:
    wide = []
    for seed in range(900, 912):
        sequence = sequence_of(world(seed, planar=False))
        turn2, _ = _closures(sequence, *_neighbours(sequence))
        wide.append(math.degrees(math.sqrt(float(turn2.mean()) / 10.0)) / SIGMA_DEG)
    assert np.mean(wide) > 5.0


def test_stated_certainty_is_kept_relative() -> None:
    made = world(903, planar=False)
    twice = replace(
        made.graph,
        concentration=made.graph.concentration / 4.0,
        translation_precision=made.graph.translation_precision / 4.0,
    )
    a = ladder_noise(sequence_of(made), FEWEST_SPARE)
    b = ladder_noise(Sequence.of(twice) or pytest.fail("no sequence"), FEWEST_SPARE)
    assert a is not None and b is not None
    np.testing.assert_allclose(a, b, rtol=1e-9)  # of an edge of median certainty, whatever the file says that is


def test_too_few_ladders_tell_nothing() -> None:
    graph = tempose.simulate(60, shape="manhattan", loops_per_node=0.05, seed=5).graph
    found = Sequence.of(graph)
    assert found is not None
    assert ladder_noise(found, FEWEST_SPARE) is None
