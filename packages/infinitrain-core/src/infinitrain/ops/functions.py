"""Functions that differ in their rows only: what they save says how they go backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.function import Function
from ..backend.optable import OPS


class OfInputs(Function):
    """A Function whose gradient op, the first one that its row names, takes the gradient and the inputs."""

    forward_op: Callable[..., Any]
    backward_op: Callable[..., Any]

    def __init_subclass__(cls, *, op: Callable[..., Any] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(op=op, **kwargs)
        if cls.row is not None:
            cls.forward_op, cls.backward_op = cls.row.call, OPS[cls.row.gradient[0]].call

    @classmethod
    def forward(cls, ctx: Any, *inputs: Any) -> Any:
        ctx.save(*inputs)
        return cls.forward_op(*inputs)

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:
        return cls.backward_op(*grads, *ctx.saved)

    @staticmethod
    def again(ctx: Any, index: int) -> Any:
        """The forward once more: the ``rebuild`` of Functions whose forward is cheap."""
        return ctx._fn.forward_op(*ctx.saved)


class OfResult(OfInputs):
    """The same of the result alone, so that the input's memory can go."""

    @classmethod
    def forward(cls, ctx: Any, *inputs: Any) -> Any:
        y = cls.forward_op(*inputs)
        ctx.save(y)
        return y
