"""The paper's own numbers, each with its place in the text.

Birdal, Şimşekli, Eken & Ilic, *Bayesian Pose Graph Optimization via Bingham Distributions and Tempered Geodesic MCMC*,
NeurIPS 2018.
"""

from __future__ import annotations

# ---------------------------------------------------------------------- appendix, "Hyper-parameter Selection"

FRICTION = 1000.0
"""c, in all experiments."""
STEP = (0.001, 0.008)
"""h, "depending on the dataset"."""
LAMBDA = (350.0, 900.0)
"""λ of the Bingham distribution of an edge."""
SIGMA2 = (0.01, 0.1)
"""σ² of the Gaussian of an edge, length²."""
STEPS = 800
"""Integration steps of an optimisation: "typically in range [350, 800]"."""

# ---------------------------------------------------------------------- section "Experiments"

BETA = 1000.0
"""Inverse temperature of the draws ("∼1000"), after an optimisation at β → ∞."""
DRAWS = 40
"""Samples of the posterior behind a picture of uncertainty."""
NODES = 50
"""Poses of the random graphs (Figure 2)."""

TABLE_1: dict[str, dict[str, tuple[float, float]]] = {
    scene: dict(
        zip(
            ("ozyesil", "r-godec", "govindu", "torsello", "eig-se3", "tg-mcmc"),
            zip(numbers[::2], numbers[1::2], strict=True),
            strict=True,
        )
    )
    for scene, numbers in {
        "Herz-Jesus-P8": (0.060, 0.007, 0.040, 0.009, 0.106, 0.015, 0.106, 0.015, 0.040, 0.004, 0.106, 0.015),
        "Herz-Jesus-P25": (0.140, 0.065, 0.130, 0.038, 0.081, 0.020, 0.081, 0.020, 0.070, 0.010, 0.081, 0.020),
        "fountain-P11": (0.030, 0.004, 0.030, 0.006, 0.071, 0.004, 0.071, 0.004, 0.030, 0.004, 0.071, 0.004),
        "entry-P10": (0.560, 0.203, 0.440, 0.433, 0.101, 0.035, 0.101, 0.035, 0.040, 0.009, 0.090, 0.035),
        "castle-P19": (3.690, 1.769, 1.570, 1.493, 0.393, 0.147, 0.393, 0.147, 1.480, 0.709, 0.393, 0.148),
        "castle-P30": (1.970, 1.393, 0.780, 1.123, 0.631, 0.323, 0.629, 0.321, 0.530, 0.212, 0.622, 0.285),
    }.items()
}
"""Mean rotation error (degrees) and mean position error (metres) by scene of the EPFL benchmark and method."""

# ---------------------------------------------------------------------- appendix, Table 2

SIZES = {"Madrid": (394, 23784), "South Building": (128, 4096)}
"""Nodes and edges of its graphs; the edges of South Building are not given: half of all pairs."""
