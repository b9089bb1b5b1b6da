"""Automatic differentiation: Function, the engine, grad mode, saved-tensor hooks."""

from .engine import backward
from .function import Function, Node
from .grad_mode import enable_grad, is_grad_enabled, no_grad, saved_tensors_hooks

__all__ = ["Function", "Node", "backward", "enable_grad", "is_grad_enabled", "no_grad", "saved_tensors_hooks"]
