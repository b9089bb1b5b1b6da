"""CPU kernels that are one or two NumPy ufuncs, into the destination, without a temporary where there is a way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _unary(name: str, fn: Callable[..., Any]) -> None:
    """Declare the kernel of a function of one tensor."""

    def kernel(x: Any, *, out: Any) -> None:
        fn(x.array, out=out.array)

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
}
_BINARY: dict[str, Callable[..., Any]] = {
    "AddForward": np.add,
    "SubForward": np.subtract,
    "MulForward": np.multiply,
    "DivForward": np.divide,
    "MaximumForward": np.maximum,
    "MinimumForward": np.minimum,
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
        fn(a.array, float(value), out=out.array)

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


def AddScalarForward(x: Any, value: float, *, out: Any) -> None:
    np.add(x.array, float(value), out=out.array)


def MulScalarForward(x: Any, value: float, *, out: Any) -> None:
    np.multiply(x.array, float(value), out=out.array)


def PowForward(x: Any, scalar: float, scalar_is_base: bool, *, out: Any) -> None:
    a, y, scalar = x.array, out.array, float(scalar)
    if scalar_is_base:
        np.power(scalar, a, out=y)
    elif scalar == 2.0:
        np.multiply(a, a, out=y)
    elif scalar == 3.0:
        np.multiply(a, a, out=y)
        np.multiply(y, a, out=y)
    else:
        np.power(a, scalar, out=y)


def ExpBackward(grad: Any, y: Any, *, out: Any) -> None:
    np.multiply(grad.array, y.array, out=out.array)


def TanhBackward(grad: Any, y: Any, *, out: Any) -> None:
    d = out.array
    np.multiply(y.array, y.array, out=d)
    np.subtract(1.0, d, out=d)
    np.multiply(d, grad.array, out=d)


def SigmoidBackward(grad: Any, y: Any, *, out: Any) -> None:
    d = out.array
    np.subtract(1.0, y.array, out=d)
    np.multiply(d, y.array, out=d)
    np.multiply(d, grad.array, out=d)


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


def MulBackward(grad: Any, a: Any, b: Any, *, out: Any) -> None:
    g = grad.array
    for other, result in ((b.array, out[0]), (a.array, out[1])):
        target = result.array
        if target.shape == g.shape:
            np.multiply(g, other, out=target)
        else:
            sum_into(g * other, target)


def DivBackward(grad: Any, a: Any, b: Any, *, out: Any) -> None:
    g, left, right, da, db = grad.array, a.array, b.array, out[0].array, out[1].array
    quotient = da if da.shape == g.shape else np.empty_like(g)  # grad / b
    slope = db if db.shape == g.shape else np.empty_like(g)  # -grad / b a / b
    np.divide(g, right, out=quotient)
    np.divide(left, right, out=slope)
    np.multiply(slope, quotient, out=slope)
    np.negative(slope, out=slope)
    if quotient is not da:
        sum_into(quotient, da)
    if slope is not db:
        sum_into(slope, db)


def sum_into(full: np.ndarray, target: np.ndarray) -> None:
    """Write ``full`` summed over the axes along which ``target``'s shape was broadcast."""
    extra, shape = full.ndim - target.ndim, target.shape
    axes = tuple([i for i, n in enumerate(full.shape) if i < extra or (shape[i - extra] == 1 and n != 1)])
    if axes:
        np.add.reduce(full, axes, out=target.reshape((1,) * extra + shape), keepdims=True)
    else:
        np.copyto(target, full.reshape(shape))
