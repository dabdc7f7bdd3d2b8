"""For a photogrammetrist: error bars of the cameras and points of photographs, or of a COLMAP model that you have.

    python examples/03_photographs.py SCENE [FOLDER]

SCENE is what `tempose sfm PHOTOGRAPHS -o SCENE` (or `tempose sfm sparse/0 -o SCENE`) has written.
"""

import sys
from pathlib import Path

import numpy as np

import tempose
from tempose.sfm import load_scene

scene = load_scene(Path(sys.argv[1]))
cameras = scene.poses
points = scene.structure
print(f"{len(cameras)} cameras, {len(points.position)} points")

# Where is each camera, and how sure is that? world_from_camera; σ per axis in the unit of the model.
for name in cameras.ids[:5]:
    print(
        name,
        "at",
        cameras[name].position.round(3),
        "turned",
        cameras[name].rotation.as_euler("zyx", degrees=True).round(1),
    )

# Points: σ along the worst axis, of image noise and cameras together; far ones, and those in few photographs, are least sure.
known = np.isfinite(points.position).all(axis=1)
covariance = (points.image_covariance + points.pose_covariance)[known]
sigma = np.sqrt(np.linalg.eigvalsh(covariance)[:, -1])
print(f"points: median σ {np.median(sigma):.3g}, the best tenth below {np.quantile(sigma, 0.1):.3g}")

if len(sys.argv) > 2:  # the same cameras for other programs
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    tempose.write_poses(folder / "cameras.csv", cameras)
    print("written to", folder / "cameras.csv")
