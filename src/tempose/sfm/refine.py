"""Bundle adjustment of a whole set from given poses: points by the poses, adjustment, and again until nothing changes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tempose.model.poses import Poses
from tempose.sfm.bundle import Adjustment, AdjustOptions, adjust
from tempose.sfm.motion import pairs_of_posed
from tempose.sfm.pairs import PairOptions
from tempose.sfm.pipeline import bare_scene
from tempose.sfm.points import BEHIND, FEW_VIEWS, GOOD, StructureOptions, reconstruct
from tempose.sfm.scene import Scene
from tempose.sfm.views import Views

_NARROWEST_PX = 4.0
ALL_VIEWS = StructureOptions(max_residual_px=1e6, min_angle_deg=0.0)
"""Every view of a track takes part, however far off."""


@dataclass(frozen=True)
class Selection:
    """Which matches and points take part in one bundle adjustment, and its loss.

    Parameters
    ----------
    select_px
        Matches within this distance of the epipolar line that the poses predict join.
    fewest_views
        Points seen by fewer views take no part: two views check a match only across the epipolar line.
    min_angle_deg
        Points whose rays meet under less take no part.
    loss_px
        Scale of the Cauchy loss.
    """

    select_px: float
    fewest_views: int
    min_angle_deg: float
    loss_px: float


COARSE = Selection(select_px=2.0, fewest_views=3, min_angle_deg=1.5, loss_px=0.3)
FINE = Selection(select_px=1.0, fewest_views=2, min_angle_deg=0.3, loss_px=0.15)
"""Once the poses are good to a fraction of a pixel, what three views check is sorted out by a narrow loss, too."""


@dataclass(frozen=True, eq=False)
class Round:
    """One round of :func:`settle`.

    Attributes
    ----------
    adjustment
        Where bundle adjustment ended.
    used
        Observations (k,) that took part.
    point_seconds, seconds
        Processor time of making the points, and of that and the adjustment.
    settled
        Whether nothing changes any more.
    """

    adjustment: Adjustment
    used: NDArray[np.bool_]
    point_seconds: float
    seconds: float
    settled: bool


def refine(views: Views, poses: Poses, rounds: Sequence[Selection] = (COARSE, FINE, FINE)) -> list[Adjustment]:
    """Bundle adjustment from the given poses, matches chosen by the poses; one result per round, the last is the best."""
    done: list[Adjustment] = []
    for one in rounds:
        now = done[-1].poses if done else poses
        # also pairs with too few matches for a relative pose of their own
        pairs = pairs_of_posed(views, now, PairOptions(fewest=8, fewest_share=0.0, select_px=one.select_px))
        scene = bare_scene(views, pairs, now, StructureOptions(min_angle_deg=one.min_angle_deg))
        options = AdjustOptions(loss_px=one.loss_px, function_tolerance=1e-6)
        done.append(adjust(_several_views(scene, one.fewest_views), options))
    return done


def settle(scene: Scene, poses: Poses, most: int = 50, settled: float = 1e-3) -> Iterator[Round]:
    """Rounds of points, filter and least squares from any start, until nothing changes.

    The tracks are those of ``scene``, whatever the poses. Of each, the views take part that agree on a point within 4
    pixels, or within three times what all views of half the tracks agree on: a bad start begins wide and narrows as it
    gets better. They are chosen anew in every round.

    Parameters
    ----------
    most
        Rounds.
    settled
        The last round is the first in which a smaller share of the observations joins or leaves, and the cost per observation
        changes by a smaller share.
    """
    before, cost = np.zeros(len(scene.observations), dtype=bool), np.inf
    for _ in range(most):
        began = time.process_time()
        whole = reconstruct(poses, scene.intrinsics, scene.observations, (), ALL_VIEWS)
        width = max(_NARROWEST_PX, 3.0 * float(np.median(whole.rms_px[whole.status != BEHIND])))
        filtered = StructureOptions(max_residual_px=width)
        structure = reconstruct(poses, scene.intrinsics, scene.observations, (), filtered)
        points = time.process_time() - began
        found = adjust(replace(scene, poses=poses, structure=structure), AdjustOptions(function_tolerance=1e-6))
        used = structure.used & (structure.status[scene.observations.point_of] == GOOD)
        per_view = found.final_cost / max(int(used.sum()), 1)
        same = np.sum(used != before) < settled * used.sum() and abs(per_view - cost) < settled * cost
        yield Round(found, used, points, points + found.processor_seconds, bool(same))
        if same:
            return
        before, cost, poses = used, per_view, found.poses


def _several_views(scene: Scene, fewest: int) -> Scene:
    """The same scene, points of fewer views marked."""
    s = scene.structure
    few = (s.status == GOOD) & (s.n_views < fewest)
    return replace(scene, structure=replace(s, status=np.where(few, FEW_VIEWS, s.status)))
