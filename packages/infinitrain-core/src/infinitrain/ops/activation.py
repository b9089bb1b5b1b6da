"""GELU, in the tanh form that GPT-2 uses and the exact one."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, op, require_dtype, require_shape
from ..errors import InfiniTrainError

FORMS = ("tanh", "none")


def _check_form(approximate: str) -> None:
    if approximate not in FORMS:
        raise InfiniTrainError(f"approximate={approximate!r}: one of {', '.join(FORMS)}")


@op(profile="training", gradient="GeluBackward")
def GeluForward(x: Tensor, approximate: str = "tanh") -> Results:
    """tanh: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))); none: x/2 (1 + erf(x/sqrt 2))."""
    _check_form(approximate)
    return [(x.shape, x.dtype)]


@op(profile="training", results="dx")
def GeluBackward(x: Tensor, grad: Tensor, approximate: str = "tanh") -> Results:
    """dx = grad times the derivative of GeluForward at x."""
    _check_form(approximate)
    require_shape("grad", grad.shape, x.shape)
    require_dtype("grad", grad.dtype, x.dtype)
    return [(x.shape, x.dtype)]


class Gelu(Function, op=GeluForward):
    @staticmethod
    def forward(ctx: Any, x: Any, approximate: str) -> Any:
        ctx.save(x)
        ctx.approximate = approximate
        return GeluForward(x, approximate)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved
        return GeluBackward(x, grad, ctx.approximate), None


def gelu(x: Any, approximate: str = "tanh") -> Any:
    """Return GELU of x, elementwise; ``approximate`` is ``tanh`` or ``none`` (exact)."""
    return Gelu.apply(x, approximate)
