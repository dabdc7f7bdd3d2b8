"""How far the draws can be trusted: R-hat, effective sample sizes, Monte Carlo errors, and a verdict that does not flatter.

The estimators are those of Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), *Rank-normalization, folding, and
localization: an improved R-hat*, and agree with ArviZ. They take draws (..., chains, draws) and reduce the last two axes.

Poses are judged by their six world-frame tangent coordinates about the estimate, in the stated gauge: q and −q are one
rotation there, and what the gauge holds, or the graph does not have, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import fft, special

from tempose._support.parallel import on_threads
from tempose._support.plain import plain
from tempose._typing import Array, Index, Mask, NodeId
from tempose.analysis import aligned
from tempose.errors import ArgumentError
from tempose.model.gauge import Gauge, position_determined
from tempose.model.poses import Poses
from tempose.sampling.draws import Draws

COORDINATES = ("rx", "ry", "rz", "x", "y", "z")

RHAT_GOOD, RHAT_USABLE, RHAT_BAD = 1.01, 1.05, 1.1
ESS_GOOD, ESS_BAD = 400.0, 100.0
SIGMA_USABLE = 0.1  # relative Monte Carlo error of the worst σ
ENERGY_GOOD = 0.3
FEWEST_DRAWS = 4  # per chain, for anything to be said
# chosen on: independent normal draws, 600 coordinates, 2 and 4 chains of 4 to 250 draws: R-hat up to 1 + 12/length
RHAT_BY_CHANCE = 12.0

_JUDGED = ("rhat", "ess_bulk", "ess_tail", "mcse_mean", "mcse_sd")
_TAIL = (0.05, 0.95)
_BLOCK_VALUES = 60_000  # coordinates × draws that a thread holds at a time, so that they stay in its cache
_READABLE_VALUES = 500_000  # the same for code that is not compiled; temporaries are about ten times that
_CONSTANT = 1e-15  # a series that varies by less does not vary
_DIRECT = (
    31  # lags that are summed one by one; where draws are related for longer, a Fourier transform has all at less cost
)


# ---------------------------------------------------------------------- series (..., chains, draws)


def split(x: Array) -> Array:
    """Each chain as two halves (..., 2·chains, draws//2); the middle draw of an odd number is dropped."""
    half = x.shape[-1] // 2
    return np.concatenate([x[..., :half], x[..., -half:]], axis=-2)


def rank_normalise(x: Array) -> Array:
    """Normal scores of the ranks over all chains: ``Φ⁻¹((r − 3/8)/(S + 1/4))``, ties averaged."""
    flat = x.reshape(*x.shape[:-2], -1)
    size = flat.shape[-1]
    scores = _scores_of_ranks(size)
    order = np.argsort(flat, axis=-1)
    ordered = np.take_along_axis(flat, order, axis=-1)
    first = np.ones(flat.shape, dtype=bool)  # of a group of equal values, which all get the mean of their places
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=first[..., 1:])
    begin = np.flatnonzero(first)
    count = np.diff(begin, append=flat.size)
    twice = np.repeat(2 * (begin % max(size, 1)) + count - 1, count).reshape(flat.shape)
    out = np.empty_like(flat)
    np.put_along_axis(out, order, scores[twice], axis=-1)
    return out.reshape(x.shape)


def _scores_of_ranks(size: int) -> Array:
    """Normal scores (2 S − 1,) of the ranks 1, 1.5, 2, …, S."""
    return np.asarray(special.ndtri((np.arange(1.0, size + 0.5, 0.5) - 0.375) / (size + 0.25)))


def rhat(x: ArrayLike) -> Array:
    """Rank-normalised split R-hat (...): the larger of those of the values and of their distances to the median.

    One chain is compared with itself, first half against second.
    """
    halves = split(_checked(x))
    return _rhat_both(halves, rank_normalise(halves))


def ess_mean(x: ArrayLike) -> Array:
    """Effective sample size (...) for the mean of the values themselves."""
    return _ess(split(_checked(x)))


def ess_bulk(x: ArrayLike) -> Array:
    """Effective sample size (...) of the rank-normalised values."""
    return _ess(rank_normalise(split(_checked(x))))


def ess_tail(x: ArrayLike) -> Array:
    """The smaller of the effective sample sizes (...) of the 5% and 95% quantiles."""
    x = _checked(x)
    at = np.quantile(x.reshape(*x.shape[:-2], -1), _TAIL, axis=-1)[..., None, None]
    return np.minimum(_ess(split((x <= at[0]).astype(float))), _ess(split((x <= at[1]).astype(float))))


def ess_sd(x: ArrayLike) -> Array:
    """Effective sample size (...) of the squared distances to the mean, on which the standard deviation rests."""
    x = _checked(x)
    return _ess(split((x - x.mean(axis=(-2, -1), keepdims=True)) ** 2))


def mcse_mean(x: ArrayLike) -> Array:
    """Monte Carlo standard error (...) of the mean."""
    x = _checked(x)
    return np.asarray(np.std(x, axis=(-2, -1), ddof=1) / np.sqrt(ess_mean(x)))


def mcse_sd(x: ArrayLike) -> Array:
    """Monte Carlo standard error (...) of the standard deviation, by the delta method.

    ``√((E[d⁴] − E[d²]²) / ESS) / (2σ)`` with the ESS of d², as in R's *posterior*. ArviZ puts the ESS of the values in
    its place, which flatters where successive draws are anti-correlated.
    """
    x = _checked(x)
    square = (x - x.mean(axis=(-2, -1), keepdims=True)) ** 2
    return _error_of_root_mean(square)


def energy_mixing(energy: ArrayLike) -> Array:
    """``mean((ΔU)²) / var(U)`` of each chain (...): ArviZ's E-BFMI formula on U; 2 if independent, near 0 if U creeps."""
    u = np.asarray(energy, float)
    variance = np.var(u, axis=-1, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.mean(np.diff(u, axis=-1) ** 2, axis=-1) / variance)


def _checked(x: ArrayLike) -> Array:
    array = np.asarray(x, float)
    if array.ndim < 2 or array.shape[-2] < 1 or array.shape[-1] < FEWEST_DRAWS:
        raise ArgumentError(f"draws must have shape (..., chains, draws) with at least 4 draws, not {array.shape}")
    return array


def _rhat_both(halves: Array, normalised: Array) -> Array:
    middle = np.median(halves.reshape(*halves.shape[:-2], -1), axis=-1)[..., None, None]
    return np.maximum(_rhat(normalised), _rhat(rank_normalise(np.abs(halves - middle))))


def _rhat(x: Array) -> Array:
    n = x.shape[-1]
    between = n * np.var(x.mean(axis=-1), axis=-1, ddof=1)
    within = np.mean(np.var(x, axis=-1, ddof=1), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt((between / within + n - 1) / n))


def _mean_autocovariance(x: Array) -> Array:
    """Autocovariance at all lags (..., draws), averaged over chains."""
    n = x.shape[-1]
    size = fft.next_fast_len(2 * n, real=True)
    spectrum = fft.rfft(x - x.mean(axis=-1, keepdims=True), n=size, axis=-1)
    power = np.mean(spectrum.real**2 + spectrum.imag**2, axis=-2)
    return np.asarray(fft.irfft(power, n=size, axis=-1)[..., :n] / n)


def _ess(x: Array) -> Array:
    """Effective sample size (...) of chains (..., chains, draws) by Geyer's initial monotone positive sequence."""
    chains, n = x.shape[-2:]
    covariance = _mean_autocovariance(x)
    within = covariance[..., 0] * n / (n - 1.0)
    total = covariance[..., 0].copy()
    if chains > 1:
        total += np.var(x.mean(axis=-1), axis=-1, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1.0 - (within[..., None] - covariance) / total[..., None]
    rho[..., 0] = 1.0
    last = max((n - 3) // 2, 0)  # the last pair of lags that may be looked at
    even, odd = rho[..., : 2 * last + 1 : 2], rho[..., 1 : 2 * last + 2 : 2]
    pairs = even + odd
    positive = pairs > 0.0
    positive[..., last] = False
    stop = np.argmin(positive, axis=-1)[..., None]  # the first pair that does not count in full
    used = np.arange(last + 1) < stop
    monotone = np.minimum.accumulate(np.where(used, pairs, np.inf), axis=-1)
    end_even = np.take_along_axis(even, stop, axis=-1)[..., 0]
    end_pair = np.take_along_axis(pairs, stop, axis=-1)[..., 0]
    end = np.where((end_even > 0.0) | (end_pair >= 0.0), end_even, 0.0)
    tau = -1.0 + 2.0 * np.where(used, monotone, 0.0).sum(axis=-1) + end
    size = chains * n
    result = size / np.maximum(tau, 1.0 / math.log10(size))
    return np.where(np.ptp(x, axis=(-2, -1)) < _CONSTANT, float(size), np.where(np.isnan(tau), np.nan, result))


def _error_of_root_mean(square: Array) -> Array:
    """Standard error (...) of the root of the mean of non-negative draws (..., chains, draws)."""
    mean = square.mean(axis=(-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.std(square, axis=(-2, -1)) / np.sqrt(_ess(split(square)) * mean) / 2.0)


# ---------------------------------------------------------------------- the result


class Level(StrEnum):
    """What draws are worth."""

    GOOD = "good"
    USABLE = "usable"
    NOT_GOOD = "not good"
    BAD = "bad"
    CANNOT_TELL = "cannot tell"


class Trouble(StrEnum):
    """What can be wrong with draws."""

    TOO_FEW = "too few draws"
    NOT_FINITE = "draws that are not finite"
    NOTHING_MOVES = "nothing moves"
    STUCK = "coordinates that never moved"
    CHAINS_DISAGREE = "chains disagree"
    TOO_SHORT = "chains too short to compare"
    RHAT = "R-hat"
    BULK_ESS = "bulk ESS"
    TAIL_ESS = "tail ESS"
    CREEPS = "U creeps"
    ONE_CHAIN = "one chain"
    LEFT_OUT = "chains left out"


@dataclass(frozen=True)
class Worst:
    """The worst value of a diagnostic and where it is: a node and a coordinate, or ``U``."""

    value: float
    node: NodeId | None
    coordinate: str

    def __str__(self) -> str:
        where = "U" if self.node is None else f"node {self.node}, {self.coordinate}"
        return f"{self.value:.4g} ({where})"


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What the draws are worth.

    Arrays (n, 6) are per node and tangent coordinate (:data:`COORDINATES`; radians, then length units), NaN for what
    the gauge holds and for positions that nothing determines.

    Attributes
    ----------
    level
        What they are worth in a word; :func:`tempose.describe.verdict` has the sentence.
    troubles
        What is wrong with them, each with how bad it is.
    chains_made, not_finite
        Chains there are, those too short to be judged included; draws that are not finite.
    n_chains, draws_per_chain
        What was judged: chains of equal length.
    rhat, ess_bulk, ess_tail
        R-hat and effective sample sizes (n, 6).
    mcse_mean, mcse_sd
        Monte Carlo standard errors (n, 6) of the mean and of σ.
    sigma_rot_deg_mcse, sigma_pos_mcse
        Monte Carlo standard errors (n,) of the σ per axis that a :class:`~tempose.analysis.summary.NodeSummary` reports.
    sigma_relative_error
        The larger of the two relative to its σ (n,).
    energy_rhat, energy_ess_bulk, energy_ess_tail, energy_mcse
        Of U itself; ``energy_mcse`` is the error of its mean.
    energy_mixing
        Least over chains; see :func:`energy_mixing`.
    stuck
        Number of coordinates that should move and never did.
    """

    level: Level
    troubles: tuple[tuple[Trouble, Level], ...]
    chains_made: int
    not_finite: int
    ids: tuple[NodeId, ...]
    n_chains: int
    draws_per_chain: int
    rhat: Array
    ess_bulk: Array
    ess_tail: Array
    mcse_mean: Array
    mcse_sd: Array
    sigma_rot_deg_mcse: Array
    sigma_pos_mcse: Array
    sigma_relative_error: Array
    energy_rhat: float
    energy_ess_bulk: float
    energy_ess_tail: float
    energy_mcse: float
    energy_mixing: float
    stuck: int

    @property
    def chains_disagree(self) -> bool:
        """Whether R-hat is larger than chance makes it in chains of this length."""
        return self.worst_rhat.value > max(RHAT_BAD, 1.0 + RHAT_BY_CHANCE / max(self.draws_per_chain, 1))

    @property
    def worst_rhat(self) -> Worst:
        """Largest R-hat of all coordinates and U."""
        return _worst(self.ids, self.rhat, self.energy_rhat, largest=True)

    @property
    def worst_ess_bulk(self) -> Worst:
        """Least bulk ESS of all coordinates and U."""
        return _worst(self.ids, self.ess_bulk, self.energy_ess_bulk)

    @property
    def worst_ess_tail(self) -> Worst:
        """Least tail ESS of all coordinates and U."""
        return _worst(self.ids, self.ess_tail, self.energy_ess_tail)

    @property
    def least_ess(self) -> float:
        """The smaller of the two; NaN if nothing moves."""
        bulk, tail = self.worst_ess_bulk.value, self.worst_ess_tail.value
        return bulk if not tail < bulk else tail

    @property
    def node_ess(self) -> Array:
        """Least ESS, bulk or tail, of each node (n,); NaN for a held node."""
        both = np.concatenate([self.ess_bulk, self.ess_tail], axis=1)
        held = np.all(np.isnan(both), axis=1)
        return np.where(held, np.nan, np.min(np.where(np.isnan(both), np.inf, both), axis=1))

    @property
    def worst_sigma_error(self) -> Worst:
        """Largest relative Monte Carlo error of a reported σ."""
        return _worst(self.ids, self.sigma_relative_error[:, None], math.nan, largest=True, names=("σ",))

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON."""
        facts: dict[str, Any] = plain(
            {
                "level": self.level,
                "troubles": [trouble for trouble, _ in self.troubles],
                "chains": self.n_chains,
                "draws_per_chain": self.draws_per_chain,
                "worst_rhat": asdict(self.worst_rhat),
                "worst_ess_bulk": asdict(self.worst_ess_bulk),
                "worst_ess_tail": asdict(self.worst_ess_tail),
                "worst_relative_error_of_sigma": asdict(self.worst_sigma_error),
                "energy_rhat": self.energy_rhat,
                "energy_ess_bulk": self.energy_ess_bulk,
                "energy_mcse": self.energy_mcse,
                "energy_mixing": self.energy_mixing,
                "stuck_coordinates": self.stuck,
            }
        )
        return facts


def _worst(
    ids: tuple[NodeId, ...], values: Array, energy: float, largest: bool = False, names: tuple[str, ...] = COORDINATES
) -> Worst:
    sign = -1.0 if largest else 1.0
    flat = np.append(sign * values.reshape(-1), sign * energy)
    if np.all(np.isnan(flat)):
        return Worst(math.nan, None, "U")
    k = int(np.nanargmin(flat))
    if k == values.size:
        return Worst(energy, None, "U")
    row, column = divmod(k, values.shape[1])
    return Worst(float(values[row, column]), ids[row], names[column])


# ---------------------------------------------------------------------- from draws


def diagnose(draws: Draws, reference: Poses, gauge: Gauge) -> Diagnostics:
    """Judge draws by the tangent coordinates of every node about ``reference``, in a gauge, and by U.

    Chains of different length are cut to the shortest, from the front; one less than half as long as the longest is
    left out. Reads the draws block by block of nodes, so memory does not grow with the graph.
    """
    lengths = [len(a) for a in draws.arrays]
    chains = [k for k, length in enumerate(lengths) if 2 * length >= max(lengths) and length > 0]
    length = min((lengths[k] for k in chains), default=0)
    n = len(reference)
    if length < FEWEST_DRAWS:
        return _unmeasured(draws, len(chains), length, Level.CANNOT_TELL, Trouble.TOO_FEW)
    arrays = [draws.arrays[k][-length:] for k in chains]
    energy = np.stack([np.asarray(draws.energies[k][-length:]) for k in chains])
    if not np.all(np.isfinite(energy)):
        lost = int(np.sum(~np.isfinite(energy)))
        return _unmeasured(draws, len(chains), length, Level.BAD, Trouble.NOT_FINITE, lost)
    free = ~_held(gauge) & gauge.graph.free
    free[~position_determined(gauge.graph), 3:] = False
    poses = aligned.AlignedDraws(arrays, reference, gauge)
    series = _Series(len(chains), length, poses.is_compiled)

    table = np.full((n, 6, len(_JUDGED)), np.nan)
    sigma, error = np.full((n, 2), np.nan), np.full((n, 2), np.nan)

    def judge(group: list[slice]) -> int:
        """Fill in some nodes; return how many of their coordinates are stuck."""
        some = poses.read(aligned.whole(group))
        return sum(judge_block(rows, some.tangents(aligned.within(rows, group))) for rows in group)

    def judge_block(rows: slice, x: Array) -> int:
        """The same, given their series (rows, 6, chains · draws)."""
        scale = np.abs(reference.position[rows]).max(initial=1.0)
        moving = np.ptp(x, axis=-1) > 1e-13 * np.array([1.0, 1.0, 1.0, scale, scale, scale])
        use = free[rows] & moving
        if np.any(use):
            table[rows][use] = series.judged(x[use])
        for part, columns in enumerate((slice(0, 3), slice(3, 6))):
            along = np.array([k for k in gauge.graph.axes if columns.start <= k < columns.stop])
            known = np.flatnonzero(np.all(use[:, along], axis=1))
            if len(known):
                where = rows.start + known
                sigma[where, part], error[where, part] = series.spread(x[known], along).T
        return int(np.sum(free[rows] & ~moving))

    values = _BLOCK_VALUES if poses.is_compiled else _READABLE_VALUES
    stuck = sum(on_threads(judge, poses.parts(values)))
    relative = error / sigma
    still = np.ptp(energy) == 0.0
    result = Diagnostics(
        level=Level.GOOD, troubles=(), chains_made=len(lengths), not_finite=0, ids=draws.ids,
        n_chains=len(chains), draws_per_chain=length,
        **{name: np.ascontiguousarray(table[..., k]) for k, name in enumerate(_JUDGED)},
        sigma_rot_deg_mcse=np.degrees(error[:, 0]), sigma_pos_mcse=error[:, 1],
        sigma_relative_error=np.fmax(relative[:, 0], relative[:, 1]),
        energy_rhat=math.nan if still else float(rhat(energy)),
        energy_ess_bulk=math.nan if still else float(ess_bulk(energy)),
        energy_ess_tail=math.nan if still else float(ess_tail(energy)),
        energy_mcse=0.0 if still else float(mcse_mean(energy)),
        energy_mixing=math.nan if still else float(np.min(energy_mixing(energy))),
        stuck=stuck,
    )  # fmt: skip
    return _judged(result)


def _held(gauge: Gauge) -> Mask:
    """Which coordinates (n, 6) the gauge holds."""
    n = gauge.graph.n_nodes
    return np.asarray(np.einsum("naa->na", gauge.clear_held(np.ones((n, 6, 6)))) == 0.0)


class _Series:
    """The estimators above for many series (k, S) of one number, each of so many chains of equal length.

    Compiled, unless told not to be, and with few lags where few will do; :meth:`judged_slowly` and :meth:`spread_slowly` are the
    same in so many words.
    """

    def __init__(self, chains: int, length: int, is_compiled: bool = True) -> None:
        self.shape, self.is_compiled, half = (chains, length), is_compiled, length // 2
        place = np.full(self.shape, -1, dtype=np.int64)
        halves = np.arange(2 * chains * half).reshape(half, 2 * chains).T  # the first draws of all, then the second
        place[:, :half], place[:, length - half :] = halves[:chains], halves[chains:]
        self.place, self.scores = place.reshape(-1), _scores_of_ranks(halves.size)
        at = (chains * length - 1) * np.array(_TAIL)
        self.tail_at = np.floor(at).astype(np.int64)
        self.tail_part = at - self.tail_at

    def judged(self, y: Array) -> Array:
        """R-hat, bulk and tail ESS, Monte Carlo errors of mean and σ (k, 5)."""
        if not self.is_compiled:
            return self.judged_slowly(y)
        from tempose.analysis import _kernels

        out = np.empty((len(y), len(_JUDGED)))
        order = np.argsort(y, axis=-1)
        _kernels.judge(y, order, self.place, self.shape[0], self.scores, self.tail_at, self.tail_part, _DIRECT, out)
        late = np.any(out == _kernels.UNFINISHED, axis=1)
        if np.any(late):
            out[late] = self.judged_slowly(y[late])
        return out

    def judged_slowly(self, y: Array) -> Array:
        """The same, all lags at once."""
        x = y.reshape(-1, *self.shape)
        halves = split(x)
        normalised = rank_normalise(halves)
        found = (_rhat_both(halves, normalised), _ess(normalised), ess_tail(x), mcse_mean(x), mcse_sd(x))
        return np.stack(found, axis=-1)

    def spread(self, x: Array, along: Index) -> Array:
        """σ per axis, root mean square over some of the six, and its Monte Carlo error, (k, 2), of series (k, 6, S)."""
        if not self.is_compiled:
            return self.spread_slowly(x, along)
        from tempose.analysis import _kernels

        out = np.empty((len(x), 2))
        _kernels.judge_spread(x, along, self.place, self.shape[0], _DIRECT, out)
        late = out[:, 1] == _kernels.UNFINISHED
        if np.any(late):
            out[late] = self.spread_slowly(x[late], along)
        return out

    def spread_slowly(self, x: Array, along: Index) -> Array:
        """The same (k, 2), all lags at once."""
        z = x[:, along].reshape(len(x), len(along), *self.shape)
        square = np.mean((z - z.mean(axis=(-2, -1), keepdims=True)) ** 2, axis=1)
        return np.stack([np.sqrt(square.mean(axis=(-2, -1))), _error_of_root_mean(square)], axis=-1)


def _unmeasured(
    draws: Draws, chains: int, length: int, level: Level, trouble: Trouble, not_finite: int = 0
) -> Diagnostics:
    """A verdict without numbers."""
    n, nan = len(draws.ids), math.nan
    unknown = np.full((n, 6), nan)
    return Diagnostics(
        level=level,
        troubles=((trouble, level),),
        chains_made=len(draws.arrays),
        not_finite=not_finite,
        ids=draws.ids,
        n_chains=chains,
        draws_per_chain=length,
        rhat=unknown,
        ess_bulk=unknown,
        ess_tail=unknown,
        mcse_mean=unknown,
        mcse_sd=unknown,
        sigma_rot_deg_mcse=np.full(n, nan),
        sigma_pos_mcse=np.full(n, nan),
        sigma_relative_error=np.full(n, nan),
        energy_rhat=nan,
        energy_ess_bulk=nan,
        energy_ess_tail=nan,
        energy_mcse=nan,
        energy_mixing=nan,
        stuck=0,
    )


# ---------------------------------------------------------------------- the verdict


def _judged(d: Diagnostics) -> Diagnostics:
    """The same with troubles and level filled in."""
    if math.isnan(d.least_ess) and not d.stuck:
        return replace(d, level=Level.CANNOT_TELL, troubles=((Trouble.NOTHING_MOVES, Level.CANNOT_TELL),))
    troubles = tuple(_troubles(d))
    found = {level for _, level in troubles}
    if found == {Level.USABLE} and not d.worst_sigma_error.value <= SIGMA_USABLE:
        found = {Level.NOT_GOOD}
    level = next((one for one in (Level.BAD, Level.NOT_GOOD, Level.USABLE) if one in found), Level.GOOD)
    return replace(d, level=level, troubles=troubles)


def _troubles(d: Diagnostics) -> Iterator[tuple[Trouble, Level]]:
    """What is wrong, each with how bad it is."""
    worst = d.worst_rhat.value
    if d.stuck:
        yield Trouble.STUCK, Level.BAD
    if d.chains_disagree:
        yield Trouble.CHAINS_DISAGREE, Level.BAD
    elif worst > RHAT_BAD:
        yield Trouble.TOO_SHORT, Level.BAD
    elif worst > RHAT_GOOD:
        yield Trouble.RHAT, Level.USABLE if worst <= RHAT_USABLE else Level.NOT_GOOD
    for trouble, ess in ((Trouble.BULK_ESS, d.worst_ess_bulk.value), (Trouble.TAIL_ESS, d.worst_ess_tail.value)):
        if ess < ESS_GOOD:
            yield trouble, Level.BAD if ess < ESS_BAD else Level.USABLE
    if d.energy_mixing < ENERGY_GOOD:
        yield Trouble.CREEPS, Level.NOT_GOOD
    if d.n_chains == 1:
        yield Trouble.ONE_CHAIN, Level.NOT_GOOD
    if d.n_chains < d.chains_made:
        yield Trouble.LEFT_OUT, Level.NOT_GOOD
