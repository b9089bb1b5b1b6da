"""Functions of one tensor, element by element. An integer tensor gives float32, except for neg and abs."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, op, require_dtype, require_shape
from ..dtype import float32
from .functions import OfInputs, OfResult


def _floating(x: Any) -> Results:
    return [(x.shape, x.dtype if x.dtype.is_floating else float32)]


def _gradient(grad: Any, name: str, x: Any) -> Results:
    require_shape(name, x.shape, grad.shape)
    require_dtype(name, x.dtype, grad.dtype)
    return [(grad.shape, grad.dtype)]


@op(profile="training", dtypes="numeric", gradient="NegForward")
def NegForward(x: Tensor) -> Results:
    """-x; unsigned integers wrap around."""
    return [(x.shape, x.dtype)]


@op(profile="extra", dtypes="numeric", gradient="AbsBackward")
def AbsForward(x: Tensor) -> Results:
    """|x|."""
    return [(x.shape, x.dtype)]


@op(profile="extra", results="dx")
def AbsBackward(grad: Tensor, x: Tensor) -> Results:
    """dx = grad sign(x); 0 at 0."""
    return _gradient(grad, "x", x)


@op(profile="training", dtypes="numeric", autocast="float32", gradient="ReciprocalBackward")
def ReciprocalForward(x: Tensor) -> Results:
    """1 / x."""
    return _floating(x)


@op(profile="training", results="dx")
def ReciprocalBackward(grad: Tensor, x: Tensor) -> Results:
    """dx = -grad / x²."""
    return _gradient(grad, "x", x)


@op(profile="training", dtypes="numeric", autocast="float32", gradient="ExpBackward")
def ExpForward(x: Tensor) -> Results:
    """e to the power x."""
    return _floating(x)


@op(profile="training", results="dx")
def ExpBackward(grad: Tensor, y: Tensor) -> Results:
    """dx = grad y, y being the result."""
    return _gradient(grad, "y", y)


@op(profile="training", dtypes="numeric", autocast="float32", gradient="LogBackward")
def LogForward(x: Tensor) -> Results:
    """The natural logarithm of x."""
    return _floating(x)


@op(profile="training", results="dx")
def LogBackward(grad: Tensor, x: Tensor) -> Results:
    """dx = grad / x."""
    return _gradient(grad, "x", x)


@op(profile="training", dtypes="numeric", autocast="float32", gradient="SqrtBackward")
def SqrtForward(x: Tensor) -> Results:
    """The square root of x."""
    return _floating(x)


@op(profile="training", results="dx")
def SqrtBackward(grad: Tensor, y: Tensor) -> Results:
    """dx = grad / (2 y), y being the result."""
    return _gradient(grad, "y", y)


@op(profile="training", dtypes="numeric", autocast="float32", gradient="RsqrtBackward")
def RsqrtForward(x: Tensor) -> Results:
    """1 / sqrt(x)."""
    return _floating(x)


@op(profile="training", results="dx")
def RsqrtBackward(grad: Tensor, x: Tensor) -> Results:
    """dx = -grad x^(-3/2) / 2."""
    return _gradient(grad, "x", x)


@op(profile="training", dtypes="numeric", autocast="float32", gradient="SinBackward")
def SinForward(x: Tensor) -> Results:
    """The sine of x in radians."""
    return _floating(x)


@op(profile="training", results="dx")
def SinBackward(grad: Tensor, x: Tensor) -> Results:
    """dx = grad cos(x)."""
    return _gradient(grad, "x", x)


@op(profile="training", dtypes="numeric", autocast="float32", gradient="CosBackward")
def CosForward(x: Tensor) -> Results:
    """The cosine of x in radians."""
    return _floating(x)


@op(profile="training", results="dx")
def CosBackward(grad: Tensor, x: Tensor) -> Results:
    """dx = -grad sin(x)."""
    return _gradient(grad, "x", x)


@op(profile="training", dtypes="numeric", autocast="float32", gradient="TanhBackward")
def TanhForward(x: Tensor) -> Results:
    """The hyperbolic tangent of x."""
    return _floating(x)


@op(profile="training", results="dx")
def TanhBackward(grad: Tensor, y: Tensor) -> Results:
    """dx = grad (1 - y²), y being the result."""
    return _gradient(grad, "y", y)


@op(profile="training", dtypes="numeric", gradient="SigmoidBackward")
def SigmoidForward(x: Tensor) -> Results:
    """1 / (1 + e^-x), accurate at both ends."""
    return _floating(x)


@op(profile="training", results="dx")
def SigmoidBackward(grad: Tensor, y: Tensor) -> Results:
    """dx = grad y (1 - y), y being the result."""
    return _gradient(grad, "y", y)


class Neg(Function, op=NegForward):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return NegForward(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return NegForward(grad)


class Abs(OfInputs, op=AbsForward): ...


class Reciprocal(OfInputs, op=ReciprocalForward): ...


class Exp(OfResult, op=ExpForward): ...


class Log(OfInputs, op=LogForward): ...


class Sqrt(OfResult, op=SqrtForward): ...


class Rsqrt(OfInputs, op=RsqrtForward): ...


class Sin(OfInputs, op=SinForward): ...


class Cos(OfInputs, op=CosForward): ...


class Tanh(OfResult, op=TanhForward): ...


class Sigmoid(OfResult, op=SigmoidForward): ...


def neg(x: Any) -> Any:
    """Return -x."""
    return Neg.apply(x)


def abs(x: Any) -> Any:
    """Return |x|; the gradient at 0 is 0."""
    return Abs.apply(x)


def reciprocal(x: Any) -> Any:
    """Return 1 / x."""
    return Reciprocal.apply(x)


def exp(x: Any) -> Any:
    """Return e to the power x."""
    return Exp.apply(x)


def log(x: Any) -> Any:
    """Return the natural logarithm of x."""
    return Log.apply(x)


def sqrt(x: Any) -> Any:
    """Return the square root of x."""
    return Sqrt.apply(x)


def rsqrt(x: Any) -> Any:
    """Return 1 / sqrt(x)."""
    return Rsqrt.apply(x)


def sin(x: Any) -> Any:
    """Return the sine of x (radians)."""
    return Sin.apply(x)


def cos(x: Any) -> Any:
    """Return the cosine of x (radians)."""
    return Cos.apply(x)


def tanh(x: Any) -> Any:
    """Return the hyperbolic tangent of x."""
    return Tanh.apply(x)


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e^-x)."""
    return Sigmoid.apply(x)
