"""g2o files: vertices, edges and information matrices of a pose graph, in space or in the plane.

Lines, fields separated by blanks; ``#`` starts a comment. Ω stands for the upper triangle of the information, by rows, in
the order of the fields it is about::

    VERTEX_SE3:QUAT      id  x y z  qx qy qz qw
    EDGE_SE3:QUAT        i j x y z  qx qy qz qw  Ω                       (21 numbers, order x y z, rotation)
    VERTEX3, EDGE3       as these, with roll pitch yaw                   (TORO; R = Rz(yaw) Ry(pitch) Rx(roll))
    VERTEX_TRACKXYZ      id  x y z                                       (a landmark; also VERTEX_POINT_XYZ, VERTEX_XYZ)
    EDGE_SE3_TRACKXYZ    i j offset  x y z  Ω                            (landmark j seen from i; also EDGE_SE3_POINT_XYZ)
    PARAMS_SE3OFFSET     offset  x y z  qx qy qz qw                      (node_from_sensor)
    EDGE_SE3_PRIOR       i offset  x y z  qx qy qz qw  Ω                 (pose of the sensor in the world)
    EDGE_SE3_XYZPRIOR    i offset  x y z  Ω                              (its position; also EDGE_SE3_XYZ_PRIOR)
    EDGE_POINTXYZ_PRIOR  i x y z  Ω                                      (position of a landmark)
    EDGE_SE3_PRIORXY     i x y  Ω                                        (hdl_graph_slam, as are the next three)
    EDGE_SE3_PRIORXYZ    i x y z  Ω
    EDGE_SE3_PRIORQUAT   i qw qx qy qz  Ω
    EDGE_SE3_PRIORVEC    i  direction in the world (3)  the same in the node (3)  Ω

    VERTEX_SE2           id  x y θ
    EDGE_SE2             i j x y θ  Ω                                    (6 numbers)
    VERTEX2, EDGE2       as these                                        (TORO; Ω in the order xx xy yy θθ xθ yθ)
    VERTEX_XY            id  x y                                         (a landmark)
    EDGE_SE2_XY          i j x y  Ω
    EDGE_PRIOR_SE2       i x y θ  Ω
    EDGE_PRIOR_SE2_XY    i x y  Ω                                        (of a landmark: EDGE_PRIOR_XY)

    EDGE_SE3_SWITCHABLE  i j switch …                                    (vertigo, RTAB-Map: as EDGE_SE3:QUAT; also EDGE_SE2_…)
    FIX                  id [id …]                                       (held where its vertex is)
    INLIER_PRIOR         i [j] p                                         (tempose's own; of the last such line above)

A vertex is ``X = world_from_node``. An edge measures ``Z ≈ X_i⁻¹ X_j = i_from_j``, with information about the error
``E = Z⁻¹ X_i⁻¹ X_j``, whose axes are those of node j. A tempose edge measures ``target_from_source`` and has its
precisions in the target's frame; hence line ``i j Z Ω`` becomes the edge with source j, target i and measurement Z as
it stands, and with ``ν = vec(q_Z ⊗ conj(q_i⁻¹ q_j)) = −R_Z vec(q_E)`` and ``r = −R_Z t_E`` its precisions are

    ½ eᵀΩe = νᵀΛν + ½ (r + Bs)ᵀP(r + Bs),   s = 2wν,   Λ, P and B those of Ω (model/precision.py), turned by R_Z

for small errors, where e has the rotation vector ≈ 2 vec(q_E) (GTSAM, SE-Sync). If Ω is about vec(q_E) itself (g2o), its
rotation block is a quarter of it and what ties the two a half.

A prior is an edge with i = the world. With an offset ``P = node_from_sensor`` its error is ``E = Z⁻¹ X P``: the measured
orientation of the node is ``q_Z q̄_P``, the position is that of the point t_P of the node, its lever arm, and the precisions
are turned by R_Z. ``EDGE_SE3_XYZPRIOR`` and ``PRIORXY…`` have errors in the world's axes (g2o itself does not look at the
offset of the former; here it is the lever arm). ``PRIORQUAT`` is about the difference of vector parts, ``vec(q) − vec(q_Z)
= ½ Gω`` with ``G = w − [vec(q_Z)]×`` and ω in the world, so its information about ω is ``¼ GᵀΩG``. ``PRIORVEC`` is about
``R(q̄) d − m``; with Ω a multiple ω of the identity across m this is ``2ω sin²(tilt/2)`` exactly
(:func:`tempose.model.absolute.direction`); other Ω are replaced by such a multiple, and told. A landmark seen through an offset
P is at ``P m`` in the node's frame, with precisions turned by R_P.

``precision="full"``, the default, keeps all that; a graph whose blocks are all multiples of the identity, without
correlations, becomes one of one number each. ``"isotropic"`` takes one number for each block, ``λ = 2 d_R/tr Σ_RR`` and
``τ = d/tr Σ_tt`` with Σ = Ω⁻¹, so that correlated errors are as large as they are; ``"se-sync"`` takes the blocks of Ω,
``λ = 2 d_R/tr(Ω_RR⁻¹) = 4κ`` and ``τ = d/tr(Ω_tt⁻¹)``, exactly SE-Sync's numbers.

A zero block says nothing: with Ω_t = 0 the edge becomes rotation-only, with Ω_R = 0 its concentration is 0, and with
both the edge is dropped. Each is counted and told. A block that is zero along some axes only is kept as it is by
``precision="full"`` and refused otherwise, as the trace rule has no value for it; an indefinite block is refused, and so
is an indefinite whole unless its correlations are dropped.

``EDGE_POINTXYZ_PRIOR`` of a node that is a pose elsewhere, as RTAB-Map writes it, is a position of that pose.

Planar lines make a planar graph; a file is planar or it is not. Ωθθ, the information of TORO's angles and that of the
quaternion lines of hdl_graph_slam are what they are, whatever ``rotation_information`` says.

Coordinates beyond 10 000 are those of a map: a whole-numbered origin is subtracted from vertices and priors, digit by
digit, kept as ``world_origin`` and added again on writing.
"""

from __future__ import annotations

from tempose.io.g2o.lines import ANGLE_SCALE, FORMAT, OFFSET, PRIOR
from tempose.io.g2o.reading import read_graph, read_poses, read_vertices
from tempose.io.g2o.writing import write_graph, write_poses

__all__ = [
    "ANGLE_SCALE",
    "FORMAT",
    "OFFSET",
    "PRIOR",
    "read_graph",
    "read_poses",
    "read_vertices",
    "write_graph",
    "write_poses",
]
