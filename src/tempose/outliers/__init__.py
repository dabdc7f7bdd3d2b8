"""Wrong edges: their model, the noise estimated with the poses, and the way into the right basin."""

from tempose.model.robust import RobustLikelihood
from tempose.outliers.em import RobustFit, fit
from tempose.outliers.noise import Parameters, RobustOptions
from tempose.outliers.search.basin import find_basins

__all__ = ["Parameters", "RobustFit", "RobustLikelihood", "RobustOptions", "find_basins", "fit"]
