"""All methods by name."""

from __future__ import annotations

from collections.abc import Callable

from tempose.methods.base import Estimate
from tempose.methods.chordal import chordal
from tempose.methods.consensus import consensus
from tempose.methods.eig import eig_se3, eig_se3_irls
from tempose.methods.external import gtsam_gnc
from tempose.methods.godec import r_godec
from tempose.methods.govindu import govindu
from tempose.methods.irls import irls, irls_half
from tempose.methods.ours import default, robust, tg_mcmc
from tempose.methods.ozyesil import ozyesil
from tempose.methods.pgd import pgd
from tempose.methods.torsello import torsello
from tempose.methods.tree import tree

METHODS: dict[str, tuple[Callable[..., Estimate], str]] = {
    "tree": (tree, "measurements chained along a spanning tree"),
    "chordal": (chordal, "chordal averaging of rotations, then positions by least squares"),
    "govindu": (govindu, "averaging in the Lie algebra of SE(3) (Govindu 2004)"),
    "torsello": (torsello, "diffusion of dual quaternions (Torsello et al. 2011)"),
    "eig-se3": (eig_se3, "spectral synchronisation in SE(3) (Arrigoni et al. 2015)"),
    "eig-se3-irls": (eig_se3_irls, "the same with Cauchy weights"),
    "r-godec": (r_godec, "low-rank plus sparse rotations (Arrigoni et al. 2014), positions by least squares"),
    "ozyesil": (ozyesil, "locations by least unsquared deviations (Özyeşil & Singer 2015) after robust rotations"),
    "pgd": (pgd, "projected gradient descent on U"),
    "irls": (irls, "L1 and reweighted rotation averaging (Chatterjee & Govindu 2013), positions by least squares"),
    "irls-half": (irls_half, "the same with the loss √|e| (Chatterjee & Govindu 2018)"),
    "tg-mcmc": (tg_mcmc, "the paper's sampler as an optimiser, from a random start, with the paper's constants"),
    "tempose": (default, "the default: certified minimum of U"),
    "consensus": (consensus, "where most edges agree, under a narrow loss: needs no noise level and no model of it"),
    "robust": (robust, "wrong edges found and noise estimated: minimum of the robust U"),
}
"""Function and one-line description of each method."""

PEERS: dict[str, tuple[Callable[..., Estimate], str]] = {
    "gnc": (gtsam_gnc, "GTSAM's graduated non-convexity, told the stated noise; runs if asked for, and needs gtsam"),
}
"""Other people's software, beside the methods if asked for by name."""
