"""The order in time that names tell, and that nothing else of a name matters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose.errors import NotApplicable
from tempose.model.order import known_order, numbered, recorded, steps_apart
from tempose.outliers import Robust


def places(*names: int | str) -> list[int]:
    found = numbered(names)
    assert found is not None
    return found.place.tolist()


@pytest.mark.parametrize(
    "names",
    [
        (0, 1, 2, 3),
        (0, 10, 20, 30),
        (-4, 0, 7, 12),
        (1_600_000_000_000, 1_600_000_100_003, 1_600_000_199_990, 1_600_000_300_001),
        ("x8", "x9", "x10", "x11"),
        ("kf_0008.png", "kf_0010.png", "kf_0012.png", "kf_0113.png"),
        ("2024-05-01_8.jpg", "2024-05-01_9.jpg", "2024-05-01_10.jpg", "2024-05-01_11.jpg"),
        ("frame7_cam0", "frame8_cam0", "frame10_cam0", "frame99_cam0"),
    ],
)
def test_the_next_number_is_the_next_node(names: tuple[int | str, ...]) -> None:
    assert places(*names) == [0, 1, 2, 3]
    assert places(*names[::-1]) == [3, 2, 1, 0]


def test_series_and_sessions_are_no_neighbours() -> None:
    robots = np.array(places("a1", "a2", "b1", "b2", "b3"))
    assert np.diff(robots).tolist() == [1, robots[2] - robots[1], 1, 1] and robots[2] - robots[1] > 5
    cameras = np.array(places("f1_cam0", "f1_cam1", "f2_cam0", "f2_cam1", "f3_cam0", "f3_cam1"))
    assert cameras[[0, 2, 4]].tolist() == [0, 1, 2] and np.diff(cameras[[1, 3, 5]]).tolist() == [1, 1]
    assert cameras[1] - cameras[4] > 6
    sessions = np.array(places(0, 1, 2, 1000, 1001))
    assert np.diff(sessions).tolist() == [1, 1, sessions[3] - 2, 1] and sessions[3] - 2 > 5
    assert places(0, 1, 2, 50, 51) == [0, 1, 2, 3, 4]  # frames that nobody kept


@pytest.mark.parametrize(
    "names", [("north", "south"), ("x1", "tower"), ("x1", "x01"), ("9" * 40 + "a", "9" * 41 + "a")]
)
def test_names_without_numbers_are_no_order(names: tuple[str, ...]) -> None:
    assert numbered(names) is None


def test_landmarks_do_not_come_between_poses() -> None:
    builder = tempose.GraphBuilder(planar=True)
    for a, b in ((0, 2), (2, 5), (5, 6)):
        builder.add_edge(a, b, angle=0.0, translation=(1.0, 0.0), sigma_rot_deg=1.0, sigma_trans=0.1)
    for mark, seen_from in ((1, 0), (1, 2), (3, 2), (4, 5)):
        builder.add_sighting(seen_from, mark, (1.0, 1.0), sigma=0.1)
    graph = builder.build()
    order = recorded(graph)
    assert order is not None
    assert {name: order.place[graph.index[name]] for name in (0, 2, 5, 6)} == {0: 0, 2: 1, 5: 2, 6: 3}
    assert sorted(steps_apart(graph).tolist()) == [0, 0, 0, 0, 1, 1, 1]


def test_verdicts_do_not_depend_on_how_nodes_are_numbered() -> None:
    """With every tenth number, or with letters, wrong edges were once taken for independent, and look-alikes for right."""
    made = tempose.simulate(
        40, shape="manhattan", planar=True, sigma_rot_deg=1.0, sigma_trans=0.05, aliases=2, seed=40000
    )

    def verdicts(graph: tempose.PoseGraph, trust: float | None) -> np.ndarray:
        robust = Robust(trust_odometry=trust)
        found = tempose.solve(graph, robust=robust, noise="auto", draws=0, certify=False, analyse=False)
        assert found.verdicts is not None
        return found.verdicts.inlier_probability

    for trust in (None, 0.99):
        usual = verdicts(made.graph, trust)
        assert usual[made.is_wrong].max() < 0.5
        for name in (lambda k: 10 * k, lambda k: f"x{k}"):
            renamed = replace(made.graph, node_ids=tuple(map(name, made.graph.node_ids)))
            assert np.array_equal(verdicts(renamed, trust), usual)
    nameless = replace(made.graph, node_ids=tuple("a" * (k + 1) for k in range(made.graph.n_nodes)))
    assert verdicts(nameless, None)[made.is_wrong].max() > 0.9  # negative control: no order, no clusters
    with pytest.raises(NotApplicable, match="numbers in the names"):
        known_order(nameless)
