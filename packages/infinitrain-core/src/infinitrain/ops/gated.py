"""Fused steps of a feed-forward network: Linear with GELU, and the gate of SwiGLU."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, op, require_dtype, require_shape
from ..errors import ShapeError
from .activation import GeluBackward, GeluForward, check_form
from .linear import LinearForward, linear_backward


@op(
    profile="fused",
    results="y pre",
    autocast="lower",
    gradient="GeluBackward LinearBackwardInput LinearBackwardWeight LinearBackwardBias",
)
def LinearGeluForward(x: Tensor, weight: Tensor, bias: Tensor | None, approximate: str = "tanh") -> Results:
    """pre = x weightᵀ + bias, y = GELU(pre); x (..., in), weight (out, in), bias (out,), y and pre (..., out)."""
    check_form(approximate)
    return [*LinearForward.op.infer(x, weight, bias)] * 2


@op(profile="fused", gradient="SwigluBackward")
def SwigluForward(gate_up: Tensor) -> Results:
    """y = silu(gate) up; gate_up (..., 2 F) is the gate, then what it gates; y (..., F); silu(g) = g / (1 + e^-g)."""
    return [(_half(gate_up.shape), gate_up.dtype)]


@op(profile="fused", results="dgate_up")
def SwigluBackward(gate_up: Tensor, grad: Tensor) -> Results:
    """dgate = grad up s (1 + gate (1 - s)), s = 1 / (1 + e^-gate), and dup = grad gate s, packed as gate_up is."""
    require_shape("grad", grad.shape, _half(gate_up.shape))
    require_dtype("grad", grad.dtype, gate_up.dtype)
    return [(gate_up.shape, gate_up.dtype)]


def _half(shape: tuple[int, ...]) -> tuple[int, ...]:
    if not shape or shape[-1] % 2:
        raise ShapeError(f"gate_up {shape} needs a last axis of even size: the gate, then what it gates")
    return (*shape[:-1], shape[-1] // 2)


class LinearGelu(Function, op=LinearGeluForward):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, approximate: str) -> Any:
        y, pre = LinearGeluForward(x, weight, bias, approximate)
        ctx.save(x if ctx.needs(1) else None, weight if ctx.needs(0) else None, pre)
        ctx.approximate = approximate
        return y

    rebuilt_from = 2

    @staticmethod
    def rebuild(ctx: Any, index: int) -> Any:
        return GeluForward(ctx.saved_at(2), ctx.approximate)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight, pre = ctx.saved
        dpre = GeluBackward(pre, grad, ctx.approximate)
        return *linear_backward(ctx, x, weight, dpre), None


class Swiglu(Function, op=SwigluForward):
    @staticmethod
    def forward(ctx: Any, gate_up: Any) -> Any:
        ctx.save(gate_up)
        return SwigluForward(gate_up)

    @staticmethod
    def rebuild(ctx: Any, index: int) -> Any:
        return SwigluForward(ctx.saved_at(0))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return SwigluBackward(*ctx.saved, grad)


def linear_gelu(x: Any, weight: Any, bias: Any = None, approximate: str = "tanh") -> Any:
    """Return GELU of ``x weightᵀ + bias``: x (..., in), weight (out, in), bias (out,) or None; result (..., out).

    ``approximate`` is ``tanh`` or ``none`` (exact).
    """
    return LinearGelu.apply(x, weight, bias, approximate)


def swiglu(gate_up: Any) -> Any:
    """Return ``silu(gate) up`` (..., F) for gate_up (..., 2 F): the gate, then what it gates; silu(g) = g / (1 + e^-g).

    Raises ShapeError when the last axis is odd.
    """
    return Swiglu.apply(gate_up)
