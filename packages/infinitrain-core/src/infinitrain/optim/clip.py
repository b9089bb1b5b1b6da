"""The norm of all gradients, and scaling them down to a largest one."""

from __future__ import annotations

from collections.abc import Iterable
from math import hypot, inf, isfinite

from .. import ops
from ..device import Device
from ..errors import InfiniTrainError
from ..nn.parameter import Parameter
from ..tensor import Tensor
from .flat import bump, gradients, runs_with_gradient


class NonFiniteGradientError(InfiniTrainError, ArithmeticError):
    """The norm of the gradients is no finite number; ``norm`` has it. No gradient was changed."""


def clip_grad_norm(
    params: Iterable[Parameter], max_norm: float = inf, *, error_if_nonfinite: bool = True
) -> float:
    """Scale the gradients so that their common 2-norm is at most ``max_norm``; return the norm before.

    Factor: min(1, max_norm / (norm + 1e-6)). Parameters without a gradient do not count. The norm is computed in
    float32 or wider, and right for gradients whose squares are not. Waits for the device. Raises
    NonFiniteGradientError (or returns the norm, and scales nothing: what a step with a GradScaler wants, which skips
    such steps), ValueError.
    """
    if not ops.real("clip_grad_norm: max_norm", max_norm) > 0:
        raise ValueError(f"clip_grad_norm: max_norm is above 0, got {max_norm}")
    if not isinstance(params, Iterable):
        raise TypeError(f"clip_grad_norm: params is an iterable of Parameters, got {params!r:.60}")
    runs = runs_with_gradient(params)
    by_device: dict[Device, list[Tensor]] = {}
    for grad in gradients(runs):
        by_device.setdefault(grad.device, []).append(grad)
    norm = hypot(*(float(ops.GlobalNorm(grads).item()) for grads in by_device.values()))
    if not isfinite(norm):
        if error_if_nonfinite:
            raise NonFiniteGradientError(
                f"the norm of the gradients is {norm}; lower the learning rate", norm=norm
            )
        return norm
    if norm > max_norm:
        for grads in by_device.values():
            ops.ScaleInPlace(grads, max_norm / (norm + 1e-6))
        bump(runs, "clip_grad_norm", gradients=True)
    return norm
