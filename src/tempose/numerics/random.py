"""Counter-based random numbers: the k-th normal of node i at step s is a pure function of (key, i, s, k).

That is the random-stream rule of the package's samplers: no generator state is shared, so chains, threads and resumed
runs draw the same numbers. The generator is Philox4x32-10 (Salmon et al., 2011). One block of 128 bits makes two
normals (Box & Muller, 1958), from a radius and an angle of 52 bits each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tempose._support.compiling import inlined, kernel
from tempose.numerics.elementary import cos_sinc, from_bits, logarithm, open_unit, to_bits

_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
NODES_PER_BLOCK = 128
_BIT, _SIGN_AT = np.uint64(1), np.uint64(63)


@inlined
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Ten rounds on a 128-bit counter and a 64-bit key, all as 32-bit words held in uint64."""
    for _ in range(10):
        p0 = _M0 * (c0 & _MASK)
        p1 = _M1 * (c2 & _MASK)
        c0 = (p1 >> _SHIFT) ^ c1 ^ k0
        c1 = p1 & _MASK
        c2 = (p0 >> _SHIFT) ^ c3 ^ k1
        c3 = p0 & _MASK
        k0 = (k0 + _W0) & _MASK
        k1 = (k1 + _W1) & _MASK
    return c0, c1, c2, c3


@inlined
def _words(key0: Any, key1: Any, index: Any, step: Any, lane: Any) -> Any:
    """Two independent words of 64 random bits, a function of the arguments alone."""
    s = np.uint64(step)
    a, b, c, d = philox(np.uint64(index), np.uint64(lane), s & _MASK, s >> _SHIFT, key0, key1)
    return (a << _SHIFT) | b, (c << _SHIFT) | d


@inlined
def uniform(key0: Any, key1: Any, index: Any, step: Any, lane: Any) -> Any:
    """A number in the open interval (0, 1), a function of the arguments alone."""
    return open_unit(_words(key0, key1, index, step, lane)[0])


@inlined(error_model="numpy")
def box_muller(first: Any, second: Any) -> Any:
    """Two independent normals from two words of 64 random bits.

    ``√(−2 log u) (cos φ, sin φ)``, u from the first word; the second gives φ within a right angle, and by its last two
    bits the number of right angles to add.
    """
    radius = math.sqrt(-2.0 * logarithm(open_unit(first)))
    x = (0.5 * math.pi) * (open_unit(second) - 0.5)
    c, s = cos_sinc(x * x)
    c, s = radius * c, radius * (s * x)
    odd, half = second & _BIT, second >> _BIT
    a = s if odd else c
    b = c if odd else s
    return from_bits(to_bits(a) ^ ((second ^ half) << _SIGN_AT)), from_bits(to_bits(b) ^ (half << _SIGN_AT))


@kernel(error_model="numpy")
def block_of_normals(key: Any, step: Any, lane: Any, first: Any, count: Any, out: Any) -> None:
    """Six normals for each of at most a block of nodes, as :func:`fill_normals` would draw them.

    The c-th of node ``first + k`` goes to ``out[c * NODES_PER_BLOCK + k]``: with one column for each, several nodes
    share vector instructions. Two short loops keep the processor busier than one long one.
    """
    k0, k1 = key[0] & _MASK, key[1] & _MASK
    words = np.empty(2 * NODES_PER_BLOCK, np.uint64)
    for pair in range(3):
        at = 2 * pair * NODES_PER_BLOCK
        for k in range(count):
            words[k], words[k + NODES_PER_BLOCK] = _words(k0, k1, first + k, step, lane + pair)
        for k in range(count):
            a, b = box_muller(words[k], words[k + NODES_PER_BLOCK])
            out[at + k], out[at + NODES_PER_BLOCK + k] = a, b


@kernel(error_model="numpy")
def fill_normals(key0: Any, key1: Any, step: Any, first_lane: Any, out: Any) -> None:
    """Fill ``out`` (n, 2k) with the normals of every node at ``step``, lanes ``first_lane …``: for tests and set-up."""
    for node in range(out.shape[0]):
        for k in range(out.shape[1] // 2):
            a, b = _words(key0, key1, node, step, first_lane + k)
            out[node, 2 * k], out[node, 2 * k + 1] = box_muller(a, b)
