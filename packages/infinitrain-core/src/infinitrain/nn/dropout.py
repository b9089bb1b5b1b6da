"""Dropout as a module."""

from __future__ import annotations

from .. import ops, random
from ..errors import InfiniTrainError
from ..ops.dropout import check_p
from ..tensor import Tensor
from .module import Module


class Dropout(Module):
    """In training each element is dropped with probability ``p`` and the others are divided by 1 - p; otherwise x.

    Inside ``random.step_scope`` what is dropped depends on the module's path in the model, which ``name_paths`` tells
    it, and not on how the batch is split; outside, on the device's default generator.
    """

    def __init__(self, p: float = 0.5) -> None:
        check_p("Dropout", p)
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of x's shape; x itself in ``eval`` mode. Raises InfiniTrainError without a path."""
        if not self.training or self.p == 0:
            return x
        if self._path is None and random.current_step() is not None:
            raise InfiniTrainError(
                "Dropout: this module does not know its path, on which its draws depend inside step_scope; "
                "call nn.name_paths(model) when the model is complete, or nn.init_weights, which does it [contract 8.3]"
            )
        return ops.dropout(x, self.p, self._path or "")

    def extra_repr(self) -> str:
        return f"p={self.p}"
