"""Precision matrices: are they positive definite, how round are they, and which one number stands for them.

The trace rule replaces a d×d precision B by the scalar ``b = d / tr(B⁻¹)``: the variance ``1/b`` is the mean of
the variances along the axes. It does not depend on the frame.

**Joint information.** An edge's error is (rotation vector in radians, translation), and its information Ω (6, 6) has the
**rotation first**; a planar edge's is the same with zeros for what is not in the plane. Where the two are correlated

    Λ = 2 (Ω_RR − Ω_Rt Ω_tt⁻¹ Ω_tR) = 2 Σ_RR⁻¹,   P = Ω_tt,   B = Ω_tt⁻¹ Ω_tR

say the same in the model's terms (:class:`tempose.model.graph.PoseGraph`), and back: ``Ω_RR = Λ/2 + BᵀPB``,
``Ω_tR = PB``. Any generalised inverse will do where Ω_tt is singular, since Ω is positive semi-definite.

One number each comes from the *marginal* covariances, ``τ = d/tr Σ_tt`` and ``λ = 2 d_R/tr Σ_RR``. SE-Sync's rule takes
the blocks of Ω in place of inverses of blocks of Σ: the same without correlations, and too sure of itself with them.

Matrices are first scaled to unit diagonal, so that precisions of any size (1e-100 … 1e100) are safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tempose._support.words import plural
from tempose._typing import AnyArray, Array, Mask
from tempose.geometry import quaternion as quat

SMALLEST = 1e-100  # a smaller positive precision would overflow as a variance
ROUND = 1.0 + 1e-9  # up to this ratio between axes a matrix is a multiple of the identity
JOINT_ROUNDING = (
    1e-6  # a joint information of unit diagonal that is written with six digits may be this far from semi-definite
)

CLEAR = 1e-9
"""A matrix of unit diagonal whose eigenvalues are above this is positive definite, whatever rounding did."""
_CHUNK = 1000  # matrices

# where the rotation and the translation of an edge are in its joint information, by dimension
ROTATION = {2: np.array([2]), 3: np.array([0, 1, 2])}
TRANSLATION = {2: np.array([3, 4]), 3: np.array([3, 4, 5])}


def is_zero(blocks: Array) -> Mask:
    """Which matrices (m, d, d) are exactly zero."""
    return np.asarray(~np.any(blocks, axis=(1, 2)))


def _scaled(blocks: Array) -> tuple[Array, Array]:
    """Matrices with unit diagonal (m, d, d) and the roots of their diagonals (m, d).

    A diagonal entry that is not positive is compared with the largest entry of its matrix.
    """
    d = blocks.shape[-1]
    root = np.array(np.diagonal(blocks, axis1=1, axis2=2))
    if not np.all(root > 0.0):
        largest = np.max(np.abs(blocks), axis=(1, 2), initial=0.0)
        root = np.where(root > 0.0, root, np.where(largest > 0.0, largest, 1.0)[:, None])
    root = np.sqrt(root)
    ratio = blocks / np.repeat(root, d, axis=1).reshape(blocks.shape)
    ratio /= np.tile(root, (1, d)).reshape(blocks.shape)
    return np.clip(ratio, -2.0, 2.0, out=ratio), root  # an off-diagonal beyond ±1 is indefinite, however far beyond


def lowest(blocks: Array) -> Array:
    """Smallest eigenvalue (m,) after scaling to unit diagonal, or :data:`CLEAR` if it is above: < 0 indefinite."""
    return by_chunks(_lowest, blocks)


def _lowest(blocks: Array) -> Array:
    out = np.full(len(blocks), CLEAR)
    some = np.flatnonzero(~is_multiple_of_identity(blocks) | ~(blocks[:, 0, 0] > 0.0))
    ratio = _scaled(blocks[some])[0]
    if not have_roots(ratio - CLEAR * np.eye(blocks.shape[1])):
        out[some] = np.minimum(np.linalg.eigvalsh(ratio)[:, 0], CLEAR)
    return out


def have_roots(blocks: Array) -> bool:
    """Whether all matrices (m, d, d) have a Cholesky factor: much cheaper than eigenvalues, and mostly all there is to ask."""
    try:
        np.linalg.cholesky(blocks)
    except np.linalg.LinAlgError:
        return False
    return True


def by_chunks(function: Callable[..., AnyArray], *columns: Array) -> AnyArray:
    """What a function makes of the rows of arrays (m, …), so many at a time that they stay in the processor's cache."""
    m = len(columns[0])
    if m <= _CHUNK:
        return function(*columns)
    parts = [function(*(column[k : k + _CHUNK] for column in columns)) for k in range(0, m, _CHUNK)]
    return np.concatenate(parts)


def is_definite(blocks: Array) -> Mask:
    """Which matrices (m, d, d) are positive definite, and not so faint that their inverse overflows."""
    return definiteness(blocks)[0]


def is_semidefinite(blocks: Array) -> Mask:
    """Which matrices (m, d, d) are positive semi-definite, to rounding: some axes may carry nothing."""
    return definiteness(blocks)[1]


def definiteness(blocks: Array) -> tuple[Mask, Mask]:
    """:func:`is_definite` and :func:`is_semidefinite`."""
    least, diagonal = lowest(blocks), np.diagonal(blocks, axis1=1, axis2=2)
    definite = (least > 1e-12) & np.all(diagonal >= SMALLEST, axis=1)
    return definite, (least > -1e-12) & np.all((diagonal == 0.0) | (diagonal >= SMALLEST), axis=1)


def spread(blocks: Array) -> Array:
    """Ratio (m,) of the largest to the smallest eigenvalue; 1 for zero."""
    out = np.ones(len(blocks))
    some = np.flatnonzero(~is_multiple_of_identity(blocks))
    if len(some):
        values = np.linalg.eigvalsh(blocks[some])
        top = np.where(values[:, -1] > 0.0, values[:, -1], 1.0)
        out[some] = top / np.maximum(values[:, 0], 1e-16 * top)
    return out


def is_multiple_of_identity(blocks: Array) -> Mask:
    """Which matrices (m, d, d) are a number times the identity, to the last bit."""
    d = blocks.shape[-1]
    first = blocks[:, 0, 0]
    same = np.ones(len(blocks), dtype=bool)
    for a in range(d):
        for b in range(d):
            same &= blocks[:, a, b] == (first if a == b else 0.0)
        if not same.any():
            break
    return same


def trace_rule(blocks: Array) -> Array:
    """``d / tr(B⁻¹)`` (m,) of positive definite or zero matrices (m, d, d); exact for multiples of the identity."""
    d = blocks.shape[-1]
    out = blocks[:, 0, 0] + 0.0  # which makes −0 of it 0
    some = np.flatnonzero(~is_multiple_of_identity(blocks))
    if len(some):
        ratio, root = _scaled(blocks[some])
        variance = np.diagonal(np.linalg.inv(ratio), axis1=1, axis2=2) / root / root
        out[some] = d / variance.sum(axis=1)
    return out


def simplest(blocks: Array) -> Array:
    """The matrices as scalars (m,) if each is a multiple of the identity, else unchanged (m, 3, 3)."""
    for k in range(0, len(blocks), _CHUNK):
        if not np.all(spread(blocks[k : k + _CHUNK]) <= ROUND):
            return blocks
    return trace_rule(blocks)


def joined(given: Array, added: Array, axes: int) -> Array:
    """Precisions of edges (m,), (m, 3) or (m, 3, 3) and of more (n, 3, 3), one number each if that says it all.

    Only the first ``axes`` exist.
    """
    exists = np.arange(3) < axes
    if given.ndim == 1 and np.all(is_multiple_of_identity(added[:, :axes, :axes])):
        return np.append(given, added[:, 0, 0])
    if given.ndim < 3:
        given = (given if given.ndim == 2 else given[:, None])[:, :, None] * np.diag(exists)
    return np.concatenate([given, added])


def turned(blocks: Array, wxyz: Array) -> Array:
    """``R B Rᵀ``, symmetric to the last bit; multiples of the identity are left as they are."""
    return by_chunks(_turned, blocks, wxyz)


def _turned(blocks: Array, wxyz: Array) -> Array:
    some = np.flatnonzero(~is_multiple_of_identity(blocks))
    if not len(some):
        return blocks
    R = quat.to_matrix(quat.normalize(wxyz[some]))
    moved = R @ blocks[some] @ np.swapaxes(R, 1, 2)
    out = np.array(blocks)
    out[some] = 0.5 * (moved + np.swapaxes(moved, 1, 2))
    return out


# ---------------------------------------------------------------------- rotation and translation together


class EdgeNoise(NamedTuple):
    """How sure edges are, as a :class:`tempose.model.graph.PoseGraph` takes it."""

    concentration: Array
    translation_precision: Array
    coupling: Array | None


def is_correlated(information: Array) -> Mask:
    """Which joint informations (m, 6, 6) tie rotation to translation."""
    return np.asarray(np.any(information[:, 3:, :3], axis=(1, 2)))


def is_jointly_indefinite(information: Array) -> Mask:
    """Which joint informations (m, 6, 6) are no information at all: a negative eigenvalue beyond the rounding of a file."""
    return np.asarray(lowest(information) < -JOINT_ROUNDING)


def ties_the_unmeasured(information: Array) -> Mask:
    """Which joint informations (m, 6, 6) are singular so that the translation is tied to a rotation nothing is left about."""
    left = complement(information, ROTATION[3], TRANSLATION[3])
    return np.asarray(is_correlated(information) & is_zero(left))


def without_zeros(information: Array) -> Array:
    """The same with ones on the diagonal of axes that are nowhere, so that only those that are count."""
    out = np.array(information)
    axes = np.arange(out.shape[1])
    absent = ~np.any(out, axis=2)
    out[:, axes, axes] = np.where(absent, 1.0, out[:, axes, axes])
    return out


def complement(information: Array, kept: Array, other: Array) -> Array:
    """Schur complement (m, k, k) of the rows ``kept``: the inverse of their block of the covariance.

    Never less than nothing: what rounding makes negative is zero.
    """
    return by_chunks(lambda part: _complement(part, kept, other)[0], information)


def _complement(information: Array, kept: Array, other: Array) -> tuple[Array, Array]:
    """The same, and how the others follow from the kept (m, o, k): ``Ω_oo⁻¹ Ω_ok``, zeros where nothing ties them."""
    out, follows = information[:, kept[:, None], kept], np.zeros((len(information), len(other), len(kept)))
    some = np.flatnonzero(np.any(information[:, kept[:, None], other], axis=(1, 2)))
    if not len(some):
        return out, follows
    ratio, root = _scaled(information[some])
    cross = ratio[:, other[:, None], kept]
    inverse = np.linalg.pinv(ratio[:, other[:, None], other], rcond=1e-12, hermitian=True)
    left = ratio[:, kept[:, None], kept] - np.swapaxes(cross, 1, 2) @ inverse @ cross
    left = 0.5 * (left + np.swapaxes(left, 1, 2))
    if not have_roots(left - CLEAR * np.eye(len(kept))):
        values, vectors = np.linalg.eigh(left)
        clipped = (vectors * np.where(values > 1e-13, values, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        left = np.where((values[:, 0] > 1e-13)[:, None, None], left, 0.5 * (clipped + np.swapaxes(clipped, 1, 2)))
    out[some] = left * root[:, kept, None] * root[:, None, kept]
    follows[some] = (inverse @ cross) * root[:, None, kept] / root[:, other, None]
    return out, follows


def split(information: Array) -> tuple[Array, Array, Array]:
    """Λ, P and B (m, 3, 3) of joint informations (m, 6, 6): see the module."""
    both = by_chunks(lambda part: np.stack(_complement(part, ROTATION[3], TRANSLATION[3]), axis=1), information)
    return 2.0 * both[:, 0], np.array(information[:, 3:, 3:]), both[:, 1]


def joint(concentration: Array, precision: Array, coupling: Array | None) -> Array:
    """Joint informations (m, 6, 6) of Λ, P and B (m, 3, 3): the inverse of :func:`split`."""
    out = np.zeros((len(concentration), 6, 6))
    out[:, :3, :3], out[:, 3:, 3:] = 0.5 * concentration, precision
    if coupling is not None:
        out[:, 3:, :3] = precision @ coupling
        out[:, :3, 3:] = np.swapaxes(out[:, 3:, :3], 1, 2)
        explained = np.swapaxes(coupling, 1, 2) @ out[:, 3:, :3]
        out[:, :3, :3] += 0.5 * (explained + np.swapaxes(explained, 1, 2))
    return out


def in_the_plane(information: Array) -> Array:
    """Joint informations (m, 6, 6) of planar edges, whose own (m, 3, 3) are of (θ, x, y)."""
    out = np.zeros((len(information), 6, 6))
    axes = np.array([2, 3, 4])
    out[:, axes[:, None], axes] = information
    return out


def turned_jointly(information: Array, wxyz: Array) -> Array:
    """Joint informations (m, 6, 6) about other axes: each 3×3 block turned; multiples of the identity stay."""
    out = np.zeros(information.shape)
    R = quat.to_matrix(quat.normalize(wxyz))
    for a in (slice(0, 3), slice(3, 6)):
        out[:, a, a] = turned(information[:, a, a], wxyz)
    out[:, 3:, :3] = R @ information[:, 3:, :3] @ np.swapaxes(R, 1, 2)
    out[:, :3, 3:] = np.swapaxes(out[:, 3:, :3], 1, 2)
    return out


def noise(information: Array, wxyz: Array, dimension: int = 3) -> EdgeNoise:
    """What a graph takes, of joint informations (m, 6, 6) about axes that ``wxyz`` (m, 4) turns to those of node j.

    As simple as the informations allow: one number per edge where each block is a multiple of the identity.
    """
    concentration, precision, coupling = split(information)
    tied: Array | None = None
    if np.any(coupling):
        R = quat.to_matrix(quat.normalize(wxyz))
        tied = R @ coupling @ np.swapaxes(R, 1, 2)
    if dimension == 3:
        return EdgeNoise(simplest(turned(concentration, wxyz)), simplest(turned(precision, wxyz)), tied)
    plane = simplest(precision[:, :2, :2])
    if plane.ndim == 3:
        precision = np.where(is_multiple_of_identity(plane)[:, None, None], precision, turned(precision, wxyz))
        precision[:, 2, :] = precision[:, :, 2] = 0.0
    if tied is not None:
        tied[:, 2, :], tied[:, :, :2] = 0.0, 0.0
    return EdgeNoise(concentration[:, 2, 2], plane if plane.ndim == 1 else precision, tied)


def plain_noise(information: Array, dimension: int = 3) -> EdgeNoise | None:
    """What a graph takes if every joint information (m, 6, 6) is one number of rotation and one of translation, neither 0.

    What :func:`noise`, :func:`marginal_numbers` and :func:`block_numbers` give then, to the bit; ``None`` if one is not so.
    """
    rotation, shift = ROTATION[dimension], TRANSLATION[dimension]
    numbers, chunk = np.empty((2, len(information))), 10 * _CHUNK
    for k in range(0, len(information), chunk):
        part = information[k : k + chunk]
        diagonal = np.diagonal(part, axis1=1, axis2=2).T
        for axes, first in zip((rotation, shift), numbers[:, k : k + chunk], strict=True):
            first[:] = diagonal[axes[0]]
            if not np.all(first >= SMALLEST) or not all(np.all(diagonal[a] == first) for a in axes[1:]):
                return None
        if np.count_nonzero(part) != len(part) * (len(rotation) + len(shift)):
            return None
    return EdgeNoise(2.0 * numbers[0], numbers[1], None)


def marginal_numbers(information: Array, dimension: int = 3) -> EdgeNoise:
    """One λ and one τ per edge from the marginal covariances; blocks must be definite, or zero."""
    rotation, shift = ROTATION[dimension], TRANSLATION[dimension]
    return EdgeNoise(
        2.0 * trace_rule(complement(information, rotation, shift)),
        trace_rule(complement(information, shift, rotation)),
        None,
    )


def block_numbers(information: Array, dimension: int = 3) -> EdgeNoise:
    """One λ and one τ per edge from the blocks of the information, correlations dropped: SE-Sync's rule."""
    rotation, shift = ROTATION[dimension], TRANSLATION[dimension]
    return EdgeNoise(
        2.0 * trace_rule(information[:, rotation[:, None], rotation]),
        trace_rule(information[:, shift[:, None], shift]),
        None,
    )


def ratio_text(ratio: float) -> str:
    """``4.03x``."""
    return f"{ratio:.2f}x" if ratio < 1000 else f"{ratio:.1e}x"


def spreads(information: Array, dimension: int = 3) -> tuple[Array, Array]:
    """Ratio of the largest to the smallest precision (m,), (m,) between the axes of rotations and translations."""
    rotation, shift = ROTATION[dimension], TRANSLATION[dimension]
    return (
        spread(complement(information, rotation, shift)),
        spread(complement(information, shift, rotation)),
    )


def reduction_notice(information: Array, dimension: int, used: str) -> str | None:
    """One line on what one number per edge has lost, and what the other rule would have given; None if nothing.

    ``used`` is ``"isotropic"``, from the marginal covariances, or ``"se-sync"``, from the blocks of the information.
    """
    worst = [float(s.max(initial=1.0)) for s in spreads(information, dimension)]
    correlated = is_correlated(information)
    told = []
    if max(worst) > 1.0 + 1e-6:
        r, t = map(ratio_text, worst)
        turns = f"rotation precisions differ by up to {r} between axes, translation by {t}"
        told.append(turns if dimension == 3 else f"translation precisions differ by up to {t} between axes")
    if not told and not correlated.any():
        return None
    rule = "the trace rule" if not correlated.any() else "their marginal covariances"
    if used == "se-sync" and correlated.any():
        rule = "SE-Sync's rule, which drops correlations"
    told.append(f"reduced to one number per edge by {rule}")
    if correlated.any():
        marginal = marginal_numbers(information[correlated], dimension)
        block = block_numbers(information[correlated], dimension)
        with np.errstate(divide="ignore", invalid="ignore"):
            r, t = (
                ratio_text(float(np.nanmedian(np.sqrt(b / a)))) for a, b in zip(marginal[:2], block[:2], strict=True)
            )
        count = int(correlated.sum())
        edges = f"{plural(count, 'edge')} with correlations"
        other = (
            "σ from the blocks alone (se-sync) would be that much smaller"
            if used == "isotropic"
            else ("their true σ (isotropic, full) is that much larger")
        )
        told.append(f"{edges}: median σ ratio {r} for rotations, {t} for translations, {other}")
    return "; ".join([*told, "--precision full keeps them"])
