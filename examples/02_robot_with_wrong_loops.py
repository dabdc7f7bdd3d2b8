"""For a roboticist: a trajectory whose loop closures are partly wrong, from the file to poses that survive them.

    python examples/02_robot_with_wrong_loops.py [GRAPH.g2o] [FOLDER]

Without a file, a planar Manhattan world is simulated in which one loop closure in six is wrong.
"""

import sys
from pathlib import Path

import tempose

file = Path(sys.argv[1]) if len(sys.argv) > 1 else None
folder = Path(sys.argv[2] if len(sys.argv) > 2 else "robot")
made = None if file else tempose.simulate(60, shape="manhattan", planar=True, wrong_loops=0.17, seed=4)
graph = tempose.read_graph(file) if made is None else made.graph

# First as everybody does. The verdict comes first, and says what to try.
plain = tempose.solve(graph, draws=0)
print(plain.headline)
print("try:", *plain.judgement.options)

# Then as it says: every edge gets a probability that it is right, and noise levels are estimated.
solution = tempose.solve(graph, robust=True, noise="auto", draws=0, progress=True)
print(solution.summary())
for k in solution.verdicts.distrusted[:5]:
    print(
        "distrusted:", graph.edge_name(int(k)), f"right with probability {solution.verdicts.inlier_probability[k]:.2f}"
    )

if made is not None:  # the truth is known here
    for words, one in (("all edges", plain), ("wrong ones found", solution)):
        print(f"{words}: mean error {tempose.pose_errors(one.poses, made.truth).mean_translation:.3f} m")

solution.save(folder)
tempose.write_report(folder / "report.html", solution)
print("look at", folder / "report.html")
