"""Array kernels of indexing."""

from __future__ import annotations

from typing import Any

from .elementwise import common
from .linear import sum_to
from .registry import array_kernel

Shape = tuple[int, ...]


@array_kernel(exact=True)
def EmbeddingForward(xp: Any, index: Any, weight: Any) -> Any:
    ids = _checked(xp, "EmbeddingForward: id", index, weight.shape[0])
    rows = xp.take(weight, xp.reshape(ids, (-1,)), axis=0)
    return xp.reshape(rows, (*index.shape, weight.shape[1]))


@array_kernel()
def EmbeddingBackward(xp: Any, index: Any, grad: Any, rows: int) -> Any:
    ids = _checked(xp, "EmbeddingBackward: id", index, rows)
    return xp.scatter_add_rows(rows, xp.reshape(ids, (-1,)), xp.reshape(grad, (ids.size, grad.shape[-1])))


@array_kernel(exact=True)
def GatherForward(xp: Any, x: Any, index: Any, axis: int) -> Any:
    index = _checked(xp, "GatherForward: index", index, x.shape[axis])
    part = tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(index.shape))
    return xp.take_along_axis(x[part], index, axis=axis)


@array_kernel()
def GatherBackward(xp: Any, grad: Any, index: Any, shape: Shape, axis: int) -> Any:
    index = _checked(xp, "GatherBackward: index", index, shape[axis])
    places = xp.zeros_like(index)  # the place of each element in dx laid flat
    for i, n in enumerate(index.shape):
        along = xp.reshape(
            xp.arange(n, dtype=xp.int64, **xp.on(index)), tuple(n if i == j else 1 for j in range(len(shape)))
        )
        places = places * shape[i] + (index if i == axis else along)
    count = 1
    for n in shape:
        count *= n
    summed = xp.scatter_add_rows(count, xp.reshape(places, (-1,)), xp.reshape(grad, (-1, 1)))
    return xp.reshape(summed, shape)


def _checked(xp: Any, what: str, index: Any, size: int) -> Any:
    """Return index as int64. Raises IndexError naming the first value that is out of range [contract 4.7]."""
    ids = xp.astype(index, xp.int64)  # a uint64 beyond int64 becomes negative, and is refused like one
    bad = (ids < 0) | (ids >= size)
    if ids.size and bool(xp.any(bad)):
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
    return xp.where(mask, xp.asarray(kind(value), dtype=x.dtype, **xp.on(x)), x)


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
