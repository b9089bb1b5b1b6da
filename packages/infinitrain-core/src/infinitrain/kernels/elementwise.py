"""Array kernels of arithmetic. The standard does not mix kinds of dtypes: operands are cast first."""

from __future__ import annotations

import math
from typing import Any

from .linear import sum_to
from .registry import array_kernel


@array_kernel()
def AddForward(xp: Any, a: Any, b: Any) -> Any:
    a, b = common(xp, a, b)
    return xp.logical_or(a, b) if is_bool(xp, a) else a + b


@array_kernel()
def AddBackward(xp: Any, grad: Any, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> Any:
    return owned_sum(xp, grad, a_shape), owned_sum(xp, grad, b_shape)


@array_kernel()
def SubForward(xp: Any, a: Any, b: Any) -> Any:
    a, b = common(xp, a, b)
    return a - b


@array_kernel()
def SubBackward(xp: Any, grad: Any, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> Any:
    return owned_sum(xp, grad, a_shape), -sum_to(xp, grad, b_shape)


@array_kernel()
def MulForward(xp: Any, a: Any, b: Any) -> Any:
    a, b = common(xp, a, b)
    return xp.logical_and(a, b) if is_bool(xp, a) else a * b


@array_kernel()
def MulBackward(xp: Any, grad: Any, a: Any, b: Any) -> Any:
    a, b = floating(xp, a, grad.dtype), floating(xp, b, grad.dtype)
    return sum_to(xp, grad * b, a.shape), sum_to(xp, grad * a, b.shape)


@array_kernel()
def DivForward(xp: Any, a: Any, b: Any) -> Any:
    a, b = common(xp, a, b)
    return floating(xp, a) / floating(xp, b)


@array_kernel()
def DivBackward(xp: Any, grad: Any, a: Any, b: Any) -> Any:
    a, b = floating(xp, a, grad.dtype), floating(xp, b, grad.dtype)
    da = grad / b
    return sum_to(xp, da, a.shape), sum_to(xp, -da * (a / b), b.shape)


@array_kernel()
def PowTensorForward(xp: Any, a: Any, b: Any) -> Any:
    a, b = common(xp, a, b)
    if not xp.isdtype(a.dtype, "real floating") and bool(xp.any(b < 0)):
        raise ValueError(f"pow: negative exponents of integers ({a.dtype}); cast one to a floating dtype")
    return xp.pow(a, b)


@array_kernel()
def PowTensorBackward(xp: Any, grad: Any, a: Any, b: Any) -> Any:
    a, b = floating(xp, a, grad.dtype), floating(xp, b, grad.dtype)
    # Where a factor is 0 its infinite partner must not be computed: 0 times infinity is no number.
    flat, zero = b == 0, (a == 0) & (b >= 0)
    one, none = xp.ones_like(b), xp.zeros_like(grad)
    da = xp.where(flat, none, grad * b * xp.pow(a, xp.where(flat, one, b - 1)))
    db = xp.where(
        zero, none, grad * xp.pow(a, b) * xp.where(a < 0, math.nan, xp.log(xp.where(zero | (a < 0), one, a)))
    )
    return sum_to(xp, da, a.shape), sum_to(xp, db, b.shape)


@array_kernel()
def AddScalarForward(xp: Any, x: Any, value: Any) -> Any:
    x, value = with_scalar(xp, x, value)
    return x + value


@array_kernel()
def MulScalarForward(xp: Any, x: Any, value: Any) -> Any:
    x, value = with_scalar(xp, x, value)
    return x * value


@array_kernel()
def DivScalarForward(xp: Any, x: Any, scalar: Any, scalar_is_dividend: bool) -> Any:
    x, scalar = floating(xp, x), float(scalar)
    return scalar / x if scalar_is_dividend else x / scalar


@array_kernel()
def DivScalarBackward(xp: Any, grad: Any, x: Any, scalar: Any) -> Any:
    return -grad * (float(scalar) / x) / x


@array_kernel()
def PowForward(xp: Any, x: Any, scalar: Any, scalar_is_base: bool) -> Any:
    x, scalar = with_scalar(xp, x, scalar)
    if not scalar_is_base:
        return _power(xp, x, scalar)
    if not xp.isdtype(x.dtype, "real floating") and bool(xp.any(x < 0)):
        raise ValueError(
            f"pow: {scalar} to negative integers ({x.dtype}); give {float(scalar)} or cast the tensor"
        )
    return scalar**x


@array_kernel()
def PowBackward(xp: Any, grad: Any, x: Any, scalar: Any, scalar_is_base: bool) -> Any:
    scalar = float(scalar)
    if scalar == 0.0:
        return xp.zeros_like(grad)
    if scalar_is_base:
        return grad * scalar**x * (math.log(scalar) if scalar > 0 else math.nan)
    return grad * (scalar * _power(xp, x, scalar - 1.0))


def _power(xp: Any, x: Any, exponent: Any) -> Any:
    """Return x to the power of a number; the powers that models use cost a few products, not a logarithm."""
    if exponent == 0:
        return xp.ones_like(x)
    if exponent == 1:
        return x * 1
    if exponent == 2:
        return x * x
    if exponent == 3:
        return x * x * x
    return x**exponent


def owned_sum(xp: Any, grad: Any, shape: tuple[int, ...]) -> Any:
    """Return grad summed to ``shape``, in memory of its own."""
    return sum_to(xp, grad, shape) if grad.shape != shape else xp.asarray(grad, copy=True)


# One dtype for two operands -------------------------------------------------------------------------------


def is_bool(xp: Any, x: Any) -> bool:
    return bool(xp.isdtype(x.dtype, "bool"))


def common(xp: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return a and b ready for one operation, by the rule of ``dtype.promote``."""
    if a.dtype == b.dtype:
        return a, b
    a_floats, b_floats = xp.isdtype(a.dtype, "real floating"), xp.isdtype(b.dtype, "real floating")
    if a_floats and b_floats:
        return a, b
    if a_floats or is_bool(xp, b):
        return a, xp.astype(b, a.dtype)
    if b_floats or is_bool(xp, a):
        return xp.astype(a, b.dtype), b
    signed = xp.isdtype(a.dtype, "signed integer"), xp.isdtype(b.dtype, "signed integer")
    if xp.uint64 in (a.dtype, b.dtype) and any(signed):
        return xp.astype(a, xp.float64), xp.astype(b, xp.float64)
    return a, b


def floating(xp: Any, x: Any, dtype: Any = None) -> Any:
    """Return x, in ``dtype`` (float32 by default) if it is not floating."""
    return x if xp.isdtype(x.dtype, "real floating") else xp.astype(x, dtype or xp.float32)


def with_scalar(xp: Any, x: Any, value: Any) -> tuple[Any, Any]:
    """Return x and a Python number ready for one operation: see ``AddScalarForward``."""
    if xp.isdtype(x.dtype, "real floating"):
        return x, float(value)
    if isinstance(value, float):
        return xp.astype(x, xp.float32), value
    return xp.astype(x, xp.int64) if is_bool(xp, x) else x, int(value)
