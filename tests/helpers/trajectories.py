"""A stamped trajectory and an estimate of it, with its own clock and its own rate: the same files for tempose and for evo."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses

START = 1403636579.0


def motion(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A curve in space that repeats nothing: ``world_from_node``."""
    t = times - START
    position = np.column_stack([3 * np.sin(0.7 * t), 2 * np.cos(0.31 * t) + 0.1 * t, np.sin(0.13 * t * t / 10)])
    turn = quat.multiply(
        quat.exp(np.column_stack([0 * t, 0 * t, 0.4 * t])), quat.exp(np.column_stack([0.3 * np.sin(t), 0 * t, 0 * t]))
    )
    return turn, position


def pair(seed: int = 7, clock: float = 0.0) -> tuple[Poses, np.ndarray, Poses, np.ndarray]:
    """Estimate and truth, each with its times; the estimate's clock is behind by ``clock`` seconds."""
    rng = np.random.default_rng(seed)
    true_times = START + np.arange(400) * 0.05
    times = START + 0.3 + np.arange(180) * 0.1 + rng.uniform(-0.012, 0.012, 180)
    wxyz, position = motion(times)
    frame = quat.exp(np.array([0.2, -0.5, 1.1]))
    wxyz = quat.multiply(frame, quat.multiply(wxyz, quat.exp(rng.normal(0.0, 0.02, (180, 3)))))
    position = 0.95 * quat.rotate(frame, position + rng.normal(0.0, 0.03, (180, 3))) + [4.0, -2.0, 1.0]
    names = [tuple(f"{x:.6f}" for x in stamps) for stamps in (times - clock, true_times)]
    stamps = [np.array([float(x) for x in one]) for one in names]
    return Poses(names[0], wxyz, position), stamps[0], Poses(names[1], *motion(true_times)), stamps[1]


def write_tum(path: Path, poses: Poses) -> None:
    """With nine digits, as other programs write it."""
    lines = [
        f"{name} " + " ".join(f"{x:.9f}" for x in (*p, *q[[1, 2, 3, 0]]))
        for name, p, q in zip(poses.ids, poses.position, poses.wxyz, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
