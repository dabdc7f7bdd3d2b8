r"""Measurements from the model's own likelihood, of whatever a graph may hold.

An edge with concentrations Λ, precision P and coupling B is measured in the order in which the model generates it,

.. math::  \varepsilon \sim \mathrm{Bingham}(\Lambda), \quad q_{ij} = \varepsilon\, q_j \bar q_i, \qquad
           t_{ij} = \mu_{ij} - B s(\varepsilon) + \eta, \quad \eta \sim N(0, P^{-1}), \quad s = 2 w \nu ;

in the plane ε is a von Mises angle with :math:`\kappa = \lambda/2`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model import von_mises
from tempose.model.bingham import Bingham
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import predicted


class Noise(NamedTuple):
    """Errors of measurements, in j's frame: rotations ε (m, 4), and translations (m, 3) that the rotations' do not explain."""

    turn: Array
    shift: Array


def draw_noise(graph: PoseGraph, rng: np.random.Generator) -> Noise:
    """Errors of all edges; none where an edge measures nothing."""
    normal = rng.standard_normal((graph.n_edges, 3))
    if graph.is_planar:
        normal[:, 2] = 0.0
    return Noise(_turns(graph, rng), _shifts(graph, normal))


def measure_again(graph: PoseGraph, truth: Poses, rng: np.random.Generator) -> PoseGraph:
    """The same edges, measured from the truth with fresh noise of the graph's own precisions."""
    return measured_with(graph, truth, draw_noise(graph, rng))


def measured_with(graph: PoseGraph, truth: Poses, noise: Noise) -> PoseGraph:
    """The same edges, measured from the truth with these errors.

    What an edge does not measure stays what it was: a rotation without concentration, a missing translation.
    """
    wxyz, t = predicted(graph, with_world(graph, truth))
    wxyz, t = quat.multiply(noise.turn, wxyz), t + noise.shift - explained(graph, noise.turn)
    turns, moves = graph.ranks[0] > 0, graph.has_translation
    return replace(
        graph,
        j_from_i_wxyz=np.where(turns[:, None], quat.canonical(quat.normalize(wxyz)), graph.j_from_i_wxyz),
        j_from_i_t=np.where(moves[:, None], t, np.nan),
    )


def explained(graph: PoseGraph, turn: Array) -> Array:
    """``B s`` (m, 3): what errors of rotations (m, 4) take with them of the translations."""
    if graph.coupling is None:
        return np.zeros((graph.n_edges, 3))
    return np.asarray(np.einsum("mab,mb->ma", graph.coupling, 2.0 * turn[:, :1] * turn[:, 1:]))


def with_world(graph: PoseGraph, poses: Poses) -> Poses:
    """Poses of all nodes of a graph, the world included, from those of the reported ones."""
    if graph.world is None or WORLD in poses:
        return poses.select(graph.node_ids)
    world = Poses.identity([WORLD])
    both = Poses(
        (*poses.ids, WORLD),
        np.concatenate([poses.wxyz, world.wxyz]),
        np.concatenate([poses.position, world.position]),
    )
    return both.select(graph.node_ids)


def _turns(graph: PoseGraph, rng: np.random.Generator) -> Array:
    """Errors of rotations (m, 4)."""
    concentration, m = graph.concentration, graph.n_edges
    turn = np.tile(quat.IDENTITY, (m, 1))
    if graph.is_planar:
        angle = np.zeros(m)
        known = concentration > 0.0
        angle[known] = von_mises.sample(rng, concentration[known])
        turn[:, 0], turn[:, 3] = np.cos(0.5 * angle), np.sin(0.5 * angle)
    elif concentration.ndim == 1:
        for value in np.unique(concentration[concentration > 0.0]):
            here = concentration == value
            turn[here] = Bingham.from_mode(quat.IDENTITY, float(value)).sample(rng, int(here.sum()))
    else:
        for k in np.flatnonzero(graph.ranks[0] > 0):
            turn[k] = Bingham.from_mode(quat.IDENTITY, concentration[k]).sample(rng)
    return turn


def _shifts(graph: PoseGraph, normal: Array) -> Array:
    """Errors of translations (m, 3) with the graph's precisions, from standard normal numbers; none where there is no precision."""
    P = graph.translation_precision
    if P.ndim == 1:
        known = P > 0.0
        return np.where(known[:, None], normal / np.sqrt(np.where(known, P, 1.0))[:, None], 0.0)
    values, vectors = np.linalg.eigh(graph.translation_precision_matrices)
    known = values > 1e-12 * np.maximum(values[:, -1:], 1e-300)
    # in the axes of the precision, so that what it does not know stays without noise
    along = np.einsum("mab,ma->mb", vectors, normal)
    scaled = np.where(known, along / np.sqrt(np.where(known, values, 1.0)), 0.0)
    return np.asarray(np.einsum("mab,mb->ma", vectors, scaled))
