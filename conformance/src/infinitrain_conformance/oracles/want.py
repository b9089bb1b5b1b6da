"""What an oracle says of a result: the value in float64, and what it was made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Want:
    """A result in float64, the sum of the absolute values of its terms, and their number; ``or_nan`` where it may as
    well be NaN: a factor of 0 may hide what is no number, or multiply it.
    """

    value: Array
    magnitude: Array
    terms: int = 1
    or_nan: Array | None = None


def plain(value: Array) -> Want:
    """Return a Want whose only term is itself."""
    return Want(value, np.abs(value))


def rows(x: Array) -> Array:
    """Return x (..., C) as (N, C)."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def sum_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Return x summed over the axes along which ``shape`` was broadcast to x's."""
    extra = x.ndim - len(shape)
    axes = tuple(i for i, n in enumerate(x.shape) if i < extra or (shape[i - extra] == 1 and n != 1))
    summed = x.sum(axis=axes) if axes else x  # a sum of one zero is that zero, of either sign
    return summed.reshape(shape)
