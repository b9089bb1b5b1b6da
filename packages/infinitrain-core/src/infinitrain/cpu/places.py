"""CPU kernels that put elements of any dtype where indices say: of several to one place the last stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .indexing import check, flat_places


def ScatterForward(values: Any, index: Any, shape: tuple[int, ...], axis: int, *, out: Any) -> None:
    check("ScatterForward", index.array, shape[axis])
    out.array.fill(0)
    out.array.reshape(-1)[flat_places(index.array, shape, axis)] = values.array


def OneHot(index: Any, classes: int, dtype: Any, *, out: Any) -> None:
    ids, y = index.array.reshape(-1), out.array.reshape(-1, classes)
    check("OneHot", index.array, classes)
    y.fill(0)
    y[np.arange(len(ids)), ids] = 1
