"""Wrong edges: their model, the noise estimated with the poses, and the way into the right basin."""

from tempose.likelihood import RobustLikelihood
from tempose.robust.estimate import RobustFit, fit
from tempose.robust.parameters import Parameters, RobustOptions

__all__ = ["Parameters", "RobustFit", "RobustLikelihood", "RobustOptions", "fit"]
