"""Counter-based random numbers: the k-th normal of node i at step s is a pure function of (key, i, s, k).

That is the random-stream rule of the package's samplers: no generator state is shared, so chains, threads and resumed
runs draw the same numbers. The generator is Philox4x32-10 (Salmon et al., 2011); normals come by inversion (Wichura's
AS 241, relative accuracy 1e-16), one 52-bit uniform each.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


@njit(cache=True, inline="always")
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Ten rounds on a 128-bit counter and a 64-bit key, all as 32-bit words held in uint64."""
    for _ in range(10):
        p0 = _M0 * c0
        p1 = _M1 * c2
        c0 = (p1 >> _SHIFT) ^ c1 ^ k0
        c1 = p1 & _MASK
        c2 = (p0 >> _SHIFT) ^ c3 ^ k1
        c3 = p0 & _MASK
        k0 = (k0 + _W0) & _MASK
        k1 = (k1 + _W1) & _MASK
    return c0, c1, c2, c3


@njit(cache=True, inline="always")
def uniform(high, low):  # type: ignore[no-untyped-def]
    """Two 32-bit words to a double in the open interval (0, 1): 52 bits, so that the centres of the cells are exact."""
    bits = ((high << _SHIFT) | low) >> np.uint64(12)
    return (np.float64(np.int64(bits)) + 0.5) * (1.0 / 4503599627370496.0)


@njit(cache=True)
def _normal_tail(p, q):  # type: ignore[no-untyped-def]
    r = math.sqrt(-math.log(min(p, 1.0 - p)))
    if r <= 5.0:
        r -= 1.6
        num = 7.74545014278341407640e-4
        for c in (
            2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0, 3.64784832476320460504e0,
            5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
        ):  # fmt: skip
            num = num * r + c
        den = 1.05075007164441684324e-9
        for c in (
            5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1, 6.89767334985100004550e-1,
            1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
        ):  # fmt: skip
            den = den * r + c
    else:
        r -= 5.0
        num = 2.01033439929228813265e-7
        for c in (
            2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2, 2.96560571828504891230e-1,
            1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
        ):  # fmt: skip
            num = num * r + c
        den = 2.04426310338993978564e-15
        for c in (
            1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4, 1.48753612908506148525e-2,
            1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
        ):  # fmt: skip
            den = den * r + c
    return num / den if q > 0.0 else -num / den


@njit(cache=True, inline="always")
def normal(p):  # type: ignore[no-untyped-def]
    """Standard normal quantile of ``p`` in (0, 1)."""
    q = p - 0.5
    if abs(q) > 0.425:
        return _normal_tail(p, q)
    r = 0.180625 - q * q
    num = (
        ((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r
        + 4.5921953931549871457e4
    ) * r + 1.3731693765509461125e4
    num = ((num * r + 1.9715909503065514427e3) * r + 1.3314166789178437745e2) * r + 3.3871328727963666080e0
    den = (
        ((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r
        + 2.1213794301586595867e4
    ) * r + 5.3941960214247511077e3
    den = ((den * r + 6.8718700749205790830e2) * r + 4.2313330701600911252e1) * r + 1.0
    return q * num / den


@njit(cache=True, inline="always")
def normal_pair(key0, key1, node, step, lane):  # type: ignore[no-untyped-def]
    """Two independent standard normals, a function of the arguments alone."""
    s = np.uint64(step)
    w0, w1, w2, w3 = philox(np.uint64(node), np.uint64(lane), s & _MASK, s >> _SHIFT, key0, key1)
    return normal(uniform(w0, w1)), normal(uniform(w2, w3))


@njit(cache=True)
def fill_normals(key0, key1, step, first_lane, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (n, 2k) with the normals of every node at ``step``, lanes ``first_lane …``: for tests and set-up."""
    for node in range(out.shape[0]):
        for k in range(out.shape[1] // 2):
            out[node, 2 * k], out[node, 2 * k + 1] = normal_pair(key0, key1, node, step, first_lane + k)
