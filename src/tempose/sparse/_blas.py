"""BLAS and LAPACK inside compiled kernels.

SciPy publishes the addresses of its BLAS and LAPACK routines. An address differs from one process to the next, so a
kernel that is cached on disk must not contain it: :func:`addresses` looks the routines up once per process, every
kernel takes that array as an argument, and :func:`_call` jumps to the address it finds there.

The wrappers below take flat arrays with an offset to the first element of each matrix, which is stored by columns
(element (i, j) at ``offset + i + j * stride``).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

_ROUTINES = (
    ("cython_lapack", "dpotrf"),
    ("cython_lapack", "dpotri"),
    ("cython_blas", "dtrsm"),
    ("cython_blas", "dsyrk"),
    ("cython_blas", "dsymm"),
    ("cython_blas", "dgemm"),
)
_POTRF, _POTRI, _TRSM, _SYRK, _SYMM, _GEMM = range(len(_ROUTINES))

L, N, R, T = (np.uint8(ord(letter)) for letter in "LNRT")


@cache
def addresses() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the addresses of the routines in this process, in the order of ``_ROUTINES``."""
    found = [get_cython_function_address(f"scipy.linalg.{module}", name) for module, name in _ROUTINES]
    return np.array(found, dtype=np.int64)


def _define_call(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Call the Fortran routine at ``address``; ``int64`` arguments are pointers, others go by reference."""
    tools: Any = cgutils

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte_pointer = ir.IntType(8).as_pointer()
        pointers = []
        for kind, value in zip(signature.args[1], tools.unpack_tuple(builder, values[1]), strict=True):
            if kind == types.int64:
                pointers.append(builder.inttoptr(value, byte_pointer))
            else:
                slot = tools.alloca_once_value(builder, value)
                pointers.append(builder.bitcast(slot, byte_pointer))
        kind = ir.FunctionType(ir.VoidType(), [byte_pointer] * len(pointers))
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), pointers)
        return context.get_dummy_value()

    return types.void(address, arguments), codegen


_call: Any = intrinsic(_define_call)


@njit(inline="always")
def _at(array: Any, offset: Any) -> Any:
    return np.int64(array.ctypes.data + offset * array.itemsize)


@njit
def potrf(blas: Any, n: Any, a: Any, offset: Any, stride: Any, info: Any) -> Any:
    """Overwrite the lower triangle of A by its Cholesky factor; the status goes to ``info[0]``."""
    _call(blas[_POTRF], (L, np.int32(n), _at(a, offset), np.int32(stride), _at(info, 0)))


@njit
def potri(blas: Any, n: Any, a: Any, offset: Any, stride: Any, info: Any) -> Any:
    """Overwrite the lower triangle of a Cholesky factor of A by that of A⁻¹."""
    _call(blas[_POTRI], (L, np.int32(n), _at(a, offset), np.int32(stride), _at(info, 0)))


@njit
def trsm(
    blas: Any, side: Any, transpose: Any, m: Any, n: Any,
    a: Any, a_offset: Any, a_stride: Any, b: Any, b_offset: Any, b_stride: Any,
) -> Any:  # fmt: skip
    """Overwrite the m × n matrix B by op(A)⁻¹ B (side L) or B op(A)⁻¹ (side R), A lower triangular."""
    _call(
        blas[_TRSM],
        (side, L, transpose, N, np.int32(m), np.int32(n), 1.0,
         _at(a, a_offset), np.int32(a_stride), _at(b, b_offset), np.int32(b_stride)),
    )  # fmt: skip


@njit
def syrk(
    blas: Any, n: Any, k: Any, alpha: Any,
    a: Any, a_offset: Any, a_stride: Any, beta: Any, c: Any, c_offset: Any, c_stride: Any,
) -> Any:  # fmt: skip
    """Lower triangle of C ← α A Aᵀ + β C, with A of n × k."""
    _call(
        blas[_SYRK],
        (L, N, np.int32(n), np.int32(k), alpha,
         _at(a, a_offset), np.int32(a_stride), beta, _at(c, c_offset), np.int32(c_stride)),
    )  # fmt: skip


@njit
def symm(
    blas: Any, m: Any, n: Any, alpha: Any,
    a: Any, a_offset: Any, a_stride: Any, b: Any, b_offset: Any, b_stride: Any,
    c: Any, c_offset: Any, c_stride: Any,
) -> Any:  # fmt: skip
    """C ← α A B with A symmetric (lower triangle read) of m × m and B of m × n."""
    _call(
        blas[_SYMM],
        (L, L, np.int32(m), np.int32(n), alpha,
         _at(a, a_offset), np.int32(a_stride), _at(b, b_offset), np.int32(b_stride),
         0.0, _at(c, c_offset), np.int32(c_stride)),
    )  # fmt: skip


@njit
def gemm(
    blas: Any, a_transpose: Any, m: Any, n: Any, k: Any, alpha: Any,
    a: Any, a_offset: Any, a_stride: Any, b: Any, b_offset: Any, b_stride: Any,
    beta: Any, c: Any, c_offset: Any, c_stride: Any,
) -> Any:  # fmt: skip
    """C ← α op(A) B + β C with op(A) of m × k, B of k × n."""
    _call(
        blas[_GEMM],
        (a_transpose, N, np.int32(m), np.int32(n), np.int32(k), alpha,
         _at(a, a_offset), np.int32(a_stride), _at(b, b_offset), np.int32(b_stride),
         beta, _at(c, c_offset), np.int32(c_stride)),
    )  # fmt: skip
