"""Settings of the whole way from views to points."""

from __future__ import annotations

from dataclasses import dataclass, field

from tempose.errors import OptionError
from tempose.model.poses import Poses
from tempose.sfm.lengths import ScaleOptions
from tempose.sfm.points import StructureOptions
from tempose.sfm.synchronise import SyncOptions
from tempose.sfm.two_views import PairOptions

SCALES = ("tracks", "truth")
# chosen on: EPFL photographs, all six scenes
CALIBRATION_ERROR = {True: 0.001, False: 0.005}
"""Standard deviation that is assumed for the errors of a calibration that was made, and of one that was guessed."""
DRAWS_PER_POINT_DRAW = 10
"""Covariances of cameras use all draws, those of points one of these many."""


@dataclass(frozen=True)
class SfmOptions:
    """From views to points.

    Parameters
    ----------
    scales
        ``tracks``: lengths of baselines from shared points; ``truth``: from true positions (the paper's protocol).
    rounds
        Guided rounds: predict each pair from all, choose its matches anew, adjust it, synchronise again.
    draws
        Posterior draws of the cameras for which the points are made again; the cameras themselves have ten times as many.
    replicates
        Ways to halve the points, whose differences say how uncertain the cameras are.
    calibration_error
        Standard deviation of the calibration: relative error of the focal length, errors of the principal point in focal
        lengths, and relative displacement by radial distortion at one focal length from it. ``None`` takes
        ``CALIBRATION_ERROR``; 0 if it is perfect.
    seed
        Same seed, same result.
    """

    scales: str = "tracks"
    rounds: int = 3
    draws: int = 40
    replicates: int = 40
    calibration_error: float | None = None
    seed: int = 0
    pairs: PairOptions = field(default_factory=PairOptions)
    scale: ScaleOptions = field(default_factory=ScaleOptions)
    sync: SyncOptions = field(default_factory=SyncOptions)
    structure: StructureOptions = field(default_factory=StructureOptions)

    def __post_init__(self) -> None:
        if self.scales not in SCALES:
            raise OptionError(f"unknown scales {self.scales!r}: choose one of {', '.join(SCALES)}")
        if self.draws < 0 or self.rounds < 0 or self.seed < 0:
            raise OptionError("draws, rounds and seed must not be negative")
        if self.calibration_error is not None and not 0.0 <= self.calibration_error < 0.1:
            raise OptionError(
                f"the error of the calibration is relative, from 0 (perfect) to below 0.1, not {self.calibration_error:g}"
            )
        if self.replicates < 1:
            raise OptionError(f"the points must be halved at least once, not {self.replicates}")

    @property
    def camera_draws(self) -> int:
        """Draws of the cameras, which their own covariances are made of."""
        return DRAWS_PER_POINT_DRAW * self.draws

    def true_poses(self, truth: Poses | None) -> Poses | None:
        """The poses that lengths of baselines are to be taken from: none if tracks give them."""
        if self.scales == "truth" and truth is None:
            raise OptionError("scales from the truth need true positions of the cameras")
        return truth if self.scales == "truth" else None

    def error_of(self, calibrated: bool) -> float:
        """Standard deviation to assume for a calibration that was made, or for one that was guessed."""
        return CALIBRATION_ERROR[calibrated] if self.calibration_error is None else self.calibration_error
