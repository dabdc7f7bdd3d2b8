"""The synchronisation methods the paper compares with, one signature for all: graph in, :class:`Estimate` out."""

from tempose.methods.base import Estimate
from tempose.methods.compare import Comparison, MethodRow, compare, evaluate
from tempose.methods.registry import METHODS, PEERS

__all__ = ["METHODS", "PEERS", "Comparison", "Estimate", "MethodRow", "compare", "evaluate"]
