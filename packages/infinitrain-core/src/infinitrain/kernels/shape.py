"""Array kernels that move data."""

from __future__ import annotations

from typing import Any

from .elementwise import owned_sum
from .registry import array_kernel

Shape = tuple[int, ...]


@array_kernel(exact=True)
def TransposeForward(xp: Any, x: Any, axis0: int, axis1: int) -> Any:
    axes = list(range(x.ndim))
    axes[axis0], axes[axis1] = axis1, axis0
    return xp.permute_dims(x, tuple(axes))


@array_kernel(exact=True)
def PermuteForward(xp: Any, x: Any, axes: Shape) -> Any:
    return xp.permute_dims(x, axes)


@array_kernel(exact=True)
def SliceForward(xp: Any, x: Any, starts: Shape, ends: Shape, steps: Shape) -> Any:
    return x[_slices(starts, ends, steps)]


@array_kernel(exact=True)
def SliceBackward(xp: Any, grad: Any, shape: Shape, starts: Shape, ends: Shape, steps: Shape) -> Any:
    dx = xp.zeros(shape, dtype=grad.dtype, **xp.on(grad))
    if 0 not in grad.shape:
        dx[_slices(starts, ends, steps)] = grad
    return dx


def _slices(starts: Shape, ends: Shape, steps: Shape) -> tuple[slice, ...]:
    # An end of -1 means "before element 0", which Python writes as None.
    return tuple(slice(s, None if e < 0 else e, step) for s, e, step in zip(starts, ends, steps, strict=True))


@array_kernel(exact=True)
def SplitForward(xp: Any, x: Any, sizes: Shape, axis: int) -> Any:
    pieces, start, before = [], 0, (slice(None),) * axis
    for size in sizes:
        pieces.append(x[(*before, slice(start, start + size), ...)])
        start += size
    return tuple(pieces)


@array_kernel(exact=True)
def ConcatForward(xp: Any, tensors: Any, axis: int) -> Any:
    return xp.concat(tensors, axis=axis)


@array_kernel(exact=True)
def RepeatInterleaveForward(xp: Any, x: Any, repeats: int, axis: int) -> Any:
    return xp.repeat(x, repeats, axis=axis)


@array_kernel()
def RepeatInterleaveBackward(xp: Any, grad: Any, repeats: int, axis: int) -> Any:
    runs = (*grad.shape[:axis], grad.shape[axis] // repeats, repeats, *grad.shape[axis + 1 :])
    return xp.sum(xp.reshape(grad, runs), axis=axis + 1)


@array_kernel(exact=True)
def ExpandForward(xp: Any, x: Any, shape: Shape) -> Any:
    return xp.broadcast_to(x, shape)


@array_kernel()
def ExpandBackward(xp: Any, grad: Any, shape: Shape) -> Any:
    return owned_sum(xp, grad, shape)


@array_kernel(exact=True)
def TrilForward(xp: Any, x: Any, diagonal: int) -> Any:
    return xp.tril(x, k=diagonal)


@array_kernel(exact=True)
def TriuForward(xp: Any, x: Any, diagonal: int) -> Any:
    return xp.triu(x, k=diagonal)
