"""A case of an op: how its arguments are made, and what the oracle wants of the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .oracles import Want

HALF_AND_SINGLE: Final = ("float32", "bfloat16", "float16")


class Data:
    """Random arguments in one dtype. Arrays are float64, already rounded to it; integers are small, bools few."""

    def __init__(self, seed: int, dtype: str, *, unit: float = 1.0) -> None:
        from infinitrain.dtype import as_dtype

        self.unit = unit  # integers are multiples of it
        self.rng = np.random.default_rng(seed)
        self.dtype: Any = as_dtype(dtype)

    @property
    def big(self) -> float:
        """A scale that squares without overflow in float32 accumulators, and that float16 can hold."""
        return 40.0 if self.dtype.name == "float16" else 1e4

    def round(self, x: Any) -> np.ndarray:
        """Return x as the dtype can hold it. Integers are cut to -11 .. 11, so that products of two fit any of
        them, unsigned ones to 0 .. 11; bools are x > 0.5.
        """
        wide = np.asarray(x, np.float64)
        if self.dtype.name == "bool":
            return (wide > 0.5).astype(np.float64)
        if self.dtype.is_integer:
            wide = np.trunc(np.clip(wide, -11, 11)) * self.unit
            return np.abs(wide) if self.dtype.kind == "u" else wide + 0.0
        rounded: np.ndarray = wide.astype(self.dtype.numpy).astype(np.float64)
        return rounded

    def wrap(self, x: np.ndarray) -> np.ndarray:
        """Return exact results as the dtype keeps them: unsigned integers modulo 2^bits."""
        return np.mod(x, 2.0 ** (8 * self.dtype.itemsize)) if self.dtype.kind == "u" else x

    def normal(self, *shape: int, mean: Any = 0.0, scale: Any = 1.0) -> np.ndarray:
        """Return normal values; for integers the scale is five times as large, or most would be 0."""
        return self.round(
            mean + (5 if self.dtype.is_integer else 1) * scale * self.rng.standard_normal(shape)
        )

    def like(self, x: np.ndarray, strength: float = 0.8) -> np.ndarray:
        """Return a gradient that is correlated with x: an independent one hides a missing term."""
        if not x.size:
            return x
        spread = x.std() or 1.0
        return self.round(
            strength * (x - x.mean()) / spread + (1 - strength) * self.rng.standard_normal(x.shape)
        )


@dataclass(frozen=True)
class Stat:
    """An argument of the statistics' dtype: float32, float64 beside float64."""

    value: np.ndarray


@dataclass(frozen=True)
class As:
    """An argument of a dtype of its own, whatever the tested one."""

    value: np.ndarray
    dtype: str


@dataclass(frozen=True)
class Built:
    """Arguments (float64 arrays, which get the tested dtype; ``Stat``; ``As``; arrays of integers or bools, which stay
    as they are; tuples of any of these for lists; numbers, None) and the oracle over them.

    The oracle gets the same arguments as the device got, floating ones in float64, and returns a ``Want`` by the name
    of each result; of a list of results by ``name[i]``. For an op that writes in place the names are those of the
    parameters that it writes.
    """

    args: tuple[Any, ...]
    oracle: Callable[..., dict[str, Want]]


@dataclass(frozen=True)
class OpCase:
    """One way to call an op. ``dtypes`` None stands for all that the op takes, in the first case of an op."""

    op: str
    name: str
    build: Callable[[Data], Built]
    clause: str = "4.1"
    dtypes: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.op}-{self.name}"


def case(
    registry: list[OpCase],
    op: str,
    name: str,
    build: Callable[..., Built],
    *args: Any,
    clause: str = "4.1",
    dtypes: tuple[str, ...] | None = None,
    **kwargs: Any,
) -> None:
    """Add a case; extra arguments go to ``build`` after the data.

    Without ``dtypes`` the first case of an op is run in every dtype that the op table gives it, the others in float32
    and half precision. An op that this infinitrain-core does not have is left out.
    """

    def made(data: Data) -> Built:
        return build(data, *args, **kwargs)

    registry.append(OpCase(op, name, made, clause, dtypes))
