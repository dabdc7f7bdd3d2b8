"""What a Python developer tries in the first hour: tables, draws, poses, and mistakes that teach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import tempose
from tempose.errors import ArgumentError, GraphError, OptionError, TemposeError


@pytest.fixture(scope="module")
def solution() -> tempose.Solution:
    return tempose.solve(tempose.simulate(8, seed=1).graph, draws=21, chains=2)


def test_a_pose_is_a_matrix_and_a_rotation(solution: tempose.Solution) -> None:
    pose = solution.poses[3]
    assert pose.matrix.shape == (4, 4) and isinstance(pose.rotation, Rotation)
    np.testing.assert_allclose(pose.matrix[:3, :3], pose.rotation.as_matrix(), atol=1e-15)
    np.testing.assert_allclose(pose.matrix[:3, 3], solution[3].position)


def test_nodes_are_a_table(solution: tempose.Solution) -> None:
    pytest.importorskip("pandas")
    nodes = solution.nodes
    assert nodes is not None and len(nodes) == 8
    table = nodes.to_pandas()
    assert list(table.columns) == ["x", "y", "z", "qw", "qx", "qy", "qz", "sigma_rot_deg", "sigma_pos", "entropy"]
    assert table.loc[3, "sigma_pos"] == nodes.sigma_pos[3] == solution[3].sigma_pos
    assert repr(nodes).startswith("NodeSummary(8 nodes, median 1σ per axis ") and len(repr(nodes)) < 200
    assert "<table>" in nodes._repr_html_() and "sigma_rot_deg" in nodes._repr_html_()


def test_draws_are_numbered_through_all_chains(solution: tempose.Solution) -> None:
    draws = solution.draws
    assert draws is not None and len(draws) == 21
    for k, (wxyz, position) in enumerate(draws):
        np.testing.assert_array_equal(draws[k].wxyz, wxyz)
        np.testing.assert_array_equal(draws[k].position, position)
    np.testing.assert_array_equal(draws[-1].position, draws[20].position)
    with pytest.raises(ArgumentError, match="there is no draw 21: there are 21, from 0"):
        draws[21]
    with pytest.raises(ArgumentError, match="draws are numbered"):
        draws["a"]  # type: ignore[index]


def test_the_first_covariance_of_a_loaded_result_needs_no_draws(
    solution: tempose.Solution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tempose.analysis import analysis

    def never(*_: object) -> None:
        raise AssertionError("the draws were looked through again")

    solution.save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(analysis, "summarise", never)
        patch.setattr(analysis, "find_modes", never)
        loaded = tempose.Solution.load(tmp_path)
        np.testing.assert_array_equal(loaded.covariance(3), solution.covariance(3))
        assert loaded.nodes is not None and (loaded.nodes.source, loaded.nodes.n_draws) == ("draws", 21)
    (tmp_path / "covariances.npz").unlink()  # computed again then, to the same
    np.testing.assert_allclose(tempose.Solution.load(tmp_path).covariance(3), solution.covariance(3), rtol=1e-9)
    more = tempose.solve(solution.graph, directory=tmp_path / "more", draws=21, chains=2)
    more.save(tmp_path / "more")
    tempose.solve(solution.graph, directory=tmp_path / "more", draws=40, chains=2)  # killed before it was saved
    found = tempose.Solution.load(tmp_path / "more").nodes
    assert found is not None and found.n_draws == 40


MISTAKES = {
    "solve has no option 'drws'; did you mean draws?": lambda g: tempose.solve(g, drws=5),
    "solve has no option 'zzz'; there are graph": lambda g: tempose.solve(g, zzz=5),
    "simulate has no option 'nods'; did you mean nodes?": lambda g: tempose.simulate(nods=5),
    "draws must be a whole number, not 'many'": lambda g: tempose.solve(g, draws="many"),
    "solve takes a PoseGraph, or the path of a file, not ndarray": lambda g: tempose.solve(np.eye(4)),
    "solve takes a PoseGraph, or the path of a file, not NoneType": lambda g: tempose.solve(None),
    "robust must be Robust": lambda g: tempose.solve(g, robust="yes"),
    "noise": lambda g: tempose.solve(g, noise="aut"),
    "gauge": lambda g: tempose.solve(g, draws=0, gauge="nod:3"),
    "there is no node 99": lambda g: tempose.solve(g, draws=0)[99],
    "there is no node '3' among": lambda g: tempose.solve(g, draws=0).poses["3"],
    "progress is True": lambda g: tempose.solve(g, progress=3),
    "nowhere.g2o": lambda g: tempose.solve("nowhere.g2o"),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_gets_one_line_that_teaches(words: str) -> None:
    graph = tempose.simulate(6, seed=1).graph
    with pytest.raises(TemposeError) as caught:
        MISTAKES[words](graph)
    said = str(caught.value)
    assert words in said and "\n" not in said
    assert isinstance(caught.value, OptionError | ArgumentError | GraphError | TemposeError)
