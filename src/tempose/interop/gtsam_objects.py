"""Factor graphs and values of GTSAM.

``BetweenFactor(a, b, Z, noise)`` has the error ``Z⁻¹ X_a⁻¹ X_b`` in the axes of b, rotation first in space (``Pose3``), ``x, y, θ``
in the plane (``Pose2``): it is :meth:`tempose.GraphBuilder.add_edge` with ``information`` in that order. ``PriorFactor(a, Z,
noise)`` is :meth:`~tempose.GraphBuilder.add_pose_prior`, ``GPSFactor`` :meth:`~tempose.GraphBuilder.add_position`.

A key with a letter (``gtsam.symbol("x", 3)``) is the node ``"x3"``, a plain number the node of that number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, NodeId
from tempose.errors import DrawsError, GraphError
from tempose.geometry import quaternion as quat
from tempose.model import precision as precisions
from tempose.model.builder import GraphBuilder
from tempose.model.conventions import converted
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.pose import Pose
from tempose.model.poses import Poses
from tempose.solution import Solution

_SYMBOL = re.compile(r"([A-Za-z])(\d{1,16})")
_THETA_FIRST = np.array([2, 0, 1])  # tempose's order of GTSAM's x, y, θ


@dataclass(frozen=True, eq=False)
class GtsamGraph:
    """A graph as GTSAM has it.

    Attributes
    ----------
    factors
        A ``gtsam.NonlinearFactorGraph``.
    values
        ``gtsam.Values`` of the poses; empty if none are known.
    keys
        Key of each node.
    """

    factors: Any
    values: Any
    keys: Mapping[NodeId, int]


def to_gtsam(graph: PoseGraph, poses: Poses | None = None) -> GtsamGraph:
    """Factors of all measurements, and values of ``poses``, by default the graph's initial ones.

    Fixed nodes become priors with ``noiseModel.Constrained``. Coordinates are the user's: ``graph.world_origin`` is added. What has
    no such factor (rotation-only edges, lever arms, landmarks, directions) is refused by edge.
    """
    gtsam = require("gtsam", "factor graphs of GTSAM")
    keys = {name: _key(gtsam, name) for name in graph.reported}
    if len(set(keys.values())) < len(keys):
        raise GraphError("two nodes would have one key in GTSAM; rename one of them")
    factors = gtsam.NonlinearFactorGraph()
    _refuse(graph)
    turns = graph.ranks[0] > 0
    back = np.where(turns[:, None], quat.conjugate(graph.j_from_i_wxyz), quat.IDENTITY)
    information = precisions.turned_jointly(graph.information, back)
    origin = graph.world_origin
    for k, (i, j) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)):
        single = bool(graph.is_absolute[k])
        shift = graph.j_from_i_t[k] + (origin if single else 0.0)
        source = keys[graph.node_ids[i]]
        if single and not turns[k]:
            noise = gtsam.noiseModel.Gaussian.Information(information[k][3:, 3:])
            factors.add(gtsam.GPSFactor(source, shift, noise))
            continue
        measured = _pose(gtsam, Pose(graph.j_from_i_wxyz[k], shift), graph.is_planar)
        noise = gtsam.noiseModel.Gaussian.Information(_ordered(information[k], graph.is_planar))
        if single:
            kind = gtsam.PriorFactorPose2 if graph.is_planar else gtsam.PriorFactorPose3
            factors.add(kind(source, measured, noise))
        else:
            kind = gtsam.BetweenFactorPose2 if graph.is_planar else gtsam.BetweenFactorPose3
            factors.add(kind(keys[graph.node_ids[j]], source, measured, noise))
    held = graph.fixed_at
    for name in (one for one in graph.fixed if one != WORLD):
        assert held is not None
        at = Pose(held[name].wxyz, held[name].position + origin)
        kind = gtsam.PriorFactorPose2 if graph.is_planar else gtsam.PriorFactorPose3
        exact = gtsam.noiseModel.Constrained.All(3 if graph.is_planar else 6)
        factors.add(kind(keys[name], _pose(gtsam, at, graph.is_planar), exact))
    values = gtsam.Values()
    shown = graph.initial if poses is None else poses
    if shown is not None:
        for name in graph.reported:
            pose = Pose(shown[name].wxyz, shown[name].position + origin)
            values.insert(keys[name], _pose(gtsam, pose, graph.is_planar))
    return GtsamGraph(factors, values, keys)


def graph_from_gtsam(factors: Any, values: Any = None) -> PoseGraph:
    """A pose graph of a ``NonlinearFactorGraph``, with ``Values`` as a start.

    Read are between and prior factors of ``Pose3`` or ``Pose2`` and GPS factors. The loss of a robust noise model is left out,
    and told: ``robust=True`` of a solve does what it is for. A prior with ``Constrained`` noise holds its node. Other factors
    are refused.
    """
    gtsam = require("gtsam", "factor graphs of GTSAM")
    found = [factors.at(k) for k in range(factors.size()) if factors.exists(k)]
    kinds = {type(one).__name__ for one in found}
    known = {f"{what}Factor{pose}" for what in ("Between", "Prior") for pose in ("Pose2", "Pose3")} | {"GPSFactor"}
    if not kinds <= known:
        raise GraphError(f"factors of the kind {sorted(kinds - known)[0]} are not in the model; leave them out")
    planar = any(name.endswith("Pose2") for name in kinds)
    if planar and any(name.endswith("Pose3") or name == "GPSFactor" for name in kinds):
        raise GraphError("the factor graph has planar and spatial factors; a graph is one of the two: split it")
    builder = GraphBuilder(planar=planar)
    if values is not None:
        for key in values.keys():  # noqa: SIM118  (no mapping)
            pose = values.atPose2(key) if planar else values.atPose3(key)
            builder.add_node(_name(gtsam, key), _pose_of(pose, planar))
    losses = 0
    for factor in found:
        names = [_name(gtsam, key) for key in factor.keys()]  # noqa: SIM118
        noise, robust = _noise_of(gtsam, factor.noiseModel())
        losses += robust
        kind = type(factor).__name__
        if kind == "GPSFactor":
            builder.add_position(names[0], np.asarray(factor.measurementIn()), information=noise.information())
        elif kind.startswith("Prior"):
            pose = _pose_of(factor.prior(), planar)
            if noise.isConstrained():
                if not np.all(np.asarray(noise.sigmas()) == 0.0):
                    raise GraphError(
                        f"the prior of node {names[0]!r} holds some of its axes only, which is not in the model"
                    )
                builder.add_node(names[0], pose, fixed=True)
            else:
                builder.add_pose_prior(names[0], pose, information=_unordered(noise.information(), planar))
        else:
            if noise.isConstrained():
                raise GraphError(
                    f"the factor between {names[0]!r} and {names[1]!r} is exact, which is not in the model"
                )
            z = _pose_of(factor.measured(), planar)
            builder.add_edge(*names, transform=z, information=_unordered(noise.information(), planar))
    graph = builder.build()
    if losses:
        lost = f"the loss of {losses} robust noise models left out; solve with robust=True to judge wrong edges"
        graph = replace(graph, notices=(*graph.notices, lost))
    return graph


def to_gtsam_prior(solution: Solution, node: NodeId) -> Any:
    """A ``PriorFactorPose3`` (``PriorFactorPose2``) of a solved node: its pose, with its marginal covariance in GTSAM's order.

    The errors of nodes of one solution are correlated, which priors of several of them leave out: together they claim more than is
    known. One node, or few that are far apart, is what this is for.
    """
    gtsam = require("gtsam", "priors for GTSAM")
    estimate = solution[node]
    planar = solution.graph.is_planar
    if estimate.covariance is None:
        raise DrawsError("this solution has neither draws nor a Gaussian approximation: there are no covariances")
    pose = estimate.pose
    covariance = converted(estimate.covariance[None], pose.wxyz[None], pose.position[None], "gtsam", planar)[0]
    if not np.linalg.eigvalsh(covariance)[0] > 0.0:
        raise GraphError(f"the covariance of node {node!r} is singular: it is held, or not all of it is determined")
    kind = gtsam.PriorFactorPose2 if planar else gtsam.PriorFactorPose3
    noise = gtsam.noiseModel.Gaussian.Covariance(covariance)
    return kind(_key(gtsam, node), _pose(gtsam, pose, planar), noise)


def _key(gtsam: Any, name: NodeId) -> int:
    if isinstance(name, int):
        if not 0 <= name < 2**56:
            raise GraphError(f"node {name} cannot be a key of GTSAM, which are from 0 to 2^56; rename it")
        return name
    match = _SYMBOL.fullmatch(name)
    if match is None or str(int(match[2])) != match[2]:
        raise GraphError(f"node {name!r} cannot be a key of GTSAM: name it by a number, or a letter and a number (x3)")
    return int(gtsam.symbol(match[1], int(match[2])))


def _name(gtsam: Any, key: int) -> NodeId:
    symbol = gtsam.Symbol(key)
    return f"{chr(symbol.chr())}{symbol.index()}" if key >> 56 else int(key)


def _pose(gtsam: Any, pose: Pose, planar: bool) -> Any:
    if planar:
        w, _, _, z = pose.wxyz
        return gtsam.Pose2(*map(float, pose.position[:2]), float(2.0 * np.arctan2(z, w)))
    return gtsam.Pose3(gtsam.Rot3(pose.matrix[:3, :3]), np.asarray(pose.position))


def _pose_of(pose: Any, planar: bool) -> Pose:
    if planar:
        half = 0.5 * pose.theta()
        return Pose(np.array([np.cos(half), 0.0, 0.0, np.sin(half)]), np.array([pose.x(), pose.y(), 0.0]))
    return Pose.from_matrix(pose.matrix())


def _ordered(information: Array, planar: bool) -> Array:
    if not planar:
        return information
    return np.asarray(information[np.ix_([3, 4, 2], [3, 4, 2])])


def _unordered(information: Any, planar: bool) -> Array:
    given = np.asarray(information, float)
    return given[np.ix_(_THETA_FIRST, _THETA_FIRST)] if planar else given


def _noise_of(gtsam: Any, noise: Any) -> tuple[Any, bool]:
    """The Gaussian noise below a loss, and whether there is one."""
    if noise is None:
        raise GraphError("a factor has no noise model; give it one")
    robust = isinstance(noise, gtsam.noiseModel.Robust)
    return (noise.noise() if robust else noise), robust


def _refuse(graph: PoseGraph) -> None:
    """One line for what GTSAM has no such factor for."""
    if graph.landmarks:
        raise GraphError(f"landmark {graph.landmarks[0]!r}: landmarks are not among the factors that are made here")
    from_world = graph.edge_i == graph.world if graph.world is not None else np.zeros(graph.n_edges, dtype=bool)
    arms = np.zeros(graph.n_edges, dtype=bool) if graph.arm is None else np.any(graph.arm, axis=1)
    whole = graph.freedom == (3 if graph.is_planar else 6)
    position = graph.is_absolute & (graph.ranks[0] == 0) & (graph.ranks[1] == 3) & (not graph.is_planar)
    for bad, what in (
        (from_world, "measures the world from a node"),
        (arms, "has a lever arm"),
        (~whole & ~position, "does not measure a whole pose"),
    ):
        if np.any(bad):
            k = int(np.argmax(bad))
            i, j = graph.edge_names([k])[0]
            raise GraphError(f"edge {k} ({i!r} → {j!r}) {what}, for which no factor is made here")
