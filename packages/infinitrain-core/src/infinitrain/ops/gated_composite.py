"""Linear with GELU, and SwiGLU, from other ops of the table [contract 4.3]."""

from __future__ import annotations

from typing import Any

from ..backend.dispatch import composite
from .activation import GeluForward, SiluBackward, SiluForward
from .elementwise import MulForward
from .linear import LinearForward
from .shape import ConcatForward, SplitForward


@composite
def LinearGeluForward(x: Any, weight: Any, bias: Any, approximate: str) -> Any:
    pre = LinearForward(x, weight, bias)
    return GeluForward(pre, approximate), pre


@composite
def SwigluForward(gate_up: Any) -> Any:
    gate, up = _halves(gate_up)
    return MulForward(SiluForward(gate), up)


@composite
def SwigluBackward(gate_up: Any, grad: Any) -> Any:
    gate, up = _halves(gate_up)
    dgate = SiluBackward(MulForward(grad, up), gate)
    return ConcatForward((dgate, MulForward(grad, SiluForward(gate))), gate_up.ndim - 1)


def _halves(gate_up: Any) -> Any:
    half = gate_up.shape[-1] // 2
    return SplitForward(gate_up, (half, half), gate_up.ndim - 1)
