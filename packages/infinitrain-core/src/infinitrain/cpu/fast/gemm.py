"""Products of matrices inside compiled kernels: NumPy's BLAS on one thread, called by name from each thread's part.

LLVM resolves the names `infinitrain_sgemm` and `infinitrain_dgemm` when code is loaded, so that compiled code may be
kept on disk. They are those of NumPy's own OpenBLAS with 64-bit sizes, as in the wheels of PyPI; with another BLAS
there are no fast kernels.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numpy as np
from numba import types

from ..threads import gemm_addresses
from .jit import inline, serial

GRAIN = 1 << 20
"""Multiplications and additions worth a thread: about 20 us."""


for _kind, _address in zip("sd", gemm_addresses() or (), strict=False):
    llvmlite.binding.add_symbol(f"infinitrain_{_kind}gemm", _address)


def _external(kind: str, number: Any) -> Any:
    size, flag, pointer = types.int64, types.int32, types.voidptr
    result = types.void(
        flag, flag, flag, size, size, size, number, pointer, size, pointer, size, number, pointer, size
    )
    return types.ExternalFunction(f"infinitrain_{kind}gemm", result)


_sgemm, _dgemm = _external("s", types.float32), _external("d", types.float64)
_ROWS, _AS_IS, _TRANSPOSED = np.int32(101), np.int32(111), np.int32(112)  # of cblas


@serial
def gemm(ta, tb, a, b, beta, c):
    """c (m, n) = op(a) op(b) + beta c, op transposing where ta, tb are True; rows contiguous, beta = 0 reads no c."""
    m, n = c.shape
    k = a.shape[0] if ta else a.shape[1]
    if m == 0 or n == 0:
        return
    if k == 0:
        if beta == 0:
            c[:] = 0
        return
    one, two = (_TRANSPOSED if ta else _AS_IS), (_TRANSPOSED if tb else _AS_IS)
    if c.itemsize == 4:
        _sgemm(
            _ROWS, one, two, m, n, k, np.float32(1), a.ctypes, max(a.strides[0] // 4, 1), b.ctypes,
            max(b.strides[0] // 4, 1), np.float32(beta), c.ctypes, max(c.strides[0] // 4, 1),
        )  # fmt: skip
    else:
        _dgemm(
            _ROWS, one, two, m, n, k, 1.0, a.ctypes, max(a.strides[0] // 8, 1), b.ctypes,
            max(b.strides[0] // 8, 1), np.float64(beta), c.ctypes, max(c.strides[0] // 8, 1),
        )  # fmt: skip


@inline
def bounds(part, nt, n, multiple):
    """Return where part ``part`` of ``nt`` of n rows starts and ends; all parts but the last are multiples."""
    width = ((n + nt - 1) // nt + multiple - 1) // multiple * multiple
    start = min(part * width, n)
    return start, min(start + width, n)
