"""Array kernels of comparisons and logic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .elementwise import common, is_bool
from .registry import array_kernel


def _comparison(name: str, compare: Callable[[Any, Any], Any]) -> None:
    def tensors(xp: Any, a: Any, b: Any) -> Any:
        if a.dtype != b.dtype and xp.isdtype(a.dtype, "real floating") != xp.isdtype(
            b.dtype, "real floating"
        ):
            # float32 would round large integers, and unequal numbers would be equal.
            a, b = xp.astype(a, xp.float64), xp.astype(b, xp.float64)
        a, b = common(xp, *_comparable(xp, a, b))
        return compare(a, b)

    def scalar(xp: Any, a: Any, value: Any) -> Any:
        return compare(*_with_value(xp, a, value))

    tensors.__name__, scalar.__name__ = f"{name}Forward", f"{name}ScalarForward"
    array_kernel()(tensors)
    array_kernel()(scalar)


def _comparable(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Bools have no order in the standard: both become numbers."""
    if is_bool(xp, a) and is_bool(xp, b):
        return xp.astype(a, xp.uint8), xp.astype(b, xp.uint8)
    return a, b


def _with_value(xp: Any, a: Any, value: Any) -> tuple[Any, Any]:
    if xp.isdtype(a.dtype, "real floating"):
        return a, float(value)
    if isinstance(value, float):
        return xp.astype(a, xp.float64), value
    a, value = xp.astype(a, xp.uint8) if is_bool(xp, a) else a, int(value)
    limits = xp.iinfo(a.dtype)
    if limits.min <= value <= limits.max:
        return a, value
    return xp.astype(a, xp.float64), math.inf if value > 0 else -math.inf  # beyond all values of a


_comparison("Equals", operator.eq)
_comparison("NotEquals", operator.ne)
_comparison("Lt", operator.lt)
_comparison("Le", operator.le)
_comparison("Gt", operator.gt)
_comparison("Ge", operator.ge)


def truth(xp: Any, x: Any) -> Any:
    """Return x as bools, nonzero being true."""
    return x if is_bool(xp, x) else x != 0


@array_kernel()
def AndForward(xp: Any, a: Any, b: Any) -> Any:
    return xp.logical_and(truth(xp, a), truth(xp, b))


@array_kernel()
def OrForward(xp: Any, a: Any, b: Any) -> Any:
    return xp.logical_or(truth(xp, a), truth(xp, b))


@array_kernel()
def NotForward(xp: Any, x: Any) -> Any:
    return xp.logical_not(truth(xp, x))
