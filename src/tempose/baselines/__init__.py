"""The synchronisation methods the paper compares with, one signature for all: graph in, :class:`Estimate` out."""

from tempose.baselines.base import Estimate, NotApplicable
from tempose.baselines.comparison import Comparison, Row, compare, evaluate
from tempose.baselines.registry import METHODS, PEERS

__all__ = ["METHODS", "PEERS", "Comparison", "Estimate", "NotApplicable", "Row", "compare", "evaluate"]
