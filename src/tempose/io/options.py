"""How a file is to be understood where the file itself does not say."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tempose.errors import OptionError

ROTATION_INFORMATION = ("rotation-vector", "quaternion-vector")
PRECISION = ("isotropic", "full")
NOISE = ("given", "auto")


@dataclass(frozen=True)
class ReadOptions:
    """Choices of a reader; all of them are recorded in ``PoseGraph.origin``.

    Parameters
    ----------
    rotation_information
        What the rotation block Ω of an ``EDGE_SE3:QUAT`` line is the information of.
        ``"rotation-vector"`` (GTSAM, SE-Sync): the rotation vector, radians, so ``1/σ² = Ω`` and ``λ = 2Ω``.
        ``"quaternion-vector"`` (g2o's own error): the vector part of the quaternion, half the angle, so ``1/σ² = Ω/4``
        and ``λ = Ω/2``. The two differ by a factor of 4 in precision, and no file says which it means.
    precision
        ``"isotropic"``: one λ and one τ = 1/σ² per edge, the model of the paper; matrices are reduced by SE-Sync's
        trace rule. ``"full"``: 3×3 matrices are kept.
    sigma_rot_deg
        Standard deviation of every measured rotation, degrees per axis, for files without rotation precisions:
        ``λ = 2/σ²`` with σ in radians.
    sigma_trans
        Standard deviation of every measured translation, per axis and in the file's unit, for files without translation
        precisions: ``τ = 1/σ²``.
    noise
        ``"auto"``: noise levels will be estimated, so a file without precisions needs none: all its edges get the same.
    """

    rotation_information: str = "rotation-vector"
    precision: str = "isotropic"
    sigma_rot_deg: float | None = None
    sigma_trans: float | None = None
    noise: str = "given"

    def __post_init__(self) -> None:
        for name, known in (
            ("rotation_information", ROTATION_INFORMATION), ("precision", PRECISION), ("noise", NOISE),
        ):  # fmt: skip
            if getattr(self, name) not in known:
                raise OptionError(f"{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}")
        for name in ("sigma_rot_deg", "sigma_trans"):
            value = getattr(self, name)
            if value is not None and not 1e-50 < value < 1e50:  # also refuses NaN
                raise OptionError(f"{name} is {value!r}; expected a positive number")

    @property
    def default_concentration(self) -> float | None:
        """λ = 2/σ² of ``sigma_rot_deg``, or None; of one degree if the noise will be estimated anyway."""
        sigma_deg = 1.0 if self.sigma_rot_deg is None and self.noise == "auto" else self.sigma_rot_deg
        return None if sigma_deg is None else 2.0 / math.radians(sigma_deg) ** 2

    @property
    def default_precision(self) -> float | None:
        """τ = 1/σ² of ``sigma_trans``, or None; 1 if the noise will be estimated anyway."""
        sigma = 1.0 if self.sigma_trans is None and self.noise == "auto" else self.sigma_trans
        return None if sigma is None else 1.0 / sigma**2
