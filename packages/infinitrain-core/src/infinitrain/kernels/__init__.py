"""How an array library computes each op; ``register_array_kernels`` gives them all to a provider [contract 4.8]."""

from .registry import ARRAY_KERNELS, array_kernel, register_array_kernels

__all__ = ["ARRAY_KERNELS", "array_kernel", "register_array_kernels"]
