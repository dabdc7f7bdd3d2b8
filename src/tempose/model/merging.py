"""Sessions with their own ids and frames as one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tempose._typing import Array, NodeId
from tempose.errors import GraphError
from tempose.geometry import Similarity, align, se3
from tempose.model.gauge import tied_components
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses


def merge(
    graphs: Sequence[PoseGraph], names: Sequence[str], *, shared_ids: bool = False, links: PoseGraph | None = None
) -> PoseGraph:
    """One graph of several sessions.

    Parameters
    ----------
    graphs, names
        The sessions, and a name for each. Node 7 of the session ``monday`` becomes ``monday/7``.
    shared_ids
        Keep ids as they are: the same id is the same node in every session.
    links
        Edges between nodes of the merged graph, by their new names.

    Notes
    -----
    Every session may have a frame of its own. Sessions that are tied to the world (by measured positions, or several fixed nodes)
    keep it, and share it; a node that is fixed only to hold a session somewhere is released, but for the first session if none is
    tied. Initial poses are moved into one frame by the nodes that sessions share, or else by a link; where neither joins them they
    are left out.
    """
    if len(graphs) != len(names) or not graphs:
        raise GraphError("give at least one session, and a name for each")
    if len(set(names)) < len(names):
        raise GraphError("two sessions have one name; rename a file, or keep ids as they are")
    if len({graph.dimension for graph in [*graphs, *([links] if links else [])]}) > 1:
        raise GraphError("some sessions are planar and others are not: they cannot be one graph")
    notices: list[str] = []
    tied = [graph.world is not None or bool(np.any(tied_components(graph))) for graph in graphs]
    origin = next(
        (graph.world_origin for graph, true in zip(graphs, tied, strict=True) if true), graphs[0].world_origin
    )
    parts = []
    for graph, name, true in zip(graphs, names, tied, strict=True):
        if not true and graph.fixed and (any(tied) or graph is not graphs[0]):
            notices.append(
                f"{name}: node {graph.fixed[0]!r} is no longer fixed, as it only held this session in its own frame"
            )
            graph = replace(graph, fixed=(), fixed_at=None)
        moved = _rebased(graph, origin) if true else replace(graph, world_origin=origin)
        parts.append(moved if shared_ids else _renamed(moved, name))
        notices += [f"{name}: {line}" for line in graph.notices]
    whole = (
        parts if links is None else [*parts, replace(links, fixed=(), fixed_at=None, initial=None, world_origin=origin)]
    )
    ids = dict.fromkeys(one for part in parts for one in part.node_ids if one != WORLD)
    if links is not None:
        unknown = next((one for one in links.node_ids if one not in ids and one != WORLD), None)
        if unknown is not None:
            some = ", ".join(map(repr, list(ids)[:2]))
            raise GraphError(f"a link names node {unknown!r}, which no session has; names are like {some}")
    if any(part.world is not None for part in whole):
        ids[WORLD] = None
    index = {one: row for row, one in enumerate(ids)}
    points = {one for part in parts for one in part.landmarks}
    odd = next((one for part in parts for one in part.node_ids if one in points and one not in part.landmarks), None)
    if odd is not None:
        raise GraphError(f"node {odd!r} is a landmark in one session and a pose in another")
    fixed = tuple(dict.fromkeys(one for part in parts for one in part.fixed if one != WORLD))
    out = PoseGraph(
        tuple(ids),
        np.concatenate([[index[part.node_ids[k]] for k in part.edge_i] for part in whole]).astype(np.int64),
        np.concatenate([[index[part.node_ids[k]] for k in part.edge_j] for part in whole]).astype(np.int64),
        np.concatenate([part.j_from_i_wxyz for part in whole]),
        np.concatenate([part.j_from_i_t for part in whole]),
        _stacked([part.concentration for part in whole], [part.concentration_matrices for part in whole]),
        _stacked([part.translation_precision for part in whole], [_precisions(part) for part in whole]),
        fixed=fixed,
        fixed_at=_held(parts, fixed),
        initial=_together(parts, tied, links, tuple(ids), notices),
        notices=tuple(notices),
        origin={"format": "merged", "sessions": ", ".join(names)},
        inlier_prior=_filled([part.inlier_prior for part in whole], [(part.n_edges,) for part in whole], np.nan),
        dimension=graphs[0].dimension,
        coupling=_filled([part.coupling for part in whole], [(part.n_edges, 3, 3) for part in whole], 0.0),
        arm=_filled([part.arm for part in whole], [(part.n_edges, 3) for part in whole], 0.0),
        landmarks=tuple(one for one in ids if one in points),
        world_origin=origin,
        measures=whole[0].measures if len({part.measures for part in whole}) == 1 else "a_from_b",
    )
    if out.n_components > 1:
        said = f"the merged graph is in {out.n_components} parts that nothing joins; give links, or shared ids"
        out = replace(out, notices=(*out.notices, said))
    return out


def _renamed(graph: PoseGraph, name: str) -> PoseGraph:
    """The same with the name of the session before every id."""
    new = {one: one if one == WORLD else f"{name}/{one}" for one in graph.node_ids}

    def poses(of: Poses | None) -> Poses | None:
        return None if of is None else Poses(tuple(new[one] for one in of.ids), of.wxyz, of.position)

    return replace(
        graph,
        node_ids=tuple(new.values()),
        fixed=tuple(new[one] for one in graph.fixed),
        landmarks=tuple(new[one] for one in graph.landmarks),
        initial=poses(graph.initial),
        fixed_at=poses(graph.fixed_at),
    )


def _rebased(graph: PoseGraph, origin: Array) -> PoseGraph:
    """The same, tied to the world, with another origin."""
    shift = graph.world_origin - origin
    if not np.any(shift):
        return graph
    t = np.array(graph.j_from_i_t)
    t[graph.edge_j == (-1 if graph.world is None else graph.world)] += shift
    if graph.world is not None and np.any(graph.edge_i == graph.world):
        raise GraphError(
            "a session measures the world from a node, and has another origin than the first; write it anew"
        )

    def poses(of: Poses | None) -> Poses | None:
        if of is None:
            return None
        moves = np.array([one != WORLD for one in of.ids])[:, None]
        return Poses(of.ids, of.wxyz, of.position + shift * moves)

    return replace(
        graph, j_from_i_t=t, initial=poses(graph.initial), fixed_at=poses(graph.fixed_at), world_origin=origin
    )


def _held(parts: list[PoseGraph], fixed: tuple[NodeId, ...]) -> Poses | None:
    """Where fixed nodes are; sessions that hold one node at two places are refused."""
    if not fixed:
        return None
    wxyz, position = np.zeros((len(fixed), 4)), np.zeros((len(fixed), 3))
    for row, name in enumerate(fixed):
        at = [part.fixed_at[name] for part in parts if part.fixed_at is not None and name in part.fixed]
        if any(np.max(np.abs(one.position - at[0].position)) > 1e-6 for one in at):
            raise GraphError(f"node {name!r} is fixed at two places by two sessions; release it in one of them")
        wxyz[row], position[row] = at[0].wxyz, at[0].position
    return Poses(fixed, wxyz, position)


def _precisions(part: PoseGraph) -> Array:
    matrices = np.array(part.translation_precision_matrices)
    if part.is_planar:
        matrices[:, 2, :] = matrices[:, :, 2] = 0.0
    return matrices


def _stacked(given: list[Array], matrices: list[Array]) -> Array:
    """Precisions of all edges: as they are if they are alike, else as matrices."""
    return np.concatenate(given if len({one.ndim for one in given}) == 1 else matrices)


def _filled(given: Sequence[Array | None], shapes: Sequence[tuple[int, ...]], fill: float) -> Array | None:
    if all(one is None for one in given):
        return None
    return np.concatenate(
        [np.full(shape, fill) if one is None else one for one, shape in zip(given, shapes, strict=True)]
    )


def _together(
    parts: list[PoseGraph], tied: list[bool], links: PoseGraph | None, ids: tuple[NodeId, ...], notices: list[str]
) -> Poses | None:
    """Initial poses of all sessions in one frame, as far as shared nodes and links say how they lie; ``None`` if they do not."""
    if any(part.initial is None for part in parts):
        return None
    wxyz: dict[NodeId, Array] = {}
    position: dict[NodeId, Array] = {}

    def put(poses: Poses) -> None:
        for name, q, p in zip(poses.ids, poses.wxyz, poses.position, strict=True):
            wxyz.setdefault(name, q)
            position.setdefault(name, p)

    order = sorted(range(len(parts)), key=lambda k: not tied[k])
    waiting = []
    for k in order:
        poses = parts[k].initial
        assert poses is not None
        if tied[k] or not wxyz:
            put(poses)
        else:
            waiting.append(k)
    while waiting:
        for k in waiting:
            poses = parts[k].initial
            assert poses is not None
            frame = _frame(parts[k], poses, wxyz, position, links)
            if frame is not None:
                put(poses.moved(frame))
                waiting.remove(k)
                break
        else:
            notices.append(
                "the initial poses of some sessions are left out: no shared node and no link says how their frames lie"
            )
            return None
    return Poses(
        ids,
        np.array([wxyz.get(one, [1.0, 0, 0, 0]) for one in ids]),
        np.array([position.get(one, [0.0] * 3) for one in ids]),
    )


def _frame(
    part: PoseGraph, poses: Poses, wxyz: dict[NodeId, Array], position: dict[NodeId, Array], links: PoseGraph | None
) -> Similarity | None:
    """The motion that takes a session to where others are, by nodes that it shares with them, or by the surest link."""
    common = [one for one in poses.ids if one in wxyz and one != WORLD and one not in part.landmarks]
    if common:
        here = poses.select(common)
        there = np.array([wxyz[one] for one in common]), np.array([position[one] for one in common])
        return align((here.wxyz, here.position), there, robust=True)
    if links is None:
        return None
    whole = (links.ranks[0] > 0) & links.has_translation
    for k in np.argsort(-links.mean_concentration, kind="stable"):
        i, j = links.node_ids[links.edge_i[k]], links.node_ids[links.edge_j[k]]
        measured = links.j_from_i_wxyz[k], links.j_from_i_t[k]
        if not whole[k]:
            continue
        if i in wxyz and j in poses:  # world_from_j = world_from_i · i_from_j
            target, name = se3.compose((wxyz[i], position[i]), se3.inverse(measured)), j
        elif j in wxyz and i in poses:
            target, name = se3.compose((wxyz[j], position[j]), measured), i
        else:
            continue
        here = poses.select([name])
        return align((here.wxyz, here.position), (target[0][None], target[1][None]))
    return None
