"""Comparisons and logic: bool results without gradients; shapes broadcast, either side may be a number.

Tensors of different dtypes are compared in the promoted one, integers with floats in float64. With a floating
tensor a number counts as a value of its dtype: a bfloat16 tensor made of 0.1 equals 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend.optable import Results, Scalar, Tensor, broadcast_shapes, op
from ..dtype import HALF, bool_
from ..tensor import Tensor as UserTensor
from .base import Cast


def _tensors(a: Any, b: Any) -> Results:
    return [(broadcast_shapes(a.shape, b.shape), bool_)]


@op(profile="training", dtypes="all")
def EqualsForward(a: Tensor, b: Tensor) -> Results:
    """a == b."""
    return _tensors(a, b)


@op(profile="training", dtypes="all")
def NotEqualsForward(a: Tensor, b: Tensor) -> Results:
    """a != b."""
    return _tensors(a, b)


@op(profile="training", dtypes="all")
def LtForward(a: Tensor, b: Tensor) -> Results:
    """a < b."""
    return _tensors(a, b)


@op(profile="training", dtypes="all")
def LeForward(a: Tensor, b: Tensor) -> Results:
    """a <= b."""
    return _tensors(a, b)


@op(profile="training", dtypes="all")
def GtForward(a: Tensor, b: Tensor) -> Results:
    """a > b."""
    return _tensors(a, b)


@op(profile="training", dtypes="all")
def GeForward(a: Tensor, b: Tensor) -> Results:
    """a >= b."""
    return _tensors(a, b)


@op(profile="training", dtypes="all")
def EqualsScalarForward(a: Tensor, value: Scalar) -> Results:
    """a == value."""
    return [(a.shape, bool_)]


@op(profile="training", dtypes="all")
def NotEqualsScalarForward(a: Tensor, value: Scalar) -> Results:
    """a != value."""
    return [(a.shape, bool_)]


@op(profile="training", dtypes="all")
def LtScalarForward(a: Tensor, value: Scalar) -> Results:
    """a < value."""
    return [(a.shape, bool_)]


@op(profile="training", dtypes="all")
def LeScalarForward(a: Tensor, value: Scalar) -> Results:
    """a <= value."""
    return [(a.shape, bool_)]


@op(profile="training", dtypes="all")
def GtScalarForward(a: Tensor, value: Scalar) -> Results:
    """a > value."""
    return [(a.shape, bool_)]


@op(profile="training", dtypes="all")
def GeScalarForward(a: Tensor, value: Scalar) -> Results:
    """a >= value."""
    return [(a.shape, bool_)]


@op(profile="training", dtypes="all")
def AndForward(a: Tensor, b: Tensor) -> Results:
    """a and b, nonzero counting as true."""
    return _tensors(a, b)


@op(profile="training", dtypes="all")
def OrForward(a: Tensor, b: Tensor) -> Results:
    """a or b, nonzero counting as true."""
    return _tensors(a, b)


@op(profile="training", dtypes="all")
def NotForward(x: Tensor) -> Results:
    """not x, nonzero counting as true."""
    return [(x.shape, bool_)]


def _compare(name: str, rows: tuple[Callable[..., Any], ...], a: Any, b: Any) -> Any:
    """Run a comparison; ``rows`` are those of two tensors, tensor and number, number and tensor."""
    tensors, scalar, mirrored = rows
    if isinstance(a, UserTensor):
        return tensors(a, b) if isinstance(b, UserTensor) else scalar(a, _value(name, b, a))
    if isinstance(b, UserTensor):
        return mirrored(b, _value(name, a, b))
    raise TypeError(f"{name}: one operand is a Tensor, got {type(a).__name__} and {type(b).__name__}")


def _value(name: str, value: Any, x: Any) -> Any:
    found = _number(value)
    if found is None:
        raise TypeError(
            f"{name}: a tensor is compared with a Tensor or a number, got {type(value).__name__}; "
            "make it a tensor with infinitrain.tensor()"
        )
    return _rounded(found, x)


def _rounded(value: Any, x: Any) -> Any:
    """Return a number as x's half dtype has it, as kernels see x as float32; one beyond its range stays."""
    if x.dtype not in HALF:
        return value
    with np.errstate(over="ignore"):
        nearest = float(x.dtype.numpy.type(float(value)))
    return nearest if math.isfinite(nearest) else float(value)


def _number(value: Any) -> Any:
    """Return a Python number for one of Python's or NumPy's, or None."""
    if not isinstance(value, int | float) and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    return value if isinstance(value, int | float) else None


def equals(a: Any, b: Any) -> Any:
    """Return a == b as a bool tensor; NotImplemented (for Python: False) when b is no tensor or number."""
    if not isinstance(b, UserTensor) and _number(b) is None:
        return NotImplemented
    return _compare("==", (EqualsForward, EqualsScalarForward, EqualsScalarForward), a, b)


def not_equals(a: Any, b: Any) -> Any:
    """Return a != b as a bool tensor; NotImplemented (for Python: True) when b is no tensor or number."""
    if not isinstance(b, UserTensor) and _number(b) is None:
        return NotImplemented
    return _compare("!=", (NotEqualsForward, NotEqualsScalarForward, NotEqualsScalarForward), a, b)


def lt(a: Any, b: Any) -> Any:
    """Return a < b as a bool tensor; one side may be a number."""
    return _compare("<", (LtForward, LtScalarForward, GtScalarForward), a, b)


def le(a: Any, b: Any) -> Any:
    """Return a <= b as a bool tensor; one side may be a number."""
    return _compare("<=", (LeForward, LeScalarForward, GeScalarForward), a, b)


def gt(a: Any, b: Any) -> Any:
    """Return a > b as a bool tensor; one side may be a number."""
    return _compare(">", (GtForward, GtScalarForward, LtScalarForward), a, b)


def ge(a: Any, b: Any) -> Any:
    """Return a >= b as a bool tensor; one side may be a number."""
    return _compare(">=", (GeForward, GeScalarForward, LeScalarForward), a, b)


def logical_and(a: Any, b: Any) -> Any:
    """Return ``a and b`` elementwise as bools, nonzero counting as true; b may be a number."""
    return _logic("&", AndForward, a, b)


def logical_or(a: Any, b: Any) -> Any:
    """Return ``a or b`` elementwise as bools, nonzero counting as true; b may be a number."""
    return _logic("|", OrForward, a, b)


def _logic(name: str, row: Callable[..., Any], a: Any, b: Any) -> Any:
    if isinstance(b, UserTensor):
        return row(a, b)
    truth = bool(_value(name, b, a))
    whole = Cast(a, bool_).fill_(truth)
    return row(a, whole)


def logical_not(x: Any) -> Any:
    """Return ``not x`` elementwise as bools, nonzero counting as true."""
    return NotForward(x)
