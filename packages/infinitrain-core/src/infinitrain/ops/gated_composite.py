"""Linear with GELU, and SwiGLU, from other ops of the table [contract 4.3]."""

from __future__ import annotations

from typing import Any

from ..backend.dispatch import composite
from ..dtype import HALF, float32
from .activation import GeluForward, SiluBackward, SiluForward
from .base import Cast
from .elementwise import MulForward
from .join import ConcatForward, SplitForward
from .linear import LinearForward


@composite("GeluForward LinearForward")
def LinearGeluForward(x: Any, weight: Any, bias: Any, approximate: str) -> Any:
    pre = LinearForward(x, weight, bias)
    return GeluForward(pre, approximate), pre


@composite("SiluForward SplitForward MulForward")
def SwigluForward(gate_up: Any) -> Any:
    dtype = gate_up.dtype
    gate, up = _halves(gate_up)
    return _narrow(MulForward(SiluForward(gate), up), dtype)


@composite("SiluForward SiluBackward SplitForward ConcatForward MulForward")
def SwigluBackward(gate_up: Any, grad: Any) -> Any:
    dtype = gate_up.dtype
    (gate, up), grad = _halves(gate_up), _wide(grad)
    dgate = SiluBackward(MulForward(grad, up), gate)
    return _narrow(ConcatForward((dgate, MulForward(grad, SiluForward(gate))), grad.ndim - 1), dtype)


def _halves(gate_up: Any) -> Any:
    half = gate_up.shape[-1] // 2
    return SplitForward(_wide(gate_up), (half, half), gate_up.ndim - 1)


def _wide(x: Any) -> Any:
    """Return x for steps that are not rounded in between: float16 would lose a small SiLU."""
    return Cast(x, float32) if x.dtype in HALF else x


def _narrow(x: Any, dtype: Any) -> Any:
    return Cast(x, dtype) if x.dtype is not dtype else x
