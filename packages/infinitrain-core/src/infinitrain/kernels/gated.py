"""Array kernels of Linear with GELU and of SwiGLU."""

from __future__ import annotations

from typing import Any

from .activation import GeluForward, sigmoid, silu_slope
from .linear import LinearForward
from .registry import array_kernel


@array_kernel(needs="erf")
def LinearGeluForward(xp: Any, x: Any, weight: Any, bias: Any, approximate: str) -> Any:
    pre = LinearForward(xp, x, weight, bias)
    return GeluForward(xp, pre, approximate), pre


@array_kernel()
def SwigluForward(xp: Any, gate_up: Any) -> Any:
    gate, up = _halves(gate_up)
    return gate * sigmoid(xp, gate) * up


@array_kernel()
def SwigluBackward(xp: Any, gate_up: Any, grad: Any) -> Any:
    gate, up = _halves(gate_up)
    s = sigmoid(xp, gate)
    return xp.concat((grad * up * silu_slope(gate, s), grad * (gate * s)), axis=-1)


def _halves(gate_up: Any) -> Any:
    half = gate_up.shape[-1] // 2
    return gate_up[..., :half], gate_up[..., half:]
