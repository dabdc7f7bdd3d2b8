"""Optional packages: imported where they are used, and asked for in one line where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tempose.errors import MissingPackage

_EXTRAS = {
    "matplotlib": "plot",
    "viser": "view",
    "pycolmap": "sfm",
    "gtsam": "interop",
    "arviz": "arviz",
    "h5netcdf": "arviz",
    "h5py": "arviz",
    "pandas": "interop",
    "networkx": "interop",
    "rosbags": "ros",
    "laspy": "clouds",
    "lazrs": "clouds",
    "rerun": "clouds",
    "pyproj": "geo",
    "distributed": "cluster",
    "pymetis": "large",
}


def require(package: str, what: str) -> Any:
    """The module of an optional package.

    Parameters
    ----------
    package
        Its name.
    what
        What needs it, for the message.

    Raises
    ------
    MissingPackage
        If it cannot be imported.
    """
    try:
        return import_module(package)
    except ImportError:
        whole = package.partition(".")[0]  # of a module inside it
        raise MissingPackage(what, whole, _EXTRAS.get(whole)) from None
