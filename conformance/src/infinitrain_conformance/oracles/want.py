"""What an oracle says of a result: the value in float64, and what it was made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Want:
    """A result in float64, the sum of the absolute values of its terms, and their number."""

    value: Array
    magnitude: Array
    terms: int = 1


def plain(value: Array) -> Want:
    """Return a Want whose only term is itself."""
    return Want(value, np.abs(value))


def rows(x: Array) -> Array:
    """Return x (..., C) as (N, C)."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def sum_to(x: Array, shape: tuple[int, ...]) -> Array:
    """Return x summed over the axes along which ``shape`` was broadcast to x's."""
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    summed: Array = x.sum(axis=axes, keepdims=True)
    return summed
