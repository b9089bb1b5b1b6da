"""Keeping values within bounds: clamp, and the larger and the smaller of two tensors."""

from __future__ import annotations

import math
from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Scalar, Tensor, broadcast_shapes, op, require_dtype, require_shape
from ..dtype import float32, promote
from ..errors import DtypeError
from .base import Cast
from .elementwise import bounds, number, operand_gradients
from .functions import OfInputs


@op(profile="training", dtypes="numeric", gradient="ClampBackward")
def ClampForward(x: Tensor, low: Scalar, high: Scalar) -> Results:
    """x, or low where it is below, or high where it is above; NaN stays NaN. Integers take integer bounds."""
    for name, bound in (("low", low), ("high", high)):
        if isinstance(bound, float) and not x.dtype.is_floating:
            raise DtypeError(f"{name} is a float, {bound}, and x {x.dtype}; cast x first")
    return [(x.shape, x.dtype)]


@op(profile="training", results="dx")
def ClampBackward(grad: Tensor, x: Tensor, low: Scalar, high: Scalar) -> Results:
    """dx = grad where low <= x <= high, else 0."""
    require_shape("x", x.shape, grad.shape)
    require_dtype("x", x.dtype, grad.dtype)
    return [(grad.shape, grad.dtype)]


@op(profile="training", dtypes="all", autocast="widest", gradient="MaximumBackward")
def MaximumForward(a: Tensor, b: Tensor) -> Results:
    """The larger of a and b; shapes broadcast, dtypes promote; NaN where one is NaN; of two bools: or."""
    return [(broadcast_shapes(a.shape, b.shape), promote(a.dtype, b.dtype))]


@op(profile="training", results="da db")
def MaximumBackward(grad: Tensor, a: Tensor, b: Tensor) -> Results:
    """grad to the larger of a and b, half to each where they are equal, to both where one is NaN; each summed
    over the axes along which its operand was broadcast.
    """
    return operand_gradients(grad, a, b)


@op(profile="training", dtypes="all", autocast="widest", gradient="MinimumBackward")
def MinimumForward(a: Tensor, b: Tensor) -> Results:
    """The smaller of a and b; shapes broadcast, dtypes promote; NaN where one is NaN; of two bools: and."""
    return [(broadcast_shapes(a.shape, b.shape), promote(a.dtype, b.dtype))]


@op(profile="training", results="da db")
def MinimumBackward(grad: Tensor, a: Tensor, b: Tensor) -> Results:
    """grad to the smaller of a and b, half to each where they are equal, to both where one is NaN; each summed
    over the axes along which its operand was broadcast.
    """
    return operand_gradients(grad, a, b)


class Clamp(Function, op=ClampForward):
    @staticmethod
    def forward(ctx: Any, x: Any, low: Any, high: Any) -> Any:
        ctx.save(x)
        ctx.bounds = low, high
        return ClampForward(x, low, high)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ClampBackward(grad, *ctx.saved, *ctx.bounds), None, None


class Maximum(OfInputs, op=MaximumForward): ...


class Minimum(OfInputs, op=MinimumForward): ...


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """Return x with what is below ``low`` set to low and what is above ``high`` set to high; NaN stays NaN.

    A bound is a number or None. An integer tensor keeps its dtype with integer bounds and becomes float32 with a
    float. The gradient passes where low <= x <= high, the bounds included. Raises ValueError when low > high, a bound
    is NaN or both are None; TypeError, DtypeError for bounds that are no numbers or do not fit x.
    """
    given: list[Any] = [None if b is None else number("clamp", b, x) for b in (low, high)]
    if given == [None, None]:
        raise ValueError("clamp: low and high are both None; give at least one")
    if any(b is not None and math.isnan(b) for b in given):
        raise ValueError(f"clamp: a bound is NaN: low={low}, high={high}")
    if None not in given and given[0] > given[1]:
        raise ValueError(f"clamp: low={low} is above high={high}")
    floats = any(isinstance(b, float) for b in given)
    if floats and not x.dtype.is_floating:
        x, given = Cast(x, float32), [None if b is None else float(b) for b in given]
    limits: tuple[Any, Any] = (-math.inf, math.inf) if floats else bounds(x.dtype)
    return Clamp.apply(x, *[limit if b is None else b for b, limit in zip(given, limits, strict=True)])


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of a and b, elementwise; shapes broadcast, dtypes promote, NaN where one of the two is NaN.

    The gradient goes to the larger one, half of it to each where they are equal.
    """
    return Maximum.apply(a, b)


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of a and b, elementwise; shapes broadcast, dtypes promote, NaN where one of the two is NaN.

    The gradient goes to the smaller one, half of it to each where they are equal.
    """
    return Minimum.apply(a, b)
