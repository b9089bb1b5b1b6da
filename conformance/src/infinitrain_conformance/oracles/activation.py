"""Activations."""

from __future__ import annotations

import math

import numpy as np

from .want import Array, Want


def gelu(x: Array, approximate: str) -> dict[str, Want]:
    cdf, _ = _gelu_parts(x, approximate)
    return {"y": Want(x * cdf, np.abs(x))}


def gelu_backward(x: Array, grad: Array, approximate: str) -> dict[str, Want]:
    cdf, density = _gelu_parts(x, approximate)
    return {
        "dx": Want(grad * (cdf + x * density), np.abs(grad) * (1.0 + np.abs(x * density)) * (1.0 + np.abs(x)))
    }


def _gelu_parts(x: Array, approximate: str) -> tuple[Array, Array]:
    """Return Phi(x) and its derivative."""
    if approximate == "tanh":
        c = math.sqrt(2.0 / math.pi)
        t = np.tanh(c * (x + 0.044715 * x**3))
        return 0.5 * (1.0 + t), 0.5 * (1.0 - t * t) * c * (1.0 + 3 * 0.044715 * x * x)
    erf = np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0)) if x.size else x
    return 0.5 * (1.0 + erf), np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
