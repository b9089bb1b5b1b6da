"""The three gradients of a Linear, each by its own op, straight into the destinations [contract 4.3, 4.5]."""

from __future__ import annotations

from typing import Any

from ..backend.dispatch import composite
from .linear import LinearBackwardBias, LinearBackwardInput, LinearBackwardWeight


@composite("LinearBackwardInput LinearBackwardWeight LinearBackwardBias")
def LinearBackward(x: Any, weight: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    dx, dweight, dbias = out
    LinearBackwardInput(weight, grad, out=dx)
    LinearBackwardWeight(x, grad, out=dweight, accumulate=accumulate)
    LinearBackwardBias(grad, out=dbias, accumulate=accumulate)
