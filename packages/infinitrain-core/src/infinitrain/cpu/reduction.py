"""CPU kernels of reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import reduction as arrays

Axes = tuple[int, ...]


def SumForward(x: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    np.add.reduce(x.array, axes, out=out.array, keepdims=keepdims)


def MeanForward(x: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    array, y = x.array, out.array
    np.add.reduce(array, axes, out=y, keepdims=keepdims)
    shape = array.shape
    np.divide(y, math.prod([shape[axis] for axis in axes]), out=y)


def MaxForward(x: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    np.maximum.reduce(x.array, axes, out=out.array, keepdims=keepdims)


def MinForward(x: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    np.minimum.reduce(x.array, axes, out=out.array, keepdims=keepdims)


def ArgMax(x: Any, axis: int, keepdims: bool, *, out: Any) -> None:
    x.array.argmax(axis, out=out.array, keepdims=keepdims)


def NormForward(x: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    # Squares as they are where they fit, which is one pass less than scaling them first.
    array, y = x.array, out.array
    with np.errstate(all="ignore"):
        np.sum(np.square(array), axis=axes, keepdims=keepdims, out=y)
        # Each square that vanished was below tiny; overflow shows as infinity, and NaN is no number to compare.
        info, count = np.finfo(y.dtype), math.prod(array.shape[axis] for axis in axes)
        if not ((y > count * info.tiny / info.eps) & (y < math.inf)).all():
            y[...] = arrays.NormForward(np, array, axes, keepdims)
            return
        np.sqrt(y, out=y)
