"""Aligned draws, compiled, against the readable alignment and tangent coordinates, in every gauge and for every kind of graph."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.kinds import made
from tempose.analysis import aligned
from tempose.analysis.aligned import AlignedDraws
from tempose.analysis.summary import summarise, tangent
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.sampling.draws import Draws

LENGTHS = (7, 5)
KINDS = ["plain", "gps", "fixed", "planar landmarks"]


def some_draws(graph: PoseGraph, spread: float) -> tuple[Poses, Draws]:
    """A reference far from the origin, and draws about it, each in a frame of its own and with random quaternion signs."""
    rng, n = np.random.default_rng(5), graph.n_nodes
    wxyz = quat.random_uniform(rng, n)
    if graph.is_planar:
        wxyz = quat.normalize(wxyz * [1.0, 0.0, 0.0, 1.0])
    reference = Poses(graph.node_ids, wxyz, rng.standard_normal((n, 3)) + np.array([1e4, -2e4, 0.0]))
    arrays = []
    for length in LENGTHS:
        out = np.empty((length, n, 7))
        for k in range(length):
            omega = spread * rng.standard_normal((n, 3)) * ([0.0, 0.0, 1.0] if graph.is_planar else 1.0)
            turned = quat.multiply(quat.exp(omega), reference.wxyz) * rng.choice([-1.0, 1.0], n)[:, None]
            out[k] = np.concatenate([turned, reference.position + spread * rng.standard_normal((n, 3))], axis=1)
        arrays.append(out)
    return reference, Draws(graph.node_ids, 1.0, tuple(arrays), tuple(np.zeros(k) for k in LENGTHS))


def gauge_of(graph: PoseGraph, kind: str) -> Gauge:
    try:
        return Gauge.parse(graph, kind)
    except Exception:  # the free gauge is not for every graph
        return Gauge.parse(graph, "auto")


@pytest.mark.parametrize("least", [0, 10**9], ids=["compiled", "readable"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", ["auto", "anchor", "centroid", "free"])
def test_tangents_are_those_of_all_poses_aligned(
    kind: str, held: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aligned, "COMPILED", least)
    graph = made(kind).graph
    reference, draws = some_draws(graph, 0.3)
    gauge = gauge_of(graph, held)
    found = AlignedDraws(draws.arrays, reference, gauge)
    poses = np.concatenate(draws.arrays)
    expected = tangent(*gauge.align(poses[..., :4], poses[..., 4:], reference), reference)
    monkeypatch.setattr(aligned, "_READ", 3 * 56 * sum(LENGTHS))  # three nodes at a time
    groups = list(found.parts(6 * sum(LENGTHS) * 2))  # in blocks of two
    assert len(groups) > 1 and len(groups[0]) == 2
    pieces = [
        found.read(aligned.whole(group)).tangents(aligned.within(rows, group)) for group in groups for rows in group
    ]
    np.testing.assert_allclose(np.concatenate(pieces).transpose(2, 0, 1), expected, atol=1e-10)
    assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize("least", [0, 10**9], ids=["compiled", "readable"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", ["auto", "centroid"])
def test_means_and_covariances_are_those_of_numpy(
    kind: str, held: str, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice: the mean of tangent coordinates is gone to; then their squares are averaged about where that led."""
    monkeypatch.setattr(aligned, "COMPILED", least)
    graph = made(kind).graph
    reference, draws = some_draws(graph, 0.2)
    gauge = gauge_of(graph, held)
    poses, count = np.concatenate(draws.arrays), sum(LENGTHS)
    there = gauge.align(poses[..., :4], poses[..., 4:], reference)
    mean = reference
    for _ in range(2):
        step = tangent(*there, mean).mean(axis=0)
        turned = quat.normalize(quat.multiply(quat.exp(step[:, :3]), mean.wxyz))
        mean = Poses(mean.ids, turned, mean.position + step[:, 3:])
    x = tangent(*there, mean)
    covariance = gauge.clear_held(np.einsum("kna,knb->nab", x, x) / (count - 1))
    found = summarise(draws, reference, gauge)
    shown = [graph.index[name] for name in graph.reported]
    np.testing.assert_allclose(found.covariance, covariance[shown], atol=1e-11)
    np.testing.assert_allclose(found.mean.wxyz, mean.wxyz[shown], atol=1e-12)
    np.testing.assert_allclose(found.mean.position, mean.position[shown] + graph.world_origin, rtol=1e-14, atol=1e-10)


def test_negative_control_another_gauge_gives_other_coordinates() -> None:
    graph = made("plain").graph
    reference, draws = some_draws(graph, 0.3)
    rows = slice(0, graph.n_nodes)
    a, b = (
        AlignedDraws(draws.arrays, reference, Gauge.parse(graph, kind)).tangents(rows)
        for kind in ("anchor", "centroid")
    )
    assert np.abs(a - b).max() > 0.1
