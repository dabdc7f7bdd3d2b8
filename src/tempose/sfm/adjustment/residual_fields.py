r"""How large the errors of a lens are, as far as residuals show it.

A lens that bends otherwise than its model leaves smooth residuals :math:`\Phi a`, alike in all photographs of a camera, less
what poses, points and free intrinsics absorb. With :math:`G = \Phi^T W P \Phi`, P the projection to what nothing absorbs, the sums
:math:`y = \Phi^T W r` over all image points have the covariance

.. math:: A^2 G G + \kappa s^2 G + X X^T,

A the amplitude of the fields, :math:`\kappa s^2` the noise with what neighbours have in common, by neighbourhoods of points, and X
the fields of intrinsics that were held. With a wide prior about what is usual, cut off at half of it, A is the likeliest one. It
is that of the fields that show; what the unknowns absorb, and what therefore moves cameras, is larger, as coarse errors of lenses
are larger than fine ones: :data:`ABSORBED` times, on photographs whose cameras are known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from tempose._typing import Array
from tempose.sfm.adjustment.linear import BLOCK
from tempose.sfm.adjustment.posterior import BundlePosterior, cells_of, pulls, with_error
from tempose.sfm.adjustment.systematic import LENS_ERROR, MOST_LENS, held_fields, lens_fields

# chosen on: EPFL photographs, nothing known of the calibration
ABSORBED = 5.0
"""How many times the amplitude that residuals show is taken."""
# chosen on: EPFL photographs Herz-Jesus-P8 and its warped variants
BEST_LENS = 0.5
"""A lens is not believed to be better than this share of what is usual: that little shows does not mean that little is absorbed."""
MOST_CAMERAS = 12
"""That are looked at."""
_LEAST_SHARE = 1e-3  # of a field, that must be left of it: less is rounding, and where an optimiser stopped
_AT_ONCE = 20_000  # image points
_STEPS = 400  # of amplitudes that are tried
_DOUBT = np.log(3.0)  # 1σ of the logarithm of an amplitude about the usual one, before residuals were looked at


def with_lens_error(found: BundlePosterior) -> BundlePosterior:
    """The same with an error of the lens as residuals show it, unless that is not to be estimated."""
    error = found.options.error
    if not error.estimate or error.lens == 0.0 or found.options.sigma_px is not None:
        return found
    lens = ABSORBED * residual_amplitude(found, error.lens / ABSORBED)
    return with_error(found, replace(error, lens=min(lens, MOST_LENS)))


def residual_amplitude(found: BundlePosterior, usual: float = LENS_ERROR / ABSORBED) -> float:
    """The likeliest root mean square of lens fields, relative to the larger side of the image.

    ``usual`` is the middle of the prior, and what is left where residuals tell nothing; less than half of it is not believed.
    """
    grid = np.geomspace(BEST_LENS * usual, MOST_LENS, _STEPS)
    cost = 0.5 * (np.log(grid / usual) / _DOUBT) ** 2
    parts = _parts(found)
    if parts:
        noise = float(np.mean(np.concatenate([np.sum(one.cells**2, axis=0) for one in parts])))
    for one in parts:
        L = cholesky(noise * np.eye(len(one.sums)) + one.held @ one.held.T, lower=True)
        half = solve_triangular(L, one.signal, lower=True)
        value, vector = np.linalg.eigh(half @ half.T)
        z = vector.T @ solve_triangular(L, one.sums, lower=True)
        variance = 1.0 + grid[:, None] ** 2 * np.maximum(value, 0.0)
        cost += 0.5 * np.sum(np.log(variance) + z**2 / variance, axis=1)
    return float(grid[np.argmin(cost)])


class _Shown(NamedTuple):
    """One camera, in combinations of fields (q) whose sums have independent noise of equal variance.

    ``sums`` (q,) over all image points, by neighbourhood about their mean (c, q); what fields of unit amplitude (q, m), and held
    intrinsics (q, h), make of them.
    """

    sums: Array
    cells: Array
    signal: Array
    held: Array


def _parts(found: BundlePosterior) -> list[_Shown]:
    """Some cameras, from those with most image points to those with fewest; none without neighbourhoods."""
    bundle, lin = found.bundle, found.linear
    cell, n_cells = cells_of(bundle, found.noise.inverse.reduced.unknown)
    if n_cells < 2:
        return []
    _, pull, scatter, fitted = pulls(lin, found.options.loss_px)
    seen_by = bundle.camera_of[bundle.image_of]
    count = np.bincount(seen_by, minlength=len(bundle.cameras))
    each = lens_fields(np.zeros((1, 2)), (1, 1)).shape[2]
    order = np.argsort(-count, kind="stable")
    spaced = np.unique(np.linspace(0, len(order) - 1, MOST_CAMERAS).astype(int))
    out = []
    for row in order[spaced].tolist():
        here = np.flatnonzero((seen_by == row) & lin.kept)
        if 2 * len(here) <= each:
            continue
        camera = bundle.cameras[row]
        fields = lens_fields(bundle.pixel[here], camera.size)
        held = held_fields(camera, bundle.pixel[here], found.options.error)
        moved = np.zeros((len(seen_by), 2, each + held.shape[2]))
        moved[here] = np.concatenate([fields, held], axis=2)
        left = _left(found, moved)
        weight = found.noise.inverse.reduced.weight
        M = np.einsum("k,kam,kan->mn", weight[here], fields, left[here])
        whole = np.einsum("k,kam,kan->mn", weight[here], fields, fields)
        share, vector = eigh(0.5 * (M[:, :each] + M[:, :each].T), whole + 1e-9 * np.trace(whole) / each * np.eye(each))
        shown = share > _LEAST_SHARE
        if not shown.any():
            continue
        basis = vector[:, shown] / np.sqrt(share[shown])
        sums = np.zeros((n_cells, each))
        known = cell[bundle.point_of] >= 0
        pulled = np.einsum("k,ka,kam->km", weight[known], pull[known], left[known][:, :, :each])
        np.add.at(sums, cell[bundle.point_of[known]], pulled)
        z = sums @ basis
        spread = np.sqrt(scatter / fitted) * (z - z.mean(axis=0))  # residuals of a fit are smaller than the noise
        out.append(_Shown(z.sum(axis=0), spread, basis.T @ M[:, :each], basis.T @ M[:, each:]))
    return out


def _left(found: BundlePosterior, moved: Array) -> Array:
    """What is left (k, 2, m) of displaced image points when everything has followed."""
    bundle, lin, inverse = found.bundle, found.linear, found.noise.inverse
    sides, own = inverse.reduced.pull(moved)
    x = inverse.solve(sides)
    points = own + inverse.reduced.follow(x)
    nodes, seen_by = x.reshape(-1, BLOCK, x.shape[1]), bundle.camera_of[bundle.image_of]
    left = moved.copy()
    for start in range(0, len(left), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        left[part] -= lin.by_frame[part] @ nodes[bundle.frame_of[bundle.image_of[part]]]
        left[part] -= lin.by_point[part] @ points[bundle.point_of[part]]
    for row, free in enumerate(lin.nodes.free):
        if len(free):
            here = np.flatnonzero(seen_by == row)
            left[here] -= lin.by_camera[here][:, :, : len(free)] @ x[lin.nodes.rows(row)]
    left[~lin.kept] = 0.0
    return left
