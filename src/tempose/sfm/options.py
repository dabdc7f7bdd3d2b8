"""Settings of the whole way from views to points."""

from __future__ import annotations

from dataclasses import dataclass, field

from tempose.errors import OptionError
from tempose.sfm.scales import ScaleOptions
from tempose.sfm.structure import StructureOptions
from tempose.sfm.synchronise import SyncOptions
from tempose.sfm.twoview import PairOptions

SCALES = ("tracks", "truth")


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
        Posterior draws of the cameras for which the points are made again.
    replicates
        Sets of fresh image noise that say how wide the posterior of the cameras must be.
    seed
        Same seed, same result.
    """

    scales: str = "tracks"
    rounds: int = 3
    draws: int = 40
    replicates: int = 10
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
        if self.replicates < 1:
            raise OptionError(f"at least one set of fresh noise is needed, not {self.replicates}")
