"""Array kernels that move data."""

from __future__ import annotations

from functools import lru_cache
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
    where, backwards = _slices(starts, ends, steps)
    return _flipped(xp, x[where], backwards)


@array_kernel(exact=True)
def SliceBackward(xp: Any, grad: Any, shape: Shape, starts: Shape, ends: Shape, steps: Shape) -> Any:
    dx = xp.zeros(shape, dtype=grad.dtype, **xp.on(grad))
    if 0 not in grad.shape:
        where, backwards = _slices(starts, ends, steps)
        dx[where] = _flipped(xp, grad, backwards)
    return dx


@array_kernel(exact=True)
def SliceAssign(xp: Any, x: Any, value: Any, starts: Shape, ends: Shape, steps: Shape) -> None:
    where, backwards = _slices(starts, ends, steps)
    part = x[where]
    if 0 not in part.shape:
        x[where] = _flipped(xp, xp.broadcast_to(value, part.shape), backwards)


@lru_cache(maxsize=1024)
def _slices(starts: Shape, ends: Shape, steps: Shape) -> tuple[tuple[slice, ...], Shape]:
    """Return slices with positive steps, and the axes to turn round after: not every library steps back."""
    slices, backwards = [], []
    for axis, taken in enumerate(map(range, starts, ends, steps)):
        if not taken:
            slices.append(slice(0, 0))
            continue
        slices.append(slice(min(taken[0], taken[-1]), max(taken[0], taken[-1]) + 1, abs(taken.step)))
        if taken.step < 0:
            backwards.append(axis)
    return tuple(slices), tuple(backwards)


def _flipped(xp: Any, x: Any, axes: Shape) -> Any:
    return xp.flip(x, axis=axes) if axes else x


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
