r"""The similarity that takes a model to where its ties are, by generalised least squares.

The equations are in :mod:`.placing`. A tie that is farther off than its σ and the model allow (:data:`OUTSIDE`, divided by the
number of ties) takes no part; the worst goes first, and the rest is fitted again. Where nobody says how good GPS is, its scatter is
estimated from the residuals, horizontal and vertical.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc

from tempose._typing import Array, Index
from tempose.errors import NotApplicable
from tempose.geometry import Similarity, align
from tempose.geometry import quaternion as quat
from tempose.sfm.adjustment.linear import cross_matrix
from tempose.sfm.adjustment.posterior import BundlePosterior
from tempose.sfm.ties import Ties

OUTSIDE = 0.001
"""Probability below which a tie is not what its σ says, for all ties together."""
ASSUMED_M = (5.0, 5.0, 10.0)
"""1σ of a fix where nobody says it and there are too few to estimate it."""
_ENOUGH = 6  # fixes, for an estimate of their scatter
_LEAST_M = 0.01
_MOST_LEFT_OUT = 1.0 / 3.0
_STEPS = 30
_FAR = 5.0  # standard deviations from the first fit


class Fit:
    """Generalised least squares of a similarity, with ties left out one at a time.

    Parameters
    ----------
    posterior
        Of the model.
    ties
        With where they are in the world.
    """

    def __init__(self, posterior: BundlePosterior, ties: Ties) -> None:
        self.ties, self.posterior = ties, posterior
        self.has_scale = not posterior.bundle.metric
        self.columns = ties.follow @ posterior.model.columns + ties.own_columns
        noise = ties.follow @ posterior.noise.times(ties.follow.T)
        self.Z = noise + self.columns @ self.columns.T
        for k in range(len(ties)):
            self.Z[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] += ties.own[k]
        self.used = np.array([kind != "check" for kind in ties.kind])
        unknown = np.isnan(ties.sigma).any(axis=1)
        self.unknown = unknown
        self.sigma = np.where(np.isnan(ties.sigma), ASSUMED_M, ties.sigma)
        self.estimated = bool(unknown.any())
        self.middle = ties.at[self.used].mean(axis=0)
        self._start()

    def _start(self) -> None:
        """Positions alone, by the sum of distances: a few wrong ones do not matter."""
        full = self.used & np.isfinite(self.sigma).all(axis=1)
        if full.sum() < 3:
            raise NotApplicable(f"{int(full.sum())} places have a height; at least three are needed to begin with")
        still = np.tile(quat.IDENTITY, (int(full.sum()), 1))
        kind = "positions-sim3" if self.has_scale else "positions-se3"
        found = align((still, self.ties.at[full]), (still, self.ties.world[full]), kind, robust=True)
        self.rotation, self.scale = quat.to_matrix(found.wxyz), found.scale
        self.place = found.scale * self.rotation @ self.middle + found.translation

    @property
    def similarity(self) -> Similarity:
        """``world_from_model``."""
        wxyz = quat.from_matrix(self.rotation[None])[0]
        return Similarity(wxyz, self.place - self.scale * self.rotation @ self.middle, self.scale)

    def arms(self, at: Array) -> Array:
        """Places (…, 3) of the model relative to the middle, in the world."""
        return np.asarray(self.scale * (at - self.middle) @ self.rotation.T)

    def jacobian(self, at: Array) -> Array:
        """Derivatives (…, 3, 7) of places in the world by rotation, translation and logarithm of the scale."""
        arm = self.arms(at)
        out = np.zeros((*arm.shape, 7))
        out[..., :3] = -cross_matrix(arm)
        out[..., 3:6] = np.eye(3)
        out[..., 6] = arm if self.has_scale else 0.0
        return out

    def covariance(self) -> Array:
        """Of all residuals (3 k, 3 k), before anything is fitted; infinite σ are left out."""
        turn = self.turn()
        return np.asarray(
            turn @ self.Z @ turn.T + np.diag(np.where(np.isinf(self.sigma), 0.0, self.sigma).ravel() ** 2)
        )

    def solved(self) -> tuple[Array, Array]:
        """Fit; the gain K (7, 3 k) and the covariance (7, 7)."""
        ties = self.ties
        part = self.part()
        free = np.arange(7 if self.has_scale else 6)
        for _ in range(_STEPS):
            J = self.jacobian(ties.at).reshape(-1, 7)[np.ix_(part, free)]
            S = self.covariance()[np.ix_(part, part)]
            WJ = np.linalg.solve(S, J)
            normal = J.T @ WJ
            value = np.linalg.eigvalsh(normal)
            if not value[0] > 1e-12 * value[-1]:
                raise NotApplicable(
                    "the measured places are on one line, or at one place: they do not say how the model is turned about it"
                )
            C = np.linalg.inv(normal)
            gain = C @ WJ.T
            world = self.arms(ties.at) + self.place
            step = np.zeros(7)
            step[free] = gain @ (ties.world - world).ravel()[part]
            self.rotation = quat.to_matrix(quat.exp(step[None, :3]))[0] @ self.rotation
            self.place, self.scale = self.place + step[3:6], self.scale * float(np.exp(step[6]))
            if step[free] @ normal @ step[free] < 1e-16 * len(part):
                break
        K, full = np.zeros((7, 3 * len(ties))), np.zeros((7, 7))
        K[np.ix_(free, part)] = gain
        full[np.ix_(free, free)] = C
        return K, full

    def residuals(self, *, bend: bool = False) -> tuple[Array, Array]:
        """Of all ties (k, 3), NaN where not measured, and what is expected of them (k, 3, 3)."""
        K, _ = self.solved()
        k = len(self.ties)
        M = np.eye(3 * k) - self.jacobian(self.ties.at).reshape(-1, 7) @ K
        off = (self.ties.world - self.arms(self.ties.at) - self.place).ravel()
        if bend:
            part, turn = self.part(), self.turn()
            follow = (turn @ self.Z @ turn.T)[:, part] @ np.linalg.inv(self.covariance()[np.ix_(part, part)])
            off = off - follow @ off[part]
            M = M - follow @ M[part]
        C = (M @ self.covariance() @ M.T).reshape(k, 3, k, 3)[np.arange(k), :, np.arange(k)]
        return np.where(np.isinf(self.sigma), np.nan, off.reshape(k, 3)), C

    def part(self) -> Index:
        """Coordinates (of 3 k) that take part."""
        return np.flatnonzero((self.used[:, None] & np.isfinite(self.sigma)).ravel())

    def turn(self) -> Array:
        """Displacements of all ties in the model to those in the world (3 k, 3 k)."""
        return np.asarray(np.kron(np.eye(len(self.ties)), self.scale * self.rotation), dtype=float)

    def select(self) -> None:
        """Leave out what contradicts the rest, and estimate what nobody says.

        From the fit by distances, which a few wrong places hardly move: those far off go at once, the worst goes as long as it is
        outside, and what agrees with the rest after all comes back.
        """
        part = self.used.copy()
        count, bound = int(part.sum()), OUTSIDE / int(part.sum())
        self._estimate(refit=False)
        away = self._squared(self.ties.world - self.arms(self.ties.at) - self.place, self._marginal())
        near = np.sort(away[part])[int(np.ceil((1.0 - _MOST_LEFT_OUT) * count)) - 1]
        self.used = part & (away <= max(_FAR**2, near))
        may_return = part.copy()
        for _ in range(3 * count):
            self._estimate()
            off, C = self.residuals()
            squared = self._squared(off, C)
            p = gammaincc(0.5 * np.isfinite(off).sum(axis=1), 0.5 * squared * np.isfinite(off).sum(axis=1))
            back = may_return & ~self.used & (p > bound)
            may_return &= ~back  # once
            self.used |= back
            worst = self._outside(bound)
            if worst is not None:
                self.used[worst] = False
            elif not back.any():
                break
        left = count - int(self.used.sum())
        if self.used.sum() < max(3.0, (1.0 - _MOST_LEFT_OUT) * count) or self._outside(bound) is not None:
            raise NotApplicable(
                f"{left} of {count} measured places contradict the model and each other; are they of these photographs, and are "
                "their σ right?"
            )

    def _outside(self, bound: float) -> int | None:
        """The tie that is farthest outside of what is expected of it, of those that take part."""
        off, C = self.residuals()
        squared, has = self._squared(off, C), np.isfinite(off).sum(axis=1)
        worst = int(np.argmax(np.where(self.used, squared, -1.0)))
        return worst if gammaincc(0.5 * has[worst], 0.5 * squared[worst] * has[worst]) < bound else None

    def _marginal(self) -> Array:
        """Of the residuals of single ties (k, 3, 3), before anything is fitted."""
        k = len(self.ties)
        return np.asarray(self.covariance().reshape(k, 3, k, 3)[np.arange(k), :, np.arange(k)])

    def _squared(self, off: Array, C: Array) -> Array:
        """Squared normalised residuals (k,), over their freedom; 0 where nothing was measured."""
        out = np.zeros(len(off))
        for k, residual in enumerate(off):
            has = np.isfinite(residual) & np.isfinite(self.sigma[k])
            if has.any():
                inverse = np.linalg.pinv(C[k][np.ix_(has, has)], rcond=1e-9, hermitian=True)
                out[k] = residual[has] @ inverse @ residual[has] / has.sum()
        return out

    def _estimate(self, *, refit: bool = True) -> None:
        """The scatter of fixes that nobody says, horizontally and vertically: by the medians of the residuals, a few times."""
        some = self.used & self.unknown
        if not self.estimated or some.sum() < _ENOUGH:
            return
        height = np.isfinite(self.sigma[:, 2])
        for _ in range(10 if refit else 1):
            if refit:
                self.solved()
            off = np.abs(self.ties.world - self.arms(self.ties.at) - self.place)
            share = np.sqrt(some.sum() / (some.sum() - 7.0 / 3.0))
            flat = max(1.4826 * share * float(np.median(off[some, :2])), _LEAST_M)
            up = (
                max(1.4826 * share * float(np.median(off[some & height, 2])), _LEAST_M)
                if (some & height).any()
                else 0.0
            )
            before = self.sigma.copy()
            self.sigma[self.unknown, :2] = flat
            self.sigma[self.unknown & height, 2] = up
            if np.allclose(before, self.sigma, rtol=1e-3):
                return
