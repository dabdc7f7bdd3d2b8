"""The result of a solve: data and the questions people ask of it, its words, its numbers and its files."""

from tempose.solution.parts import NodeEstimate, Status
from tempose.solution.solution import Solution

__all__ = ["NodeEstimate", "Solution", "Status"]
