"""Independent priors on the absolute poses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array
from tempose.errors import ArgumentError

if TYPE_CHECKING:
    from tempose.model.bingham import Bingham


@dataclass(frozen=True, eq=False)
class Priors:
    """Independent priors on the absolute poses; what is ``None`` is flat.

    Parameters
    ----------
    rotation
        Bingham prior on every ``q_i`` (node_from_world), one for all nodes or one per node.
    translation_mean, translation_precision
        Gaussian prior: mean (3,) or (n, 3) and precision, a scalar 1/σ², (3, 3) or (n, 3, 3).
    on_position
        Put the Gaussian on the world positions ``c_i`` instead of the paper's ``t_i = −R_i c_i``. For mean zero and a
        scalar precision the two are the same.
    """

    rotation: Bingham | tuple[Bingham, ...] | None = None
    translation_mean: ArrayLike = 0.0
    translation_precision: ArrayLike | None = None
    on_position: bool = False

    @property
    def is_flat(self) -> bool:
        """Whether there is no prior at all, so that the gauge is free."""
        return self.rotation is None and self.translation_precision is None

    def rotation_matrices(self, n: int) -> Array:
        """Matrices A (n, 4, 4), or (0, 4, 4) if flat, with ``U = −qᵀ A q`` for node_from_world quaternions."""
        if self.rotation is None:
            return np.empty((0, 4, 4))
        each = self.rotation if isinstance(self.rotation, tuple) else (self.rotation,) * n
        if len(each) != n:
            raise ArgumentError(f"{len(each)} rotation priors for {n} nodes; give one, or one per node")
        return np.array([-(b.axes[:, 1:] * b.concentrations) @ b.axes[:, 1:].T for b in each])

    def gaussian(self, n: int) -> tuple[Array, Array]:
        """Mean (n, 3) and precision (n, 3, 3), or empty arrays if flat."""
        if self.translation_precision is None:
            return np.empty((0, 3)), np.empty((0, 3, 3))
        precision = np.asarray(self.translation_precision, float)
        if precision.ndim == 0:
            precision = float(precision) * np.eye(3)
        try:
            mean = np.broadcast_to(np.asarray(self.translation_mean, float), (n, 3))
            precision = np.broadcast_to(precision, (n, 3, 3))
        except ValueError:
            raise ArgumentError(
                f"the translation prior must broadcast to means ({n}, 3) and precisions ({n}, 3, 3)"
            ) from None
        if not np.all(np.isfinite(mean)) or np.any(np.linalg.eigvalsh(precision)[:, 0] < 0.0):
            raise ArgumentError("the translation prior needs finite means and positive semi-definite precisions")
        return np.ascontiguousarray(mean), np.ascontiguousarray(precision)
