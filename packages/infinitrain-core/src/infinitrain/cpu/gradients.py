"""CPU kernels of gradients that are a few ufuncs: too few for blocks to pay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import elementwise as arrays
from .erf import NUMPY
from .select import kept_into
from .ufuncs import power, sum_into

Shape = tuple[int, ...]


# Of functions of one tensor: each fills d from the gradient g and x (the argument, or the result). ---------------


def _abs(g: np.ndarray, x: np.ndarray, d: np.ndarray) -> None:
    np.sign(x, d)
    np.multiply(d, g, d)


def _reciprocal(g: np.ndarray, x: np.ndarray, d: np.ndarray) -> None:
    np.divide(g, x, d)
    np.divide(d, x, d)
    np.negative(d, d)


def _sqrt(g: np.ndarray, y: np.ndarray, d: np.ndarray) -> None:
    np.multiply(y, 2.0, d)
    np.divide(g, d, d)


def _rsqrt(g: np.ndarray, x: np.ndarray, d: np.ndarray) -> None:
    np.sqrt(x, d)
    np.multiply(d, x, d)
    np.divide(g, d, d)
    np.multiply(d, -0.5, d)


def _sin(g: np.ndarray, x: np.ndarray, d: np.ndarray) -> None:
    np.cos(x, d)
    np.multiply(d, g, d)


def _cos(g: np.ndarray, x: np.ndarray, d: np.ndarray) -> None:
    np.sin(x, d)
    np.multiply(d, g, d)
    np.negative(d, d)


def _tanh(g: np.ndarray, y: np.ndarray, d: np.ndarray) -> None:
    np.multiply(y, y, d)
    np.subtract(1.0, d, d)
    np.multiply(d, g, d)


def _sigmoid(g: np.ndarray, y: np.ndarray, d: np.ndarray) -> None:
    np.subtract(1.0, y, d)
    np.multiply(d, y, d)
    np.multiply(d, g, d)


def _erf(g: np.ndarray, x: np.ndarray, d: np.ndarray) -> None:
    np.multiply(x, x, d)
    np.negative(d, d)
    np.exp(d, d)
    np.multiply(d, 2.0 / math.sqrt(math.pi), d)
    np.multiply(d, g, d)


def _of_argument(name: str, fill: Callable[..., Any]) -> None:
    def kernel(grad: Any, x: Any, *, out: Any) -> None:
        fill(grad.array, x.array, out.array)

    kernel.__name__ = name
    globals()[name] = kernel


def _of_result(name: str, fill: Callable[..., Any]) -> None:
    def kernel(grad: Any, y: Any, *, out: Any) -> None:
        fill(grad.array, y.array, out.array)

    kernel.__name__ = name
    globals()[name] = kernel


_ARGUMENT: dict[str, Callable[..., Any]] = {
    "AbsBackward": _abs,
    "ReciprocalBackward": _reciprocal,
    "LogBackward": np.divide,
    "RsqrtBackward": _rsqrt,
    "SinBackward": _sin,
    "CosBackward": _cos,
    "ErfBackward": _erf,
}
_RESULT: dict[str, Callable[..., Any]] = {
    "ExpBackward": np.multiply,
    "SqrtBackward": _sqrt,
    "TanhBackward": _tanh,
    "SigmoidBackward": _sigmoid,
}
for _name, _fill in _ARGUMENT.items():
    _of_argument(_name, _fill)
for _name, _fill in _RESULT.items():
    _of_result(_name, _fill)


# Of arithmetic -----------------------------------------------------------------------------------------------------


def AddBackward(grad: Any, a_shape: Shape, b_shape: Shape, *, out: Any) -> None:
    for target in out:
        sum_into(grad.array, target.array)


def SubBackward(grad: Any, a_shape: Shape, b_shape: Shape, *, out: Any) -> None:
    da, db = out[0].array, out[1].array
    sum_into(grad.array, da)
    if db.shape == grad.shape:
        np.negative(grad.array, db)
    else:
        sum_into(grad.array, db)
        np.negative(db, db)


def MulBackward(grad: Any, a: Any, b: Any, *, out: Any) -> None:
    g = grad.array
    for other, result in ((b.array, out[0]), (a.array, out[1])):
        target = result.array
        if target.shape == g.shape:
            np.multiply(g, other, target)
        else:
            sum_into(g * other, target)


def DivBackward(grad: Any, a: Any, b: Any, *, out: Any) -> None:
    g, left, right, da, db = grad.array, a.array, b.array, out[0].array, out[1].array
    quotient = da if da.shape == g.shape else np.empty_like(g)  # grad / b
    slope = db if db.shape == g.shape else np.empty_like(g)  # -grad / b a / b
    np.divide(g, right, quotient)
    np.divide(left, right, slope)
    np.multiply(slope, quotient, slope)
    np.negative(slope, slope)
    if quotient is not da:
        sum_into(quotient, da)
    if slope is not db:
        sum_into(slope, db)


def DivScalarBackward(grad: Any, x: Any, scalar: float, *, out: Any) -> None:
    a, d = x.array, out.array
    np.divide(-float(scalar), a, d)
    np.multiply(d, grad.array, d)
    np.divide(d, a, d)


def PowBackward(grad: Any, x: Any, scalar: float, scalar_is_base: bool, *, out: Any) -> None:
    scalar = float(scalar)
    if scalar_is_base or scalar == 0.0:
        with NUMPY.quiet():
            out.array[...] = arrays.PowBackward(NUMPY, grad.array, x.array, scalar, scalar_is_base)
        return
    d = out.array
    power(x.array, scalar - 1.0, d)
    np.multiply(d, scalar, d)
    np.multiply(d, grad.array, d)


def PowTensorBackward(grad: Any, a: Any, b: Any, *, out: Any) -> None:
    g, base, exponent, da, db = grad.array, a.array, b.array, out[0].array, out[1].array
    same = g.dtype == base.dtype == exponent.dtype and g.shape == base.shape == exponent.shape
    # Elsewhere there is something to step aside for: 0 times infinity.
    if not (same and exponent.all() and np.minimum.reduce(base, None) > 0.0):
        with NUMPY.quiet():  # sums would warn in NumPy's own name
            da[...], db[...] = arrays.PowTensorBackward(NUMPY, g, base, exponent)
        return
    np.subtract(exponent, 1.0, da)
    np.power(base, da, da)
    np.multiply(da, exponent, da)
    np.multiply(da, g, da)
    np.power(base, exponent, db)
    np.multiply(db, g, db)
    np.multiply(db, np.log(base), db)


def MaximumBackward(grad: Any, a: Any, b: Any, *, out: Any) -> None:
    _share(grad.array, a.array, b.array, np.less, np.greater, out)


def MinimumBackward(grad: Any, a: Any, b: Any, *, out: Any) -> None:
    _share(grad.array, a.array, b.array, np.greater, np.less, out)


def _share(
    g: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    a_lost: Callable[..., Any],
    b_lost: Callable[..., Any],
    out: Any,
) -> None:
    """Write g for each operand: nothing where it lost, half where the two are equal."""
    tie = np.equal(a, b)
    if np.count_nonzero(tie):
        g = g.copy()
        g[tie] *= 0.5
    for lost, target in ((a_lost, out[0]), (b_lost, out[1])):
        kept_into(g, np.logical_not(lost(a, b)), target.array)
