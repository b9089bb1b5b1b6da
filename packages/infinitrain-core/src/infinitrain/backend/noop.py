"""Ready kernels for NoOpForward and NoOpBackward: views, the same for any provider [contract 4.4]."""

from __future__ import annotations

from collections.abc import Callable

from .spec import TensorSpec
from .storage import DeviceTensor


def no_op_forward(x: DeviceTensor, shape: tuple[int, ...]) -> DeviceTensor:
    """Return x's memory in ``shape``."""
    view: DeviceTensor = x.view_as(TensorSpec.of(shape, x.dtype, x.device))
    return view


def no_op_backward(shape: tuple[int, ...], grad: DeviceTensor) -> DeviceTensor:
    """Return grad's memory in ``shape``."""
    return no_op_forward(grad, shape)


NO_OP_KERNELS: dict[str, Callable[..., DeviceTensor]] = {
    "NoOpForward": no_op_forward,
    "NoOpBackward": no_op_backward,
}
