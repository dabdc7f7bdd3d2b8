"""Wrong edges: their model, the noise estimated with the poses, and the way into the right basin."""

from tempose.model.robust import RobustLikelihood
from tempose.outliers.em import RobustFit, fit
from tempose.outliers.noise import Parameters, RobustOptions

__all__ = ["Parameters", "RobustFit", "RobustLikelihood", "RobustOptions", "fit"]
