"""Array kernels that put elements where indices say. The standard has no scatter: each place looks for its value."""

from __future__ import annotations

import math
from typing import Any

from ..dtype import DType
from .indexing import Shape, checked, flat_places
from .registry import array_kernel


@array_kernel(exact=True)
def ScatterForward(xp: Any, values: Any, index: Any, shape: Shape, axis: int) -> Any:
    places = flat_places(xp, "ScatterForward", index, shape, axis)
    if 0 in values.shape:
        return xp.zeros(shape, dtype=values.dtype, **xp.on(values))
    winner = xp.last_at(math.prod(shape), places)
    found = winner >= 0
    taken = xp.take(xp.reshape(values, (-1,)), xp.where(found, winner, xp.zeros_like(winner)), axis=0)
    return xp.reshape(xp.where(found, taken, xp.zeros_like(taken)), shape)


@array_kernel(exact=True)
def ScatterBackward(xp: Any, grad: Any, index: Any, axis: int) -> Any:
    places = flat_places(xp, "ScatterBackward", index, grad.shape, axis)
    winner = xp.last_at(math.prod(grad.shape), places)
    taken = xp.take(xp.reshape(grad, (-1,)), places, axis=0)
    stays = xp.take(winner, places, axis=0) == xp.arange(places.shape[0], dtype=winner.dtype, **xp.on(places))
    return xp.reshape(xp.where(stays, taken, xp.zeros_like(taken)), index.shape)


@array_kernel()
def ScatterAddForward(xp: Any, x: Any, index: Any, values: Any, axis: int) -> Any:
    places = flat_places(xp, "ScatterAddForward", index, x.shape, axis)
    summed = xp.scatter_add_rows(math.prod(x.shape), places, xp.reshape(values, (-1, 1)))
    return x + xp.reshape(summed, x.shape)


@array_kernel()
def OneHot(xp: Any, index: Any, classes: int, dtype: DType) -> Any:
    index = checked(xp, "OneHot: index", index, classes)
    hot = xp.expand_dims(index, axis=-1) == xp.arange(classes, dtype=xp.int64, **xp.on(index))
    return xp.astype(hot, xp.native(dtype))
