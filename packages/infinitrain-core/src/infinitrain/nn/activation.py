"""Activations as modules: GELU, ReLU, SiLU."""

from __future__ import annotations

from .. import ops
from ..ops.activation import check_form
from ..tensor import Tensor
from .module import Module


class GELU(Module):
    """x Phi(x), elementwise: by default in the tanh form that GPT-2 uses; ``approximate="none"`` is the exact one."""

    def __init__(self, approximate: str = "tanh") -> None:
        check_form(approximate)
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of x's shape."""
        return ops.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        return "" if self.approximate == "tanh" else f"approximate={self.approximate!r}"


class ReLU(Module):
    """max(x, 0), elementwise."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of x's shape."""
        return ops.relu(x)


class SiLU(Module):
    """x / (1 + e^-x), elementwise."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of x's shape."""
        return ops.silu(x)
