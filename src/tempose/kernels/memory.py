"""Rows of one cache line, and asking for one before it is needed.

On large graphs the kernels wait for memory, not for arithmetic: a node's pose fills one aligned cache line, so that
visiting it costs one access, and the lines of the next edges are requested while the current ones are computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

_insert: Any = cgutils.get_or_insert_function
ROW = 8  # doubles in a cache line of 64 bytes


def rows(n: int) -> NDArray[np.float64]:
    """Zeros (n, 8), each row a cache line."""
    memory = np.zeros(ROW * (n + 1))
    first = -(memory.ctypes.data // 8) % ROW
    return memory[first : first + ROW * n].reshape(n, ROW)


def _prefetch(typing_context: Any, array: Any, offset: Any) -> Any:
    """Ask for the cache line that holds element ``offset`` of a contiguous array; computes nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(view.data, [arguments[1]]), cgutils.voidptr_t)
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, word, word, word])
        function = _insert(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, word(0), word(3), word(1)])  # to read, keep in all levels, data
        return context.get_dummy_value()

    return types.void(array, offset), generate


prefetch: Any = intrinsic(_prefetch)
