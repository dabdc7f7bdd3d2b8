"""What is believed of a graph before any of its loop closures is judged."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from tempose.outliers.beliefs import HOPEFUL, LONELY, WORRIED, Beliefs, Clues, World

NODES = 60


def clues(lone: int) -> Clues:
    kind = np.concatenate([np.zeros(lone), np.ones(4), np.full(4, 2)]).astype(np.int64)
    return Clues(kind, NODES, np.full(len(kind), np.nan), np.full(NODES - 1, np.nan))


@pytest.mark.parametrize("world", [HOPEFUL, WORRIED, LONELY])
def test_how_many_lone_loop_closures_there_are_is_a_distribution(world: World) -> None:
    counts = np.arange(3000)
    p = np.exp([world.log_offered(k, NODES) for k in counts.tolist()])
    assert p.sum() == pytest.approx(1.0, abs=1e-9)
    assert world.lone is not None and p @ counts == pytest.approx(world.lone * NODES, rel=1e-6)


def test_who_proposes_many_lone_loop_closures_is_to_be_worried() -> None:
    """A few do not tell much, and one a node tells what sort of graph it is; where nothing is said of it, nothing changes."""
    beliefs = Beliefs()
    few, many = (special.softmax(clues(k).offered(beliefs)) for k in (3, 47))
    assert few[0] > 0.5 > few[2] > few[1] and many[0] < 0.01 and many[1] > 0.5
    shares = [beliefs.shares(offered=clues(k).offered(beliefs))[0] for k in (3, 47)]
    assert (
        0.55 < shares[0] < 0.65 and 0.15 < shares[1] < 0.3
    )  # two in three, one in ten and one half, as they are probable
    any_number = Beliefs(worlds=tuple(World(world.kinds, world.alike) for world in beliefs.worlds))
    assert np.ptp(clues(47).offered(any_number)) == 0.0
    assert any_number.shares(offered=clues(47).offered(any_number))[0] == pytest.approx(beliefs.shares()[0])
