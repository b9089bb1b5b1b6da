"""CPU kernels of Linear and products of matrices: one BLAS call into the destination."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .ufuncs import ones, sum_into


def rows(array: np.ndarray) -> np.ndarray:
    """Return (..., C) as (N, C): one product of matrices, where NumPy would do one for each leading index."""
    shape = array.shape
    if len(shape) == 2:
        return array
    if len(shape) == 3:  # the most frequent: an op of a small model takes microseconds
        return array.reshape(shape[0] * shape[1], shape[2])
    return array.reshape(prod(shape[:-1]), shape[-1])


def LinearForward(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    y = rows(out.array)
    np.matmul(rows(x.array), weight.array.T, out=y)
    if bias is not None:
        np.add(y, bias.array, out=y)


def LinearBackwardInput(weight: Any, grad: Any, *, out: Any) -> None:
    np.matmul(rows(grad.array), weight.array, out=rows(out.array))


def LinearBackwardWeight(x: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    a, b = rows(grad.array).T, rows(x.array)
    if accumulate:
        target = out.array
        np.add(target, np.matmul(a, b), out=target)
    else:
        np.matmul(a, b, out=out.array)


def LinearBackwardBias(grad: Any, *, out: Any, accumulate: bool = False) -> None:
    g, target = rows(grad.array), out.array
    if accumulate:
        target += np.matmul(ones(len(g), g.dtype.char), g)[0]
    else:
        np.matmul(ones(len(g), g.dtype.char), g, out=target.reshape(1, -1))


def MatmulForward(a: Any, b: Any, *, out: Any) -> None:
    np.matmul(a.array, b.array, out.array)


def MatmulBackwardInput(b: Any, grad: Any, shape: tuple[int, ...], *, out: Any) -> None:
    _product_into(grad.array, b.array.swapaxes(-1, -2), out.array)


def MatmulBackwardOther(a: Any, grad: Any, shape: tuple[int, ...], *, out: Any) -> None:
    _product_into(a.array.swapaxes(-1, -2), grad.array, out.array)


def _product_into(a: np.ndarray, b: np.ndarray, target: np.ndarray) -> None:
    """Write a b to ``target``, summed to its shape."""
    if a.ndim == b.ndim == target.ndim and a.shape[:-2] == b.shape[:-2] == target.shape[:-2]:
        np.matmul(a, b, target)
    else:
        sum_into(np.matmul(a, b), target)


def Gemm(a: Any, b: Any, c: Any, alpha: float, beta: float, transpose_a: bool, transpose_b: bool) -> None:
    left, right, target = a.array, b.array, c.array
    if transpose_a:
        left = left.swapaxes(-1, -2)
    if transpose_b:
        right = right.swapaxes(-1, -2)
    y = np.matmul(left, right) if beta or target.dtype != left.dtype else np.matmul(left, right, target)
    if alpha != 1.0:
        np.multiply(y, alpha, y)
    if beta:
        np.multiply(target, beta, target)
        np.add(target, y, target)
    elif y is not target:
        np.copyto(target, y)
