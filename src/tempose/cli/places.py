"""Scale and place of ``tempose sfm``: GPS and control points."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tempose.io.gps import Fixes
    from tempose.sfm.adjustment.posterior import BundlePosterior
    from tempose.sfm.placing import Georeferenced
    from tempose.sfm.scene import Scene

_NAMED = 5


def add_place_options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Options that say where a scene is; returns those that are rare."""
    group = parser.add_argument_group("scale and place")
    group.add_argument(
        "--gps",
        metavar="WHERE",
        default="auto",
        help="places of the photographs: exif, none, or a table (id: name of the image; x, y, z or lat, lon, height; sigma); "
        "default: EXIF if it has them",
    )
    group.add_argument(
        "--control",
        nargs=2,
        metavar=("PIXELS", "POINTS"),
        help="control points: a table image,x,y,point and one of their places, id,x,y,z,sigma or id,lat,lon,height,sigma",
    )
    group.add_argument(
        "--check", metavar="A,B,...", help="control points that take no part: predicted and actual error are compared"
    )
    return [
        group.add_argument(
            "--gps-sigma",
            type=float,
            metavar="LENGTH",
            help="1σ of places by EXIF, metres, horizontally; vertically twice that; default: what EXIF says, or estimated",
        ),
        group.add_argument(
            "--crs", metavar="EPSG:N", help="map that x, y, z of tables are coordinates of (needs pyproj)"
        ),
    ]


def find_place(
    arguments: argparse.Namespace, scene: Scene, posterior: BundlePosterior, images: Path | None, *, bend: bool
) -> tuple[Georeferenced | None, tuple[str, ...]]:
    """Where the scene is, if anything says so, and what a user should know about it.

    Parameters
    ----------
    arguments
        With the options of :func:`add_place_options`.
    scene, posterior
        What is to be placed, and what is uncertain about it.
    images
        Folder of the photographs, for their EXIF.
    bend
        Whether it may change its shape.
    """
    from tempose.errors import ArgumentError, NotApplicable
    from tempose.io.control import read_image_points
    from tempose.io.gps import in_frame, of_map, read_fixes
    from tempose.sfm.placing import georeference
    from tempose.sfm.ties import control_ties, gps_ties

    fixes, notices = _gps(arguments, posterior.bundle.names, images)
    if arguments.check and not arguments.control:
        raise ArgumentError("--check names control points; give them with --control PIXELS POINTS")
    if arguments.control is None:
        if fixes is None:
            return None, notices
        try:
            ties = gps_ties(posterior, fixes)
            found = georeference(scene, posterior, ties, fixes.geodetic_origin, fixes.origin, bend=bend)
        except NotApplicable as error:
            if arguments.gps != "auto":
                raise
            return None, (*notices, f"the GPS of EXIF is not used: {error}")
        return found, (*notices, *sentences(found))
    surveyed = read_fixes(arguments.control[1])
    if arguments.crs:
        surveyed = of_map(surveyed, arguments.crs)
    check = [name.strip() for name in arguments.check.split(",")] if arguments.check else []
    ties = control_ties(posterior, read_image_points(arguments.control[0]), surveyed, check)
    if fixes is not None and (surveyed.geodetic_origin is None) != (fixes.geodetic_origin is None):
        if arguments.gps != "auto":
            raise ArgumentError(
                f"GPS and the control points of {arguments.control[1]} are in different coordinates; say which map (--crs EPSG:…), "
                "or leave GPS out (--gps none)"
            )
        notices = (
            *notices,
            "the GPS of EXIF is not used: control points are on a map that nobody names (--crs EPSG:…)",
        )
        fixes = None
    if fixes is not None and surveyed.geodetic_origin is not None:
        ties = ties.together(gps_ties(posterior, in_frame(fixes, surveyed.geodetic_origin)))
    elif fixes is not None:
        from dataclasses import replace

        fixes = replace(fixes, position=fixes.position + (fixes.origin - surveyed.origin), origin=surveyed.origin)
        ties = ties.together(gps_ties(posterior, fixes))
    found = georeference(scene, posterior, ties, surveyed.geodetic_origin, surveyed.origin, bend=bend)
    return found, (*notices, *sentences(found))


def _gps(
    arguments: argparse.Namespace, names: tuple[str, ...], images: Path | None
) -> tuple[Fixes | None, tuple[str, ...]]:
    """Fixes of the photographs, as the user asks for them."""
    from dataclasses import replace

    import numpy as np

    from tempose.errors import ArgumentError, OptionError
    from tempose.io.gps import exif_fixes, of_map, read_fixes

    if arguments.gps == "none":
        return None, ()
    if arguments.gps not in ("auto", "exif"):
        fixes = read_fixes(arguments.gps)
        return (of_map(fixes, arguments.crs) if arguments.crs else fixes), ()
    if images is None:
        if arguments.gps == "exif":
            raise ArgumentError("GPS in EXIF needs the photographs; say where they are (--images DIR)")
        return None, ()
    found = exif_fixes(images, names)
    if found is None or (arguments.gps == "auto" and len(found.ids) < 3):
        if arguments.gps == "exif":
            raise ArgumentError(f"no photograph in {images} has a place in its EXIF")
        return None, ()
    if arguments.gps_sigma is not None:
        if not arguments.gps_sigma > 0.0:
            raise OptionError(f"--gps-sigma is a length in metres, not {arguments.gps_sigma:g}")
        found = replace(found, sigma=np.tile(arguments.gps_sigma * np.array([1.0, 1.0, 2.0]), (len(found.ids), 1)))
    missing = len(names) - len(found.ids)
    told = f"places of {len(found.ids)} of {len(names)} photographs are taken from their EXIF (--gps none: not)"
    return found, (told,) if missing or arguments.gps == "auto" else ()


def sentences(found: Georeferenced) -> tuple[str, ...]:
    """What a user should know of how a scene was placed."""
    import numpy as np

    from tempose.describe import listed

    ties, out = found.ties, []
    gps = np.array([kind == "gps" for kind in ties.kind])
    if found.estimated:
        flat, up = np.median(ties.sigma[gps & found.used][:, [0, 2]], axis=0)
        shared = np.sqrt(np.diag(found.covariance)[[3, 5]])
        out.append(
            f"nobody says how good the GPS is: its scatter, {flat:.2g} m horizontally and {up:.2g} m vertically, is estimated from "
            f"{int(np.sum(gps & found.used))} residuals; the place of the whole is known to {shared[0]:.2g} and {shared[1]:.2g} m"
        )
    lost = [
        f"{ties.names[k]} ({found.sigmas[k]:.0f}σ, {np.linalg.norm(np.nan_to_num(found.residual[k])):.3g} m)"
        for k in np.flatnonzero(~found.used)
        if ties.kind[k] != "check"
    ]
    if lost:
        out.append(
            f"{len(lost)} of {len(ties)} measured places contradict the rest and take no part: {listed(lost, _NAMED)}"
        )
    return tuple(out)


def place_rows(found: Georeferenced) -> list[tuple[str, str]]:
    """Lines of the summary."""
    import numpy as np

    ties = found.ties
    rot = np.degrees(np.sqrt(np.diag(found.covariance)[:3]))
    place = np.sqrt(np.diag(found.covariance)[3:6])
    counts = [
        f"{int(np.sum(found.used & np.array([k == kind for k in ties.kind])))} {name}"
        for kind, name in _KINDS.items()
        if kind in ties.kind
    ]
    rows = [
        (
            "scale and place",
            f"by {', '.join(counts)}; 1 unit of the model is {found.similarity.scale:.6g} m ± {100 * found.scale_sigma:.2g}%",
        ),
        ("  shape", "kept" if found.bending is None else "adjusted to them, too"),
        (
            "  1σ of the whole",
            f"{', '.join(f'{x:.2g}' for x in rot)}° about and {', '.join(f'{x:.2g}' for x in place)} m along x, y, z",
        ),
    ]
    if found.origin is not None:
        lat, lon, height = found.origin
        rows.append(
            ("origin", f"latitude {lat:.8f}°, longitude {lon:.8f}°, height {height:.3f} m; x east, y north, z up")
        )
    elif np.any(found.map_origin):
        rows.append(("origin", "of the map at " + ", ".join(f"{x:.0f}" for x in found.map_origin)))
    used = found.residual[found.used]
    if len(used):
        rows.append(
            ("residuals", f"{_three(np.sqrt(np.nanmean(used**2, axis=0)))} m (root mean square); {_typical(found)}")
        )
    for k in np.flatnonzero(np.array([kind == "check" for kind in ties.kind])):
        expected = np.sqrt(np.diag(found.residual_covariance[k]))
        rows.append(
            (
                f"check {ties.names[k]}",
                f"off by {_three(found.residual[k])} m, expected ± {_three(expected)} m: {found.sigmas[k]:.2g}σ",
            )
        )
    return rows


_KINDS = {"gps": "places of photographs", "control": "control points"}


def _three(values: Any) -> str:
    return ", ".join("–" if x != x else f"{x:.3g}" for x in values)


def _typical(found: Georeferenced) -> str:
    import numpy as np

    sigmas = found.sigmas[found.used]
    return f"{np.sqrt(np.nanmean(sigmas**2)):.2g}σ, the largest {np.nanmax(sigmas):.2g}σ"


def place_columns(found: Georeferenced, crs: str | None) -> dict[str, Any]:
    """Further columns of the table of cameras: where they are on the earth, and on a map."""
    geodetic = found.geodetic
    if geodetic is None:
        return {}
    out = {name: geodetic[:, k] for k, name in enumerate(("lat", "lon", "height"))}
    if crs:
        from tempose.io.maps import map_from_geodetic

        place = map_from_geodetic(crs, geodetic)
        out |= {f"map_{name}": place[:, k] for k, name in enumerate("xyz")}
    return out


def write_ties(path: Path, found: Georeferenced) -> None:
    """A table of what ties the scene to the world: measured, residual, expected, and whether it took part."""
    import numpy as np

    from tempose._support.files import write_atomically
    from tempose._support.tables import csv_text

    ties = found.ties
    expected = np.sqrt(np.diagonal(found.residual_covariance, axis1=1, axis2=2))
    columns = {
        "name": list(ties.names),
        "kind": list(ties.kind),
        "used": found.used.astype(int),
        **{name: ties.world[:, k] for k, name in enumerate("xyz")},
        **{f"sigma_{name}": ties.sigma[:, k] for k, name in enumerate("xyz")},
        **{f"residual_{name}": found.residual[:, k] for k, name in enumerate("xyz")},
        **{f"expected_{name}": expected[:, k] for k, name in enumerate("xyz")},
        "sigmas": found.sigmas,
    }
    write_atomically(path, csv_text(list(columns), list(columns.values())).encode())
