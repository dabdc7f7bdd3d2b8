"""A pose graph from the vertices and edges of a g2o file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from tempose._support.words import plural
from tempose._typing import Array, Index, Mask, NodeId, PathLike
from tempose.errors import ParseError
from tempose.io._text import (
    NumberReader,
    exact_difference,
)
from tempose.io.g2o.lines import (
    FORMAT,
    Tagged,
    lines_by_tag,
    tell_unknown,
    what_there_is,
)
from tempose.io.g2o.parts import (
    EdgeLines,
    VertexLines,
    edges_of,
    fixed_of,
    skipped_vertices,
    vertices_of,
    with_inlier_priors,
    without_skipped,
)
from tempose.io.options import ReadOptions
from tempose.model import absolute
from tempose.model import precision as precisions
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.measurements import origin_of
from tempose.model.poses import Poses

_COUNTS = (
    "singular_edges",
    "rotation_only_edges",
    "translation_only_edges",
    "dropped_edges",
    "correlated_edges",
    "indefinite_edges",
    "reduced_edges",
)
"""What is counted of edges whose informations are not one number of rotation and one of translation."""


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a pose graph; see :mod:`tempose.io.g2o` for columns and equations, :class:`ReadOptions` for the choices."""
    options = options or ReadOptions()
    notices: list[str] = []
    numbers, tagged = _opened(path)
    skipped = skipped_vertices(tagged)
    vertices = vertices_of(tagged, numbers, notices)
    edges = edges_of(tagged, numbers, options, notices)
    fixed = fixed_of(tagged, numbers)
    edges = with_inlier_priors(edges, tagged, numbers)
    numbers.finish(notices)
    edges, fixed = without_skipped(edges, fixed, skipped, notices)
    tell_unknown(tagged, notices)
    if not np.any(~edges.absolute):
        expected = "expected EDGE_SE3:QUAT lines (or EDGE_SE2, EDGE3)"
        raise ParseError(path, None, f"no edges found: {expected}{what_there_is(tagged)}")
    dimension = _dimension(path, vertices, edges)
    edges = _points_of_poses(vertices, edges)
    nodes, landmarks, initial = _nodes(path, vertices, edges, notices)
    known_nodes = np.isin(np.array([name for _, name in fixed], dtype=np.int64), nodes)
    for (line, name), is_known in zip(fixed, known_nodes.tolist(), strict=True):
        if not is_known:
            raise ParseError(path, line, f"FIX names node {name}, which no VERTEX or EDGE line mentions")

    origin = origin_of(np.concatenate([vertices.position, edges.t[edges.absolute & edges.has_point]]))
    if np.any(origin):
        vertices = replace(vertices, position=exact_difference(tagged.words(vertices.line, vertices.span), origin))
        edges = _shifted(tagged, edges, origin)
        initial = None if initial is None else vertices.poses()
    noise = precisions.plain_noise(edges.information, dimension)
    counts, t = dict.fromkeys(_COUNTS, 0), edges.t
    if noise is None:
        edges = _refuse_and_drop(path, edges, dimension, options, notices, counts)
        noise = _noise(edges, dimension, options, notices, counts)
        t = np.where(precisions.is_zero(edges.information[:, 3:, 3:])[:, None], np.nan, edges.t)
    if options.sigma_rot_deg is not None or options.sigma_trans is not None:
        notices.append("the given standard deviations were not used: the file has information matrices of its own")
    names: list[NodeId] = [*nodes.tolist(), *([WORLD] if edges.absolute.any() else [])]
    source = _rows_in(nodes, edges.source)
    target = np.where(edges.absolute, len(nodes), _rows_in(nodes, edges.target, ~edges.absolute))
    held = tuple(dict.fromkeys(name for _, name in fixed))
    known = vertices.poses() if initial is None or len(initial) < len(vertices.ids) else initial
    lost = [(line, name) for line, name in fixed if name not in known]
    if lost and (len(held) > 1 or edges.absolute.any()):
        why = f"FIX holds node {lost[0][1]}, and no VERTEX line says where, as it must if more than one thing is fixed"
        raise ParseError(path, lost[0][0], why)
    graph = PoseGraph(
        tuple(names),
        source,
        target,
        edges.wxyz,
        t,
        *noise[:2],
        initial=initial,
        fixed=held,
        inlier_prior=edges.inlier_prior,
        measures="a_from_b",
        notices=tuple(notices),
        origin={
            "file": Path(path).name,
            "format": FORMAT,
            "rotation_information": options.rotation_information,
            "precision": options.precision,
            **{name: str(count) for name, count in counts.items()},
        },
        dimension=dimension,
        coupling=noise.coupling,
        arm=edges.arm,
        landmarks=landmarks,
        fixed_at=known.select([name for name in held if name in known]),
        world_origin=origin,
    )
    for k, sigmas in zip(*absolute.contradictions(graph), strict=True):
        why = f"node {edges.source[k]} is measured {sigmas:.3g} σ from where FIX holds it; one of the two is wrong"
        raise ParseError(path, int(edges.line[k]), why)
    return graph


def read_poses(path: PathLike) -> Poses:
    """The vertices of a g2o file; landmarks, which have no orientation, are unturned."""
    return read_vertices(path)[0]


def read_vertices(path: PathLike) -> tuple[Poses, bool, tuple[NodeId, ...]]:
    """The vertices of a g2o file, whether they are planar, and which of them are landmarks."""
    notices: list[str] = []
    numbers, tagged = _opened(path)
    vertices = vertices_of(tagged, numbers, notices)
    numbers.finish(notices)
    if not len(vertices.line):
        expected = "expected VERTEX_SE3:QUAT lines (or VERTEX_SE2, VERTEX3)"
        raise ParseError(path, None, f"no vertices found: {expected}{what_there_is(tagged)}")
    landmarks = tuple(vertices.ids[vertices.landmark].tolist())
    return vertices.poses(), bool(vertices.planar.all()), landmarks


def _opened(path: PathLike) -> tuple[NumberReader, Tagged]:
    numbers = NumberReader(path)
    tagged = lines_by_tag(path)
    if tagged.points:
        numbers.saw_points()
    return numbers, tagged


# ---------------------------------------------------------------------- nodes


def _first_lines(names: Iterable[int], lines: Iterable[int], into: dict[int, int]) -> dict[int, int]:
    for name, line in zip(names, lines, strict=True):
        into[name] = min(line, into.get(name, line))
    return into


def _where(
    vertices: VertexLines, edges: EdgeLines, of_vertices: Mask, of_sources: Mask, of_targets: Mask
) -> dict[int, int]:
    """The line in which each node first occurs, among some vertices and ends of edges."""
    out = _first_lines(vertices.ids[of_vertices].tolist(), vertices.line[of_vertices].tolist(), {})
    _first_lines(edges.source[of_sources].tolist(), edges.line[of_sources].tolist(), out)
    of_targets = of_targets & ~edges.absolute
    return _first_lines(edges.target[of_targets].tolist(), edges.line[of_targets].tolist(), out)


def _dimension(path: PathLike, vertices: VertexLines, edges: EdgeLines) -> int:
    """2 or 3; a file that is both is refused."""
    kinds = np.concatenate([vertices.planar, edges.planar])
    if kinds.all() or not kinds.any():
        return 2 if kinds.any() else 3
    flat = _where(vertices, edges, vertices.planar, edges.planar, edges.planar)
    solid = _where(vertices, edges, ~vertices.planar, ~edges.planar, ~edges.planar)
    both = set(flat) & set(solid)
    if both:
        name = min(both, key=lambda k: max(flat[k], solid[k]))
        first, second = sorted([(flat[name], "planar"), (solid[name], "3D")])
        why = f"node {name} is {second[1]} here and {first[1]} in line {first[0]}; an edge cannot join the two"
        raise ParseError(path, second[0], why)
    first, second = sorted([(min(flat.values()), "planar"), (min(solid.values()), "3D")])
    why = f"the line is {second[1]}, line {first[0]} is {first[1]}; a graph is one of the two: split the file"
    raise ParseError(path, second[0], why)


def _points_of_poses(vertices: VertexLines, edges: EdgeLines) -> EdgeLines:
    """The edges; points that are measured of poses, as RTAB-Map has them (``EDGE_POINTXYZ_PRIOR``), are their positions."""
    said = edges.absolute & edges.landmark
    if not np.any(said):
        return edges
    relative = ~edges.absolute
    posed = [vertices.ids[~vertices.landmark], edges.target[relative], edges.source[relative & ~edges.landmark]]
    return replace(edges, landmark=edges.landmark & ~(said & np.isin(edges.source, np.concatenate(posed))))


def _landmarks_and_poses(vertices: VertexLines, edges: EdgeLines) -> tuple[dict[int, int], dict[int, int]]:
    """The line in which each landmark, and each node with an orientation, first occurs; nothing if there are no landmarks."""
    if not vertices.landmark.any() and not edges.landmark.any():
        return {}, {}
    none = np.zeros(len(edges.line), dtype=bool)
    points = _where(vertices, edges, vertices.landmark, edges.landmark, none)
    return points, _where(vertices, edges, ~vertices.landmark, ~edges.landmark, ~none)


def _nodes(
    path: PathLike, vertices: VertexLines, edges: EdgeLines, notices: list[str]
) -> tuple[Index, tuple[NodeId, ...], Poses | None]:
    """Ids of the nodes (n,), vertices first, the landmarks among them, and the vertices as a start if every node has one."""
    points, posed = _landmarks_and_poses(vertices, edges)
    for name in sorted(set(points) & set(posed), key=lambda k: max(points[k], posed[k])):
        first, second = sorted([(points[name], "a landmark"), (posed[name], "a pose")])
        raise ParseError(path, second[0], f"node {name} is {second[1]} here and {first[1]} in line {first[0]}")
    unseen = vertices.landmark.copy()
    unseen[unseen] = ~np.isin(vertices.ids[unseen], edges.source)
    if np.any(unseen):
        notices.append(f"{plural(int(unseen.sum()), 'landmark')} that nothing measures left out")
    shown = vertices.ids[~unseen]
    relative = ~edges.absolute
    joined = _distinct(np.concatenate([edges.source[relative], edges.target[relative]]))
    added = joined[~np.isin(joined, shown)]  # in the order of their numbers, whichever edge comes first
    nodes = np.concatenate([shown, added])
    declared, missing = len(shown), len(added)
    single = np.flatnonzero(edges.absolute)
    for k in single[~np.isin(edges.source[single], nodes)]:
        why = f"the prior is of node {edges.source[k]}, which no VERTEX or EDGE line mentions"
        raise ParseError(path, int(edges.line[k]), why)
    landmarks = tuple(name for name in nodes.tolist() if name in points) if points else ()
    if missing == 0:
        return nodes, landmarks, vertices.poses()
    if declared == 0:
        notices.append(f"no VERTEX lines: {plural(missing, 'node')} taken from the edges")
    else:
        first_new = int(nodes[declared])
        line = edges.line[np.flatnonzero((edges.source == first_new) | (edges.target == first_new))[0]]
        notices.append(
            f"{plural(missing, 'node')} without a VERTEX line (first: {first_new} in line {line}) taken from the edges; "
            "the vertices are not complete and not used as a start"
        )
    return nodes, landmarks, None


def _distinct(names: Index) -> Index:
    """The numbers that occur, in their order."""
    lowest = int(names.min(initial=0))
    if int(names.max(initial=0)) - lowest >= 4 * len(names):
        return np.unique(names)
    seen = np.zeros(int(names.max(initial=0)) - lowest + 1, dtype=bool)
    seen[names - lowest] = True
    return lowest + np.flatnonzero(seen)


def _rows_in(names: Index, wanted: Index, among: Mask | None = None) -> Index:
    """Row (k,) in ``names``, no two the same, of each that is wanted; where ``among`` is false there need not be any."""
    lowest = int(names.min())
    if int(names.max()) - lowest < 4 * len(names):
        row_of = np.zeros(int(names.max()) - lowest + 1, dtype=np.int64)
        row_of[names - lowest] = np.arange(len(names))
        return row_of[(wanted if among is None else np.where(among, wanted, lowest)) - lowest]
    order = np.argsort(names)
    at = np.searchsorted(names[order], wanted)
    return order[at if among is None else np.where(among, at, 0)]


def _shifted(tagged: Tagged, edges: EdgeLines, origin: Array) -> EdgeLines:
    """What is known about single nodes, less an origin, digit by digit."""
    moved = edges.absolute & edges.has_point
    t = edges.t.copy()
    t[moved] = exact_difference(tagged.words(edges.line[moved], edges.span[moved]), origin)
    return replace(edges, t=t)


# ---------------------------------------------------------------------- how sure the edges are


def _refuse_and_drop(
    path: PathLike, edges: EdgeLines, dimension: int, options: ReadOptions, notices: list[str], counts: dict[str, int]
) -> EdgeLines:
    """Edges whose information makes sense; those that carry none at all are left out."""
    zero_t, zero_r = (precisions.is_zero(edges.information[:, a, a]) for a in (slice(3, 6), slice(0, 3)))
    singular = np.zeros(len(edges.line), dtype=bool)
    for axes, zero, name in (
        (precisions.TRANSLATION[dimension], zero_t, "translation"),
        (precisions.ROTATION[dimension], zero_r, "rotation"),
    ):
        block = edges.information[:, axes[:, None], axes]
        definite, kept = precisions.definiteness(block)
        usable = definite | zero
        bad = np.flatnonzero(~(kept if options.precision == "full" else usable))
        if len(bad):
            hint = "; it is zero along some axis, which --precision full accepts" if kept[bad[0]] else ""
            size = {1: "", 2: "2×2 ", 3: "3×3 "}[len(axes)]
            why = f"the {size}information of the {name} is not positive definite{hint}"
            raise ParseError(path, int(edges.line[bad[0]]), why)
        singular |= ~usable & edges.complete
    counts["singular_edges"] = int(np.sum(singular))
    counts["rotation_only_edges"] = int(np.sum(zero_t & ~zero_r & edges.complete))
    counts["translation_only_edges"] = int(np.sum(zero_r & ~zero_t & edges.complete))
    counts["dropped_edges"] = int(np.sum(zero_t & zero_r))
    for name, what in (
        ("rotation_only_edges", "zero translation information: rotation only"),
        ("translation_only_edges", "zero rotation information: translation only (concentration 0)"),
        ("dropped_edges", "zero information left out"),
        ("singular_edges", "no information along some axis"),
    ):
        if counts[name]:
            notices.append(f"{plural(counts[name], 'edge')} with {what}")
    if counts["dropped_edges"] == len(edges.line):
        raise ParseError(path, None, "no edge carries any information: every information matrix is zero")
    _judge_correlations(path, edges, options, notices, counts)
    return edges.keep(~(zero_t & zero_r)) if counts["dropped_edges"] else edges


def _judge_correlations(
    path: PathLike, edges: EdgeLines, options: ReadOptions, notices: list[str], counts: dict[str, int]
) -> None:
    """Refuse what ties translation to rotation more closely than can be, unless correlations are dropped anyway."""
    some = np.flatnonzero(precisions.is_correlated(edges.information))
    counts["correlated_edges"] = len(some)
    whole = edges.information[some]
    least = precisions.lowest(whole)
    indefinite = some[least < -precisions.JOINT_ROUNDING]
    counts["indefinite_edges"] = len(indefinite)
    hint = "; its diagonal blocks are not: --precision se-sync uses these alone"
    if len(indefinite) and options.precision != "se-sync":
        raise ParseError(path, int(edges.line[indefinite[0]]), f"the information matrix is indefinite{hint}")
    if len(indefinite):
        line = int(edges.line[indefinite[0]])
        notices.append(
            f"{plural(len(indefinite), 'edge')} with an indefinite information matrix (first: line {line}); "
            "only its diagonal blocks, which are positive definite, are used"
        )
    faint = least < precisions.CLEAR  # of others something is left
    tied = some[faint][precisions.ties_the_unmeasured(whole[faint])]
    if len(tied) and options.precision == "full":
        why = "the information matrix is singular: it ties the translation to a rotation that it does not measure"
        raise ParseError(path, int(edges.line[tied[0]]), f"{why}; --precision se-sync uses its diagonal blocks alone")
    if options.precision == "isotropic":
        scaled = precisions.lowest(precisions.without_zeros(whole))
        bad = some[scaled <= 1e-12]
        if len(bad):
            why = "the information matrix is singular, so that no one number stands for it; --precision full keeps it"
            raise ParseError(path, int(edges.line[bad[0]]), why)


def _noise(
    edges: EdgeLines, dimension: int, options: ReadOptions, notices: list[str], counts: dict[str, int]
) -> precisions.EdgeNoise:
    """How sure the edges are, in the frame of their target, as ``options.precision`` asks."""
    if options.precision == "full":
        return precisions.noise(edges.information, edges.turn, dimension)
    if options.precision == "se-sync":
        edges = replace(edges, information=_uncorrelated(edges.information)) if counts["indefinite_edges"] else edges
    spreads = precisions.spreads(edges.information, dimension)
    reduced = (spreads[0] > precisions.ROUND) | (spreads[1] > precisions.ROUND)
    counts["reduced_edges"] = int(np.sum(reduced | precisions.is_correlated(edges.information)))
    notice = precisions.reduction_notice(edges.information, dimension, options.precision)
    notices.extend([notice] if notice else [])
    one_number = precisions.marginal_numbers if options.precision == "isotropic" else precisions.block_numbers
    return one_number(edges.information, dimension)


def _uncorrelated(information: Array) -> Array:
    """The same with the correlations of indefinite matrices dropped: they mean nothing."""
    out = np.array(information)
    bad = precisions.is_jointly_indefinite(information)
    out[bad, 3:, :3] = out[bad, :3, 3:] = 0.0
    return out
