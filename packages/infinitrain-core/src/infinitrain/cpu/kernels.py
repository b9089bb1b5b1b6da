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
    fast,
    gated,
    gradients,
    indexing,
    linear,
    linear_loss,
    logic,
    loss,
    moves,
    norm,
    optimizer,
    places,
    reduction,
    rope,
    scatter,
    select,
    softmax,
    topk,
    ufuncs,
    vocab_parallel,
)

_FLOATS = ("float32", "float64")
MODULES: dict[ModuleType, tuple[str, ...] | None] = {
    **dict.fromkeys(
        (
            activation, attention, clamp, dropout, elementwise, erf, gated, gradients, indexing, linear, linear_loss,
            loss, norm, optimizer, reduction, rope, scatter, select, softmax, topk, ufuncs, vocab_parallel,
        ),
        _FLOATS,
    ),
    logic: ("bool",),
    moves: None,
    places: None,
}  # fmt: skip
"""Files of kernels, and the dtypes that they take: None is any."""


def register_explicit_kernels() -> None:
    """Register the fast kernels, then every function of the modules above that is named like an op."""
    fast.register()
    for module, dtypes in MODULES.items():
        for name, fn in vars(module).items():
            if name in OPS:
                register_kernel(DeviceType.CPU, name, fn, dtypes=dtypes)
