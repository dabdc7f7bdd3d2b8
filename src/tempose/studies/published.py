"""What the paper measured."""

from __future__ import annotations

_METHODS = ("ozyesil", "r-godec", "govindu", "torsello", "eig-se3", "tg-mcmc")

TABLE_1: dict[str, dict[str, tuple[float, float]]] = {
    scene: dict(zip(_METHODS, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    for scene, numbers in {
        "Herz-Jesus-P8": (0.060, 0.007, 0.040, 0.009, 0.106, 0.015, 0.106, 0.015, 0.040, 0.004, 0.106, 0.015),
        "Herz-Jesus-P25": (0.140, 0.065, 0.130, 0.038, 0.081, 0.020, 0.081, 0.020, 0.070, 0.010, 0.081, 0.020),
        "fountain-P11": (0.030, 0.004, 0.030, 0.006, 0.071, 0.004, 0.071, 0.004, 0.030, 0.004, 0.071, 0.004),
        "entry-P10": (0.560, 0.203, 0.440, 0.433, 0.101, 0.035, 0.101, 0.035, 0.040, 0.009, 0.090, 0.035),
        "castle-P19": (3.690, 1.769, 1.570, 1.493, 0.393, 0.147, 0.393, 0.147, 1.480, 0.709, 0.393, 0.148),
        "castle-P30": (1.970, 1.393, 0.780, 1.123, 0.631, 0.323, 0.629, 0.321, 0.530, 0.212, 0.622, 0.285),
    }.items()
}
"""Mean rotation error (degrees) and mean position error (metres) by scene of the EPFL benchmark and method."""
