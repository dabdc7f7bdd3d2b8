"""Sessions as one graph."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.cli import main
from tempose.errors import GraphError
from tempose.geometry import Similarity
from tempose.geometry import quaternion as quat
from tempose.io import read_graph, write_graph
from tempose.model.graph import WORLD
from tempose.model.merging import merge
from tempose.model.posterior import Posterior


def session(first: int, last: int, planar: bool = False, frame: bool = False, **more) -> tempose.PoseGraph:
    """A part of one path, measured without noise, with poses, in a frame of its own if asked for."""
    made = tempose.simulate(12, shape="trajectory", planar=planar, seed=5, **more)
    truth = made.truth
    graph = tempose.GraphBuilder(planar=planar)
    for k in range(first, last):
        graph.add_edge(k, k + 1, transform=truth.relative(k, k + 1), information=np.diag([4.0] * (3 if planar else 6)))
    for k in range(first, last + 1):
        graph.add_node(k, truth[k], fixed=k == first)
    built = graph.build()
    if not frame:
        return built
    motion = Similarity(quat.exp(np.array([0.0, 0.0, 1.0])), np.array([7.0, 1.0, 0.0]))
    assert built.initial is not None
    return replace(built, initial=built.initial.moved(motion), fixed_at=None)


@pytest.mark.parametrize("planar", [False, True])
def test_shared_nodes_put_sessions_into_one_frame(planar: bool) -> None:
    one, two = session(0, 6, planar), session(5, 11, planar, frame=True)
    whole = merge([one, two], ["a", "b"], shared_ids=True)
    assert (
        whole.reported == tuple(range(12)) and whole.n_edges == 12 and whole.fixed == (0,) and whole.n_components == 1
    )
    assert whole.initial is not None and any("no longer fixed" in line for line in whole.notices)
    np.testing.assert_allclose(Posterior(whole).energies(whole.initial), 0.0, atol=1e-12)
    # negative control: the second session as it was fits nothing of the first
    assert two.initial is not None and one.initial is not None
    assert np.max(np.abs(two.initial[6].position - whole.initial[6].position)) > 1.0


@pytest.mark.parametrize("planar", [False, True])
def test_links_join_sessions_with_ids_of_their_own(planar: bool) -> None:
    one, two = session(0, 5, planar), session(6, 11, planar, frame=True)
    truth = tempose.simulate(12, shape="trajectory", planar=planar, seed=5).truth
    links = tempose.GraphBuilder(planar=planar)
    links.add_edge("b/6", "a/5", transform=truth.relative(6, 5), information=np.diag([4.0] * (3 if planar else 6)))
    whole = merge([one, two], ["a", "b"], links=links.build())
    assert set(whole.reported) == {*(f"a/{k}" for k in range(6)), *(f"b/{k}" for k in range(6, 12))}
    assert whole.n_components == 1 and whole.initial is not None
    np.testing.assert_allclose(Posterior(whole).energies(whole.initial), 0.0, atol=1e-12)
    apart = merge([one, two], ["a", "b"])
    assert apart.n_components == 2 and apart.initial is None and "nothing joins" in apart.notices[-1]
    stranger = tempose.GraphBuilder(planar=planar)
    stranger.add_edge("b/6", "c/5", transform=truth.relative(6, 5), information=np.diag([4.0] * (3 if planar else 6)))
    with pytest.raises(GraphError, match="names node 'c/5', which no session has"):
        merge([one, two], ["a", "b"], links=stranger.build())


def test_sessions_that_are_tied_to_the_world_share_it() -> None:
    """With origins of their own, as maps have."""
    parts = []
    for k, shift in enumerate(([691000.0, 5335000.0, 0.0], [692000.0, 5335000.0, 0.0])):
        graph = tempose.GraphBuilder()
        graph.add_edge(0, 1, wxyz=[1, 0, 0, 0], translation=[10, 0, 0], sigma_rot_deg=1, sigma_trans=0.1)
        for node in (0, 1):
            graph.add_position(node, np.add(shift, [10.0 * node, 0, k]), sigma=0.1)
            graph.add_attitude(node, wxyz=[1, 0, 0, 0], sigma_rot_deg=1.0)
        parts.append(graph.build())
    assert np.any(parts[0].world_origin != parts[1].world_origin)
    whole = merge(parts, ["a", "b"])
    assert whole.world is not None and whole.node_ids[-1] == WORLD
    solution = tempose.solve(whole, draws=0)
    np.testing.assert_allclose(solution["a/1"].position, [691010, 5335000, 0], atol=1e-6)
    np.testing.assert_allclose(solution["b/1"].position, [692010, 5335000, 1], atol=1e-6)


def test_precisions_of_different_kinds_are_all_kept() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(6, 6))
    one = tempose.GraphBuilder()
    one.add_edge(0, 1, wxyz=[1, 0, 0, 0], translation=[1, 0, 0], sigma_rot_deg=1, sigma_trans=0.1, inlier_prior=0.9)
    two = tempose.GraphBuilder().add_edge(
        1, 2, wxyz=[1, 0, 0, 0], translation=[1, 0, 0], information=root @ root.T + np.eye(6)
    )
    whole = merge([one.build(), two.build()], ["a", "b"], shared_ids=True)
    np.testing.assert_allclose(whole.information[0], one.build().information[0])
    np.testing.assert_allclose(whole.information[1], two.build().information[0])
    np.testing.assert_array_equal(whole.inlier_prior, [0.9, np.nan])


def test_what_cannot_be_merged_is_refused() -> None:
    with pytest.raises(GraphError, match="planar"):
        merge([session(0, 3), session(0, 3, planar=True)], ["a", "b"])
    with pytest.raises(GraphError, match="one name"):
        merge([session(0, 3), session(0, 3)], ["a", "a"])
    seen = tempose.GraphBuilder().add_sighting(0, 1, [1, 0, 0], sigma=1.0)
    with pytest.raises(GraphError, match="landmark in one session"):
        merge([session(0, 3), seen.build()], ["a", "b"], shared_ids=True)


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_graph(tmp_path / "monday.g2o", session(0, 6))
    write_graph(tmp_path / "tuesday.g2o", session(5, 11, frame=True))
    files = [str(tmp_path / "monday.g2o"), str(tmp_path / "tuesday.g2o")]
    assert main(["merge", *files, "--shared-ids", "-o", str(tmp_path / "all.g2o"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_nodes"] == 12
    assert read_graph(tmp_path / "all.g2o").n_components == 1
    assert main(["merge", *files, "-o", str(tmp_path / "all.csv")]) == 0
    assert "monday/0" in read_graph(tmp_path / "all.csv").index
