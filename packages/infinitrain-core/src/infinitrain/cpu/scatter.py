"""CPU kernels that put elements where indices say: of several assignments to one place the last stays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .indexing import check, flat_places
from .select import keep

Shape = tuple[int, ...]


def ScatterBackward(grad: Any, index: Any, axis: int, *, out: Any) -> None:
    g, d = grad.array.reshape(-1), out.array.reshape(-1)
    check("ScatterBackward", index.array, grad.shape[axis])
    places = flat_places(index.array, grad.shape, axis).reshape(-1)
    last, own = np.empty(g.size, np.int64), np.arange(places.size)
    last[places] = own
    keep(g[places], last[places] == own, d)


def ScatterAddForward(x: Any, index: Any, values: Any, axis: int, *, out: Any) -> None:
    check("ScatterAddForward", index.array, x.shape[axis])
    np.copyto(out.array, x.array)
    places = flat_places(index.array, x.shape, axis)
    np.add.at(out.array.reshape(-1), places.reshape(-1), values.array.reshape(-1))
