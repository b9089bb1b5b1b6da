"""Parameter: a tensor that a module owns and an optimizer changes."""

from __future__ import annotations

from typing import Any

from ..backend.spec import TensorSpec
from ..tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor over the memory of ``data``; assigned to a module's attribute, it is registered there.

    Its identity is what modules, optimizers and hooks hold on to: moving a module or flattening its
    parameters changes where a parameter's memory is, never which object it is.
    """

    # (flat buffer, index in it) while the memory is there; see infinitrain.optim.flat.
    _flat: tuple[Any, int] | None = None

    def __init__(self, data: Tensor, requires_grad: bool = True, name: str | None = None) -> None:
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter: data is a Tensor, got {type(data).__name__}")
        repoint(self, data.detach())
        self._version = data._version
        self.requires_grad = requires_grad
        if name is not None:
            self.name = name

    def view_as(self, spec: TensorSpec, byte_offset: int = 0) -> Tensor:
        """Return a plain tensor over the same memory: what is derived from a parameter is none."""
        view: Tensor = super().view_as(spec, byte_offset)
        view.__class__ = Tensor
        return view


def repoint(tensor: Tensor, source: Tensor) -> None:
    """Make ``tensor``, the same object, a tensor over ``source``'s memory, with its shape, dtype and device.

    The version stays ``tensor``'s own [contract 4.10].
    """
    if isinstance(tensor, Parameter):
        tensor._flat = None
    tensor.spec = source.spec
    tensor._buffer, tensor._offset = source._buffer, source._offset
    array = source.__dict__.get("array")
    if array is None:
        tensor.__dict__.pop("array", None)
    else:
        tensor.array = array
