"""CSV tables, tempose's own format: the one that holds every graph and every name.

The first row names the columns, which may stand in any order; the separator is a comma, a semicolon or a tab (with a
semicolon or tab, numbers may have decimal commas). Lines that start with ``#`` are comments.

**Graph**, one row per edge::

    i, j, qw, qx, qy, qz, tx, ty, tz, lambda, tau

measures ``j_from_i``: ``x_j = R(q) x_i + t``, with potential

    U = λ |ν|² + ½ τ |t − R_j (c_i − c_j)|²,   ν = vec(q ⊗ conj(q_j q̄_i)),   |ν| = sin(θ/2).

- ``tx, ty, tz`` (or ``x, y, z``) empty, or left out of the table: a rotation-only edge (its ``tau`` is not looked at).
- ``qw, qx, qy, qz`` empty: an edge that measures a position only (its ``lambda`` is not looked at).
- instead of ``lambda``: ``lambda_1, lambda_2, lambda_3`` (``νᵀ diag(λ) ν``) or the upper triangle ``lambda_xx,
  lambda_xy, lambda_xz, lambda_yy, lambda_yz, lambda_zz`` (``νᵀΛν``); instead of ``tau``: ``tau_1, tau_2, tau_3`` or
  ``tau_xx … tau_zz``; axes of node j. Or ``sigma_rot_deg`` (degrees) and ``sigma_trans``: ``λ = 2/σ²``, ``τ = 1/σ²``; without
  any such column the options of these names must be given.
- errors of rotation and translation that are correlated: ``coupling_xx … coupling_zz``, the nine numbers of B by rows
  (``½ τ |r + Bs|²``, ``s = 2wν``; :class:`tempose.model.graph.PoseGraph`). Or, in place of all these, the joint information or
  covariance of the error (rotation vector in radians, translation) of measured against true, in the axes of j: its upper
  triangle ``info_rx_rx, info_rx_ry, …, info_z_z`` or ``cov_rx_rx …``, axes in the order ``rx ry rz x y z``; cells of what was
  not measured are empty.
- ``arm_x, arm_y, arm_z``: the point of node i that the translation is about, in i's frame (``c_i + R_iᵀ arm`` in place of c_i).
- the optional column ``inlier_prior`` holds the prior probability, above 0 and at most 1, that the edge is right, for robust
  solves; empty where the edge has none of its own.
- a row with an empty ``j`` declares node i; its q and t, if given, are the node's pose ``world_from_node``, a start and
  not a measurement. A number from 1 in the optional column ``fixed`` declares the node fixed there, the first one first; a 1 in
  the column ``landmark``, here or in a row that starts at it, that it has a position only.
- a row with ``world`` for j is about node i alone: ``tx, ty, tz`` is its measured position (of its antenna, with an arm), q its
  measured orientation ``world_from_node``, precisions in the axes of the world.

**In the plane** ``theta`` (radians) or ``theta_deg`` stands in place of ``qw, qx, qy, qz``, and there is no z::

    i, j, theta, tx, ty, lambda, tau

with ``tau_xx, tau_xy, tau_yy`` for a matrix, ``coupling_x, coupling_y`` for B, ``info_theta_theta, info_theta_x, …, info_y_y`` for
the joint information (θ in radians first), and ``arm_x, arm_y``.

Coordinates of the world beyond 10 000 are those of a map: a whole-numbered origin is subtracted, digit by digit, and added
again on writing, with the comment ``# world_origin x y z`` that says what it was.

**Poses**, one row per node, ``world_from_node``: ``x_world = R(q) x_node + (x, y, z)``, in the plane ``theta`` in place of q and
no z; more columns are ignored. A landmark has a position only: its cells of q or ``theta`` are empty::

    id, x, y, z, qw, qx, qy, qz

A name that is a plain decimal integer within 64 bits is an integer; every other name is text. Text that looks like an
integer, that begins with ``#`` or ``'`` or like a formula of a spreadsheet (``= + - @``), or that begins or ends with a blank is
written with an apostrophe in front (``'7``; ``007`` needs none), which reading removes.
"""

from __future__ import annotations

from tempose.io.csvfile.reading import read_graph, read_poses, read_vertices
from tempose.io.csvfile.tables import FORMAT, NamedColumns, header, name_text
from tempose.io.csvfile.writing import graph_text, write_graph, write_poses

__all__ = [
    "FORMAT",
    "NamedColumns",
    "graph_text",
    "header",
    "name_text",
    "read_graph",
    "read_poses",
    "read_vertices",
    "write_graph",
    "write_poses",
]
