"""One case: a function of infinitrain.ops, the same in PyTorch, and makers of random inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Maker = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Case:
    """``ours(f, *inputs)`` with f = infinitrain.ops.<op> equals ``theirs(*inputs)``.

    Floating inputs get the tested dtype and take part in the gradients; the others stay as they are.
    ``narrow`` says that something passes through float32 although the inputs are float64.
    """

    op: str
    about: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    inputs: tuple[Maker, ...]
    narrow: bool = False

    def __str__(self) -> str:
        return f"{self.op}-{self.about}".replace(" ", "_")

    def has_floats(self) -> bool:
        rng = np.random.default_rng(0)
        return any(make(rng).dtype.kind == "f" for make in self.inputs)


def normal(*shape: int, scale: float = 1.0) -> Maker:
    """Normal values, each column on a scale of its own, so that mixed-up elements show."""

    def make(rng: np.random.Generator) -> np.ndarray:
        columns = 1 + 0.5 * np.sin(np.arange(shape[-1])) if shape else 1.0
        return scale * (rng.standard_normal(shape) * columns + 0.1)

    return make


def positive(*shape: int) -> Maker:
    """Values in 0.2 .. 3.2, far from the poles of log, sqrt and division."""
    return lambda rng: 0.2 + 3 * rng.random(shape)


def signed(*shape: int) -> Maker:
    """Values of both signs with sizes in 0.2 .. 3.2."""
    return lambda rng: (0.2 + 3 * rng.random(shape)) * rng.choice([-1.0, 1.0], shape)


def whole(low: int, high: int, *shape: int, dtype: str = "int64") -> Maker:
    """Integers low .. high - 1, repeats included."""
    return lambda rng: rng.integers(low, high, shape).astype(dtype)


def whole_floats(low: int, high: int, *shape: int) -> Maker:
    """Floats with integer values: they tie."""
    return lambda rng: rng.integers(low, high, shape).astype(np.float64)


def mask(*shape: int) -> Maker:
    """Bools, a third of them true."""
    return lambda rng: rng.random(shape) < 1 / 3


def given(values: Any, dtype: str = "float64") -> Maker:
    """These values."""
    return lambda rng: np.array(values, dtype)
