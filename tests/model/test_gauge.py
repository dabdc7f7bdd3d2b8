"""What a gauge holds stands still, and what it does not hold does not, where poses differ by more than a motion."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.kinds import made
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.poses import Poses
from tempose.simulation import simulate


def aligned(kind: str) -> tuple[Poses, np.ndarray, np.ndarray]:
    """True poses, and by how much others still turn and shift against them, once aligned."""
    made = simulate(10, completeness=0.6, seed=2)
    truth, rng = made.truth, np.random.default_rng(8)
    wxyz = quat.multiply(quat.exp(0.2 * rng.standard_normal((10, 3))), truth.wxyz)
    position = truth.position + 0.2 * rng.standard_normal((10, 3))
    wxyz, position = Gauge.parse(made.graph, kind).align(wxyz, position, truth)
    return truth, quat.log(quat.multiply(wxyz, quat.conjugate(truth.wxyz))), position - truth.position


@pytest.mark.parametrize(("kind", "held"), [("anchor", 0), ("node:7", 7), ("node:3", 3)])
def test_the_held_node_and_no_other_stands_still(kind: str, held: int) -> None:
    _, turn, shift = aligned(kind)
    others = np.arange(10) != held
    assert np.abs(turn[held]).max() < 1e-12 and np.abs(shift[held]).max() < 1e-12
    assert np.linalg.norm(turn[others], axis=1).min() > 1e-3
    assert np.linalg.norm(shift[others], axis=1).min() > 1e-3


def test_the_centroid_stands_still() -> None:
    _, turn, shift = aligned("centroid")
    assert np.abs(shift.mean(axis=0)).max() < 1e-12
    mean = quat.log(quat.mean(quat.exp(turn)))
    assert np.abs(mean).max() < 1e-12
    assert np.linalg.norm(turn, axis=1).min() > 1e-3


def test_the_free_network_neither_shifts_nor_turns() -> None:
    """No rotation of all positions about their centre brings them nearer to the true ones."""
    truth, _, shift = aligned("free")
    assert np.abs(shift.mean(axis=0)).max() < 1e-12
    arm = truth.position - truth.position.mean(axis=0)
    assert np.abs(np.cross(arm, shift).sum(axis=0)).max() < 1e-10
    assert np.abs(np.cross(arm, shift)).max() > 1e-2


@pytest.mark.parametrize("kind", ["plain", "gps", "fixed", "planar landmarks"])
@pytest.mark.parametrize("held", ["auto", "centroid", "free"])
def test_many_at_once_as_one_by_one(kind: str, held: str) -> None:
    graph = made(kind).graph
    rng, n = np.random.default_rng(3), graph.n_nodes
    reference = Poses(graph.node_ids, quat.random_uniform(rng, n), rng.standard_normal((n, 3)))
    gauge = Gauge.parse(graph, "auto" if held == "free" and kind != "plain" else held)
    wxyz, position = quat.random_uniform(rng, (5, n)), rng.standard_normal((5, n, 3))
    together = gauge.align(wxyz, position, reference)
    for k in range(5):
        for one, many in zip(gauge.align(wxyz[k], position[k], reference), together, strict=True):
            np.testing.assert_allclose(many[k], one, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "chosen", "words"),
    [
        ("plain", "anchor", "relative to node 0, held fixed"),
        ("gps", "world", "relative to the world"),
        ("attitudes", "world", "relative to the world"),
        ("fixed", "world", "relative to the fixed nodes"),
        ("planar landmarks", "anchor", "relative to node 0, held fixed"),
    ],
)
def test_auto_is_the_world_where_something_ties_the_graph_to_it(kind: str, chosen: str, words: str) -> None:
    gauge = Gauge.parse(made(kind).graph, "auto")
    assert (gauge.kind, str(gauge)) == (chosen, words)


def test_one_fixed_node_says_only_where_the_graph_is_held() -> None:
    graph = simulate(10, completeness=0.6, fixed=1, seed=2).graph
    gauge = Gauge.parse(graph, "auto")
    assert gauge.kind == "anchor"
    assert str(gauge) == f"relative to node {graph.fixed[0]}, held fixed"


def test_a_landmark_holds_nothing() -> None:
    graph = made("landmarks").graph
    with pytest.raises(NotApplicable, match="no orientation"):
        Gauge.parse(graph, f"node:{graph.landmarks[0]}")
    with pytest.raises(OptionError, match="auto, world, anchor"):
        Gauge.parse(graph, "nonsense")
