"""How a file is to be understood where the file itself does not say."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tempose._support.options import check_choices, option, require

ROTATION_INFORMATION = {
    "rotation-vector": "of the rotation vector, as in GTSAM and SE-Sync",
    "quaternion-vector": "of the quaternion's vector part, as in g2o itself: four times less precise",
}
PRECISION = {
    "full": "all that the file says, correlations between rotation and translation included",
    "isotropic": "one concentration and one variance per edge, of the marginal covariances: the paper's model, with its proof",
    "se-sync": "the same of the information's blocks, correlations dropped, as SE-Sync does: too sure of correlated edges",
}
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
        ``"full"``: matrices are kept, with what ties rotation to translation; where each block is a number times the
        identity, that number. ``"isotropic"``: one λ and one τ = 1/σ² per edge, the model of the paper and of its proof of
        optimality, from the marginal covariances, ``τ = d/tr Σ_tt`` and ``λ = 2 d/tr Σ_RR``. ``"se-sync"``: the same from
        the blocks of the information, ``τ = d/tr(Ω_tt⁻¹)``, as SE-Sync has it: overconfident where they are correlated.
    sigma_rot_deg
        Standard deviation of every measured rotation, degrees per axis, for files without rotation precisions:
        ``λ = 2/σ²`` with σ in radians.
    sigma_trans
        Standard deviation of every measured translation, per axis and in the file's unit, for files without translation
        precisions: ``τ = 1/σ²``.
    noise
        ``"auto"``: noise levels will be estimated, so a file without precisions needs none: all its edges get the same.
    """

    rotation_information: str = option(
        "rotation-vector",
        "what a g2o rotation block is the information of (default: rotation-vector)",
        choices=ROTATION_INFORMATION,
    )
    precision: str = option("full", "what is kept of the precisions (default: full)", choices=PRECISION)
    sigma_rot_deg: float | None = option(
        None, "rotation noise per axis, for files that do not give it", metavar="DEG", everyday=True
    )
    sigma_trans: float | None = option(
        None, "translation noise per axis, for files that do not give it", metavar="LENGTH", everyday=True
    )
    noise: str = "given"

    def __post_init__(self) -> None:
        check_choices(self)
        require(self.noise in NOISE, f"unknown noise {self.noise!r}: choose one of {', '.join(NOISE)}")
        for name in ("sigma_rot_deg", "sigma_trans"):
            value = getattr(self, name)
            good = value is None or 1e-50 < value < 1e50  # also refuses NaN
            require(good, f"{name} is {value!r}; expected a positive number")

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
