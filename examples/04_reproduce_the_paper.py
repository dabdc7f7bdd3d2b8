"""For a researcher: a figure of the paper, and a check of the claim behind all error bars, from Python.

    python examples/04_reproduce_the_paper.py [FOLDER]

From the shell: `tempose experiment noise -o noise` (Figure 2a and 2b), `tempose experiment --help` for the others,
`tempose data` for the public data that some of them need.
"""

import sys
from pathlib import Path

import tempose
from tempose.studies import EXPERIMENTS

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "paper")
for name, entry in list(EXPERIMENTS.items())[:4]:
    print(f"{name}: {entry.summary}. {entry.paper.split(':')[0]}")

# The paper's optimiser with the paper's constants, beside the certified optimum.
made = tempose.simulate(30, completeness=0.5, sigma_rot_deg=5.0, sigma_trans=0.1, seed=1)
printed = tempose.solve(made.graph, tempose.paper.preset(draws=0, certify=False))
proven = tempose.solve(made.graph, draws=400, seed=1)
for words, one in (("as printed", printed), ("proven", proven)):
    errors = tempose.pose_errors(one.poses, made.truth)
    print(f"{words}: {errors.mean_rotation_deg:.3f}° and {errors.mean_translation:.4f} from the truth")

# What error bars claim, tested: of the true relative poses of pairs, how many lie within two σ of the estimate, per axis?
ids = made.graph.node_ids
inside = []
for a, b in zip(ids[:-1], ids[1:], strict=True):
    seen, true = proven.relative(a, b), made.truth.relative(a, b)
    inside += list(abs(true.position - seen.mean[1]) < 2.0 * seen.covariance.diagonal()[3:] ** 0.5)
print(f"{100 * sum(inside) / len(inside):.0f}% of the true relative positions lie within 2σ, 95% should")
proven.save(folder)
