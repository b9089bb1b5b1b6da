"""CPU kernels that move or convert elements, of any dtype."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Shape = tuple[int, ...]


def Cast(x: Any, dtype: Any, *, out: Any) -> None:
    np.copyto(out.array, x.array, casting="unsafe")


def TransposeForward(x: Any, axis0: int, axis1: int, *, out: Any) -> None:
    np.copyto(out.array, x.array.swapaxes(axis0, axis1))


def PermuteForward(x: Any, axes: Shape, *, out: Any) -> None:
    np.copyto(out.array, x.array.transpose(axes))


def ExpandForward(x: Any, shape: Shape, *, out: Any) -> None:
    np.copyto(out.array, x.array)


def SliceForward(x: Any, starts: Shape, ends: Shape, steps: Shape, *, out: Any) -> None:
    np.copyto(out.array, x.array[_slices(starts, ends, steps)])


FEW = 1 << 14
"""Elements below which writing them twice costs less than to work out which need it."""


def SliceBackward(grad: Any, shape: Shape, starts: Shape, ends: Shape, steps: Shape, *, out: Any) -> None:
    part = out.array
    if grad.numel < FEW or set(steps) != {1}:
        part.fill(0)
        part[_slices(starts, ends, steps)] = grad.array
        return
    for axis, (start, end) in enumerate(
        zip(starts, ends, strict=True)
    ):  # 0 around it, so that each is written once
        before = (slice(None),) * axis
        part[(*before, slice(start))] = 0
        part[(*before, slice(end, None))] = 0
        part = part[(*before, slice(start, end))]
    np.copyto(part, grad.array)


def SliceAssign(x: Any, value: Any, starts: Shape, ends: Shape, steps: Shape) -> None:
    x.array[_slices(starts, ends, steps)] = value.array


@lru_cache(maxsize=1024)
def _slices(starts: Shape, ends: Shape, steps: Shape) -> tuple[slice, ...]:
    # Backwards to the first element the end is -1, which a slice would take for the last; so it would the start of a
    # slice of nothing.
    return tuple(
        [
            slice(r.start, None if r.stop < 0 else r.stop, r.step) if r else slice(0, 0)
            for r in map(range, starts, ends, steps)
        ]
    )


def SplitForward(x: Any, sizes: Shape, axis: int, *, out: Any) -> None:
    array, before, start = x.array, (slice(None),) * axis, 0
    for size, piece in zip(sizes, out, strict=True):
        np.copyto(piece.array, array[(*before, slice(start, start + size))])
        start += size


def ConcatForward(tensors: Any, axis: int, *, out: Any) -> None:
    np.concatenate([t.array for t in tensors], axis, out=out.array)


def TrilForward(x: Any, diagonal: int, *, out: Any) -> None:
    array, y = x.array, out.array
    y.fill(0)
    np.copyto(y, array, where=_lower(*array.shape[-2:], diagonal))


def TriuForward(x: Any, diagonal: int, *, out: Any) -> None:
    array, y = x.array, out.array
    np.copyto(y, array)
    np.copyto(y, y.dtype.type(0), where=_lower(*array.shape[-2:], diagonal - 1))


@lru_cache(maxsize=8)
def _lower(rows: int, columns: int, diagonal: int) -> np.ndarray:
    mask = np.tri(rows, columns, diagonal, dtype=np.bool_)
    mask.flags.writeable = False
    return mask
