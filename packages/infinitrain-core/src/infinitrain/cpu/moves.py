"""CPU kernels that move or convert elements, of any dtype."""

from __future__ import annotations

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
    if min(steps, default=1) > 0:
        np.copyto(out.array, x.array[tuple(map(slice, starts, ends, steps))])
        return
    # Backwards to the first element the end is -1, which a slice would take for the last.
    part = zip(starts, ends, steps, strict=True)
    np.copyto(out.array, x.array[tuple([slice(a, None if c < 0 and b < 0 else b, c) for a, b, c in part])])


def ConcatForward(tensors: Any, axis: int, *, out: Any) -> None:
    np.concatenate([t.array for t in tensors], axis, out=out.array)
