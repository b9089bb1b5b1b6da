"""Comparisons and logic, to bool: ties, NaN, both zeros, dtypes that meet, numbers beyond what the dtype holds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import As, Built, Data, OpCase, case
from ..oracles import Want

CASES: list[OpCase] = []
Shape = tuple[int, ...]
HALF_TO_DOUBLE = ("float32", "bfloat16", "float16", "float64")

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Equals": operator.eq, "NotEquals": operator.ne, "Lt": operator.lt, "Le": operator.le, "Gt": operator.gt,
    "Ge": operator.ge,
}  # fmt: skip
LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "And": lambda a, b: (a != 0) & (b != 0),
    "Or": lambda a, b: (a != 0) | (b != 0),
}


def _bools(value: Any) -> dict[str, Want]:
    exact = np.asarray(value).astype(np.float64)
    return {"y": Want(exact, np.zeros_like(exact))}


def _few(d: Data, shape: Shape) -> np.ndarray:
    """Return values of which many are equal; with numbers that differ in the last places, and nonzero below 1."""
    return d.round(d.rng.integers(-3, 4, shape) * (0.5 if d.dtype.is_floating else 1.0))


def tensors(d: Data, compare: Callable[[Any, Any], Any], a: Shape, b: Shape) -> Built:
    return Built((_few(d, a), _few(d, b)), lambda a, b: _bools(compare(a, b)))


def tiny(d: Data, compare: Callable[[Any, Any], Any]) -> Built:
    """Zeros, and numbers so small that fewer bits of exponent make zeros of them."""
    small = {"float16": 1e-4, "float64": 1e-300}.get(d.dtype.name, 1e-37)
    a, b = (d.round(small * d.rng.integers(-1, 2, (5, 33))) for _ in range(2))
    return Built((a, b), lambda a, b: _bools(compare(a, b)))


def special(d: Data, compare: Callable[[Any, Any], Any]) -> Built:
    """Every pair of NaN, infinities, zeros of both signs, and numbers one unit apart."""
    unit = 1.0 + {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}.get(d.dtype.name, 2.0**-52)
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, unit, -1.0])
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(values, values))
    return Built((a, b), lambda a, b: _bools(compare(a, b)))


def large_integers(d: Data, compare: Callable[[Any, Any], Any]) -> Built:
    """int64 values that float64 cannot tell apart."""
    a = np.array([2**53, 2**53 + 1, -(2**62) - 1, 2**63 - 1], np.int64)
    b = np.array([2**53 + 1, 2**53 + 1, -(2**62), 2**63 - 2], np.int64)
    return Built((a, b), lambda a, b: _bools(compare(a, b)))


def mixed(d: Data, compare: Callable[[Any, Any], Any], other: str) -> Built:
    """Beside integers that the floating dtype itself would round."""
    whole = np.array([16777217.0, 257.0, 2049.0, -1.0, 3.0])
    near = d.round(np.array([16777216.0, 256.0, 2048.0, -1.0, 2.5]))
    near = np.where(np.isfinite(near), near, 1.0)  # float16 ends below
    return Built((near, As(whole, other)), lambda a, b: _bools(compare(a, b)))


def scalar(d: Data, compare: Callable[[Any, Any], Any], value: Any, shape: Shape = (3, 7)) -> Built:
    return Built((_few(d, shape), value), lambda a, value: _bools(compare(a, value)))


for name, compare in COMPARE.items():
    forward = f"{name}Forward"
    case(CASES, forward, "ties", tensors, compare, (5, 33), (5, 33))
    case(CASES, forward, "both", tensors, compare, (4, 1, 6), (3, 1))
    case(CASES, forward, "special", special, compare, clause="4.7", dtypes=HALF_TO_DOUBLE)
    case(CASES, forward, "large_integers", large_integers, compare, dtypes=("int64",))
    for other in ("int32", "int64", "float64"):
        case(CASES, forward, f"with_{other}", mixed, compare, other)
    scalars = f"{name}ScalarForward"
    case(CASES, scalars, "whole", scalar, compare, 1)
    case(
        CASES,
        scalars,
        "half",
        scalar,
        compare,
        0.5,
        dtypes=(*HALF_TO_DOUBLE, "bool", "uint8", "int32", "int64"),
    )
    integers = ("bool", "uint8", "int8", "uint16", "int16", "int32", "uint64", "int64")
    case(CASES, scalars, "beyond", scalar, compare, 2**70, dtypes=integers)
    case(CASES, scalars, "below", scalar, compare, -(2**70), dtypes=integers)
    case(CASES, scalars, "negative", scalar, compare, -1, dtypes=(*integers, "float32"))
    case(
        CASES, scalars, "nan", scalar, compare, float("nan"), clause="4.7", dtypes=(*HALF_TO_DOUBLE, "int32")
    )
    case(
        CASES,
        scalars,
        "infinity",
        scalar,
        compare,
        float("inf"),
        clause="4.7",
        dtypes=(*HALF_TO_DOUBLE, "int32"),
    )

for name, compare in LOGIC.items():
    case(CASES, f"{name}Forward", "truth", tensors, compare, (5, 33), (5, 33))
    case(CASES, f"{name}Forward", "both", tensors, compare, (4, 1, 6), (3, 1))
    case(CASES, f"{name}Forward", "special", special, compare, clause="4.7", dtypes=HALF_TO_DOUBLE)
    case(CASES, f"{name}Forward", "tiny", tiny, compare, clause="4.7", dtypes=HALF_TO_DOUBLE)
    case(CASES, f"{name}Forward", "with_bool", mixed, compare, "bool", dtypes=("float32", "int64"))


def negation(d: Data, shape: Shape) -> Built:
    return Built((_few(d, shape),), lambda x: _bools(x == 0))


def negation_of_special(d: Data) -> Built:
    return Built((np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5]),), lambda x: _bools(x == 0))


case(CASES, "NotForward", "truth", negation, (5, 33))
case(CASES, "NotForward", "special", negation_of_special, clause="4.7", dtypes=HALF_TO_DOUBLE)
