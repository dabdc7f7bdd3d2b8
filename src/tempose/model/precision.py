"""Precision matrices: are they positive definite, how round are they, and which one number stands for them.

SE-Sync's trace rule replaces a d×d precision B by the scalar ``b = d / tr(B⁻¹)``: the variance ``1/b`` is the mean of
the variances along the axes. For the blocks of a g2o file this is ``τ = 3/tr(Ω_t⁻¹)`` and, with ``λ = 2Ω``,
``λ = 6/tr(Ω_R⁻¹) = 4κ``, ``κ = 3/(2 tr(Ω_R⁻¹))``. It does not depend on the frame.

Matrices are first scaled to unit diagonal, so that precisions of any size (1e-100 … 1e100) are safe.
"""

from __future__ import annotations

import numpy as np

from tempose._typing import Array, Mask
from tempose.geometry import quaternion as quat

SMALLEST = 1e-100  # a smaller positive precision would overflow as a variance
ROUND = 1.0 + 1e-9  # up to this ratio between axes a matrix is a multiple of the identity


def is_zero(blocks: Array) -> Mask:
    """Which matrices (m, d, d) are exactly zero."""
    return np.asarray(~np.any(blocks, axis=(1, 2)))


def _scaled(blocks: Array) -> tuple[Array, Array]:
    """Matrices with unit diagonal (m, d, d) and the roots of their diagonals (m, d).

    A diagonal entry that is not positive is compared with the largest entry of its matrix.
    """
    diagonal = np.diagonal(blocks, axis1=1, axis2=2)
    largest = np.max(np.abs(blocks), axis=(1, 2), initial=0.0)
    root = np.sqrt(np.where(diagonal > 0.0, diagonal, np.where(largest > 0.0, largest, 1.0)[:, None]))
    ratio = (blocks / root[:, :, None]) / root[:, None, :]
    return np.clip(ratio, -2.0, 2.0), root  # an off-diagonal beyond ±1 is indefinite, however far beyond


def lowest(blocks: Array) -> Array:
    """Smallest eigenvalue (m,) after scaling to unit diagonal: > 0 positive definite, < 0 indefinite."""
    return np.asarray(np.linalg.eigvalsh(_scaled(blocks)[0])[:, 0] if len(blocks) else [], dtype=np.float64)


def is_definite(blocks: Array) -> Mask:
    """Which matrices (m, d, d) are positive definite, and not so faint that their inverse overflows."""
    diagonal = np.diagonal(blocks, axis1=1, axis2=2)
    return np.asarray((lowest(blocks) > 1e-12) & np.all(diagonal >= SMALLEST, axis=1))


def is_semidefinite(blocks: Array) -> Mask:
    """Which matrices (m, d, d) are positive semi-definite, to rounding: some axes may carry nothing."""
    diagonal = np.diagonal(blocks, axis1=1, axis2=2)
    return np.asarray((lowest(blocks) > -1e-12) & np.all((diagonal == 0.0) | (diagonal >= SMALLEST), axis=1))


def is_indefinite(blocks: Array) -> Mask:
    """Which matrices (m, d, d) have a negative eigenvalue beyond rounding."""
    return np.asarray(lowest(blocks) < -1e-9)


def spread(blocks: Array) -> Array:
    """Ratio (m,) of the largest to the smallest eigenvalue; 1 for zero."""
    if not len(blocks):
        return np.empty(0)
    values = np.linalg.eigvalsh(blocks)
    top = np.where(values[:, -1] > 0.0, values[:, -1], 1.0)
    low = np.maximum(values[:, 0], 1e-16 * top)
    return np.where(is_zero(blocks) | is_multiple_of_identity(blocks), 1.0, top / low)


def is_multiple_of_identity(blocks: Array) -> Mask:
    """Which matrices (m, d, d) are a number times the identity, to the last bit."""
    return np.asarray(np.all(blocks == blocks[:, :1, :1] * np.eye(blocks.shape[-1]), axis=(1, 2)))


def trace_rule(blocks: Array) -> Array:
    """``d / tr(B⁻¹)`` (m,) of positive definite or zero matrices (m, d, d); exact for multiples of the identity."""
    d = blocks.shape[-1]
    ratio, root = _scaled(blocks)
    zero = is_zero(blocks)
    ratio[zero] = np.eye(d)
    variance = np.diagonal(np.linalg.inv(ratio), axis1=1, axis2=2) / root / root
    mean = d / variance.sum(axis=1)
    return np.where(zero, 0.0, np.where(is_multiple_of_identity(blocks), blocks[:, 0, 0], mean))


def simplest(blocks: Array) -> Array:
    """The matrices as scalars (m,) if each is a multiple of the identity, else unchanged (m, 3, 3)."""
    return trace_rule(blocks) if bool(np.all(spread(blocks) <= ROUND)) else blocks


def turned(blocks: Array, wxyz: Array) -> Array:
    """``R B Rᵀ``, symmetric to the last bit; multiples of the identity are left as they are."""
    R = quat.to_matrix(quat.normalize(wxyz))
    turned = R @ blocks @ np.swapaxes(R, 1, 2)
    turned = 0.5 * (turned + np.swapaxes(turned, 1, 2))
    return np.where(is_multiple_of_identity(blocks)[:, None, None], blocks, turned)


def ratio_text(ratio: float) -> str:
    """``4.03x``."""
    return f"{ratio:.2f}x" if ratio < 1000 else f"{ratio:.1e}x"


def reduction_notice(rotation: Array, translation: Array) -> str | None:
    """One line on what the trace rule lost, given the spreads (m,) of both kinds of block; None if nothing."""
    worst = [float(s.max(initial=1.0)) for s in (rotation, translation)]
    if max(worst) <= 1.0 + 1e-6:
        return None
    r, t = map(ratio_text, worst)
    return (
        f"rotation precisions differ by up to {r} between axes, translation by {t}; "
        "reduced to one number per edge (trace rule); --precision full keeps them"
    )
