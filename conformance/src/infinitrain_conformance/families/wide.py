"""Integers beyond 2**53, which neither float64 nor half the bits can hold: compared as integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Built, Data, OpCase, case
from ..oracles import Want

CASES: list[OpCase] = []
Array = np.ndarray
WIDE = np.array([2**53 + 1, -(2**53) - 3, 2**62 + 1, -(2**62) - 1, 2**63 - 1, -(2**63), 1, 0], np.int64)
UNSIGNED = np.array([2**53 + 1, 2**63 + 1, 2**64 - 1, 2**64 - 3, 1, 0], np.uint64)
# Pairs whose products are just within int64.
LEFT = np.array([3037000499, -3037000499, 2**40 + 1, -(2**31) - 1, 2**53 + 1, 1], np.int64)
RIGHT = np.array([3037000499, 3037000498, 2**22 - 1, 2**31 - 1, -3, -(2**63)], np.int64)
ROW = np.array([True, False, True, True, False, False, True, False])


def integers(d: Data, args: tuple[Any, ...], result: str, meaning: Callable[..., Any]) -> Built:
    """A case whose oracle gives integers, made in Python's: of any size."""

    def oracle(*given: Any) -> dict[str, Want]:
        exact = np.array(meaning(*given))
        return {result: Want(exact, np.zeros(exact.shape))}

    return Built(args, oracle)


def cast(d: Data, x: Array, to: str, meaning: Callable[..., Any]) -> Built:
    from infinitrain.dtype import as_dtype

    return integers(d, (x, as_dtype(to)), "y", meaning)


def _each(function: Callable[..., int]) -> Callable[..., Array]:
    """Return a function of arrays and numbers, which are repeated: element by element in Python's integers."""

    def of(*given: Any) -> Array:
        first = next(g for g in given if isinstance(g, np.ndarray))
        rows = [g.tolist() if isinstance(g, np.ndarray) else [g] * first.size for g in given]
        return np.array([function(*values) for values in zip(*rows, strict=True)], first.dtype)

    return of


def _wide(
    op: str,
    name: str,
    args: tuple[Any, ...],
    meaning: Callable[..., Any],
    result: str = "y",
    dtype: str = "int64",
) -> None:
    case(CASES, op, name, integers, args, result, meaning, dtypes=(dtype,))


small = WIDE[[0, 1, 6, 7]]
_wide("MulForward", "wide", (LEFT, RIGHT), _each(lambda a, b: a * b))
_wide("AddForward", "wide", (WIDE[:4], WIDE[3::-1]), _each(lambda a, b: a + b))
_wide("SubForward", "wide", (WIDE[:4], RIGHT[:4]), _each(lambda a, b: a - b))
_wide("NegForward", "wide", (WIDE[:5],), _each(lambda a: -a))
_wide("MulScalarForward", "wide", (small, 1021), _each(lambda a, v: a * v))
_wide("MulScalarForward", "wide_number", (np.array([1, -1, 511, 0]), 2**53 + 1), _each(lambda a, v: a * v))
_wide("AddScalarForward", "wide", (small, 2**53 + 2), _each(lambda a, v: a + v))
_wide(
    "ClampForward",
    "wide",
    (WIDE, -(2**53) - 1, 2**62 - 1),
    _each(lambda a, low, high: min(max(a, low), high)),
)
_wide("PowForward", "wide", (np.array([2**20 + 1, -(2**20) - 3, 3]), 3, False), _each(lambda a, n, _: a**n))
_wide("AccumulateGrad", "wide", (RIGHT[:4], 1, WIDE[:4]), _each(lambda g, rate, t: t + rate * g), "tensor")
_wide("MaskForward", "wide", (WIDE, ROW, 2**53 + 1), _each(lambda x, at, v: v if at else x))
_wide("WhereForward", "wide", (ROW, WIDE, WIDE[::-1].copy()), np.where)
_wide("Copy", "wide", (WIDE[::-1].copy(), WIDE), lambda dst, src: src, "dst")
_wide("SliceAssign", "wide", (np.zeros(8, np.int64), WIDE, (0,), (8,), (1,)), lambda x, value, *_: value, "x")
for name, x, to, meaning in (
    ("wide_to_int64", WIDE, "int64", lambda x, _: x),
    ("wide_to_float64", WIDE, "float64", lambda x, _: [float(v) for v in x.tolist()]),
    ("unsigned_to_int64", UNSIGNED[[0, 4, 5]], "int64", lambda x, _: x.astype(np.int64)),
):
    case(CASES, "Cast", name, cast, x, to, meaning, dtypes=(x.dtype.name,))
for value in (2**53 + 1, 2**63 - 1, -(2**63), -(2**53) - 1):
    name = f"{'minus_' * (value < 0)}{abs(value)}"
    _wide("Fill", name, (np.zeros((3, 5), np.int64), value), lambda x, v: np.full(x.shape, v), "x")
for value in (2**64 - 1, 2**63 + 1):
    args = (np.zeros((3, 5), np.uint64), value)
    _wide("Fill", f"unsigned_{value}", args, lambda x, v: np.full(x.shape, v, np.uint64), "x", "uint64")
