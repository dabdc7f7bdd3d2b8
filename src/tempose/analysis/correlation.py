"""Whether the errors of consecutive edges are independent of each other (:mod:`tempose.outliers.correlation`)."""

from __future__ import annotations

from tempose.outliers.correlation import ChainCorrelation as ChainCorrelation
from tempose.outliers.correlation import chain_correlation as chain_correlation
