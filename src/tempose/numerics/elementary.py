"""Elementary functions from additions, multiplications, divisions and bit patterns only.

Compilers turn them into vector instructions, and every platform gets the same bits, which the functions of a C library
do not promise. Polynomials are those of fdlibm (Sun Microsystems, 1993), errors below one unit in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import inlined

_ONE = np.uint64(0x3FF0000000000000)  # bits of 1.0
_ROOT_HALF = np.uint64(0x3FE6A09E00000000)  # bits of about √½
_TWO_52 = np.uint64(0x4330000000000000)  # bits of 2⁵²
_MANTISSA = np.uint64(0x000FFFFFFFFFFFFF)
_EXPONENT_AT = np.uint64(52)


@inlined
def from_bits(bits: Any) -> Any:
    """The double with the given bit pattern."""
    return np.uint64(bits).view(np.float64)


@inlined
def to_bits(x: Any) -> Any:
    """The bit pattern of a double."""
    return np.float64(x).view(np.uint64)


@inlined
def open_unit(bits: Any) -> Any:
    """The upper 52 of 64 bits as a double in the open interval (0, 1): the exact centre of one of 2⁵² cells."""
    return from_bits((bits >> np.uint64(12)) | _ONE) - (1.0 - 2.0**-53)


@inlined
def logarithm(x: Any) -> Any:
    """Natural logarithm of a positive normal number ``x = 2ᵏ (1 + f)``, √½ ≤ 1 + f < √2."""
    bits = to_bits(x) + (_ONE - _ROOT_HALF)
    k = from_bits((bits >> _EXPONENT_AT) | _TWO_52) - (2.0**52 + 1023.0)
    f = from_bits((bits & _MANTISSA) + _ROOT_HALF) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (3.999999999940941908e-1 + w * (2.222219843214978396e-1 + w * 1.531383769920937332e-1))
    odd = 2.857142874366239149e-1 + w * (1.818357216161805012e-1 + w * 1.479819860511658591e-1)
    odd = z * (6.666666666666735130e-1 + w * odd)
    half = 0.5 * f * f
    low = s * (half + (even + odd)) + k * 1.90821492927058770002e-10  # log 2 in two parts
    return k * 6.93147180369123816490e-1 - ((half - low) - f)


@inlined
def cos_sinc(z: Any) -> Any:
    """Cosine of x and sin(x)/x from ``z = x²``, for x within ±π/4."""
    zz = z * z
    c = (2.48015872894767294178e-5 - z * 2.75573143513906633035e-7) + zz * (
        2.08757232129817482790e-9 - z * 1.13596475577881948265e-11
    )
    c = (4.16666666666666019037e-2 - z * 1.38888888888741095749e-3) + zz * c
    s = (-1.98412698298579493134e-4 + z * 2.75573137070700676789e-6) + zz * (
        -2.50507602534068634195e-8 + z * 1.58969099521155010221e-10
    )
    s = (-1.66666666666666324348e-1 + z * 8.33333333332248946124e-3) + zz * s
    return 1.0 - (0.5 * z - zz * c), 1.0 + z * s
