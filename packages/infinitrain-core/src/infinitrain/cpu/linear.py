"""CPU kernels of Linear: one BLAS call into the destination."""

from __future__ import annotations

from typing import Any

import numpy as np


def _rows(array: np.ndarray) -> np.ndarray:
    return array if array.ndim == 2 else array.reshape(-1, array.shape[-1])


def LinearForward(x: Any, weight: Any, bias: Any, *, out: Any) -> None:
    y = out.array
    np.matmul(x.array, weight.array.T, out=y)
    if bias is not None:
        np.add(y, bias.array, out=y)


def LinearBackwardInput(weight: Any, grad: Any, *, out: Any) -> None:
    np.matmul(grad.array, weight.array, out=out.array)


def LinearBackwardWeight(x: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    a, b = _rows(grad.array).T, _rows(x.array)
    if accumulate:
        target = out.array
        np.add(target, np.matmul(a, b), out=target)
    else:
        np.matmul(a, b, out=out.array)


def LinearBackwardBias(grad: Any, *, out: Any, accumulate: bool = False) -> None:
    if accumulate:
        target = out.array
        np.add(target, np.add.reduce(_rows(grad.array), 0), out=target)
    else:
        np.add.reduce(_rows(grad.array), 0, out=out.array)
