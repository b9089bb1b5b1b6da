"""Addition with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cases import Built, Data, OpCase, case
from ..oracles import Want

CASES: list[OpCase] = []


def _sum(a: np.ndarray, b: np.ndarray) -> dict[str, Want]:
    return {"y": Want(a + b, np.abs(a) + np.abs(b))}


def add(d: Data, a: tuple[int, ...], b: tuple[int, ...]) -> Built:
    if d.dtype.name == "bool":
        return Built((d.normal(*a), d.normal(*b)), lambda a, b: {"y": Want(np.maximum(a, b), a)})
    return Built((d.normal(*a, mean=3.0), d.normal(*b, mean=-2.5)), _sum)


def zeros(d: Data, oracle: Callable[..., dict[str, Want]]) -> Built:
    """Every pair of zeros of both signs and two numbers."""
    a, b = np.meshgrid(*([np.array([0.0, -0.0, 1.5, -2.0])] * 2))
    return Built((np.ascontiguousarray(a), np.ascontiguousarray(b)), oracle)


case(CASES, "AddForward", "same", add, (3, 7, 11), (3, 7, 11))
case(CASES, "AddForward", "right", add, (4, 5, 8), (5, 8))
case(CASES, "AddForward", "both", add, (4, 1, 6), (3, 1))
case(CASES, "AddForward", "scalar", add, (), (2, 3), dtypes=("float32",))
case(CASES, "AddForward", "empty", add, (0, 3), (3,), dtypes=("float32",), clause="4.4")
case(CASES, "AddForward", "zeros", zeros, _sum, clause="4.7")
