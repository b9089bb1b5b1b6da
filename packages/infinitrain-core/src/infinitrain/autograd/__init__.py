"""Automatic differentiation: Function, the engine, grad mode, autocast, saved-tensor hooks, computing again."""

from .autocast import autocast, is_autocast_enabled
from .context import ComputeContext
from .engine import backward
from .function import Function, Node
from .grad_mode import enable_grad, is_grad_enabled, no_grad, saved_tensors_hooks

__all__ = [
    "ComputeContext",
    "Function",
    "Node",
    "autocast",
    "backward",
    "enable_grad",
    "is_autocast_enabled",
    "is_grad_enabled",
    "no_grad",
    "saved_tensors_hooks",
]
