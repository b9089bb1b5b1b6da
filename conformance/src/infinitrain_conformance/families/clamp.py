"""Clamp, the larger and the smaller of two tensors, what is finite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import As, Built, Data, OpCase, case
from ..oracles import Want
from ..oracles import clamp as oracles

CASES: list[OpCase] = []
Oracle = Callable[..., dict[str, Want]]
INF = float("inf")


def clamp(d: Data, shape: tuple[int, ...], low: Any = -3, high: Any = 4, scale: float = 3.0) -> Built:
    x = d.normal(*shape, mean=1.0, scale=scale)
    if d.dtype.kind == "u":
        low = 2
    return Built((x, low, high), oracles.clamp)


def clamp_special(d: Data) -> Built:
    return Built((d.round([np.nan, INF, -INF, 0.5, -0.5, 0.0, 2.0]), -0.5, 0.5), oracles.clamp)


def clamp_backward(d: Data, shape: tuple[int, ...], low: float, high: float) -> Built:
    """A fifth of the elements lies on a bound, where the gradient passes."""
    x = d.normal(*shape, mean=0.2, scale=1.5)
    grad = d.like(x) + 0.25
    edges = d.rng.random(shape)
    x = np.where(edges < 0.1, low, np.where(edges > 0.9, high, x)) if np.isfinite([low, high]).all() else x
    return Built((d.round(grad), x, low, high), oracles.clamp_backward)


case(CASES, "ClampForward", "both", clamp, (3, 5, 37))
case(CASES, "ClampForward", "fractions", clamp, (3, 5, 37), -0.75, 1.3, scale=1.0)
case(CASES, "ClampForward", "low_only", clamp, (41,), 0.5, INF, scale=1.0)
case(CASES, "ClampForward", "equal", clamp, (41,), 0.5, 0.5)
case(CASES, "ClampForward", "special", clamp_special, clause="4.7")
case(CASES, "ClampForward", "0d", clamp, (), dtypes=("float32",))
case(CASES, "ClampForward", "empty", clamp, (3, 0), dtypes=("float32",), clause="4.4")
case(CASES, "ClampBackward", "edges", clamp_backward, (3, 5, 37), -0.75, 1.5)
case(CASES, "ClampBackward", "low_only", clamp_backward, (5, 41), 0.5, INF)
case(CASES, "ClampBackward", "rows4096", clamp_backward, (4096, 19), -1.0, 1.0, dtypes=("float32",))

SHAPES = {
    "same": ((3, 7, 11), (3, 7, 11)),
    "row": ((4, 5, 8), (8,)),
    "both": ((4, 1, 6), (3, 1)),
    "rows4096": ((4096, 3), (3,)),
    "scalar": ((), (2, 3)),
}


def operands(d: Data, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return halves of small whole numbers, of which many tie with one another."""
    left, right = (np.round(2 * d.normal(*shape, mean=0.3)) / 2 for shape in (a, b))
    return d.round(left), d.round(right)


def pair(d: Data, oracle: Oracle, a: tuple[int, ...], b: tuple[int, ...]) -> Built:
    return Built(operands(d, a, b), oracle)


def pair_backward(d: Data, oracle: Oracle, a: tuple[int, ...], b: tuple[int, ...]) -> Built:
    left, right = operands(d, a, b)
    return Built((d.like(left + 2 * right) + d.round(0.5), left, right), oracle)


def pair_special(d: Data, oracle: Oracle) -> Built:
    values = np.array([np.nan, INF, -INF, 0.0, 1.0])
    left, right = np.meshgrid(values, values)
    return Built((left, right), oracle)


def pair_backward_special(d: Data, oracle: Oracle) -> Built:
    left, right = pair_special(d, oracle).args
    return Built((d.round(d.rng.uniform(1, 2, left.shape)), left, right), oracle)


def mixed(d: Data, oracle: Oracle) -> Built:
    left, right = operands(d, (4, 9), (9,))
    return Built((left, As(np.trunc(right), "int32")), oracle)


for name, forward, backward in (
    ("Maximum", oracles.larger, oracles.larger_backward),
    ("Minimum", oracles.smaller, oracles.smaller_backward),
):
    for label, (left, right) in SHAPES.items():
        case(CASES, f"{name}Forward", label, pair, forward, left, right)
        case(CASES, f"{name}Backward", label, pair_backward, backward, left, right)
    case(CASES, f"{name}Forward", "special", pair_special, forward, clause="4.7")
    case(CASES, f"{name}Backward", "special", pair_backward_special, backward, clause="4.7")
    case(CASES, f"{name}Forward", "int32", mixed, forward, dtypes=("float32", "bfloat16", "int64"))


def sprinkled(d: Data, oracle: Oracle, shape: tuple[int, ...]) -> Built:
    """Numbers; in floating dtypes infinities and NaN among them."""
    x = d.normal(*shape)
    if d.dtype.is_floating:
        place = d.rng.random(shape)
        for value, low in ((np.nan, 0.0), (INF, 0.15), (-INF, 0.3)):
            x = np.where((place >= low) & (place < low + 0.15), value, x)
    return Built((x,), oracle)


for name, oracle in (("IsFiniteForward", oracles.is_finite), ("IsNanForward", oracles.is_nan)):
    case(CASES, name, "sprinkled", sprinkled, oracle, (3, 5, 37))
    case(CASES, name, "0d", sprinkled, oracle, (), dtypes=("bfloat16",))
