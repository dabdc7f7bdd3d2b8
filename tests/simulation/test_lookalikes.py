"""Wrong loops and look-alike places: which edges are wrong, that those of a place agree, and that all else is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tempose import cli
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io import read_graph
from tempose.model.posterior import Posterior
from tempose.simulation import Simulated, corrupt, replace_loops, simulate
from tempose.simulation.lookalikes import draw_aliases
from tempose.simulation.shapes import FEWEST_STEPS
from tempose.simulation.wrong import is_loop, is_odometry

WORLDS: dict[str, dict[str, Any]] = {
    f"{shape}, {'planar' if planar else 'space'}": {"shape": shape, "planar": planar}
    for shape in ("manhattan", "trajectory")
    for planar in (False, True)
}


def same(a: Simulated, b: Simulated) -> bool:
    names = ("edge_i", "edge_j", "j_from_i_wxyz", "j_from_i_t")
    alike = all(getattr(a.graph, name).tobytes() == getattr(b.graph, name).tobytes() for name in names)
    return alike and np.array_equal(a.is_wrong, b.is_wrong) and np.array_equal(a.alias, b.alias)


def p_values(made: Simulated, rows: Any) -> Any:
    """Of the energies of edges at the truth, χ² if they are right."""
    return stats.chi2.sf(2.0 * Posterior(made.graph).energies(made.truth)[rows], made.graph.freedom[rows])


@pytest.mark.parametrize("planar", [False, True])
def test_a_manhattan_world_has_streets_odometry_and_loops(planar: bool) -> None:
    made = simulate(500, shape="manhattan", planar=planar, seed=2)
    graph, p = made.graph, made.truth.position
    steps = np.diff(p[:, :2], axis=0)
    assert np.array_equal(np.sort(np.abs(steps), axis=1), np.tile([0.0, 1.0], (499, 1)))
    odometry, loops = is_odometry(graph), is_loop(graph)
    assert np.array_equal(graph.edge_i[odometry], np.arange(499)) and loops.sum() == 300
    assert np.array_equal(odometry, ~loops) and not made.is_wrong.any() and np.all(made.alias == -1)
    i, j = graph.edge_i[loops], graph.edge_j[loops]
    assert (j - i).min() > FEWEST_STEPS and np.linalg.norm(p[i, :2] - p[j, :2], axis=1).max() <= 2.0
    # the robot turns by quarters, at crossings only, and goes the way it faces
    x_axis = quat.rotate(made.truth.wxyz, np.array([1.0, 0.0, 0.0]))[:, :2]
    assert np.allclose(x_axis[:-1] / np.linalg.norm(x_axis[:-1], axis=1, keepdims=True), steps)
    turned = np.any(np.diff(steps, axis=0) != 0.0, axis=1)
    assert turned.any() and not np.any(p[1:-1][turned, :2] % 4)
    assert np.ptp(p[:, 2]) == 0.0 if planar else np.ptp(p[:, 2]) > 0.5
    assert stats.kstest(p_values(made, slice(None)), "uniform").pvalue > 1e-3


def test_how_many_loops_there_are_can_be_chosen() -> None:
    def loops(**options: Any) -> int:
        return int(is_loop(simulate(400, shape="manhattan", **options).graph).sum())

    assert loops(loops_per_node=0.25) == 100 and loops(completeness=1.0) > loops() == 240
    assert loops(completeness=1.0, loop_reach=1.0) < loops(completeness=1.0)
    assert is_loop(simulate(400, shape="trajectory", loops_per_node=0.1).graph).sum() == 40
    for bad in ({"loops_per_node": 99.0}, {"loops_per_node": 0.5, "completeness": 0.5}, {"loop_reach": -1.0}):
        with pytest.raises(OptionError, match="loop|reach"):
            loops(**bad)
    with pytest.raises(OptionError, match="random graph"):
        simulate(30, loops_per_node=1.0)


@pytest.mark.parametrize("world", WORLDS)
def test_wrong_loops_are_anywhere_and_all_else_is_right(world: str) -> None:
    made = simulate(400, wrong_loops=0.3, seed=3, **WORLDS[world])
    plain = simulate(400, seed=3, **WORLDS[world])
    loops = is_loop(made.graph)
    assert made.is_wrong.sum() == round(0.3 * loops.sum()) and not np.any(made.is_wrong & ~loops)
    right = ~made.is_wrong
    assert np.array_equal(made.graph.j_from_i_t[right], plain.graph.j_from_i_t[right])
    assert np.array_equal(made.right.j_from_i_wxyz, plain.graph.j_from_i_wxyz[right])
    # within the scene: as long as the distance between any two nodes; rotations uniform
    t = np.linalg.norm(made.graph.j_from_i_t[made.is_wrong], axis=1)
    any_two = made.truth.position[np.random.default_rng(0).integers(400, size=(2, 4000))]
    assert stats.ks_2samp(t, np.linalg.norm(any_two[0] - any_two[1], axis=1)).pvalue > 1e-3
    angle = quat.angle(made.graph.j_from_i_wxyz[made.is_wrong])
    uniform = (lambda x: x / np.pi) if made.graph.is_planar else (lambda x: (x - np.sin(x)) / np.pi)
    assert stats.kstest(uniform(angle), "uniform").pvalue > 1e-3
    if made.graph.is_planar:
        assert not np.any(made.graph.j_from_i_t[:, 2]) and not np.any(made.graph.j_from_i_wxyz[:, 1:3])


def test_smaller_shares_are_parts_of_larger_ones() -> None:
    few, more = (simulate(300, shape="manhattan", wrong_loops=share, seed=1) for share in (0.1, 0.4))
    assert not np.any(few.is_wrong & ~more.is_wrong)
    assert np.array_equal(few.graph.j_from_i_t[few.is_wrong], more.graph.j_from_i_t[few.is_wrong])


@pytest.mark.parametrize("world", WORLDS)
def test_edges_of_an_alias_agree_with_each_other_to_the_noise(world: str) -> None:
    """Each says where the other place seems to be: x_i ∘ measured⁻¹ ∘ x_j⁻¹ is one motion, with the noise of an edge."""
    made = simulate(400, aliases=6, sigma_rot_deg=0.5, sigma_trans=0.02, seed=5, **WORLDS[world])
    graph, truth = made.graph, made.truth
    assert np.array_equal(made.is_wrong, made.alias >= 0) and set(made.alias) == set(range(-1, 6))
    found, turns = [], []
    aliases = draw_again(made, WORLDS[world], seed=5)
    for k, one in enumerate(aliases):
        rows = np.flatnonzero(made.alias == k)
        i, j = graph.edge_i[rows], graph.edge_j[rows]
        assert np.array_equal(np.column_stack([i, j]), one.pairs) and len(rows) >= 2
        assert np.ptp(i) < 8 and np.ptp(j) < 8 and (j - i).min() > FEWEST_STEPS
        to_world = (truth.wxyz, truth.position)
        seen = se3.compose(
            (to_world[0][i], to_world[1][i]), se3.inverse((graph.j_from_i_wxyz[rows], graph.j_from_i_t[rows]))
        )
        supposed = se3.compose((one.wxyz, one.t), (to_world[0][j], to_world[1][j]))
        found.append(quat.angle_between(seen[0], supposed[0]) / np.radians(0.5))
        # in j's frame the error of a translation is that of the edge
        apart = quat.rotate(quat.conjugate(supposed[0]), to_world[1][i] - supposed[1]) - graph.j_from_i_t[rows]
        turns.append(np.linalg.norm(apart, axis=1) / 0.02)
        assert np.linalg.norm(graph.j_from_i_t[rows], axis=1).max() < 2.0 + 0.2  # seen as near as loops are
    dimension = 1 if graph.is_planar else 3
    assert stats.kstest(np.concatenate(found) ** 2, stats.chi2(dimension).cdf).pvalue > 1e-3
    assert stats.kstest(np.concatenate(turns) ** 2, stats.chi2(2 if graph.is_planar else 3).cdf).pvalue > 1e-3
    # they contradict the truth, and nothing else does
    assert p_values(made, made.is_wrong).max() < 1e-9
    assert stats.kstest(p_values(made, ~made.is_wrong), "uniform").pvalue > 1e-3


def draw_again(made: Simulated, world: dict[str, Any], seed: int) -> Any:
    from tempose._support import streams

    reach = {"manhattan": 2.0, "trajectory": 1.0}[world["shape"]]
    right = np.column_stack([made.graph.edge_i, made.graph.edge_j])[made.alias < 0]
    rng = streams.generator(seed, "corrupt", 3)
    return draw_aliases(made.truth, 6, rng, planar=world["planar"], reach=reach, taken=right)


def test_aliases_are_near_and_far_turn_by_quarters_and_vary_in_size() -> None:
    truth = simulate(1000, shape="manhattan", seed=1).truth
    found = draw_aliases(truth, 400, np.random.default_rng(1), planar=False, reach=2.0)
    turn = np.degrees(quat.angle(np.array([one.wxyz for one in found])))
    for angle, share in ((0.0, 0.4), (90.0, 0.2), (180.0, 0.3)):
        # next to nothing is refused, and a turn that leaves no pairs is drawn again
        assert abs(np.mean(np.abs(turn - angle) < 1e-6) - share) < 0.1
    middle = np.array([truth.position[one.there[4]] - truth.position[one.here[4]] for one in found])
    near = np.linalg.norm(middle, axis=1) <= 8.0
    assert 0.25 < near.mean() < 0.75
    size = np.array([len(one.pairs) for one in found])
    assert size.min() == 2 and size.max() > 20 and 5.0 < size.mean() < 14.0


def test_wrong_odometry_is_as_asked_for_beside_aliases() -> None:
    made = simulate(120, shape="manhattan", aliases=2, wrong_odometry=0.1, wrong_loops=0.2, seed=4)
    odometry = is_odometry(made.graph)
    assert np.sum(made.is_wrong & odometry) == 12 and np.all(made.is_wrong[made.alias >= 0])
    alone = made.is_wrong & ~odometry & (made.alias < 0)
    assert alone.sum() == round(0.2 * np.sum(~odometry & (made.alias < 0)))
    assert p_values(made, ~made.is_wrong).min() > 1e-6 and p_values(made, made.is_wrong).max() < 1e-3


@pytest.mark.parametrize("world", WORLDS)
def test_same_seed_same_bytes(world: str) -> None:
    options = {"aliases": 2, "wrong_loops": 0.1, "wrong_odometry": 0.05, **WORLDS[world]}
    assert same(simulate(100, seed=7, **options), simulate(100, seed=7, **options))
    assert not same(simulate(100, seed=7, **options), simulate(100, seed=8, **options))


def test_impossible_look_alikes_are_refused() -> None:
    with pytest.raises(OptionError, match="trajectory or a manhattan"):
        simulate(50, aliases=1)
    with pytest.raises(OptionError, match="need a path of 26 nodes, not 20"):
        simulate(20, shape="manhattan", aliases=1)
    with pytest.raises(OptionError, match="no two places"):
        simulate(60, shape="manhattan", aliases=500)


@pytest.mark.parametrize("kind", ["independent", "lookalikes"])
def test_loops_of_any_graph_are_replaced(kind: str) -> None:
    made = simulate(300, shape="manhattan", planar=True, correlated=True, sigma_rot_deg=0.5, landmarks=4, seed=6)
    bad = replace_loops(made.graph, made.truth, 0.5, kind, seed=2)
    loops = is_loop(made.graph)
    assert bad.is_wrong.sum() == round(0.5 * loops.sum()) and not np.any(bad.is_wrong & ~loops)
    assert np.array_equal(bad.graph.j_from_i_t[~bad.is_wrong], made.graph.j_from_i_t[~bad.is_wrong])
    assert np.array_equal(bad.graph.concentration, made.graph.concentration)
    again = replace_loops(made.graph, made.truth, 0.5, kind, seed=2)
    assert again.graph.j_from_i_t.tobytes() == bad.graph.j_from_i_t.tobytes()
    spoilt = Simulated(bad.graph, made.truth, bad.is_wrong, bad.alias)
    assert p_values(spoilt, bad.is_wrong).max() < 1e-4
    if kind == "independent":
        assert np.all(bad.alias == -1) and np.array_equal(bad.graph.edge_i, made.graph.edge_i)
        assert (
            bad.graph.j_from_i_t.tobytes()
            == corrupt(
                made.graph, 0.5, seed=2, kind="scene", edges="loops", poses=made.truth
            ).graph.j_from_i_t.tobytes()
        )
        return
    assert np.array_equal(bad.alias >= 0, bad.is_wrong)
    q, p = made.truth.wxyz, made.truth.position
    for k in range(bad.alias.max() + 1):
        rows = np.flatnonzero(bad.alias == k)
        i, j = bad.graph.edge_i[rows], bad.graph.edge_j[rows]
        measured = se3.inverse((bad.graph.j_from_i_wxyz[rows], bad.graph.j_from_i_t[rows]))
        motion = se3.compose(se3.compose((q[i], p[i]), measured), se3.inverse((q[j], p[j])))
        assert np.degrees(quat.angle_between(motion[0], motion[0][:1])).max() < 4.0
    one = replace_loops(made.graph, made.truth, 0.2, kind, places=1)
    assert set(one.alias[one.is_wrong]) == {0} and one.is_wrong.sum() == 36


def test_without_wrong_loops_nothing_is_replaced() -> None:
    made = simulate(100, shape="manhattan")
    for kind in ("independent", "lookalikes"):
        bad = replace_loops(made.graph, made.truth, 0.0, kind)
        assert not bad.is_wrong.any() and np.array_equal(bad.graph.j_from_i_t, made.graph.j_from_i_t)
    for share, kind, told in ((1.1, "lookalikes", "share"), (0.5, "odd", "independent or lookalikes")):
        with pytest.raises(OptionError, match=told):
            replace_loops(made.graph, made.truth, share, kind)
    with pytest.raises(OptionError, match="places"):
        replace_loops(made.graph, made.truth, 0.5, "lookalikes", places=0)


def test_the_command_writes_which_edges_are_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.g2o"
    words = "simulate --shape manhattan --planar --nodes 80 --aliases 2 --wrong-loops 0.1 --seed 3 --json -o"
    assert cli.main([*words.split(), str(path)]) == 0
    told = json.loads(capsys.readouterr().out)
    made = simulate(80, shape="manhattan", planar=True, aliases=2, wrong_loops=0.1, seed=3)
    lines = (tmp_path / "m.wrong.csv").read_text().splitlines()
    assert told["wrong"] == str(tmp_path / "m.wrong.csv") and told["n_wrong"] == len(lines) - 1 == made.is_wrong.sum()
    assert lines[0] == "i,j,alias" and sum(not line.endswith(",") for line in lines[1:]) == np.sum(made.alias >= 0)
    graph = read_graph(path)
    named = {tuple(map(int, line.split(",")[:2])) for line in lines[1:]}
    rows = [k for k in range(graph.n_edges) if tuple(graph.edge_ends[k]) in named]
    assert np.array_equal(rows, np.flatnonzero(made.is_wrong))
