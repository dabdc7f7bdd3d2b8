"""Public graphs with wrong loop closures added: which verdicts come out, how far the poses are off, and what the first line says.

    python benchmarks/added_loops.py                             # MIT, intel, manhattanOlson3500, kitti_00, sphere2500
    python benchmarks/added_loops.py --graphs MIT --shares .5,1 --seeds 5,6,7

An added edge claims that two nodes are the same place, up to 0.3 length units and 10° (one σ per axis), as mistaken place
recognition does; it has the information of the file's last edge. ``random``: any two nodes. ``local``: nodes 3 to 19 steps apart.
``grouped``: from there on 10 to 20 steps of both ways, so that wrong edges agree with each other. Shares are of the number of
right loop closures. `--robust --noise auto`, nothing trusted; poses are compared with the plain solve of the file as it is.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import tempose
from tempose.analysis.accuracy import pose_errors
from tempose.geometry import quaternion as quat

FOLDERS = {"sphere2500": "g2o", "parking-garage": "g2o", "torus3D": "g2o"}  # the others are planar, in g2o2d
GRAPHS = "MIT,intel,manhattanOlson3500,kitti_00,sphere2500"
KINDS = "random,random-grouped,local-grouped"
SIGMA, SIGMA_DEG = 0.3, 10.0


def pairs(ids, joined, kind, count, rng):
    """Pairs of places that are mistaken for each other, of places that nothing joins yet."""
    found = set()
    while len(found) < count:
        first = int(rng.integers(0, len(ids) - 25))
        second = first + int(rng.integers(3, 20)) if "local" in kind else int(rng.integers(0, len(ids)))
        if "local" not in kind and second - first < 30:
            continue
        for step in range(int(rng.integers(10, 21)) if "grouped" in kind else 1):
            pair = first + step, second + step
            if pair[1] < len(ids) and frozenset(ids[k] for k in pair) not in joined:
                found.add(pair)
    return [(ids[a], ids[b]) for a, b in sorted(found)[:count]]


def spoilt(path, graph, kind, share, seed, folder):
    """The file with wrong edges added, and the pairs of nodes that these join."""
    rng, ids = np.random.default_rng(seed), sorted(graph.node_ids)
    ends = [(graph.node_ids[i], graph.node_ids[j]) for i, j in zip(graph.edge_i, graph.edge_j, strict=True)]
    loops = sum(abs(a - b) != 1 for a, b in ends)
    wrong = pairs(ids, {frozenset(one) for one in ends}, kind, max(1, round(share * loops)), rng)
    text = path.read_text().rstrip("\n")
    information = text.rsplit("\n", 1)[-1].split()[6 if graph.is_planar else 10 :]
    for a, b in wrong:
        if graph.is_planar:
            measured = ["EDGE_SE2", a, b, *rng.normal(0.0, SIGMA, 2), rng.normal(0.0, np.radians(SIGMA_DEG))]
        else:
            w, *xyz = quat.exp(rng.normal(0.0, np.radians(SIGMA_DEG), 3))
            measured = ["EDGE_SE3:QUAT", a, b, *rng.normal(0.0, SIGMA, 3), *xyz, w]
        text += "\n" + " ".join(map(str, [*measured, *information]))
    out = folder / path.name
    out.write_text(text + "\n")
    return out, loops, {frozenset(one) for one in wrong}


def line(path, kind, share, seed, folder):
    """One solve, in a line."""
    graph = tempose.read_graph(path)
    plain = tempose.solve(graph, draws=0, certify=False)
    bad, loops, wrong = spoilt(path, graph, kind, share, seed, folder)
    graph, began = tempose.read_graph(bad), time.process_time()
    found = tempose.solve(graph, robust=True, noise="auto", draws=0, certify=False)
    seconds, p = time.process_time() - began, found.verdicts.inlier_probability
    ends = [(graph.node_ids[i], graph.node_ids[j]) for i, j in zip(graph.edge_i, graph.edge_j, strict=True)]
    is_wrong = np.array([frozenset(one) in wrong for one in ends])
    is_link = np.array([abs(a - b) == 1 for a, b in ends])
    off = pose_errors(found.estimate, plain.estimate).ate_rmse
    size = np.ptp(plain.estimate.position, axis=0).max()
    return (
        f"{path.stem:20s} {kind:14s} {share:5.2g} {seed:4d} {loops:6d} {is_wrong.sum():6d} {np.sum(p[is_wrong] > 0.5):6d} "
        f"{np.sum(p[is_wrong] > 0.9):6d} {np.sum(p[~is_wrong & ~is_link] < 0.5):8d} {np.sum(p[is_link] < 0.5):6d} "
        f"{off:8.3f} {size:6.0f} {seconds:6.0f}  {found.summary().splitlines()[0][:60]}"
    )


def main() -> None:
    """Print one line a solve."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--graphs", default=GRAPHS, help=f"names in TEMPOSE_DATA (default: {GRAPHS})")
    ask.add_argument("--kinds", default=KINDS, help=f"with local (default: {KINDS})")
    ask.add_argument("--shares", default="0.1,0.5", help="wrong loop closures for each right one (default: 0.1,0.5)")
    ask.add_argument("--seeds", default="1", help="default: 1")
    asked = ask.parse_args()
    if not (data := os.environ.get("TEMPOSE_DATA")):
        raise SystemExit("TEMPOSE_DATA is not set: it is the folder with the public graphs")
    print(
        f"{'graph':20s} {'kind':14s} {'share':>5s} {'seed':>4s} {'loops':>6s} {'wrong':>6s} {'p > .5':>6s} {'p > .9':>6s} "
        f"{'loops<.5':>8s} {'links':>6s} {'off, rms':>8s} {'size':>6s} {'cpu s':>6s}  first line"
    )
    options = (asked.graphs.split(","), asked.kinds.split(","), asked.shares.split(","), asked.seeds.split(","))
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, share, seed in itertools.product(*options):
            path = Path(data) / FOLDERS.get(name, "g2o2d") / f"{name}.g2o"
            print(line(path, kind, float(share), int(seed), Path(folder)), flush=True)


if __name__ == "__main__":
    main()
