"""Which experiments there are. Imports nothing, so that ``--help`` answers at once."""

from __future__ import annotations

import keyword
from typing import NamedTuple

PAPER = (
    "The paper: Birdal, Şimşekli, Eken & Ilic, Bayesian pose graph optimization via Bingham distributions and tempered\n"
    "geodesic MCMC, NeurIPS 2018, https://arxiv.org/abs/1805.12279"
)


class Entry(NamedTuple):
    """An experiment in words."""

    summary: str  # one line
    paper: str  # what the paper shows, and where


EXPERIMENTS: dict[str, Entry] = {
    "noise": Entry(
        "errors of every method against the noise",
        "Figure 2a and 2b: mean Riemannian and Euclidean error against the variance of the noise. The paper: on par with or "
        "better than the state of the art, with a clear advantage as the noise grows.",
    ),
    "completeness": Entry(
        "the same against the completeness of the graph",
        "Figure 2c and 2d: mean Riemannian and Euclidean error against e = |E|/N², N = 50. The paper: a clear advantage as the "
        "graph becomes sparse.",
    ),
    "convergence": Entry(
        "the error while TG-MCMC optimises, then samples",
        "Figure 2e: the absolute error to the truth, monitored during optimisation and the posterior sampling that follows.",
    ),
    "outliers": Entry(
        "errors of every method against the share of wrong edges",
        "Appendix, figure 'Robustness to outliers': edges are corrupted by rotations of 60° to 80° about random axes and "
        "translations in [0, 1]. The paper: most methods alike, TG-MCMC's advantage grows with the share.",
    ),
    "pgd": Entry(
        "energy, error and consistency against iterations: projected gradient descent and TG-MCMC",
        "Appendix, 'Projected Gradient Descent', with compatible step sizes. The paper: walking on the manifold is quicker and "
        "reaches a lower energy.",
    ),
    "lambda": Entry(
        "errors against the assumed concentration λ",
        "Appendix, 'Hyper-parameter Selection': errors at convergence against λ on synthetic and real data. The paper: for "
        "λ > 100 the solution can safely be found.",
    ),
    "temperature": Entry(
        "a tempered mixture of two Gaussians, β = 1 and 20",
        "Appendix, 'Illustration of tempered posteriors': at β = 1 both modes are visible, at β = 20 the smaller vanishes.",
    ),
    "runtime": Entry(
        "seconds of every method against the size of the graph",
        "Appendix, Table 2, pose graph part: Madrid: Arrigoni 0.137 s, Torsello 2.255, Govindu 3.033, TG-MCMC 5.794; South "
        "Building: 0.060, 0.784, 1.213, 1.986.",
    ),
    "evolution": Entry(
        "the pose graph from a random start to the solution",
        "Appendix, 'Graph Evolution': snapshots of the pose graph of an object; TG-MCMC comes from a random start very close to "
        "the truth.",
    ),
    "robust": Entry(
        "errors of every method, GTSAM's GNC and the oracle against the share of wrong edges: random ones, and ones that agree",
        "Not in the paper, whose likelihood knows no wrong edges.",
    ),
    "robust-calibration": Entry(
        "robust solves without noise levels: are inlier probabilities and error bars right, are σ and π found",
        "Not in the paper, whose likelihood knows no wrong edges: of the edges given 0.9, nine in ten should be right.",
    ),
    "manhattan": Entry(
        "Manhattan worlds with wrong loops, beside GNC",
        "Not in the paper, whose likelihood knows no wrong edges. 500 nodes, in the plane and in space: errors beside the "
        "oracle's and GNC's, verdicts, noise levels, and whether the mode is found that a fit from the truth ends in.",
    ),
    "manhattan-large": Entry("the same with 3500 nodes", "Not in the paper, whose likelihood knows no wrong edges."),
    "kitti-loops": Entry(
        "a car's loops, and wrong ones in their place",
        "Not in the paper, whose graphs are in space. Loops as they are, and partly replaced by wrong ones, each by itself or "
        "look-alikes: verdicts, errors, coverage. Needs the data set g2o2d.",
    ),
    "lookalikes": Entry(
        "worlds with look-alike places: reliability, coverage",
        "Not in the paper, whose likelihood knows no wrong edges: here they agree with each other. Of the edges given 0.9, nine "
        "in ten should be right, and 95 % of the true poses inside the regions.",
    ),
    "scenes": Entry(
        "seven real scans: verdicts and trust in odometry",
        "Not in the paper: real registrations, whose wrong ones agree with each other. Verdicts, errors and coverage by trust in "
        "odometry, beside the bare chain, GNC and the oracle. Needs the data set threedmatch.",
    ),
    "scenes-left-out": Entry(
        "the same, each by beliefs that the others have chosen",
        "Not in the paper. The few prior numbers of the model of wrong edges that repeat each other are chosen on six scans from "
        "a grid, by the Brier score, and judged on the seventh. Needs the data set threedmatch.",
    ),
    "epfl-rotations": Entry(
        "errors of every method on the EPFL rotations",
        "Table 1, MRE: TG-MCMC 0.106°, 0.081°, 0.071°, 0.090°, 0.393°, 0.622°, on average the best. Needs the data set "
        "epfl_rotations; it has no translations, and is not quite the input of the paper's table.",
    ),
    "epfl": Entry(
        "rotation and position error on the six EPFL scenes from the photographs, beside the paper's and COLMAP's",
        "Table 1: TG-MCMC 0.106°, 0.081°, 0.071°, 0.090°, 0.393°, 0.622° and 0.015, 0.020, 0.004, 0.035, 0.148, 0.285 m, with "
        "true lengths of baselines. Needs the data set epfl and pycolmap.",
    ),
    "ba-gain": Entry(
        "bundle adjustment from a tree and from our poses",
        "Appendix, Table 2: bundle adjustment gains an order of magnitude in time from TG-MCMC's poses. Needs the data set epfl "
        "and pycolmap.",
    ),
    "point-uncertainty": Entry(
        "error bars of points against depth, views and angle",
        "Figures 4 and 5, in colours only: distant points and those of few views are less sure. Needs the data sets epfl and "
        "dino, and pycolmap.",
    ),
    "sfm-coverage": Entry(
        "coverage of cameras and points on synthetic data",
        "Not in the paper, which shows the error bars of points as colours only. Needs pycolmap.",
    ),
    "bundle-coverage": Entry(
        "the same of adjusted models, intrinsics unknown",
        "Not in the paper, which leaves the uncertainty of bundle adjustment to later. Needs pycolmap.",
    ),
    "epfl-coverage": Entry(
        "true cameras inside the 50, 80 and 95 % regions on the EPFL photographs, with and without an error of the calibration",
        "Not in the paper, which has no error bars of cameras. Needs pycolmap.",
    ),
    "epfl-bundle": Entry(
        "error bars of COLMAP's models of the EPFL photographs, each scene by what the others chose",
        "Not in the paper. Needs the data set epfl and pycolmap.",
    ),
    "epfl-photographs": Entry(
        "photographs of which little is known: errors beside COLMAP's mappers, and regions",
        "Not in the paper, which has calibrated pairs. Needs the data set epfl and pycolmap.",
    ),
    "warped-photographs": Entry(
        "the same of bent, cropped and turned ones",
        "Not in the paper, which has calibrated pairs. Needs the data set epfl and pycolmap.",
    ),
    "other-photographs": Entry(
        "photographs by tourists, of a toy and by a drone",
        "Not in the paper. Needs the data set photos, pycolmap and h5py.",
    ),
    "threedmatch": Entry(
        "errors of every method on five real scans",
        "Not in the paper: SE(3) with metric translations and wrong registrations that agree with each other. Needs the data "
        "set threedmatch.",
    ),
    "planar-truth": Entry(
        "true relative poses inside the 50, 80 and 95 % regions on planar graphs: a simulated Manhattan and a car's trajectory",
        "Not in the paper, whose graphs are in space. Needs the data set g2o2d.",
    ),
    "madrid": Entry(
        "rotation averaging of Madrid Metropolis: mean and median error, and seconds, of every method",
        "The paper uses Madrid in Table 2 (times of all stages) and for pictures; it reports no errors. Needs the data set "
        "madrid.",
    ),
    "schemes": Entry(
        "which TG-MCMC schemes sample the right distribution: mean energy against the exact one",
        "Algorithm 1 and its O step, whose noise lacks a factor √h as printed; the paper shows no such table.",
    ),
    "ergodic-error": Entry(
        "the theorem on the ergodic error, term by term: against N, β, h and c",
        "Theorem 1: |E Û_N − U*| = O(β/(Nh) + h/β + 1/β). The paper proves it and measures nothing.",
    ),
    "random-starts": Entry(
        "TG-MCMC at β → ∞ and projected gradient descent from random starts: how often, how soon at the optimum",
        "The paper starts at random and reports that it converges; it does not say how often.",
    ),
    "certified-share": Entry(
        "how often a random start ends at the proven optimum, with Newton alone and with the Riemannian staircase",
        "Not in the paper, which has no certificate.",
    ),
    "covariance": Entry(
        "true relative poses inside the 50, 80 and 95 % regions of the Gaussian at the optimum, at low noise",
        "Not in the paper, which has no covariances.",
    ),
    "covariance-sphere": Entry(
        "what sphere2500's rotation information means: its covariances, read in two ways, against its truth",
        "Not in the paper. Needs the data set g2o.",
    ),
    "laplace-coverage": Entry(
        "where the Gaussian approximation is wrong: coverage of its regions and of the draws', as the noise grows",
        "Not in the paper, which has no error bars to check.",
    ),
    "calibration-controls": Entry(
        "which samplers pass calibration: the right ones, the paper's, and one that is wrong on purpose",
        "Not in the paper, which checks no draws.",
    ),
    "verdicts": Entry(
        "how often 'trust it' is right",
        "Not in the paper, which gives no verdicts. Simulated worlds of many kinds: whether the regions of results that are to be "
        "trusted hold the truth.",
    ),
    "ambiguous-loop": Entry(
        "odds of the two ways round an ambiguous loop: exact, Gaussian, and by the samplers",
        "Not in the paper, which shows no posterior with several modes.",
    ),
}
"""Entry of each experiment by its name on the command line, which is also that of its module."""


USUAL: dict[str, str] = {
    name: f"{time} on two idle cores"
    for time, names in {
        "seconds": ("temperature", "evolution"),
        "half a minute": (
            "convergence", "pgd", "epfl-rotations", "threedmatch", "certified-share", "covariance", "covariance-sphere",
            "calibration-controls",
        ),
        "a minute": ("lambda", "madrid", "schemes", "random-starts", "ambiguous-loop"),
        "a few minutes": ("robust-calibration", "scenes", "planar-truth", "ergodic-error", "laplace-coverage"),
        "ten minutes": ("runtime", "kitti-loops", "scenes-left-out", "verdicts"),
        "half an hour": ("noise", "completeness", "robust", "lookalikes"),
        "an hour": ("outliers", "manhattan", "epfl", "ba-gain", "point-uncertainty", "epfl-coverage"),
        "some hours": ("manhattan-large",),
    }.items()
    for name in names
}  # fmt: skip
"""By experiment: how long the full size takes, roughly, by a few of its cells, where that is known; ``--quick`` takes seconds."""


def module_of(name: str) -> str:
    """The module of an experiment: its name with underscores, and one more where that is a word of Python."""
    stem = name.replace("-", "_")
    return f"tempose.studies.experiments.{stem}_" if keyword.iskeyword(stem) else f"tempose.studies.experiments.{stem}"
