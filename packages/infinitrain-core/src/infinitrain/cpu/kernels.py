"""The CPU's explicit kernels, for float32 and float64; everything else is the array layer's."""

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
    norm,
    optimizer,
    reduction,
    rope,
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
    ufuncs,
)


def register_explicit_kernels() -> None:
    """Register every function of the modules above that is named like an op."""
    for module in MODULES:
        for name, fn in vars(module).items():
            if name in OPS:
                register_kernel(DeviceType.CPU, name, fn, dtypes=("float32", "float64"))
