"""Lines of numbers as numbers, compiled: exactly what ``int`` and ``float`` make of them, or nothing at all.

A line that is not the usual one (another tag, a comma, a comment, a field too many, a mistake) is left to the careful reader,
which knows what to say about it.

Decimals are rounded correctly by the method of Eisel and Lemire (Lemire, "Number parsing at a gigabyte per second", 2021): the
digits times a power of five of 128 bits, and where that cannot decide, nothing.
"""

from __future__ import annotations

import functools

import numpy as np

from tempose._support.compiling import inlined, kernel
from tempose._typing import AnyArray, Array, Index

LARGEST_POWER = 120
"""Powers of ten beyond this are left to ``float``: no length or precision of this world is of that size."""

_BLANK, _TAB, _NEWLINE, _RETURN = 32, 9, 10, 13
_PLUS, _MINUS, _POINT, _ZERO, _E, _e = 43, 45, 46, 48, 69, 101
_MOST_DIGITS = 19  # of any 64-bit number

_U1, _U2, _U3 = np.uint64(1), np.uint64(2), np.uint64(3)
_U9, _U32, _U52, _U63 = np.uint64(9), np.uint64(32), np.uint64(52), np.uint64(63)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_EXACT = np.uint64(1 << 53)  # whole numbers up to here are doubles
_HIDDEN = np.uint64(1 << 52)
_SIGN = np.uint64(1 << 63)
_ZEROS = np.uint64(0x3030303030303030)  # eight digits 0
_TO_128 = np.uint64(0x7676767676767676)  # what makes 128 of ten, in each byte
_HIGH_BITS = np.uint64(0x8080808080808080)
_LOW_BITS = np.uint64(0x0101010101010101)


@functools.cache
def powers_of_five() -> AnyArray:
    """The first 128 bits of 5^q, high and low, for q = −LARGEST_POWER … LARGEST_POWER, rounded as Lemire does."""
    out = np.empty((2 * LARGEST_POWER + 1, 2), dtype=np.uint64)
    for row, q in enumerate(range(-LARGEST_POWER, LARGEST_POWER + 1)):
        power = 5 ** abs(q)
        if q >= 0:
            bits = power << (128 - power.bit_length()) if power < 1 << 128 else power >> (power.bit_length() - 128)
        else:
            z = (power - 1).bit_length()  # the smallest with 2^z >= power
            bits = (1 << (z + 127 if q >= -27 else 2 * z + 128)) // power + 1
            while bits >= 1 << 128:
                bits //= 2
        out[row] = bits >> 64, bits & 0xFFFFFFFFFFFFFFFF
    return out


@functools.cache
def powers_of_ten() -> Array:
    """10⁰ … 10²², which are doubles."""
    return np.array([10.0**k for k in range(23)])


@functools.cache
def whole_powers_of_ten() -> AnyArray:
    """10⁰ … 10⁸, as integers."""
    return np.array([10**k for k in range(9)], dtype=np.uint64)


@inlined
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """High and low 64 bits of a·b."""
    a0, a1, b0, b1 = a & _LOW_HALF, a >> _U32, b & _LOW_HALF, b >> _U32
    low, mid, other, high = a0 * b0, a0 * b1, a1 * b0, a1 * b1
    carry = (low >> _U32) + (mid & _LOW_HALF) + (other & _LOW_HALF)
    return high + (mid >> _U32) + (other >> _U32) + (carry >> _U32), (low & _LOW_HALF) | (carry << _U32)


@inlined
def _leading_zeros(w: np.uint64) -> int:
    count = 0
    for step in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - step) == np.uint64(0):
            w <<= np.uint64(step)
            count += step
    return count


@inlined
def bits_of(w: np.uint64, q: int, high_five: np.uint64, low_five: np.uint64) -> np.uint64:
    """The bits of the double next to w·10^q, w > 0, of the 128 bits of 5^q; all ones if this way cannot tell."""
    zeros = _leading_zeros(w)
    w = w << np.uint64(zeros)
    high, low = _product(w, high_five)
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):  # what was cut off may matter
        more, _ = _product(w, low_five)
        low += more
        if more > low:
            high += _U1
        if low == _ALL_ONES and (q < -27 or q > 55):
            return _ALL_ONES
    upper = high >> _U63
    shift = upper + _U9
    mantissa = high >> shift
    power = ((217706 * q) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if power <= 0 or power >= 0x7FF:
        return _ALL_ONES
    if low <= _U1 and q >= -4 and q <= 23 and mantissa & _U3 == _U1 and mantissa << shift == high:
        mantissa ^= _U1  # exactly half way: to even
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if mantissa >= _HIDDEN << _U1:
        mantissa = _HIDDEN
        power += 1
    if power >= 0x7FF:
        return _ALL_ONES
    return (np.uint64(power) << _U52) | (mantissa & ~_HIDDEN)


@inlined
def _is_digit(byte: np.uint8) -> bool:
    return bool(byte >= _ZERO and byte <= _ZERO + 9)


@inlined
def _ends_a_word(byte: np.uint8) -> bool:
    return bool(byte in (_BLANK, _NEWLINE, _TAB, _RETURN))


@inlined
def _leading_digits(word: np.uint64) -> tuple[int, np.uint64]:
    """How many of eight bytes are digits, from the first on, and the number they are."""
    word ^= _ZEROS  # 0 … 9 in each byte that is a digit
    other = (word | (word + _TO_128)) & _HIGH_BITS  # the others; right up to the first of them
    count = 8
    if other != np.uint64(0):
        before = (other & (~other + _U1)) - _U1
        count = int(((before & _LOW_BITS) * _LOW_BITS) >> np.uint64(56)) - 1
        if count == 0:
            return 0, np.uint64(0)
        word <<= np.uint64(64 - 8 * count)  # zeros in front
    word = (word * np.uint64(10) + (word >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    return count, (word * np.uint64(10000) + (word >> _U32)) & _LOW_HALF


# Functions that take arrays count who uses them on every call, which takes longer than reading a number: one call for a line.


@inlined
def _kind_at(data: AnyArray, at: int, tags: AnyArray, tag_length: Index, last: int) -> int:
    """Which tag there is, −1 if none of them; the last one is asked for first."""
    for k in range(-1, len(tag_length)):
        one = last if k < 0 else k
        size = tag_length[one]
        if at + size >= len(data) or not (data[at + size] == _BLANK or data[at + size] == _TAB):
            continue
        same = True
        for c in range(size):
            if data[at + c] != tags[one, c]:
                same = False
                break
        if same:
            return one
    return -1


@inlined
def _integers(data: AnyArray, at: int, n: int, out: Index, row: int) -> int:
    """Read n integers into a row; where they end, or −1 if one is none."""
    for column in range(n):
        while data[at] == _BLANK or data[at] == _TAB:
            at += 1
        negative = data[at] == _MINUS
        if negative or data[at] == _PLUS:
            at += 1
        begin, value = at, 0
        while _is_digit(data[at]):
            value = 10 * value + int(data[at] - _ZERO)
            at += 1
        if at == begin or at - begin > 18 or not _ends_a_word(data[at]):
            return -1
        out[row, column] = -value if negative else value
    return at


@inlined
def _decimals(
    data: AnyArray,
    words: AnyArray,
    at: int,
    n: int,
    largest: float,
    fives: AnyArray,
    tens: Array,
    units: AnyArray,
    reals: Array,
    bits: AnyArray,
    row: int,
) -> int:
    """Read n decimals into a row of ``reals``, whose bits ``bits`` are; where they end, or −1 if one is none, or a hard one."""
    for column in range(n):
        while data[at] == _BLANK or data[at] == _TAB:
            at += 1
        if data[at] == _ZERO and data[at + 1] == _BLANK:  # most of many files
            reals[row, column] = 0.0
            at += 1
            continue
        negative = data[at] == _MINUS
        if negative or data[at] == _PLUS:
            at += 1
        first, point, begin, w = at, -1, -1, np.uint64(0)  # begin: of what is significant
        while True:
            if begin < 0:
                while data[at] == _ZERO:
                    at += 1
                if _is_digit(data[at]):
                    begin = at
            count = 8
            while count == 8 and at < len(words):
                count, more = _leading_digits(words[at])
                w = units[count] * w + more
                at += count
            while _is_digit(data[at]):  # at the end of the text
                w = np.uint64(10) * w + np.uint64(data[at] - _ZERO)
                at += 1
            if data[at] != _POINT or point >= 0:
                break
            at += 1
            point = at
        if at - first == (1 if point >= 0 else 0):
            return -1
        power = point - at if point >= 0 else 0
        significant = at - begin - (1 if point > begin else 0) if begin >= 0 else 0
        cut = False
        if significant > _MOST_DIGITS:  # w has overflowed: once more, and only as far as it goes
            w, k = np.uint64(0), begin
            for taken in range(significant):
                if data[k] == _POINT:
                    k += 1
                if taken < _MOST_DIGITS:
                    w = np.uint64(10) * w + np.uint64(data[k] - _ZERO)
                else:
                    cut = cut or data[k] != _ZERO
                k += 1
            power += significant - _MOST_DIGITS
        if data[at] == _e or data[at] == _E:
            at += 1
            down = data[at] == _MINUS
            if down or data[at] == _PLUS:
                at += 1
            begin, exponent = at, 0
            while _is_digit(data[at]) and at - begin < 9:
                exponent = 10 * exponent + int(data[at] - _ZERO)
                at += 1
            if at == begin:
                return -1
            power += -exponent if down else exponent
        if not _ends_a_word(data[at]):
            return -1
        if w == np.uint64(0):
            reals[row, column] = -0.0 if negative else 0.0
            continue
        if power < -LARGEST_POWER or power > LARGEST_POWER:
            return -1
        if not cut and w <= _EXACT and power >= -22 and power <= 22:
            value = np.float64(w)
            value = value / tens[-power] if power < 0 else value * tens[power]
            reals[row, column] = -value if negative else value
        else:
            high, low = fives[power + LARGEST_POWER, 0], fives[power + LARGEST_POWER, 1]
            found = bits_of(w, power, high, low)
            if found == _ALL_ONES or (cut and bits_of(w + _U1, power, high, low) != found):
                return -1
            bits[row, column] = found | _SIGN if negative else found
        if abs(reals[row, column]) > largest:
            return -1
    return at


@kernel
def numbers_of_lines(
    data: AnyArray,
    words: AnyArray,
    tags: AnyArray,
    tag_length: Index,
    n_ids: Index,
    n_reals: Index,
    largest: float,
    fives: AnyArray,
    tens: Array,
    units: AnyArray,
    start: Index,
    kind: AnyArray,
    ids: Index,
    reals: Array,
    bits: AnyArray,
) -> bool:
    """Numbers of the lines of a piece of a file.

    Parameters
    ----------
    data
        The bytes (k,), the last of them a newline.
    words
        The same from each byte on, as far as there are eight, as little-endian integers.
    tags, tag_length, n_ids, n_reals
        Names (c, longest) of the kinds of lines, as bytes, and how many integers and decimals follow each.
    largest
        A decimal beyond this size is not read.
    fives, tens, units
        :func:`powers_of_five`, :func:`powers_of_ten`, :func:`whole_powers_of_ten`.
    start, kind, ids, reals
        Out: of each line (n,) where it begins, its kind, −1 if it was not read, and its numbers (n, ·).
    bits
        The memory of ``reals``, as integers.

    Returns
    -------
    bool
        Whether a decimal point occurs in what was read.
    """
    at, row, last = 0, 0, 0
    points = False
    while at < len(data):
        begin = at
        start[row] = begin
        kind[row] = -1
        while data[at] == _BLANK or data[at] == _TAB:
            at += 1
        found = _kind_at(data, at, tags, tag_length, last)
        if found >= 0:
            last = found
            at = _integers(data, at + tag_length[found], n_ids[found], ids, row)
            if at >= 0:
                at = _decimals(data, words, at, n_reals[found], largest, fives, tens, units, reals, bits, row)
            if at >= 0:
                while data[at] == _BLANK or data[at] == _TAB:
                    at += 1
                if data[at] == _RETURN and data[at + 1] == _NEWLINE:
                    at += 1
                if data[at] == _NEWLINE:
                    kind[row] = found
                    at += 1
                    if not points:
                        for c in range(begin, at):
                            if data[c] == _POINT:
                                points = True
                                break
        if kind[row] < 0:
            at = begin
            while data[at] != _NEWLINE:
                at += 1
            at += 1
        row += 1
    return points
