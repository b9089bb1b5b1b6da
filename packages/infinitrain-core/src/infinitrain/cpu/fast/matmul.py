"""Products of stacks of matrices: the stack is split, or where it is short, every product.

Matrices are given by address and distance between rows, so that one compiled function serves transposed, strided and
broadcast operands in both dtypes.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..linear import Gemm as gemm_by_numpy
from ..linear import rows
from .gemm import GRAIN, bounds, gemm_at
from .jit import parallel, parts, prange, serial

Shape = tuple[int, ...]


def MatmulForward(a: Any, b: Any, *, out: Any) -> None:
    product(a.array, b.array, out.array)


def MatmulBackwardInput(b: Any, grad: Any, shape: Shape, *, out: Any) -> None:
    product(grad.array, b.array.swapaxes(-1, -2), out.array)


def MatmulBackwardOther(a: Any, grad: Any, shape: Shape, *, out: Any) -> None:
    x, g = a.array, grad.array
    if len(shape) == 2 and x.shape[:-1] == g.shape[:-1]:
        x, g = rows(x), rows(g)  # the sum over leading axes is one product
    product(x.swapaxes(-1, -2), g, out.array)


def Gemm(a: Any, b: Any, c: Any, alpha: float, beta: float, transpose_a: bool, transpose_b: bool) -> None:
    if not alpha:  # BLAS then does not look for NaN in a and b
        gemm_by_numpy(a, b, c, alpha, beta, transpose_a, transpose_b)
        return
    left = a.array.swapaxes(-1, -2) if transpose_a else a.array
    right = b.array.swapaxes(-1, -2) if transpose_b else b.array
    product(left, right, c.array, alpha, beta)


def product(
    a: np.ndarray, b: np.ndarray, out: np.ndarray | None, alpha: float = 1.0, beta: float = 0.0
) -> np.ndarray:
    """out = alpha a b + beta out, summed over the axes along which out (dense) was broadcast to the product's shape."""
    if out is None:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = np.empty((*batch, a.shape[-2], b.shape[-1]), a.dtype)
    result = out
    if b.ndim == 2 and out.ndim == a.ndim > 2 and a.flags.c_contiguous:
        a, out = rows(a), rows(out)
    if not (a.size and b.size):
        out[...] = out * beta if beta else 0
        return result
    plan = _plan(a.shape, a.strides, b.shape, b.strides, out.shape, a.itemsize)
    if plan is None:
        product(np.ascontiguousarray(a), np.ascontiguousarray(b), out, alpha, beta)
        return result
    (m, n, k), (ta, a_line, a_at), (tb, b_line, b_at), c_at = plan
    _products(
        a.itemsize == 4, ta, tb, m, n, k, float(alpha), a.ctypes.data, a_at, a_line, b.ctypes.data, b_at, b_line,
        float(beta), out.ctypes.data, c_at, parts(a_at.size * m * n * k, GRAIN),
    )  # fmt: skip
    return result


@lru_cache(maxsize=256)
def _plan(a: Shape, a_strides: Shape, b: Shape, b_strides: Shape, out: Shape, size: int) -> Any:
    """Return (m, n, k), how each operand lies, and where each matrix of ``out`` is; None where one must be copied.

    An operand: is it transposed, elements between its rows, and the bytes from its start to each matrix, (targets,
    summed): the products in a row are summed into one matrix of ``out``.
    """
    left, right = _lines(a[-2:], a_strides[-2:], size), _lines(b[-2:], b_strides[-2:], size)
    if left is None or right is None:
        return None
    (m, k), n = a[-2:], b[-1]
    batch = np.broadcast_shapes(a[:-2], b[:-2])
    kept = (*(1,) * (len(batch) - len(out) + 2), *out[:-2])
    summed = [i for i, n in enumerate(batch) if kept[i] != n]
    order = [*(i for i in range(len(batch)) if i not in summed), *summed]
    targets = prod(kept)

    def places(shape: Shape, strides: Shape) -> np.ndarray:
        steps = [0 if n == 1 else s for n, s in zip(shape[:-2], strides[:-2], strict=True)]
        steps = [0] * (len(batch) - len(steps)) + steps
        found = np.zeros((), np.int64)
        for i in order:
            found = np.add.outer(found, np.arange(batch[i]) * steps[i])
        return found.reshape(targets, -1)

    return (
        (m, n, k),
        (*left, places(a, a_strides)),
        (*right, places(b, b_strides)),
        np.arange(targets) * (m * n * size),
    )


def _lines(shape: Shape, strides: Shape, size: int) -> tuple[bool, int] | None:
    """Return whether a matrix is transposed, and the elements between its rows, or columns; None if it is neither."""
    for transposed, (n, width), (line, step) in (
        (False, shape, strides),
        (True, shape[::-1], strides[::-1]),
    ):
        if n <= 1:
            line = max(width, 1) * size
        if (step == size or width <= 1) and line >= max(width, 1) * size and line % size == 0:
            return transposed, line // size
    return None


@serial
def _part(single, ta, tb, m, n, k, alpha, a, a_at, a_line, b, b_at, b_line, beta, c, c_at, c_line):
    for i in range(len(c_at)):
        for j in range(a_at.shape[1]):
            gemm_at(
                single, ta, tb, m, n, k, alpha, a + a_at[i, j], a_line, b + b_at[i, j], b_line,
                beta if j == 0 else 1.0, c + c_at[i], c_line,
            )  # fmt: skip


@parallel
def _products(single, ta, tb, m, n, k, alpha, a, a_at, a_line, b, b_at, b_line, beta, c, c_at, nt):
    targets, size = len(c_at), 4 if single else 8
    whole = nt == 1 or targets % nt == 0 or targets >= 4 * nt
    for t in prange(nt):
        i, j, top, bottom, left, right = 0, targets, 0, m, 0, n
        if whole:
            i, j = bounds(t, nt, targets, 1)
        elif n >= m:
            left, right = bounds(t, nt, n, 16)
        else:
            top, bottom = bounds(t, nt, m, 16)
        if bottom > top and right > left:
            _part(
                single, ta, tb, bottom - top, right - left, k, alpha,
                a + top * size * (1 if ta else a_line), a_at[i:j], a_line,
                b + left * size * (b_line if tb else 1), b_at[i:j], b_line,
                beta, c + (top * n + left) * size, c_at[i:j], n,
            )  # fmt: skip
