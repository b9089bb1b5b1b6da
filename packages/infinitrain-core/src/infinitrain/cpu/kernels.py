"""The CPU's explicit kernels; everything else is the array layer's."""

from __future__ import annotations

from types import ModuleType

from ..backend.kernels import register_kernel
from ..backend.optable import OPS
from ..device import DeviceType
from . import (
    activation,
    attention,
    clamp,
    dropout,
    elementwise,
    erf,
    gated,
    indexing,
    linear,
    linear_loss,
    loss,
    moves,
    norm,
    optimizer,
    reduction,
    rope,
    softmax,
    ufuncs,
)

MODULES: tuple[ModuleType, ...] = (
    activation,
    attention,
    clamp,
    dropout,
    elementwise,
    erf,
    gated,
    indexing,
    linear,
    linear_loss,
    loss,
    norm,
    optimizer,
    reduction,
    rope,
    softmax,
    ufuncs,
)
ANY_DTYPE: tuple[ModuleType, ...] = (moves,)


def register_explicit_kernels() -> None:
    """Register every function of the modules above that is named like an op: of ``MODULES`` for float32 and float64."""
    for module in (*MODULES, *ANY_DTYPE):
        dtypes = None if module in ANY_DTYPE else ("float32", "float64")
        for name, fn in vars(module).items():
            if name in OPS:
                register_kernel(DeviceType.CPU, name, fn, dtypes=dtypes)
