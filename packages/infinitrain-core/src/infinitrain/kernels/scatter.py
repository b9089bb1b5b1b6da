"""Array kernels that put elements where indices say. The standard has no scatter: places are sorted instead."""

from __future__ import annotations

import math
from typing import Any

from ..dtype import DType
from .indexing import Shape, checked, flat_places
from .registry import array_kernel


@array_kernel(exact=True)
def ScatterForward(xp: Any, values: Any, index: Any, shape: Shape, axis: int) -> Any:
    places = flat_places(xp, "ScatterForward", index, shape, axis)
    winner, found = _last_writers(xp, places, math.prod(shape))
    if 0 in values.shape:
        values, winner = xp.zeros((1,), dtype=values.dtype, **xp.on(values)), xp.zeros_like(winner)
    taken = xp.take(xp.reshape(values, (-1,)), winner, axis=0)
    return xp.reshape(xp.where(found, taken, xp.zeros_like(taken)), shape)


@array_kernel(exact=True)
def ScatterBackward(xp: Any, grad: Any, index: Any, axis: int) -> Any:
    places = flat_places(xp, "ScatterBackward", index, grad.shape, axis)
    winner, _ = _last_writers(xp, places, math.prod(grad.shape))
    taken = xp.take(xp.reshape(grad, (-1,)), places, axis=0)
    own = xp.arange(places.shape[0], dtype=xp.int64, **xp.on(places))
    stays = xp.take(winner, places, axis=0) == own
    return xp.reshape(xp.where(stays, taken, xp.zeros_like(taken)), index.shape)


def _last_writers(xp: Any, places: Any, count: int) -> tuple[Any, Any]:
    """Return for each of ``count`` places the last value that goes there, and whether there is one."""
    wanted = xp.arange(count, dtype=xp.int64, **xp.on(places))
    if not places.shape[0]:
        return xp.zeros_like(wanted), wanted < 0
    order = xp.argsort(places, stable=True)
    ordered = xp.take(places, order, axis=0)
    last = xp.searchsorted(ordered, wanted, side="right") - 1
    last = xp.where(last < 0, xp.zeros_like(last), last)
    return xp.take(order, last, axis=0), xp.take(ordered, last, axis=0) == wanted


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
