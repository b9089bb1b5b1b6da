"""Array kernels of indexing."""

from __future__ import annotations

import math
from typing import Any

from .elementwise import common
from .linear import rows as rows_of
from .linear import sum_to
from .registry import array_kernel

Shape = tuple[int, ...]


@array_kernel(exact=True)
def EmbeddingForward(xp: Any, index: Any, weight: Any) -> Any:
    ids = checked(xp, "EmbeddingForward: index", index, weight.shape[0])
    rows = xp.take(weight, xp.reshape(ids, (-1,)), axis=0)
    return xp.reshape(rows, (*index.shape, weight.shape[1]))


@array_kernel()
def EmbeddingBackward(xp: Any, index: Any, grad: Any, rows: int) -> Any:
    ids = checked(xp, "EmbeddingBackward: index", index, rows)
    return xp.scatter_add_rows(rows, xp.reshape(ids, (-1,)), rows_of(xp, grad))


@array_kernel(exact=True)
def GatherForward(xp: Any, x: Any, index: Any, axis: int) -> Any:
    index = checked(xp, "GatherForward: index", index, x.shape[axis])
    part = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index.shape))
    return xp.take_along_axis(x[part], index, axis=axis)


@array_kernel()
def GatherBackward(xp: Any, grad: Any, index: Any, shape: Shape, axis: int) -> Any:
    places = flat_places(xp, "GatherBackward", index, shape, axis)
    summed = xp.scatter_add_rows(math.prod(shape), places, xp.reshape(grad, (-1, 1)))
    return xp.reshape(summed, shape)


@array_kernel(exact=True)
def IndexSelectForward(xp: Any, x: Any, index: Any, axis: int) -> Any:
    ids = checked(xp, "IndexSelectForward: index", index, x.shape[axis])
    taken = xp.take(x, xp.reshape(ids, (-1,)), axis=axis)
    return xp.reshape(taken, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


@array_kernel()
def IndexSelectBackward(xp: Any, grad: Any, index: Any, shape: Shape, axis: int) -> Any:
    ids = checked(xp, "IndexSelectBackward: index", index, shape[axis])
    count, others = math.prod(index.shape), (*shape[:axis], *shape[axis + 1 :])
    grad = xp.moveaxis(xp.reshape(grad, (*shape[:axis], count, *shape[axis + 1 :])), axis, 0)
    grad = xp.reshape(grad, (count, math.prod(others)))
    summed = xp.scatter_add_rows(shape[axis], xp.reshape(ids, (-1,)), grad)
    return xp.moveaxis(xp.reshape(summed, (shape[axis], *others)), 0, axis)


def flat_places(xp: Any, op: str, index: Any, shape: Shape, axis: int) -> Any:
    """Return the places (N,), in an array of ``shape`` laid flat, of the elements that index names along axis."""
    places, stride = checked(xp, f"{op}: index", index, shape[axis]), 1
    own = places
    for i in reversed(range(len(shape))):
        if i == axis:
            places = places + own * (stride - 1)
        elif index.shape[i] > 1:
            along = xp.arange(0, index.shape[i] * stride, stride, dtype=xp.int64, **xp.on(index))
            places = places + xp.reshape(along, (-1, *(1,) * (len(shape) - 1 - i)))
        stride *= shape[i]
    return xp.reshape(places, (-1,))


def checked(xp: Any, what: str, index: Any, size: int) -> Any:
    """Return index as int64. Raises IndexError naming the first value that is out of range [contract 4.7]."""
    ids = xp.astype(index, xp.int64)  # a uint64 beyond int64 becomes negative, and is refused like one
    bad = (ids < 0) | (ids >= size)
    if bool(xp.any(bad)):
        flat = int(xp.argmax(xp.astype(xp.reshape(bad, (-1,)), xp.uint8)))
        value, place = int(xp.reshape(index, (-1,))[flat]), []
        for n in reversed(index.shape):
            flat, coordinate = divmod(flat, n)
            place.append(coordinate)
        raise IndexError(f"{what} {value} at position {place[::-1]} is not in 0..{size - 1} [contract 4.7]")
    return ids


@array_kernel()
def MaskForward(xp: Any, x: Any, mask: Any, value: Any) -> Any:
    kind = bool if xp.isdtype(x.dtype, "bool") else float if xp.isdtype(x.dtype, "real floating") else int
    return xp.where(mask, kind(value), x)


@array_kernel()
def MaskBackward(xp: Any, grad: Any, mask: Any, shape: Shape) -> Any:
    return sum_to(xp, xp.where(mask, xp.zeros_like(grad), grad), shape)


@array_kernel()
def WhereForward(xp: Any, condition: Any, a: Any, b: Any) -> Any:
    a, b = common(xp, a, b)
    return xp.where(condition, a, b)


@array_kernel()
def WhereBackward(xp: Any, condition: Any, grad: Any, a_shape: Shape, b_shape: Shape) -> Any:
    none = xp.zeros_like(grad)
    return sum_to(xp, xp.where(condition, grad, none), a_shape), sum_to(
        xp, xp.where(condition, none, grad), b_shape
    )
