"""Wrong edges: their model, the noise estimated with the poses, and the way into the right basin."""

from tempose.likelihood import RobustLikelihood
from tempose.robust.estimate import Parameters, RobustFit, RobustOptions, fit

__all__ = ["Parameters", "RobustFit", "RobustLikelihood", "RobustOptions", "fit"]
