"""Views and their matches: what the stages from pairs to points work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, Index


@dataclass(frozen=True, eq=False)
class Views:
    """Photographs as pinhole cameras with keypoints, and matches between pairs of them.

    Parameters
    ----------
    names
        One file name per view; these become the node ids.
    K
        Pinhole matrices (n, 3, 3), pixels, pixel centres at .5.
    size
        Width and height (n, 2), pixels.
    keypoints
        Per view, undistorted pixels (k, 2).
    pairs
        Rows of the two views (m, 2) of each matched pair, first < second.
    matches
        Per pair, rows of keypoints (k, 2) in the first and the second view.
    calibrated
        Whether ``K`` comes from a calibration; else the focal length was found from the pairs, or guessed.
    """

    names: tuple[str, ...]
    K: Array
    size: Index
    keypoints: tuple[Array, ...]
    pairs: Index
    matches: tuple[Index, ...]
    notices: tuple[str, ...] = ()
    calibrated: bool = True

    def __len__(self) -> int:
        return len(self.names)

    @property
    def focal(self) -> Array:
        """Focal lengths (n, 2), pixels."""
        return np.stack([self.K[:, 0, 0], self.K[:, 1, 1]], axis=1)

    def rays(self, view: int, keypoints: Index) -> Array:
        """Normalised image coordinates (k, 2) of some keypoints of a view: ``(x/z, y/z)`` in the camera's frame."""
        return normalised(self.K[view], self.keypoints[view][keypoints])


def normalised(K: Array, pixel: Array) -> Array:
    """Pixels (..., 2) of a pinhole camera as ``(x/z, y/z)``."""
    return np.asarray((pixel - K[:2, 2]) / np.array([K[0, 0], K[1, 1]]))  # COLMAP's cameras have no skew
