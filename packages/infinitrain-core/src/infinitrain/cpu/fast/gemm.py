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

from ..threads import gemm_addresses, has_small_kernels
from . import LARGE
from .jit import inline, serial
from .memory import keep, pointer

GRAIN = LARGE // 2
"""Multiplications and additions worth a thread."""


for _kind, _address in zip("sd", gemm_addresses() or (), strict=False):
    llvmlite.binding.add_symbol(f"infinitrain_{_kind}gemm", _address)


def _external(kind: str, number: Any) -> Any:
    size, flag, pointer = types.int64, types.int32, types.voidptr
    result = types.void(
        flag, flag, flag, size, size, size, number, pointer, size, pointer, size, number, pointer, size
    )
    return types.ExternalFunction(f"infinitrain_{kind}gemm", result)


_sgemm, _dgemm = _external("s", types.float32), _external("d", types.float64)
_SMALL_KERNELS = has_small_kernels()
_ROWS, _AS_IS, _TRANSPOSED = np.int32(101), np.int32(111), np.int32(112)  # of cblas


@inline
def gemm(ta, tb, a, b, beta, c):
    """c (m, n) = op(a) op(b) + beta c, op transposing where ta, tb are True; rows contiguous, beta = 0 reads no c."""
    gemm_at(
        c.itemsize == 4, ta, tb, c.shape[0], c.shape[1], a.shape[0] if ta else a.shape[1], 1.0, a.ctypes.data,
        _line(a), b.ctypes.data, _line(b), np.float64(beta), c.ctypes.data, _line(c),
    )  # fmt: skip
    keep(a)
    keep(b)
    keep(c)


@inline
def _line(a):
    """How many elements the rows are apart; of one row NumPy may say anything."""
    return max(a.strides[0] // a.itemsize if a.shape[0] > 1 else a.shape[1], 1)


@serial
def gemm_at(single, ta, tb, m, n, k, alpha, a, a_line, b, b_line, beta, c, c_line):
    """c = alpha op(a) op(b) + beta c of matrices at addresses, whose rows are as many elements apart."""
    if m == 0 or n == 0:
        return
    if k == 0:
        a_line, b_line = m, n  # NumPy's of empty arrays BLAS refuses
    size = 4 if single else 8
    high, wide = _block(ta, tb, m, n, k)
    for i in range(0, m, high):
        for j in range(0, n, wide):
            _call(
                single, ta, tb, min(high, m - i), min(wide, n - j), k,
                alpha, a + i * size * (1 if ta else a_line), a_line, b + j * size * (b_line if tb else 1), b_line,
                beta, c + (i * c_line + j) * size, c_line,
            )  # fmt: skip


@inline
def _block(ta, tb, m, n, k):
    """How many rows and columns of c to compute at once: what BLAS has small kernels for, where they are faster.

    Those read a and b as they are, where others copy them first, which a few rows do not pay for. OpenBLAS takes them
    up to 10⁶ multiplications; with b alone transposed also from k = 32 on, up to 1,200 elements of c.
    """
    high, wide = m, n
    if _SMALL_KERNELS and k > 0:
        if tb and not ta and k >= 32:
            fit = min(1200 // m, 1_000_000 // (m * k)) // 8 * 8
            if fit:
                wide = fit
        elif not tb:
            fit = 1_000_000 // (k * (n if ta else m)) // 16 * 16
            if fit >= 32 and ta:
                high = fit
            elif fit >= 32:
                wide = fit
    return high, wide


@inline
def _call(single, ta, tb, m, n, k, alpha, a, a_line, b, b_line, beta, c, c_line):
    one, two = (_TRANSPOSED if ta else _AS_IS), (_TRANSPOSED if tb else _AS_IS)
    x, y, z = pointer(a), pointer(b), pointer(c)
    if single:
        _sgemm(_ROWS, one, two, m, n, k, np.float32(alpha), x, a_line, y, b_line, np.float32(beta), z, c_line)
    else:
        _dgemm(_ROWS, one, two, m, n, k, np.float64(alpha), x, a_line, y, b_line, np.float64(beta), z, c_line)


@inline
def bounds(part, nt, n, multiple):
    """Return where part ``part`` of ``nt`` of n rows starts and ends; all parts but the last are multiples."""
    width = ((n + nt - 1) // nt + multiple - 1) // multiple * multiple
    start = min(part * width, n)
    return start, min(start + width, n)


@inline
def share(part, nt, m, n, columns):
    """Return the first and last row and column of part ``part`` of ``nt`` of an m by n matrix."""
    if columns:
        left, right = bounds(part, nt, n, 16)
        return 0, m, left, right
    top, bottom = bounds(part, nt, m, 16)
    return top, bottom, 0, n
