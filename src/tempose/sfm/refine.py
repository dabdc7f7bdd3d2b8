"""Bundle adjustment of a whole set from given poses: tracks by the poses, points, adjustment, and once more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tempose.poses import Poses
from tempose.sfm.adjust import Adjustment, AdjustOptions, adjust
from tempose.sfm.motion import pairs_of_posed
from tempose.sfm.pipeline import bare_scene
from tempose.sfm.scene import Scene
from tempose.sfm.structure import FEW_VIEWS, GOOD, StructureOptions
from tempose.sfm.twoview import PairOptions
from tempose.sfm.views import Views


@dataclass(frozen=True)
class RefineOptions:
    """How tracks are chosen for bundle adjustment.

    Parameters
    ----------
    rounds
        Of choosing tracks by the poses and adjusting.
    fewest_views
        Points seen by fewer views take no part: two views check a match only across the epipolar line, and wrong
        matches along it pull the cameras.
    pairs
        Which matches join; also pairs with too few of them for a relative pose of their own.
    """

    rounds: int = 2
    fewest_views: int = 3
    pairs: PairOptions = field(default_factory=lambda: PairOptions(fewest=8, fewest_share=0.0))
    structure: StructureOptions = field(default_factory=StructureOptions)


def start_scene(views: Views, poses: Poses, options: RefineOptions | None = None) -> Scene:
    """Where bundle adjustment starts: points of all tracks that agree with the poses."""
    options = options or RefineOptions()
    scene = bare_scene(views, pairs_of_posed(views, poses, options.pairs), poses, options.structure)
    s = scene.structure
    few = (s.status == GOOD) & (s.n_views < options.fewest_views)
    return replace(scene, structure=replace(s, status=np.where(few, FEW_VIEWS, s.status)))


def refine(
    views: Views, poses: Poses, options: RefineOptions | None = None, adjusting: AdjustOptions | None = None
) -> list[Adjustment]:
    """Bundle adjustment from the given poses; one result per round, the last is the best."""
    options, adjusting = options or RefineOptions(), adjusting or AdjustOptions(loss_px=0.3, function_tolerance=1e-6)
    done: list[Adjustment] = []
    for _ in range(options.rounds):
        found = adjust(start_scene(views, done[-1].poses if done else poses, options), adjusting)
        done.append(found)
    return done
