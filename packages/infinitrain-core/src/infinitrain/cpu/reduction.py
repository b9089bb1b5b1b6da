"""CPU kernels of reductions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import reduction as arrays
from .erf import NUMPY
from .ufuncs import sum_into

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
    x.array.argmax(axis, out.array, keepdims=keepdims)


def ArgMin(x: Any, axis: int, keepdims: bool, *, out: Any) -> None:
    x.array.argmin(axis, out.array, keepdims=keepdims)


def SumBackward(grad: Any, shape: Axes, axes: Axes, keepdims: bool, *, out: Any) -> None:
    np.copyto(out.array, _opened(grad.array, shape, axes))


def MeanBackward(grad: Any, shape: Axes, axes: Axes, keepdims: bool, *, out: Any) -> None:
    np.copyto(out.array, _opened(grad.array, shape, axes) / math.prod([shape[axis] for axis in axes]))


def MaxBackward(grad: Any, x: Any, y: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    array, tied = x.array, out.array
    top = _opened(y.array, array.shape, axes)
    np.equal(array, top, tied)
    if np.isnan(top).any():
        np.logical_or(tied, np.isnan(array) & np.isnan(top), tied)  # a NaN is the extreme, and equals nothing
    share = _opened(grad.array, array.shape, axes) / np.add.reduce(tied, axes, keepdims=True)
    np.multiply(tied, share, tied)


def MinBackward(grad: Any, x: Any, y: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    MaxBackward(grad, x, y, axes, keepdims, out=out)


# Below its count times this, squares that vanished would be missed in a sum: each of them was below tiny.
_LOST = {t: float(np.finfo(t).tiny / np.finfo(t).eps) for t in (np.dtype(np.float32), np.dtype(np.float64))}


def NormForward(x: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    # Squares as they are where they fit, which is one pass less than scaling them first.
    array, y = x.array, out.array
    if axes == (array.ndim - 1,) and not keepdims:
        np.vecdot(array, array, y)
    else:
        np.add.reduce(np.square(array), axes, out=y, keepdims=keepdims)
    count = math.prod([array.shape[axis] for axis in axes])
    # Overflow shows as infinity, and NaN is no number to compare.
    if np.minimum.reduce(y, None) > count * _LOST[y.dtype] and np.maximum.reduce(y, None) < math.inf:
        np.sqrt(y, y)
    else:
        y[...] = arrays.NormForward(NUMPY, array, axes, keepdims)


MANY = 1 << 14
"""Elements from which on a pass over them costs more than to look at what they are multiplied by."""


def NormBackward(grad: Any, x: Any, y: Any, axes: Axes, keepdims: bool, *, out: Any) -> None:
    array, d = x.array, out.array
    norm, g = (_opened(t.array, array.shape, axes) for t in (y, grad))
    if np.count_nonzero(norm) != norm.size:
        norm = np.where(norm == 0, 1, norm)  # where it is 0 so is x
    if d.size >= MANY:
        ratio = np.divide(g, norm)
        size = np.abs(ratio)
        if np.minimum.reduce(size, None) > _LOST[d.dtype] and np.maximum.reduce(size, None) < math.inf:
            np.multiply(array, ratio, d)
            return
    np.divide(array, norm, d)  # at most 1, where the ratio may be anything
    np.multiply(d, g, d)


def CumSumForward(x: Any, axis: int, *, out: Any) -> None:
    np.add.accumulate(x.array, axis, None, out.array)


def CumSumBackward(grad: Any, axis: int, *, out: Any) -> None:
    back = (slice(None),) * axis + (slice(None, None, -1),)
    np.add.accumulate(grad.array[back], axis, None, out.array[back])


def RepeatInterleaveBackward(grad: Any, repeats: int, axis: int, *, out: Any) -> None:
    shape = out.shape
    runs = grad.array.reshape(*shape[: axis + 1], repeats, *shape[axis + 1 :])
    np.add.reduce(runs, axis + 1, out=out.array)


def ExpandBackward(grad: Any, shape: Axes, *, out: Any) -> None:
    sum_into(grad.array, out.array)


def _opened(y: np.ndarray, shape: Axes, axes: Axes) -> np.ndarray:
    """Return what ``shape`` was reduced to along axes with these axes back, as size 1."""
    return y.reshape([1 if i in axes else n for i, n in enumerate(shape)])
