"""For a Python developer: a result as tables, matrices, scipy rotations and draws; paste it into a notebook cell by cell.

python examples/05_tables_and_draws.py [FOLDER]
"""

import sys
from pathlib import Path

import numpy as np

import tempose

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tables")
graph = tempose.simulate(20, completeness=0.4, seed=2).graph
solution = tempose.solve(graph, draws=400, progress=True)  # bars on a terminal and in a notebook
print(solution)  # in a notebook `solution` alone shows the summary

# Poses: by id, as 4×4 matrices, as scipy rotations.
pose = solution.poses[7]
print(pose.matrix.round(2), pose.rotation.as_rotvec(degrees=True).round(1))

# Nodes and edges as tables (pip install pandas).
try:
    print(solution.nodes.to_pandas().head(3))
    print(graph.to_pandas().head(3))
except tempose.TemposeError as why:
    print(why)

# Draws: each is a set of poses. Anything you can compute of poses has a distribution: here how far 3 and 9 are apart.
apart = [
    float(np.linalg.norm(draw[3].position - draw[9].position)) for draw in map(solution.draws.__getitem__, range(400))
]
print(f"nodes 3 and 9 are {np.mean(apart):.3f} ± {np.std(apart):.3f} apart")

# Saved and loaded, the first covariance takes milliseconds.
solution.save(folder)
again = tempose.Solution.load(folder)
assert np.array_equal(again.covariance(7), solution.covariance(7))

# Mistakes are told in one line.
try:
    tempose.solve(graph, drws=100)
except tempose.TemposeError as why:
    print("tempose says:", why)
