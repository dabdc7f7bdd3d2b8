"""Wrong edges: their model, the noise estimated with the poses, and the way into the right basin."""

from tempose.likelihood import RobustLikelihood

__all__ = ["RobustLikelihood"]
