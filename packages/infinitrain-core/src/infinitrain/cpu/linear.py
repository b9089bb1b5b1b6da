"""CPU kernels of Linear: one BLAS call into the destination."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np


def _rows(array: np.ndarray) -> np.ndarray:
    """Return (..., C) as (N, C): one product of matrices, where NumPy would do one for each leading index."""
    return array if array.ndim == 2 else array.reshape(prod(array.shape[:-1]), array.shape[-1])


def LinearForward(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    y = _rows(out.array)
    np.matmul(_rows(x.array), weight.array.T, out=y)
    if bias is not None:
        np.add(y, bias.array, out=y)


def LinearBackwardInput(weight: Any, grad: Any, *, out: Any) -> None:
    np.matmul(_rows(grad.array), weight.array, out=_rows(out.array))


def LinearBackwardWeight(x: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    a, b = _rows(grad.array).T, _rows(x.array)
    if accumulate:
        target = out.array
        np.add(target, np.matmul(a, b), out=target)
    else:
        np.matmul(a, b, out=out.array)


@lru_cache(maxsize=32)
def _ones(n: int, dtype: str) -> np.ndarray:
    return np.ones((1, n), dtype)


def LinearBackwardBias(grad: Any, *, out: Any, accumulate: bool = False) -> None:
    # ones @ grad: BLAS sums columns in blocks, which is faster and more accurate than adding row after row.
    rows, target = _rows(grad.array), out.array
    if accumulate:
        target += np.matmul(_ones(len(rows), rows.dtype.char), rows)[0]
    else:
        np.matmul(_ones(len(rows), rows.dtype.char), rows, out=target.reshape(1, -1))
