"""Error bars of points: how they grow with depth and shrink with the number and the angle of views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.sfm.options import SfmOptions
from tempose.sfm.pipeline import reconstruct_views
from tempose.sfm.points import rms_sigma
from tempose.sfm.scene import Scene
from tempose.sfm.views import Views
from tempose.studies import figures, photographs
from tempose.studies.experiment import Experiment, Result, RunOptions, data_folder
from tempose.studies.store import Cell, Row

DATA = ("fountain-P11", "castle-P30", "entry-P10", "dino")
PROPERTIES = {
    "depth": "depth / median depth of the set",
    "views": "views that see the point",
    "angle": "widest angle of its rays, degrees",
}
FITS = {"fit": "total", "fit, image noise": "own image noise"}
"""Lines of exponents, and of which σ."""
_BINS = 8
_FEWEST = 20  # points in a bin
_DINO_SIZE = 720, 576
_FEWEST_SHARED = 15  # points two views of the dinosaur must share to be a pair


def cells(options: RunOptions) -> list[Cell]:
    """One per set."""
    photographs.check_needs("epfl", "dino")
    return [{"data": name, "seed": options.seed} for name in (photographs.QUICK if options.quick else DATA)]


def dinosaur() -> Views:
    """The Oxford turntable dinosaur as views: 36 cameras, tracks of 4983 points, calibration from its projections.

    Its projections put the points behind cameras with positive focal lengths: the images are mirrored. They are turned
    over here, so that points lie in front.
    """
    from scipy.io import loadmat
    from scipy.linalg import rq

    folder = data_folder("dino")
    M = loadmat(folder / "dino4983.mat")["M"].reshape(36, 2, -1).transpose(0, 2, 1)
    seen = np.all(M != 0.0, axis=2)
    K = []
    for P in loadmat(folder / "dino_Ps.mat")["P"][0]:
        upper = rq(P[:, :3])[0]
        upper = upper @ np.diag(np.sign(np.diag(upper)))
        K.append(upper / upper[2, 2])
    mean = np.mean(K, axis=0)  # one camera
    mean[0, 1] = 0.0
    mean[0, 2], M[..., 0] = _DINO_SIZE[0] - mean[0, 2], np.where(seen, _DINO_SIZE[0] - M[..., 0], 0.0)
    row = np.where(seen, np.cumsum(seen, axis=1) - 1, -1)
    pairs, matches = [], []
    for i in range(36):
        for j in range(i + 1, 36):
            both = np.flatnonzero(seen[i] & seen[j])
            if len(both) >= _FEWEST_SHARED:
                pairs.append((i, j))
                matches.append(np.stack([row[i, both], row[j, both]], axis=1))
    return Views(
        tuple(f"{k:02d}" for k in range(36)),
        np.tile(mean, (36, 1, 1)),
        np.tile(_DINO_SIZE, (36, 1)),
        tuple(M[k][seen[k]] for k in range(36)),
        np.array(pairs),
        tuple(matches),
    )


def depths(scene: Scene) -> Array:
    """Mean depth (p,) of every point over the cameras that see it."""
    o, position = scene.observations, scene.structure.position
    axis = quat.to_matrix(scene.poses.wxyz)[:, :, 2]
    depth = np.einsum("ka,ka->k", position[o.point_of] - scene.poses.position[o.camera_of], axis[o.camera_of])
    total = np.bincount(o.point_of, depth * scene.structure.used, o.n_points)
    return np.asarray(total / np.maximum(scene.structure.n_views, 1))


def run(cell: Cell) -> list[Row]:
    """Median σ of the good points in bins of depth, views and angle."""
    name = cell["data"]
    views = dinosaur() if name == "dino" else photographs.views(name)
    scene = reconstruct_views(views, SfmOptions(seed=cell["seed"])).scene
    s = scene.structure
    good = s.good
    sigma, pose = s.relative_sigma[good], rms_sigma(s.pose_covariance)[good] / s.diameter
    depth = depths(scene)[good]
    values = {
        "depth": depth / np.median(depth),
        "views": s.n_views[good].astype(float),
        "angle": s.angle_deg[good],
    }
    rows: list[Row] = []
    for by, x in values.items():
        inner = np.quantile(x, np.linspace(0.0, 1.0, _BINS + 1)[1:-1])
        place = x if by == "views" else np.searchsorted(inner, x, side="right")
        for k in np.unique(place):
            here = place == k
            if here.sum() >= _FEWEST:
                rows.append(
                    {
                        "by": by,
                        "value": float(np.median(x[here])),
                        "points": int(here.sum()),
                        "relative_sigma": float(np.median(sigma[here])),
                        "relative_sigma_pose": float(np.median(pose[here])),
                        "n_good": int(good.sum()),
                        "n_cameras": len(scene.poses),
                    }
                )
    image = rms_sigma(s.image_covariance)[good] / s.diameter
    for by, sizes in zip(FITS, (sigma, image), strict=True):
        rows.append({"by": by, "n_good": int(good.sum()), **exponents(values, sizes)})
    return rows


def exponents(values: dict[str, Array], sigma: Array) -> dict[str, float]:
    """Exponents of ``σ ∝ depth^a · views^b · angle^c``: each with the others held, by least squares of logarithms."""
    columns = np.log(np.stack([*values.values(), np.full(len(sigma), np.e)], axis=1))
    found = np.linalg.lstsq(columns, np.log(sigma), rcond=None)[0]
    return {f"exponent_{name}": float(x) for name, x in zip(values, found, strict=False)}


def table(rows: list[Row]) -> list[Row]:
    """The bins as they are."""
    return rows


def draw(result: Result, home: Path) -> list[Path]:
    """σ against each property: total as lines, the poses' share dashed."""
    figure, axes = figures.panels(3, width=3.6)
    colours = dict(
        zip((*DATA, *photographs.QUICK), ("#d62728", "#4e79a7", "#59a14f", "#f28e2b", "#6a3d9a"), strict=True)
    )
    for ax, (by, words) in zip(axes, PROPERTIES.items(), strict=True):
        for name in dict.fromkeys(row["data"] for row in result.table):
            bins: list[dict[str, Any]] = [r for r in result.table if r["data"] == name and r["by"] == by]
            x = [r["value"] for r in bins]
            ax.plot(x, [r["relative_sigma"] for r in bins], "o-", color=colours[name], markersize=3, label=name)
            ax.plot(x, [r["relative_sigma_pose"] for r in bins], "--", color=colours[name], linewidth=0.9)
        figures.label(ax, words, "median σ / diameter" if by == "depth" else "", log_y=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """σ over the first and the last bin of each property, and its growth with each of them while the others are held."""
    lines = ["median σ / diameter in the first and the last bin"]
    for name in dict.fromkeys(row["data"] for row in result.table):
        for by in PROPERTIES:
            bins = [r for r in result.table if r["data"] == name and r["by"] == by]
            ends = " → ".join(f"{r['relative_sigma']:.2g} at {r['value']:.3g}" for r in (bins[0], bins[-1]))
            lines.append(f"{name:14} {by:6} {ends}")
    lines.append("exponents of σ ∝ depth^a views^b angle^c")
    for row in result.table:
        if row["by"] in FITS:
            powers = ", ".join(f"{by} {row[f'exponent_{by}']:+.2f}" for by in PROPERTIES)
            lines.append(f"{row['data']:14} {FITS[row['by']]:15} {powers}")
    return "\n".join(lines)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
