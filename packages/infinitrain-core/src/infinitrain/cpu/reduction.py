"""The CPU's norm: squares as they are where they fit, which is one pass less than scaling them first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels import reduction as arrays


def NormForward(x: Any, axes: tuple[int, ...], keepdims: bool, *, out: Any) -> None:
    array, y = x.array, out.array
    with np.errstate(all="ignore"):
        np.sum(np.square(array), axis=axes, keepdims=keepdims, out=y)
        # Each square that vanished was below tiny; overflow shows as infinity, and NaN is no number to compare.
        info, count = np.finfo(y.dtype), math.prod(array.shape[axis] for axis in axes)
        if not ((y > count * info.tiny / info.eps) & (y < math.inf)).all():
            y[...] = arrays.NormForward(np, array, axes, keepdims)
            return
        np.sqrt(y, out=y)
