"""Every sentence of a reconstruction: what was left out and why, and what an error bar means. Nothing reads them back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tempose.analysis.summary import median_sigma
from tempose.analysis.trust import Trust
from tempose.describe import listed
from tempose.sfm.adjustment.residual_fields import ABSORBED
from tempose.sfm.calibration import LensTrial
from tempose.sfm.given import GivenModel, ModelDoubt, focal_lengths
from tempose.sfm.pairs import Pairs
from tempose.sfm.photographs import OneCamera
from tempose.sfm.scene import SceneGauge
from tempose.sfm.synchronise import Distrusted, Synchronised
from tempose.sfm.two_views import PairCause, Refusal
from tempose.sfm.views import (
    ChosenPairs,
    FoundFocalLength,
    FoundFocalLengths,
    GuessedCameras,
    OtherSize,
    Remark,
    SharedCameras,
    UnreadableImage,
    Views,
)

LEFT_OUT = "what all image points have in common besides the error of the calibration, such as a rolling shutter"
"""What no error bar of a scene contains."""
_NAMED = 5  # of the views that are left out; the rest are counted


def refusal(why: Refusal) -> str:
    """Why a pair is not used."""
    match why.cause:
        case PairCause.NO_POSE:
            return f"no relative pose explains its {why.n_matches} matches"
        case PairCause.TOO_FEW:
            return f"{why.n_agree} of its {why.n_matches} matches agree on a relative pose, {why.n_needed} are needed"
        case PairCause.NO_BASELINE:
            return "the camera turned without moving: the matches show no baseline"
        case PairCause.ONE_PLANE:
            return "its matches lie in one plane, which two relative poses explain equally well"
        case PairCause.ONE_PLACE:
            return "its cameras stand at one place"


def no_usable_pair(views: Views, pairs: Pairs) -> str:
    """That every matched pair was refused, with the first as an example."""
    one = pairs.refused[0]
    names = f"{views.names[one.first]} and {views.names[one.second]}"
    return f"none of the {len(views.pairs)} matched pairs has a usable relative pose; for instance {names}: {refusal(one.why)}"


def distrust(one: Distrusted) -> str:
    """Why a pair with a relative pose is left out of the graph."""
    turned = f"its rotation is off by {one.rotation_deg:.2g}°"
    moved = "" if math.isnan(one.direction_deg) else f", its direction by {one.direction_deg:.2g}°"
    return f"contradicts the other pairs: {turned}{moved} ({one.sigmas:.2g} of its standard deviations)"


def remark(one: Remark) -> str:
    """What a user should know of how the views were made."""
    match one:
        case GuessedCameras():
            return (
                f"{one.n_guessed} of the database's {one.n_cameras} cameras have no focal length from a calibration, "
                "only a guess"
            )
        case FoundFocalLength():
            before = f"{'EXIF says' if one.from_exif else 'the first guess was'} {one.start_px:.0f}"
            return (
                f"no calibration is given: a focal length of {one.found_px:.0f} px is found from the pairs ({before}), the "
                "principal point is taken to be the middle and the lens free of distortion; error bars take that as known "
                "to 0.5%, unless --calibration-error says otherwise; with --intrinsics the result is better"
            )
        case UnreadableImage():
            return f"{one.name} cannot be read as an image and is left out"
        case OtherSize():
            (width, height), (usual_width, usual_height) = one.size, one.usual
            return (
                f"{one.name} is left out: it has {width}×{height} pixels where most have {usual_width}×{usual_height}, and "
                "the calibration is for one size (without --intrinsics there may be several cameras)"
            )
        case FoundFocalLengths():
            held = sum(one.from_exif for one in one.cameras)
            lengths = [one.found_px for one in one.cameras]
            return (
                f"no calibration is given: focal lengths of {len(lengths)} cameras, {min(lengths):.0f} to {max(lengths):.0f} px, "
                f"are found from EXIF ({held}) and the pairs, principal points are taken to be the middle and lenses free of "
                "distortion; error bars take that as known to 0.5%, unless --calibration-error says otherwise"
            )
        case SharedCameras():
            return shared_cameras(one)
        case ChosenPairs():
            return f"{one.n_pairs} of {one.n_all} pairs are matched, chosen by {_CHOSEN_BY[one.asked]} (--match all: all of them)"


_CHOSEN_BY = {
    "auto": "how alike photographs look, and their order",
    "similar": "how alike photographs look",
    "sequence": "their order",
    "gps": "GPS",
}


def shared_cameras(one: SharedCameras) -> str:
    """Which photographs share intrinsics, and why."""

    def named(camera: OneCamera) -> str:
        return f"{camera.label} ({len(camera.names)})"

    n = sum(len(camera.names) for camera in one.cameras)
    if one.asked == "each":
        return f"each of the {n} photographs has intrinsics of its own (--cameras each)"
    if one.asked == "single":
        return f"all {n} photographs share intrinsics (--cameras single)"
    known = [named(camera) for camera in one.cameras if camera.by_exif]
    guessed = [named(camera) for camera in one.cameras if not camera.by_exif and len(camera.names) > 1]
    alone = sum(not camera.by_exif and len(camera.names) == 1 for camera in one.cameras)
    count = "1 camera" if len(one.cameras) == 1 else f"{len(one.cameras)} cameras, each with intrinsics of its own"
    parts = []
    if known:
        parts.append(f"by EXIF and size {listed(known, _NAMED)}")
    if guessed:
        parts.append(
            f"of one size and without EXIF, and therefore taken to be of one camera, {listed(guessed, _NAMED)} "
            "(--cameras each if they are not)"
        )
    if alone:
        parts.append(f"{alone} without EXIF and of a size of {'its' if alone == 1 else 'their'} own")
    return f"{n} photographs by {count}: {'; '.join(parts)}"


def notices(views: Views, first: Pairs, pairs: Pairs, found: Synchronised) -> tuple[str, ...]:
    """One line each: what was assumed, what was left out and why.

    Of the pairs that were refused from their matches alone, ``first``, those are named whose matches do agree.
    """
    out = [remark(one) for one in views.remarks]
    out += [
        f"pair {views.names[one.first]}, {views.names[one.second]}: {refusal(one.why)}"
        for one in first.refused
        if one.why.cause.is_degenerate
    ]
    lost = [name for name in views.names if name not in found.poses.index]
    if lost:
        out.append(
            f"{len(lost)} of {len(views)} views do not hang together with the rest and are left out: {listed(lost, _NAMED)}; "
            "photographs between them and the others would join them"
        )
    wrong = len(found.edges.row) - len(found.keep)
    if wrong:
        out.append(f"{wrong} of {len(pairs)} pairs contradict the others and are left out")
    return tuple(out)


def photographs(n_views: int, n_cameras: int, n_pairs: int, n_wrong: int) -> tuple[Trust, str]:
    """Whether a reconstruction of photographs may be used, and why.

    Parameters
    ----------
    n_views, n_cameras
        Photographs that were given and that have a place.
    n_pairs, n_wrong
        Pairs with a relative pose, and those that contradict the others.
    """
    lost = n_views - n_cameras
    reasons = []
    if lost:
        reasons.append(f"{lost} of {n_views} photographs do not hang together with the rest")
    if n_wrong:
        reasons.append(f"{n_wrong} of {n_pairs} pairs contradict the others and are left out")
    if 2 * lost > n_views:
        return Trust.NOT, "; ".join(reasons)
    if reasons:
        return Trust.CARE, "; ".join(reasons)
    return Trust.TRUST, f"all {n_views} photographs have a place, and their {n_pairs} pairs agree with each other"


def gauge(fixed: SceneGauge) -> str:
    """Relative to what every σ is, what is assumed of the calibration, and what fixes the scale."""
    if fixed.placed:
        return "places in the world, of which scale, rotation and place are uncertain, too; metric"
    if fixed.given:
        moved = "rotation and translation" if fixed.metric else "rotation, scale and translation"
        return f"aligned with the model by {moved} of all photographs; {scale(fixed)}"
    if fixed.calibration_error is None:
        return f"no error bars; {scale(fixed)}"
    known = f"calibration known to {100.0 * fixed.calibration_error:g}%"
    if fixed.calibration_error == 0.0:
        known = "calibration taken as perfect"
    return f"each draw aligned with the estimate by rotation, scale and translation of all cameras; {known}; {scale(fixed)}"


def scale(fixed: SceneGauge) -> str:
    """What fixes the scale."""
    if fixed.given and not fixed.metric:
        return "lengths in the model's own unit"
    return "metric" if fixed.metric else "the median baseline is 1"


# ---------------------------------------------------------------------- of a model that was given


def doubt(one: ModelDoubt, given: GivenModel) -> str:
    """What speaks against a model, and what to do."""
    structure = given.scene.structure
    match one:
        case ModelDoubt.FEW_POINTS:
            return f"only {int(structure.good.sum())} of {len(structure.status)} points are well seen: nothing checks the cameras"
        case ModelDoubt.NO_PARALLAX:
            return (
                f"the rays of half the points meet under less than {np.median(structure.angle_deg):.2g}°: the cameras turned "
                "without moving, and places and depths are made up"
            )
        case ModelDoubt.VAGUE:
            rotation, position = (float(np.median(x)) for x in given.scene.camera_sigma)
            depth = median_sigma(structure.sigma[structure.good])
            return (
                f"cameras and points are not determined: 1σ is {rotation:.2g}° and {position:.2g} units, of points {depth:.2g} "
                f"in a scene of {structure.diameter:.2g} (medians)"
            )
        case ModelDoubt.FOCAL:
            worst = 100.0 * float(np.nanmax(given.focal_sigma))
            return f"a focal length is known to {worst:.0f}% only: these photographs do not determine it; give the calibration"
        case ModelDoubt.TURNED:
            return (
                "every pair of photographs is explained by a camera that turned without moving, so that depths and focal lengths "
                "are made up: take photographs from different places, or give --intrinsics"
            )
        case ModelDoubt.NO_FOCAL:
            known = 100.0 * float(np.nanmedian(given.focal_sigma))
            return f"the focal length is known to {known:.0f}% only: these photographs do not determine it; give --intrinsics"
        case ModelDoubt.PLANE:
            return (
                "all points lie in one plane, and nothing is known of the focal length, which a plane hardly determines: give "
                "--intrinsics, or photographs with EXIF"
            )
        case ModelDoubt.FLAT:
            return "all points lie in one plane, from which a focal length is found less surely; --intrinsics is better"
        case ModelDoubt.ZOOM:
            count = 0 if given.origin is None else given.origin.n_zoomed
            return (
                f"{count} photographs contradict the focal length that they share with others: a zoom was changed, or they are by "
                "another camera; give them in a folder of their own"
            )
        case ModelDoubt.EXIF:
            return f"a focal length is not what EXIF or the database says: {_focal_lengths(given)}"
        case ModelDoubt.MOST_LOST | ModelDoubt.LOST:
            mapped = None if given.origin is None else given.origin.mapped
            lost = [] if mapped is None else mapped.lost
            count = 0 if mapped is None else len(mapped.names)
            return f"{len(lost)} of {count} photographs do not hang together with the rest and are left out: {listed(lost, _NAMED)}"
        case ModelDoubt.LENS:
            return (
                "the lenses of these cameras are not what the camera model says, and what cannot be seen of that moves cameras and "
                "points: error bars are wide for it, and only roughly known"
            )
        case ModelDoubt.NOT_ADJUSTED:
            return (
                f"the photographs are {np.median(given.posterior.step_sigmas):.2g}σ (median) from where the least squares of these "
                "unknowns would put them: the model was adjusted otherwise (a loss, other intrinsics), or not to the end; "
                "--readjust does it, --refined says which intrinsics were estimated"
            )


def _focal_lengths(given: GivenModel) -> str:
    """Found and known ones of the cameras that have both, the worst first."""
    cameras = given.posterior.bundle.cameras
    known = {} if given.origin is None else given.origin.known_focal(camera.number for camera in cameras)
    both = [(camera.focal_px, known[camera.number]) for camera in cameras if camera.number in known]
    both.sort(key=lambda pair: -abs(math.log(pair[0] / pair[1])))
    return listed([f"{found:.0f} px were found, {said:.0f} are said" for found, said in both], _NAMED)


def making(given: GivenModel) -> tuple[str, ...]:
    """What was assumed and chosen when a model was made of photographs; nothing of a model that was given."""
    origin = given.origin
    if origin is None:
        return ()
    done, bundle = origin.calibrated, given.posterior.bundle
    out = [remark(one) for one in origin.remarks if not focal_lengths(one)]
    if "focal" not in done.refined:
        out.append("the calibration is held as it was given")
        return tuple(out)
    shared = f"{len(bundle.names)} photographs share {len(bundle.cameras)} calibration{'s' if len(bundle.cameras) > 1 else ''}"
    if origin.mapped.separate:
        out.append(
            "photographs that were taken to share a camera have other focal lengths than each other: each has a calibration of "
            "its own, which is estimated with the poses"
        )
    else:
        out.append(f"{shared}, which {'are' if len(bundle.cameras) > 1 else 'is'} estimated with the poses")
    if done.centre_sigma is not None:
        sigma = f"{100.0 * done.centre_sigma:.2g}% of the focal length"
        if "centre" in done.refined:
            out.append(f"the principal point is estimated: these photographs know it to {sigma}")
        else:
            out.append(f"the principal point is taken to be the middle: these photographs know it to {sigma} only")
    out += [lens_trial(one) for one in done.trials]
    return tuple(out)


def lens_trial(one: LensTrial) -> str:
    """Whether a further camera model is used, and why."""
    what = listed([_FURTHER[name] for name in one.further if name in _FURTHER], len(_FURTHER))
    numbers = f"χ² is {one.gain:.3g}, and is to be above {one.needed:.3g}"
    if one.is_taken:
        return f"the lens needs {what} (camera model {one.model}): more of it than noise and the lens error explain; {numbers}"
    return f"{what} (camera model {one.model}): not needed, noise and the lens error explain as much; {numbers}"


_FURTHER = {
    "k2": "a second coefficient of radial distortion",
    "p1": "tangential distortion",  # p2 with it
    "fx": "focal lengths that differ across and down",
}


def intrinsics(given: GivenModel, calibration: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Each camera's estimated parameters with σ, and of the focal length what noise and camera model contribute; of few cameras."""
    cameras = given.posterior.bundle.cameras
    if len(cameras) > _NAMED:
        return []
    out = []
    for camera in cameras:
        mine = [
            one
            for one in calibration
            if one["camera"] == camera.number and one["estimated"] and one["sigma"] is not None
        ]
        parts = [f"{one['parameter']} {one['value']:.5g} ± {one['sigma']:.2g}" for one in mine]
        if parts:
            shares = f" ({mine[0]['sigma_noise']:.2g} by noise, {mine[0]['sigma_model']:.2g} by the camera model)"
            out.append((f"camera {camera.number}, {camera.model}", "; ".join([parts[0] + shares, *parts[1:]])))
    return out


def left_out(given: GivenModel) -> tuple[str, ...]:
    """Photographs of the model that have no error bars."""
    names = given.posterior.bundle.left_out
    if not names:
        return ()
    return (f"{len(names)} photographs see too few points of others for an error bar: {listed(list(names), _NAMED)}",)


def held(given: GivenModel) -> tuple[str, ...]:
    """What is assumed of intrinsics that were held, one line for all cameras alike."""
    lines: dict[str, int] = {}
    for camera in given.posterior.bundle.cameras:
        parts = [f"{_GROUP[name]} to {100.0 * sigma:g}%" for name, sigma in given.options.error.of_held(camera).items()]
        if parts:
            line = f"not estimated with the model, and taken as known (of the focal length): {', '.join(parts)}"
            lines[line] = lines.get(line, 0) + 1
    return tuple(f"{count} camera{'s' if count > 1 else ''}: {line}" for line, count in lines.items())


_WORTH_A_WORD = 3.0  # few points show twice as much by chance


def lens(given: GivenModel) -> tuple[str, ...]:
    """What residuals show of errors of the camera model, where that is more than usual."""
    taken, usual = given.posterior.options.error.lens, given.options.error.lens
    if taken <= _WORTH_A_WORD * usual:
        return ()
    side = max(max(camera.size) for camera in given.posterior.bundle.cameras)
    return (
        f"lenses bend otherwise than their camera model says, by {taken / ABSORBED:.2g} of the image's larger side as residuals "
        f"show it ({taken / ABSORBED * side:.2g} px): error bars are for {ABSORBED:g} times that, as cameras and points absorb "
        f"most of such errors (usual is {usual:.2g} in all; --lens-error says otherwise)",
    )


_GROUP = {"focal": "focal length", "centre": "principal point", "distortion": "distortion"}


def judgement(given: GivenModel) -> tuple[Trust, str]:
    """Whether the model may be used, and why."""
    for trust, is_fatal in ((Trust.NOT, True), (Trust.CARE, False)):
        reasons = [doubt(one, given) for one in given.doubts if one.is_fatal == is_fatal]
        if reasons:
            return trust, "; ".join(reasons)
    return Trust.TRUST, "all photographs have a place, and what was seen determines it"
