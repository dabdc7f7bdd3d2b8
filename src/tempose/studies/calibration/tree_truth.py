r"""A truth drawn exactly, given measurements that determine everything and check nothing.

Of a graph of any kind some measurements are taken as given: a fix of one pose, if there is the world; the motions of a
spanning tree; and one sighting of each landmark. Flat measures :math:`dR\,dp` of the poses and :math:`dp` of the landmarks are,
one after the other along the tree, the flat measures of what these edges measure, so with noise from the likelihood

.. math::  \rho = \varepsilon^{-1} q, \qquad \mu = t + B s(\varepsilon) - \eta

of each of them is an exact draw of the poses given its measurement (q, t). The orientation of the first pose, about which a fix
says nothing, is uniform; without the world its pose is the identity, and only what depends on no gauge means anything.
"""

from __future__ import annotations

import numpy as np

from tempose._typing import Index
from tempose.geometry import quaternion as quat
from tempose.model import topology
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.merged import fixed_poses
from tempose.simulation.measuring import Noise, explained
from tempose.simulation.shapes import about_z


def given_edges(graph: PoseGraph, rng: np.random.Generator) -> tuple[Index, Index]:
    """Edges that determine everything, in an order in which they can be followed, and the node (k,) that each of them places."""
    n, relative = graph.n_nodes, np.flatnonzero(graph.has_rotation & ~graph.is_absolute)
    fixes = np.flatnonzero(graph.is_absolute & (graph.ranks[1] == graph.dimension))
    first = int(rng.choice(fixes)) if len(fixes) else -1
    root = int(graph.edge_i[first]) if len(fixes) else int(graph.anchors[0])
    ends = graph.edge_i[relative], graph.edge_j[relative]
    roots = np.flatnonzero(graph.is_landmark | graph.is_fixed).tolist()
    tree = topology.spanning_forest(n, *ends, rng.random(len(relative)), np.array([root, *roots]))
    placed = [int(v) for v in tree.order if tree.edge[v] >= 0]
    edges = [int(relative[tree.edge[v]]) for v in placed]
    for v in np.flatnonzero(graph.is_landmark):
        seen = np.flatnonzero((graph.edge_i == v) & ~graph.is_absolute)
        placed.append(int(v))
        edges.append(int(rng.choice(seen)))
    if first >= 0:
        placed, edges = [root, *placed], [first, *edges]
    return np.array(edges, dtype=np.int64), np.array(placed, dtype=np.int64)


def truth_given(graph: PoseGraph, edges: Index, placed: Index, noise: Noise, rng: np.random.Generator) -> Poses:
    """Poses of all nodes, drawn given the measurements of :func:`given_edges`; ``noise`` is of all edges."""
    wxyz, position = fixed_poses(graph)
    turned = quat.multiply(quat.conjugate(noise.turn), graph.j_from_i_wxyz)
    moved = graph.j_from_i_t + explained(graph, noise.turn) - noise.shift
    arm = np.zeros((graph.n_edges, 3)) if graph.arm is None else graph.arm
    for e, v in zip(edges, placed, strict=True):
        i, j = graph.edge_i[e], graph.edge_j[e]
        if not graph.has_rotation[e] and not graph.is_landmark[i]:  # a fix
            wxyz[i] = about_z(rng.uniform(-np.pi, np.pi, 1))[0] if graph.is_planar else quat.random_uniform(rng)
        elif v == i and not graph.is_landmark[i]:
            wxyz[i] = quat.multiply(wxyz[j], turned[e])
        elif v == j:
            wxyz[j] = quat.multiply(wxyz[i], quat.conjugate(turned[e]))
        swing = quat.rotate(wxyz[i], arm[e]) - quat.rotate(wxyz[j], moved[e])
        if v == i:
            position[i] = position[j] - swing
        else:
            position[j] = position[i] + swing
    return Poses(graph.node_ids, quat.normalize(wxyz), position)
