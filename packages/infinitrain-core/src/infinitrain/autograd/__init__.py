"""Automatic differentiation: Function, the engine, grad mode, autocast, saved-tensor hooks."""

from .autocast import autocast, captured_autocast, is_autocast_enabled
from .engine import backward
from .function import Function, Node
from .grad_mode import enable_grad, is_grad_enabled, no_grad, saved_tensors_hooks

__all__ = [
    "Function",
    "Node",
    "autocast",
    "backward",
    "captured_autocast",
    "enable_grad",
    "is_autocast_enabled",
    "is_grad_enabled",
    "no_grad",
    "saved_tensors_hooks",
]
