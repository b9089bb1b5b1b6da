"""Activations: GELU (the tanh form that GPT-2 uses, and the exact one), ReLU, SiLU; and erf."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, op, require_dtype, require_shape
from ..dtype import float32
from ..errors import InfiniTrainError
from .functions import OfInputs, OfResult

FORMS = ("tanh", "none")


def check_form(approximate: str) -> None:
    """Raise InfiniTrainError unless GELU has this form."""
    if approximate not in FORMS:
        raise InfiniTrainError(f"GELU: approximate={approximate!r}: one of {', '.join(FORMS)}")


def _gradient(grad: Any, name: str, x: Any) -> Results:
    require_shape(name, x.shape, grad.shape)
    require_dtype(name, x.dtype, grad.dtype)
    return [(grad.shape, grad.dtype)]


@op(profile="training", gradient="GeluBackward")
def GeluForward(x: Tensor, approximate: str = "tanh") -> Results:
    """tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))); none: x/2 (1 + erf(x/sqrt 2))."""
    check_form(approximate)
    return [(x.shape, x.dtype)]


@op(profile="training", results="dx")
def GeluBackward(x: Tensor, grad: Tensor, approximate: str = "tanh") -> Results:
    """dx = grad times the derivative of GeluForward at x."""
    check_form(approximate)
    require_shape("grad", grad.shape, x.shape)
    require_dtype("grad", grad.dtype, x.dtype)
    return [(x.shape, x.dtype)]


@op(profile="training", gradient="ReluBackward")
def ReluForward(x: Tensor) -> Results:
    """max(x, 0); NaN stays NaN."""
    return [(x.shape, x.dtype)]


@op(profile="training", results="dx")
def ReluBackward(grad: Tensor, y: Tensor) -> Results:
    """dx = grad where the result y is above 0 (or NaN), else 0: at x = 0 it is 0."""
    return _gradient(grad, "y", y)


@op(profile="training", gradient="SiluBackward")
def SiluForward(x: Tensor) -> Results:
    """x / (1 + e^-x), accurate at both ends."""
    return [(x.shape, x.dtype)]


@op(profile="training", results="dx")
def SiluBackward(grad: Tensor, x: Tensor) -> Results:
    """dx = grad s (1 + x (1 - s)), s = 1 / (1 + e^-x)."""
    return _gradient(grad, "x", x)


@op(profile="training", dtypes="numeric", gradient="ErfBackward")
def ErfForward(x: Tensor) -> Results:
    """2/sqrt(pi) times the integral of e^(-t²) from 0 to x."""
    return [(x.shape, x.dtype if x.dtype.is_floating else float32)]


@op(profile="training", results="dx")
def ErfBackward(grad: Tensor, x: Tensor) -> Results:
    """dx = grad 2/sqrt(pi) e^(-x²)."""
    return _gradient(grad, "x", x)


class Gelu(Function, op=GeluForward):
    @staticmethod
    def forward(ctx: Any, x: Any, approximate: str) -> Any:
        ctx.save(x)
        ctx.approximate = approximate
        return GeluForward(x, approximate)

    @staticmethod
    def rebuild(ctx: Any, index: int) -> Any:
        return GeluForward(ctx.saved_at(0), ctx.approximate)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved
        return GeluBackward(x, grad, ctx.approximate), None


class Relu(OfResult, op=ReluForward):  # what comes next mostly keeps the result too
    ...


class Silu(OfInputs, op=SiluForward):
    rebuild = OfInputs.again


class Erf(OfInputs, op=ErfForward): ...


def gelu(x: Any, approximate: str = "tanh") -> Any:
    """Return GELU of x, elementwise; ``approximate`` is ``tanh`` or ``none`` (exact)."""
    return Gelu.apply(x, approximate)


def relu(x: Any) -> Any:
    """Return max(x, 0), elementwise, for a floating x; NaN stays NaN, the gradient at 0 is 0."""
    return Relu.apply(x)


def silu(x: Any) -> Any:
    """Return x / (1 + e^-x), elementwise, for a floating x; also called swish."""
    return Silu.apply(x)


def erf(x: Any) -> Any:
    """Return the error function of x, elementwise; an integer tensor gives float32."""
    return Erf.apply(x)
