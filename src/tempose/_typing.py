"""Names of the types that everything is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
AnyArray = NDArray[Any]

Motion = tuple[Array, Array]
"""A rigid motion, or many: quaternions ``wxyz`` (…, 4) and translations (…, 3)."""

NodeId = int | str
PathLike = str | Path
