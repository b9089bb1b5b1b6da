"""CPU kernels that are one or two NumPy ufuncs, into the destination, without a temporary where there is a way."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from .blas import matmul


def _unary(name: str, fn: Callable[..., Any]) -> None:
    """Declare the kernel of a function of one tensor."""

    def kernel(x: Any, *, out: Any) -> None:
        fn(x.array, out.array)

    kernel.__name__ = name
    globals()[name] = kernel


def _binary(name: str, fn: Callable[..., Any]) -> None:
    """Declare the kernel of a function of two tensors, broadcast."""

    def kernel(a: Any, b: Any, *, out: Any) -> None:
        fn(a.array, b.array, out=out.array)

    kernel.__name__ = name
    globals()[name] = kernel


_UNARY: dict[str, Callable[..., Any]] = {
    "NegForward": np.negative,
    "AbsForward": np.abs,
    "ExpForward": np.exp,
    "LogForward": np.log,
    "SqrtForward": np.sqrt,
    "SinForward": np.sin,
    "CosForward": np.cos,
    "TanhForward": np.tanh,
    "IsFiniteForward": np.isfinite,
    "IsNanForward": np.isnan,
}
_BINARY: dict[str, Callable[..., Any]] = {
    "AddForward": np.add,
    "SubForward": np.subtract,
    "MulForward": np.multiply,
    "DivForward": np.divide,
    "MaximumForward": np.maximum,
    "MinimumForward": np.minimum,
    "PowTensorForward": np.power,
    "EqualsForward": np.equal,
    "NotEqualsForward": np.not_equal,
    "LtForward": np.less,
    "LeForward": np.less_equal,
    "GtForward": np.greater,
    "GeForward": np.greater_equal,
}
for _name, _fn in _UNARY.items():
    _unary(_name, _fn)
for _name, _fn in _BINARY.items():
    _binary(_name, _fn)


def _compare_scalar(name: str, fn: Callable[..., Any]) -> None:
    """Declare the kernel of a comparison with a number."""

    def kernel(a: Any, value: float, *, out: Any) -> None:
        fn(a.array, float(value), out.array)

    kernel.__name__ = name
    globals()[name] = kernel


_SCALAR: dict[str, Callable[..., Any]] = {
    "EqualsScalarForward": np.equal,
    "NotEqualsScalarForward": np.not_equal,
    "LtScalarForward": np.less,
    "LeScalarForward": np.less_equal,
    "GtScalarForward": np.greater,
    "GeScalarForward": np.greater_equal,
}
for _name, _fn in _SCALAR.items():
    _compare_scalar(_name, _fn)


def ReciprocalForward(x: Any, *, out: Any) -> None:
    np.divide(1.0, x.array, out=out.array)


def RsqrtForward(x: Any, *, out: Any) -> None:
    y = out.array
    np.sqrt(x.array, out=y)
    np.divide(1.0, y, out=y)


def DivScalarForward(x: Any, scalar: float, scalar_is_dividend: bool, *, out: Any) -> None:
    if scalar_is_dividend:
        np.divide(float(scalar), x.array, out.array)
    else:
        np.divide(x.array, float(scalar), out.array)


def AddScalarForward(x: Any, value: float, *, out: Any) -> None:
    np.add(x.array, float(value), out.array)


def MulScalarForward(x: Any, value: float, *, out: Any) -> None:
    np.multiply(x.array, float(value), out.array)


def PowForward(x: Any, scalar: float, scalar_is_base: bool, *, out: Any) -> None:
    if scalar_is_base:
        np.power(float(scalar), x.array, out.array)
    else:
        power(x.array, float(scalar), out.array)


def power(a: np.ndarray, exponent: float, y: np.ndarray) -> None:
    """Write a to the power of a number to ``y``; the powers that models use cost a few products, not a logarithm."""
    if exponent == 1.0:
        np.copyto(y, a)
    elif exponent == 2.0:
        np.square(a, y)
    elif exponent == 3.0:
        np.square(a, y)
        np.multiply(y, a, y)
    else:
        np.power(a, exponent, y)


def SigmoidForward(x: Any, *, out: Any) -> None:
    a, y = x.array, out.array
    np.negative(a, out=y)
    np.exp(y, out=y)
    np.add(y, 1.0, out=y)
    np.divide(1.0, y, out=y)
    # Where e^-x overflows the result is e^x, a subnormal number; -87 is right for either dtype.
    if a.size and not a.min() >= -87.0:
        low = a < -87.0
        y[low] = np.exp(a[low])


def sum_into(full: np.ndarray, target: np.ndarray) -> None:
    """Write ``full`` summed over the axes along which ``target``'s shape was broadcast."""
    shape = target.shape
    if full.shape == shape:
        np.copyto(target, full)
        return
    extra = full.ndim - len(shape)
    if full.shape[extra:] == shape and target.size > 1 and full.dtype == target.dtype:
        rows = full.reshape(-1, target.size)
        matmul(ones(len(rows), rows.dtype.char), rows, target.reshape(1, -1))
        return
    axes = tuple([i for i, n in enumerate(full.shape) if i < extra or (shape[i - extra] == 1 and n != 1)])
    if axes:
        np.add.reduce(full, axes, out=target.reshape((1,) * extra + shape), keepdims=True)
    else:
        np.copyto(target, full.reshape(shape))


@lru_cache(maxsize=32)
def ones(n: int, dtype: str) -> np.ndarray:
    """Return a row of ones: BLAS sums columns in blocks, faster and more accurate than adding row after row."""
    return np.ones((1, n), dtype)
