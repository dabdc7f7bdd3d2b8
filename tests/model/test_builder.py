"""Graphs by hand: one convention, that of g2o and GTSAM, whatever the way of giving a measurement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tempose.errors import GraphError, MissingPackage
from tempose.geometry import quaternion as quat
from tempose.io import ReadOptions, read_graph
from tempose.model.builder import GraphBuilder
from tempose.model.graph import PoseGraph
from tempose.model.pose import Pose
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.simulation import simulate

TURN = Rotation.from_euler("zyx", [100.0, 20.0, -35.0], degrees=True)
SHIFT = np.array([1.0, -2.0, 0.5])
SURE: dict[str, Any] = {"sigma_rot_deg": 2.0, "sigma_trans": 0.05}


def same(one: PoseGraph, other: PoseGraph) -> None:
    for name in ("edge_i", "edge_j"):
        ends = [[graph.node_ids[k] for k in getattr(graph, name)] for graph in (one, other)]
        assert ends[0] == ends[1]
    assert np.max(quat.angle_between(one.j_from_i_wxyz, other.j_from_i_wxyz)) < 1e-7
    np.testing.assert_allclose(one.j_from_i_t, other.j_from_i_t, atol=1e-12)
    np.testing.assert_allclose(one.concentration_matrices, other.concentration_matrices, rtol=1e-9)
    np.testing.assert_allclose(one.translation_precision_matrices, other.translation_precision_matrices, rtol=1e-9)


def test_an_edge_is_the_pose_of_b_seen_from_a() -> None:
    """The equation of the docstring, with poses that fulfil it; turned round, they do not."""
    poses = Poses(("a", "b"), quat.random_uniform(np.random.default_rng(0), 2), [[1.0, 2.0, 3.0], [-1.0, 0.0, 4.0]])
    a_from_b = poses["a"].inverse() @ poses["b"]
    graph = GraphBuilder().add_edge("a", "b", transform=a_from_b, **SURE).build()
    assert graph.node_ids == ("a", "b")
    assert Posterior(graph).reference_potential(poses) < 1e-20
    np.testing.assert_allclose((poses["a"] @ a_from_b).matrix, poses["b"].matrix, atol=1e-12)
    wrong = GraphBuilder().add_edge("a", "b", transform=a_from_b.inverse(), **SURE).build()
    assert Posterior(wrong).reference_potential(poses) > 1.0
    right = GraphBuilder().add_edge("a", "b", transform=a_from_b.inverse(), measures="b_from_a", **SURE).build()
    assert Posterior(right).reference_potential(poses) < 1e-20


def test_edges_keep_the_names_they_were_given() -> None:
    turned = {"rotation": np.eye(3), "sigma_rot_deg": 1.0}
    builder = GraphBuilder().add_edge("a", "b", measures="b_from_a", **turned)  # type: ignore[arg-type]
    assert builder.build().edge_names() == [("a", "b")]
    assert builder.add_edge("b", "c", **turned).build().edge_names() == [("b", "a"), ("b", "c")]  # type: ignore[arg-type]
    for measures in ("a_from_b", "b_from_a"):
        arrays = PoseGraph.from_arrays([("a", "b")], [np.eye(3)], sigma_rot_deg=1.0, measures=measures)  # type: ignore[arg-type]
        assert arrays.edge_names() == [("a", "b")]
        with pytest.raises(GraphError, match="edge 'a' → 'b'"):
            PoseGraph.from_arrays([("a", "b")], [np.eye(3)], measures=measures)  # type: ignore[arg-type]
    fix = GraphBuilder().add_edge("a", "b", **turned).add_attitude("b", **turned)  # type: ignore[arg-type]
    assert fix.build().edge_names([1]) == [("b", "world")]


def test_numpy_integers_are_node_ids() -> None:
    """They become plain integers, however the graph is made, and the graph is the one of plain integers."""
    pairs, turns = np.array([[0, 1], [1, 7]]), Rotation.concatenate([TURN, TURN])
    plain = PoseGraph.from_arrays(pairs.tolist(), turns, [SHIFT, SHIFT], fixed=(7,), **SURE)
    whole = PoseGraph.from_arrays(pairs, turns, [SHIFT, SHIFT], fixed=tuple(np.array([7])), **SURE)
    builder = GraphBuilder().add_node(np.int32(0)).add_node(np.int32(1)).add_node(np.uint8(7), fixed=True)
    for a, b in pairs:
        builder.add_edge(a, b, rotation=TURN, translation=SHIFT, **SURE)
    modelled = PoseGraph.from_concentrations(pairs, plain.j_from_i_wxyz, concentration=1.0)
    for graph in (whole, builder.build(), modelled):
        assert graph.node_ids == (0, 1, 7)
        assert {type(node) for node in (*graph.node_ids, *graph.fixed)} == {int}
    for graph in (whole, builder.build()):
        same(graph, plain)
        assert graph.fixed == (7,)
    assert [type(node) for node in Poses.identity(tuple(np.arange(2)))] == [int, int]
    with pytest.raises(GraphError, match="joins a node to itself"):
        GraphBuilder().add_edge(np.int64(3), 3, rotation=TURN, **SURE)
    with pytest.raises(GraphError, match="is a bool"):
        GraphBuilder().add_node(np.True_)


@pytest.mark.parametrize("full", [False, True])
def test_the_same_as_a_g2o_file(tmp_path: Path, full: bool) -> None:
    """``EDGE_SE3:QUAT 7 3 Z Ω`` and ``add_edge(7, 3, Z, Ω)`` are one graph, also where Ω differs from axis to axis."""
    A = np.random.default_rng(1).standard_normal((2, 3, 3))
    omega_r, omega_t = (A @ np.swapaxes(A, 1, 2) + np.eye(3)) if full else 9.0 * np.tile(np.eye(3), (2, 1, 1))
    whole = np.zeros((6, 6))
    whole[:3, :3], whole[3:, 3:] = omega_t, omega_r  # g2o has the translation first
    numbers = [*SHIFT, *TURN.as_quat(), *whole[np.triu_indices(6)]]
    path = tmp_path / "one.g2o"
    path.write_text("EDGE_SE3:QUAT 7 3 " + " ".join(repr(float(x)) for x in numbers) + "\n")
    read = read_graph(path, ReadOptions(precision="full" if full else "isotropic"))
    information = np.zeros((6, 6))
    information[:3, :3], information[3:, 3:] = omega_r, omega_t  # here, and in GTSAM, the rotation
    built = GraphBuilder().add_edge(7, 3, rotation=TURN, translation=SHIFT, information=information).build()
    same(built, read)


def test_sigmas_are_standard_deviations_of_the_error() -> None:
    """Monte Carlo: noise of the stated size, along b's axes, has the stated covariance in the model's own residuals."""
    rng = np.random.default_rng(3)
    sigma_rot_deg, sigma_trans = np.array([0.5, 1.0, 2.0]), np.array([0.1, 0.2, 0.4])
    n = 4000
    errors = Rotation.from_rotvec(np.radians(sigma_rot_deg) * rng.standard_normal((n, 3)))
    measured = TURN * errors.inv()  # E = Z⁻¹ X_a⁻¹ X_b
    shifts = SHIFT + TURN.apply(sigma_trans * rng.standard_normal((n, 3)))
    pairs = [("a", "b")] * n
    noise = np.tile(sigma_rot_deg, (n, 1)), np.tile(sigma_trans, (n, 1))
    graph = PoseGraph.from_arrays(pairs, measured, shifts, sigma_rot_deg=noise[0], sigma_trans=noise[1])
    truth = Poses(("a", "b"), np.stack([quat.IDENTITY, Pose.from_rotation(TURN).wxyz]), np.stack([np.zeros(3), SHIFT]))
    rotation, translation = Posterior(graph).potential_by_edge(truth)
    for energy in (rotation, translation):  # 2U is χ² with three degrees of freedom
        assert abs(2.0 * energy.mean() - 3.0) < 5.0 * np.sqrt(6.0 / n)
    found = residuals(graph, truth)
    np.testing.assert_allclose(np.cov((TURN.inv().apply(found.translation)).T), np.diag(sigma_trans**2), atol=0.01)


def test_every_way_to_give_a_measurement_is_the_same() -> None:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = TURN.as_matrix(), SHIFT
    wxyz = TURN.as_quat()[[3, 0, 1, 2]]
    ways: list[dict[str, Any]] = [
        {"rotation": TURN, "translation": SHIFT},
        {"rotation": TURN.as_matrix(), "translation": SHIFT.tolist()},
        {"wxyz": wxyz, "translation": SHIFT},
        {"transform": matrix},
        {"transform": Pose(wxyz, SHIFT)},
    ]
    graphs = [GraphBuilder().add_edge("a", "b", **way, **SURE).build() for way in ways]
    for graph in graphs[1:]:
        same(graph, graphs[0])
    assert graphs[0].concentration == pytest.approx(2.0 / np.radians(2.0) ** 2)
    assert graphs[0].translation_precision == pytest.approx(400.0)
    turns = Rotation.from_quat([TURN.as_quat()])
    for arrays in (
        {"rotations": turns, "translations": [SHIFT]},
        {"transforms": [matrix]},
        {"wxyz": [wxyz], "translations": [SHIFT]},
    ):
        same(PoseGraph.from_arrays([("a", "b")], **arrays, **SURE), graphs[0])  # type: ignore[arg-type]
    back = {"rotations": turns.inv(), "translations": [-TURN.inv().apply(SHIFT)]}
    turned = PoseGraph.from_arrays([("a", "b")], **back, measures="b_from_a", **SURE)  # type: ignore[arg-type]
    assert np.array_equal(turned.edge_i, [0]) and np.array_equal(turned.edge_j, [1])  # measured from a to b, as given


def test_nodes_fixed_poses_and_rotation_only_edges() -> None:
    graph = GraphBuilder()
    graph.add_node("base", np.eye(4), fixed=True).add_node("lonely")
    graph.add_edge("b", "base", rotation=np.eye(3), sigma_rot_deg=1.0)
    graph.add_edge("b", "base", rotation=np.eye(3), translation=[0, 0, 1], inlier_prior=0.9, **SURE)
    built = graph.build()
    assert built.node_ids == ("base", "lonely", "b") and built.fixed == ("base",)
    assert built.has_translation.tolist() == [False, True]
    assert built.inlier_prior is not None and built.inlier_prior[1] == 0.9 and np.isnan(built.inlier_prior[0])
    assert built.initial is None and not built.notices  # nothing was lost: the base is where it is
    some = GraphBuilder().add_node("b", np.eye(4)).add_edge("a", "b", rotation=np.eye(3), sigma_rot_deg=1.0).build()
    assert some.initial is None and "1 of 2 nodes have a pose" in some.notices[0]
    whole = graph.add_node("lonely", Pose.identity()).add_node("b", Pose.identity()).build()
    assert whole.initial is not None and whole.initial.ids == built.node_ids and not whole.notices
    assert "3 nodes, 2 edges" in repr(graph)
    assert GraphBuilder().build().n_nodes == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, r"edge 'a' → 'b': give rotation= or wxyz="),
        ({"rotation": [1, 0, 0, 0]}, r"edge 'a' → 'b': rotation= takes a scipy Rotation or a 3×3.*wxyz="),
        ({"rotation": 2.0 * np.eye(3)}, r"edge 'a' → 'b' has a 3×3 matrix that is no rotation"),
        ({"rotation": np.diag([1.0, 1.0, -1.0])}, "no rotation"),
        ({"wxyz": [1, 1, 0, 0]}, r"edge 'a' → 'b' has a quaternion that is not of unit length"),
        ({"transform": np.eye(3)}, "needs a 4×4 matrix"),
        ({"transform": np.ones((4, 4))}, "last row"),
        ({"transform": np.eye(4), "translation": [0, 0, 0]}, "or transform="),
        ({"rotation": np.eye(3), "translation": [0, 0]}, "a translation of 2 numbers"),
        ({"rotation": np.eye(3), "translation": [0, np.nan, 0]}, "not finite"),
        ({"rotation": np.eye(3), "sigma_rot_deg": None}, "say how sure it is"),
        ({"rotation": np.eye(3), "sigma_rot_deg": 0.0}, r"edge 'a' → 'b' has a sigma_rot_deg that is not above zero"),
        (
            {"rotation": np.eye(3), "translation": [0, 0, 1], "sigma_trans": None},
            "has a translation and no sigma_trans",
        ),
        ({"rotation": np.eye(3), "sigma_rot_deg": [1.0, 2.0]}, "sigma_rot_deg has shape"),
        ({"rotation": np.eye(3), "information": np.eye(6)}, "say how sure it is"),
        ({"rotation": np.eye(3), "measures": "sideways"}, "'a_from_b'.*not 'sideways'"),
        ({"rotation": np.eye(3), "inlier_prior": 1.5}, "inlier_prior of 1.5"),
    ],
)
def test_mistakes_name_the_edge_and_teach(change: dict[str, Any], message: str) -> None:
    graph = GraphBuilder()
    with pytest.raises(GraphError, match=message):
        graph.add_edge("a", "b", **{**SURE, **change})
    assert graph.build().n_nodes == 0  # a refused edge leaves nothing behind


def test_informations_that_are_refused() -> None:
    tied = np.eye(6)
    tied[0, 3] = tied[3, 0] = 1.5
    for information, message in (
        (tied, "edge 1 → 2 has an information whose blocks do not fit together.*indefinite.*then translation"),
        (np.eye(6) + np.eye(6, k=3), "not symmetric"),
        (np.eye(3), "information must be 6×6 .rotation vector in radians, then translation."),
        (np.diag([1.0, 1, 1, 1, 1, -1]), "not positive semi-definite"),
        (np.full((6, 6), np.nan), "not finite"),
    ):
        with pytest.raises(GraphError, match=message):
            GraphBuilder().add_edge(1, 2, rotation=np.eye(3), translation=[0, 0, 0], information=information)
    for node in (1.5, True, None):
        with pytest.raises(GraphError, match="use an integer or a string"):
            GraphBuilder().add_edge("a", node, rotation=np.eye(3), sigma_rot_deg=1.0)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="joins a node to itself"):
        GraphBuilder().add_edge("a", "a", rotation=np.eye(3), sigma_rot_deg=1.0)
    with pytest.raises(GraphError, match="do not go with 2 edges"):
        PoseGraph.from_arrays([(0, 1), (1, 2)], np.eye(3)[None], sigma_rot_deg=1.0)


def test_arrays_build_what_the_builder_builds() -> None:
    made = simulate(12, seed=4).graph
    pairs = [(made.node_ids[j], made.node_ids[i]) for i, j in zip(made.edge_i, made.edge_j, strict=True)]
    sigma_rot_deg, sigma_trans = made.edge_sigmas
    whole = PoseGraph.from_arrays(
        pairs,
        wxyz=made.j_from_i_wxyz,
        translations=made.j_from_i_t,
        sigma_rot_deg=sigma_rot_deg,
        sigma_trans=sigma_trans,
    )
    grown = GraphBuilder()
    for k, (a, b) in enumerate(pairs):
        grown.add_edge(
            a,
            b,
            wxyz=made.j_from_i_wxyz[k],
            translation=made.j_from_i_t[k],
            sigma_rot_deg=sigma_rot_deg[k],
            sigma_trans=sigma_trans[k],
        )
    same(whole, grown.build())
    np.testing.assert_allclose(whole.concentration, made.concentration, rtol=1e-12)
    assert whole.is_isotropic


def test_tables_and_networks_keep_the_convention() -> None:
    pandas = pytest.importorskip("pandas")
    made = simulate(8, seed=5)
    table = made.graph.to_pandas()
    assert len(table) == made.graph.n_edges and isinstance(table, pandas.DataFrame)
    again = PoseGraph.from_arrays(
        list(zip(table["a"], table["b"], strict=True)),
        wxyz=table[["qw", "qx", "qy", "qz"]],
        translations=table[["x", "y", "z"]],
        sigma_rot_deg=table["sigma_rot_deg"],
        sigma_trans=table["sigma_trans"],
    )
    assert again.n_edges == made.graph.n_edges and np.array_equal(again.j_from_i_wxyz, made.graph.j_from_i_wxyz)
    nodes = made.graph.to_pandas("nodes")
    assert nodes.index.name == made.truth.to_pandas().index.name == "id"
    assert nodes["degree"].tolist() == made.graph.degree.tolist()
    assert made.truth.to_pandas().loc[3, "x"] == made.truth[3].position[0]


def test_networks_keep_the_convention() -> None:
    pytest.importorskip("networkx")
    made = simulate(8, seed=5)
    network = made.graph.to_networkx()
    assert list(network.nodes) == list(made.graph.node_ids)
    edges = list(network.edges(keys=True, data=True))
    assert len(edges) == made.graph.n_edges
    grown = GraphBuilder()
    for a, b, k, edge in edges:
        grown.add_edge(a, b, **edge)
        assert np.array_equal(edge["translation"], made.graph.j_from_i_t[k])
    assert Posterior(grown.build()).reference_potential(made.truth.select(grown.build().node_ids)) == pytest.approx(
        Posterior(made.graph).reference_potential(made.truth)
    )


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    made = simulate(4, seed=0)
    for name in ("pandas", "networkx"):
        monkeypatch.setitem(sys.modules, name, None)
    for ask in (made.truth.to_pandas, made.graph.to_pandas, made.graph.to_networkx):
        with pytest.raises(MissingPackage, match=r"tempose\[interop\]"):
            ask()


def test_graphs_and_poses_show_themselves() -> None:
    made = simulate(20, completeness=0.5, seed=6)
    assert repr(made.graph) == f"PoseGraph(20 nodes, {made.graph.n_edges} edges, 1 component)"
    assert repr(made.truth).startswith("Poses(20 nodes: 0, 1, 2, …")
    for shown in (made.graph._repr_html_(), made.truth._repr_html_()):
        assert shown.startswith("<table>") and shown.count("<table>") == shown.count("</table>") == 1
    assert "the first 8 of 20" in made.truth._repr_html_()
    assert "&lt;b&gt;" in Poses.identity(["<b>"])._repr_html_()


# ---------------------------------------------------------------------- the plane, landmarks, single nodes, correlations


def energies(graph: PoseGraph, **at: Pose) -> np.ndarray:
    """Energy of each edge with nodes at given poses, the others at the origin."""
    chosen = [at.get(str(name), Pose.identity()) for name in graph.node_ids]
    poses = Poses(graph.node_ids, np.stack([p.wxyz for p in chosen]), np.stack([p.position for p in chosen]))
    return Posterior(graph).energies(poses)


def random_pose(rng: np.random.Generator) -> Pose:
    return Pose(quat.random_uniform(rng), rng.standard_normal(3))


def spd(rng: np.random.Generator, d: int) -> np.ndarray:
    A = rng.standard_normal((d, d))
    return A @ A.T + 0.3 * np.eye(d)


def test_correlated_information_is_the_gaussian_of_the_error() -> None:
    rng = np.random.default_rng(5)
    a, Z, omega = random_pose(rng), random_pose(rng), spd(rng, 6)
    e = 1e-5 * rng.standard_normal(6)
    b = a @ Z @ Pose(quat.exp(e[:3]), e[3:])
    graph = GraphBuilder().add_edge("a", "b", transform=Z, information=omega).build()
    assert energies(graph, a=a, b=b)[0] == pytest.approx(0.5 * e @ omega @ e, rel=1e-3)
    arrays = PoseGraph.from_arrays([("a", "b")], transforms=[Z.matrix], information=[omega])
    np.testing.assert_allclose(arrays.information, graph.information, rtol=1e-12)
    blocks = omega.copy()
    blocks[:3, 3:] = blocks[3:, :3] = 0.0
    dropped = GraphBuilder().add_edge("a", "b", transform=Z, information=blocks).build()
    assert dropped.coupling is None
    assert abs(energies(dropped, a=a, b=b)[0] / (0.5 * e @ omega @ e) - 1.0) > 0.02  # negative control
    prior = GraphBuilder().add_edge("a", "c", transform=Z, information=omega)
    graph = prior.add_pose_prior("a", a, information=omega).build()
    moved = a @ Pose(quat.exp(e[:3]), e[3:])
    assert energies(graph, a=moved)[1] == pytest.approx(0.5 * e @ omega @ e, rel=1e-3)


def test_positions_attitudes_and_directions_are_what_they_say() -> None:
    rng = np.random.default_rng(6)
    X, arm, off = random_pose(rng), rng.standard_normal(3), 0.1 * rng.standard_normal(3)
    base = {"rotation": TURN, "translation": SHIFT, **SURE}
    covariance = spd(rng, 3)
    graph = GraphBuilder().add_edge("k", "l", **base)
    graph.add_position("k", X @ arm + off, covariance=covariance, lever_arm=arm)
    graph.add_position("k", X.position + off, sigma=[0.1, 0.2, np.inf])
    graph.add_attitude("k", wxyz=quat.multiply(X.wxyz, quat.exp([1e-4, 0, 0])), sigma_rot_deg=[1.0, 2.0, 3.0])
    graph.add_direction("k", in_node=[0.1, 0.2, 1.0], in_world=[0, 0, 2.0], sigma_deg=2.0, inlier_prior=0.5)
    built = graph.build()
    assert built.node_ids == ("k", "l", "world") and built.reported == ("k", "l")
    assert built.freedom.tolist() == [6, 3, 2, 3, 2] and built.inlier_prior is not None and built.inlier_prior[4] == 0.5
    found = energies(built, k=X)
    assert found[1] == pytest.approx(0.5 * off @ np.linalg.inv(covariance) @ off)
    assert found[2] == pytest.approx(0.5 * ((off[0] / 0.1) ** 2 + (off[1] / 0.2) ** 2))
    assert found[3] == pytest.approx(0.5 * (1e-4 / np.radians(1.0)) ** 2, rel=1e-6)
    seen = np.array([0.1, 0.2, 1.0]) / np.linalg.norm([0.1, 0.2, 1.0])
    tilt = np.arccos(np.clip(quat.rotate(X.wxyz, seen)[2], -1, 1))
    assert found[4] == pytest.approx(2.0 * np.sin(tilt / 2) ** 2 / np.radians(2.0) ** 2)


def test_a_planar_graph_by_hand() -> None:
    rng = np.random.default_rng(7)
    omega, e = spd(rng, 3), 1e-5 * rng.standard_normal(3)  # θ, x, y
    graph = GraphBuilder(planar=True).add_edge("a", "b", angle=0.7, translation=[1, 2], information=omega)
    graph.add_sighting("a", "tree", [3.0, 4.0], sigma=0.1).add_position("b", [5.0, 6.0], sigma=0.2, lever_arm=[1, 0])
    graph.add_attitude("b", angle=0.7, sigma_rot_deg=2.0).add_pose_prior(
        "a", [0, 0, 0.1], sigma_rot_deg=1.0, sigma_trans=1
    )
    graph.add_node("a", [0, 0, 0]).add_node("b", [1, 2, 0.7]).add_landmark("tree", [3, 4])
    built = graph.build()
    assert built.is_planar and built.landmarks == ("tree",) and built.freedom.tolist() == [3, 2, 2, 1, 3]
    assert built.initial is not None and built.initial["b"].position.tolist() == [1, 2, 0]
    b = Pose(quat.exp([0, 0, 0.7]), np.array([1.0, 2, 0])) @ Pose(quat.exp([0, 0, e[0]]), np.array([*e[1:], 0.0]))
    found = energies(built, b=b, tree=Pose(quat.IDENTITY, np.array([3.0, 4.1, 0])))
    assert found[0] == pytest.approx(0.5 * e @ omega @ e, rel=1e-3)
    assert found[1] == pytest.approx(0.5)
    seen = b @ np.array([1.0, 0, 0])
    assert found[2] == pytest.approx(0.5 * np.sum((seen[:2] - [5, 6]) ** 2) / 0.04)
    arrays = PoseGraph.from_arrays([("a", "b")], angles=[0.7], translations=[[1, 2]], information=[omega])
    np.testing.assert_allclose(arrays.information[0], built.information[0], rtol=1e-12)
    assert arrays.dimension == 2


def test_map_coordinates_and_several_fixed_nodes() -> None:
    utm, east = np.array([691_000.25, 5_334_000.5, 520.0]), np.array([1.0, 0.0, 0.0])
    graph = GraphBuilder().add_edge("a", "b", rotation=np.eye(3), translation=[1, 0, 0], **SURE)
    for name, x in (("a", 0.0), ("b", 1.0)):
        graph.add_node(name, Pose(quat.IDENTITY, utm + x * east), fixed=True)
    built = graph.build()
    assert built.fixed == ("a", "b") and np.all(built.world_origin == np.round(built.world_origin))
    assert built.fixed_at is not None and built.initial is not None
    np.testing.assert_array_equal(built.fixed_at.position[:2] + built.world_origin, [utm, utm + east])
    assert np.abs(built.fixed_at.position[:, :2]).max() < 2 and Posterior(built).energies(built.initial)[0] < 1e-20
    graph.add_position("b", utm + 1.5 * east, sigma=0.01)
    with pytest.raises(GraphError, match="the position of node 'b' is 50 σ from where the node is fixed"):
        graph.build()


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda g: g.add_position("nobody", [0, 0, 0], sigma=1.0), "position of node 'nobody': there is no such node"),
        (lambda g: g.add_position("a", [0, 0], sigma=1.0), "give 3 finite numbers"),
        (lambda g: g.add_position("a", [0, 0, 0]), "by one of sigma=, covariance=.*and information="),
        (lambda g: g.add_position("a", [0, 0, 0], covariance=np.diag([1.0, 1, 0])), "covariance is singular"),
        (lambda g: g.add_position("a", [0, 0, 0], information=np.zeros((3, 3))), "information is zero or indefinite"),
        (lambda g: g.add_position("a", [0, 0, 0], sigma=np.inf), "says nothing"),
        (lambda g: g.add_sighting("a", "b", [0, 0, 0], sigma=1.0), "'b' has an orientation elsewhere"),
        (lambda g: g.add_edge("a", "tree", rotation=np.eye(3), sigma_rot_deg=1.0), "'tree' is a landmark.*add_sighting"),
        (lambda g: g.add_attitude("tree", rotation=np.eye(3), sigma_rot_deg=1.0), "it is a landmark"),
        (lambda g: g.add_edge("a", "b", angle=0.1, sigma_rot_deg=1.0), r"GraphBuilder\(planar=True\)"),
        (lambda g: g.add_direction("a", [0, 0, 0], [0, 0, 1], sigma_deg=1.0), "not all zero"),
        (lambda g: g.add_position("world", [0, 0, 0], sigma=1.0), "the world itself"),
        (lambda g: g.add_node("world", np.eye(4)), "'world' is the world itself: use add_position, add_attitude"),
        (lambda g: g.add_edge("a", "world", rotation=np.eye(3), sigma_rot_deg=1.0), "'world' is the world itself"),
        (lambda g: g.add_edge("world", "b", rotation=np.eye(3), sigma_rot_deg=1.0), "'world' is the world itself"),
        (lambda g: g.add_sighting("world", "tree", [0, 0, 0], sigma=1.0), "'world' is the world itself"),
        (lambda g: g.add_landmark("world"), "'world' is the world itself"),
        (lambda g: g.add_edge("a", "b", rotation=TURN, translation=SHIFT, information=np.zeros((6, 6))), "says nothing"),
        (lambda g: g.add_edge("a", "b", rotation=TURN, information=np.diag([0.0, 0, 0, 1, 1, 1])), "says nothing"),
        (
            lambda g: g.add_edge("a", "b", rotation=TURN, translation=SHIFT, information=np.ones((6, 6))),
            "edge 'a' → 'b' has a singular 6×6 information, which ties its translation to a rotation",
        ),
    ],
)  # fmt: skip
def test_mistakes_about_single_nodes_teach(add: Any, message: str) -> None:
    graph = GraphBuilder().add_edge("a", "b", rotation=TURN, translation=SHIFT, **SURE)
    graph.add_sighting("a", "tree", [1, 2, 3], sigma=1.0)
    with pytest.raises(GraphError, match=message) as caught:
        add(graph).build()
    assert "\n" not in str(caught.value)
