"""Wrong edges: the noise estimated with the poses, the way into the right basin, and verdicts on every edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.outliers.em import RobustFit as RobustFit
    from tempose.outliers.em import fit as fit
    from tempose.outliers.noise import Parameters as Parameters
    from tempose.outliers.noise import RobustOptions as RobustOptions
    from tempose.outliers.options import Robust as Robust
    from tempose.outliers.search.basin import find_basins as find_basins
    from tempose.outliers.verdicts import EdgeVerdicts as EdgeVerdicts

_WHERE = {
    "EdgeVerdicts": "verdicts",
    "Parameters": "noise",
    "Robust": "options",
    "RobustFit": "em",
    "RobustOptions": "noise",
    "find_basins": "search.basin",
    "fit": "em",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
