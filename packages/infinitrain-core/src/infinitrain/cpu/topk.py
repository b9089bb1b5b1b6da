"""CPU kernel of top-k."""

from __future__ import annotations

from typing import Any

import numpy as np

MANY = 1 << 10
"""Elements from which on it pays to part the best from the others first."""


def TopKForward(x: Any, k: int, axis: int, largest: bool, *, out: Any) -> None:
    array = x.array.swapaxes(axis, -1)
    values, indices = (t.array.swapaxes(axis, -1) for t in out)
    order = _order(array, k, largest)
    indices[...] = order
    values[...] = np.take_along_axis(array, order, -1)


def _order(array: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """Return where the k best of the last axis are, best first, of equal ones the lowest index, NaN the largest."""
    if largest and np.isnan(np.maximum.reduce(array, None)):  # as negative numbers they would be last
        order = np.argsort(array[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        return (array.shape[-1] - 1 - order)[..., :k]
    up = np.negative(array) if largest else array
    if array.size < MANY or not k < array.shape[-1]:
        return np.argsort(up, axis=-1, kind="stable")[..., :k]
    parted = np.argpartition(up, k, axis=-1)[..., : k + 1]  # one more, to see whether it equals the last
    best = np.take_along_axis(parted, np.argsort(np.take_along_axis(up, parted, -1), axis=-1), -1)
    found = np.take_along_axis(up, best, -1)
    tied = ~(found[..., :-1] < found[..., 1:]).all(-1)
    best = best[..., :k]
    if tied.any():
        best[tied] = np.argsort(up[tied], axis=-1, kind="stable")[..., :k]
    return best
