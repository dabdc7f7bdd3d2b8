"""Small inconsistent graphs of every kind: correlated, planar, with lever arms, landmarks, fixed nodes and the world."""

from __future__ import annotations

import numpy as np

from helpers.kernels import positive_definite
from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses

SPATIAL = (
    "isotropic", "full", "coupling", "arm", "isotropic arm", "coupling and arm", "singular", "landmarks", "world", "combined",
)  # fmt: skip
PLANAR = (
    "planar", "planar full", "planar coupling", "planar arm", "planar landmarks", "planar world", "planar combined",
)  # fmt: skip
KINDS = (*SPATIAL, *PLANAR)


def about_z(angle: np.ndarray) -> np.ndarray:
    """Quaternions (..., 4) of turns about z."""
    angle = np.asarray(angle)
    zero = np.zeros_like(angle)
    return np.stack([np.cos(0.5 * angle), zero, zero, np.sin(0.5 * angle)], axis=-1)


def graph_of(kind: str, rng: np.random.Generator, n: int = 6, m: int = 24) -> PoseGraph:
    """Random measurements, far from consistent.

    In graphs with landmarks the last two nodes are some; with the world it is the last node, and three kinds of edges go to
    it (position, attitude or direction, pose); ``combined`` has everything, and a fixed node and rotation-only edges.
    """
    planar = kind.startswith("planar")
    has = {name: name in kind or "combined" in kind for name in ("coupling", "arm", "landmarks", "world", "singular")}
    full = "isotropic" not in kind and kind not in (
        "planar",
        "arm",
        "landmarks",
        "world",
        "planar arm",
        "planar landmarks",
    )
    ids: list[int | str] = list(range(n))
    rows = np.arange(n - 2 if has["landmarks"] else n)
    i = rng.integers(n, size=m)
    j = (i + 1 + rng.integers(len(rows) - 1, size=m)) % len(rows)
    j = np.where(i == j, (j + 1) % len(rows), j)
    absolute = np.zeros(m, dtype=bool)
    if has["world"]:
        ids.append(WORLD)
        absolute[-6:] = True
        i[-6:], j[-6:] = np.arange(6) % n, n
    landmark = i >= len(rows)
    q = about_z(rng.uniform(-np.pi, np.pi, m)) if planar else quat.random_uniform(rng, m)
    t = rng.standard_normal((m, 3))
    concentration = rng.uniform(0.5, 20.0, m)
    precision = rng.uniform(0.1, 5.0, m)
    if full:
        precision = positive_definite(rng, m, 2.0)
        if not planar:
            concentration = positive_definite(rng, m, 5.0)
    if has["world"]:
        concentration[-6:-3] *= 0.0  # positions; then attitudes or directions, then poses
        t[-3:-1] = np.nan
        if not planar and full:
            down = np.array([0.0, 0.6, 0.8])
            concentration[-2] = 6.0 * (np.eye(3) - np.outer(down, down))
    if has["singular"] and not planar:
        concentration[0] = 4.0 * np.outer(*[rng.standard_normal(3)] * 2)
        precision[1] = np.diag([2.0, 0.0, 0.0])
    concentration[landmark] *= 0.0
    coupling = rng.standard_normal((m, 3, 3)) * ~np.isnan(t)[:, :, None] if has["coupling"] else None
    arm = rng.standard_normal((m, 3)) * ~landmark[:, None] if has["arm"] else None
    if planar:
        t[:, 2] *= 0.0  # NaN stays NaN
        if full:
            precision[:, 2] = precision[:, :, 2] = 0.0
        if coupling is not None:
            coupling[:, 2] = coupling[:, :, :2] = 0.0
        if arm is not None:
            arm[:, 2] = 0.0
    fixed = (ids[1],) if "combined" in kind else ()
    return PoseGraph(
        tuple(ids), i, j, q, t, concentration, precision, dimension=2 if planar else 3, coupling=coupling, arm=arm,
        landmarks=tuple(ids[len(rows) : n]), fixed=fixed, initial=poses_of(ids, planar, rng) if fixed else None,
    )  # fmt: skip


def poses_of(ids: object, planar: bool, rng: np.random.Generator) -> Poses:
    """Random poses, in the plane if asked; the world is where it is."""
    names = tuple(ids)  # type: ignore[call-overload]
    wxyz, position = quat.random_uniform(rng, len(names)), rng.standard_normal((len(names), 3))
    if planar:
        wxyz, position[:, 2] = about_z(rng.uniform(-np.pi, np.pi, len(names))), 0.0
    if WORLD in names:
        wxyz[names.index(WORLD)], position[names.index(WORLD)] = quat.IDENTITY, 0.0
    return Poses(names, wxyz, position)


def random_poses(graph: PoseGraph, rng: np.random.Generator) -> Poses:
    """Poses that the graph could have."""
    poses = poses_of(graph.node_ids, graph.is_planar, rng)
    held = graph.fixed_at
    wxyz, position = poses.wxyz.copy(), poses.position.copy()
    for name in held.ids if held is not None else ():
        wxyz[graph.row(name)], position[graph.row(name)] = held.wxyz[held.row(name)], held.position[held.row(name)]
    return Poses(poses.ids, wxyz, position)
