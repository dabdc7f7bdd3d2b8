"""Your first pose graph: build it by hand, solve it, ask it, look at it, save it and load it.

    python examples/01_build_a_graph.py [FOLDER]

A robot drives a square of four rooms, two metres a side, and turns left at each corner.
"""

import sys
from pathlib import Path

from scipy.spatial.transform import Rotation

import tempose

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "first-graph")  # what is written goes here

# Build. A measurement is the pose of the second node seen from the first, as in g2o and GTSAM: here "two metres ahead (x),
# turned left by a quarter". How sure it is: one standard deviation per axis, in degrees and in the unit of lengths.
graph = tempose.GraphBuilder()
# Rotations are those of scipy, here turns to the left; 3×3 matrices and quaternions (wxyz=) are taken, too.
left = {degrees: Rotation.from_euler("z", degrees, degrees=True) for degrees in (86, 90, 92, 94, 187)}
sure = {"sigma_rot_deg": 2.0, "sigma_trans": 0.05}
graph.add_edge("hall", "kitchen", rotation=left[92], translation=[2.07, 0.04, -0.03], **sure)
graph.add_edge("kitchen", "study", rotation=left[86], translation=[1.92, -0.06, 0.05], **sure)
graph.add_edge("study", "bath", rotation=left[94], translation=[2.05, 0.10, 0.08], **sure)
# The loop is closed by a scan, given as one 4×4 matrix, which is surer than the wheels.
scanned = tempose.Pose.from_rotation(left[90], [2, 0, 0]).matrix
graph.add_edge("bath", "hall", transform=scanned, sigma_rot_deg=0.5, sigma_trans=0.02)
# A compass compares two rooms: a rotation, no translation.
graph.add_edge("hall", "study", rotation=left[187], sigma_rot_deg=5.0)
graph.add_node("hall", fixed=True)  # poses and error bars are relative to this one
measured = graph.build()  # checked, and from here on it never changes
print(measured)

# Solve: the best poses, a proof that they are, and draws from the posterior. The same seed gives the same draws.
solution = tempose.solve(measured, draws=1000, seed=1)
print(solution.summary())

# Ask for one node: its pose in the world, and one standard deviation per axis.
study = solution["study"]
print("the study is at", study.position.round(2), f"± {study.sigma_pos:.3f} m, {study.sigma_rot_deg:.2f}°")

# Ask for any two nodes, measured or not: this needs no world frame.
bath = solution.relative("kitchen", "bath")
print("seen from the kitchen, the bath is known to", f"± {bath.sigma_pos:.3f} m, {bath.sigma_rot_deg:.2f}°")

# Poses are values: frames cancel as they are written, and scipy and numpy are one step away.
kitchen_from_bath = solution["kitchen"].pose.inverse() @ solution["bath"].pose
print("it is turned by", kitchen_from_bath.rotation.as_euler("zyx", degrees=True).round(1), "degrees")
print("4×4 matrices:", solution.estimate.matrices().shape, "draws:", solution.draws.n_draws)

# Save, look, load.
solution.save(folder)  # poses.csv, edges.csv, draws/, result.json: see docs/reference/files.md
tempose.write_report(folder / "report.html", solution)  # a page to turn and click
try:
    tempose.plot(solution, folder / "rooms.png")
except tempose.errors.MissingPackage as missing:  # pictures need an extra
    print(missing)
shown = [one._repr_html_() for one in (measured, solution, solution.estimate)]  # what a notebook shows of each
(folder / "notebook.html").write_text("".join(shown))
again = tempose.Solution.load(folder)
assert (again.estimate.position == solution.estimate.position).all()
print("saved to, and loaded from,", folder)
