"""What random cases of the ops are made of: shapes, values, axes and indices, drawn from a seeded generator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

Shape = tuple[int, ...]
SIZES = (0, 1, 1, 2, 3, 5)


@dataclass(frozen=True)
class Sample:
    """Arguments of a row (NumPy arrays for tensors, lists of them for lists) and what it makes of them.

    ``want`` are the results, of a row that writes in place what the written tensors hold afterwards, in float64 where
    they are floating. ``smooth`` is False where differences would not give the gradient.
    """

    args: tuple[Any, ...]
    want: tuple[Any, ...]
    smooth: bool = True

    def __post_init__(self) -> None:
        # What NumPy computes of 0-d arrays are scalars.
        args = [np.asarray(a) if isinstance(a, np.generic) else a for a in self.args]
        object.__setattr__(self, "args", tuple(args))


Sampler = Callable[["Draw"], Sample]
SAMPLERS: dict[str, Sampler] = {}


def sample(*names: str) -> Callable[[Sampler], Sampler]:
    """Register a sampler for rows of the op table."""

    def register(fn: Sampler) -> Sampler:
        for name in names:
            assert name not in SAMPLERS, name
            SAMPLERS[name] = fn
        return fn

    return register


class Draw:
    """Draws of one case. ``most`` bounds the number of elements of a tensor; ``empty`` allows sizes of 0."""

    def __init__(self, seed: int, most: int = 60, empty: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.most, self.empty = most, empty

    def int(self, low: int, high: int) -> int:
        """Return an int in low..high."""
        return int(self.rng.integers(low, high + 1))

    def flag(self, chance: float = 0.5) -> bool:
        return bool(self.rng.random() < chance)

    def one_of(self, *values: Any) -> Any:
        return values[self.int(0, len(values) - 1)]

    def size(self, least: int = 0) -> int:
        return int(self.one_of(*[n for n in SIZES if n >= max(least, not self.empty)]))

    def shape(self, low: int = 0, high: int = 4, most: int | None = None) -> Shape:
        """Return a shape of low..high axes with at most ``most`` elements."""
        shape = [self.size() for _ in range(self.int(low, high))]
        while prod(max(n, 1) for n in shape) > (most or self.most):
            shape[int(np.argmax(shape))] = 1
        return tuple(shape)

    def partner(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts to ``shape``."""
        return tuple(1 if self.flag(0.3) else n for n in shape)[self.int(0, len(shape)) :]

    def pair(self) -> tuple[Shape, Shape]:
        """Return two shapes that broadcast with each other, in both directions."""
        full = self.shape()
        return (full, self.partner(full)) if self.flag() else (self.partner(full), self.partner(full))

    def values(self, shape: Shape, shift: float = 0.0) -> np.ndarray:
        """Return numbers in -4..4, few of them equal, none of them near 0: odd multiples of 1/64, plus ``shift``."""
        n = prod(shape)
        odd = 2 * self.rng.choice(256, n, replace=n > 256) - 255
        return np.asarray(odd / 64 + shift, np.float64).reshape(shape)

    def positive(self, shape: Shape) -> np.ndarray:
        return np.asarray(np.abs(self.values(shape)) + 0.5)

    def axis(self, shape: Shape) -> int:
        return self.int(0, len(shape) - 1)

    def axes(self, shape: Shape) -> Shape:
        """Return any number of axes, from none to all."""
        return tuple(sorted(int(a) for a in self.rng.permutation(len(shape))[: self.int(0, len(shape))]))

    def indices(self, n: int, shape: Shape) -> np.ndarray:
        """Return indices below n."""
        return self.rng.integers(0, max(n, 1), shape)
