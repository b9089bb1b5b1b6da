"""Activations and erf."""

from __future__ import annotations

import math

import numpy as np

from .want import Array, Want, plain


def gelu(x: Array, approximate: str) -> dict[str, Want]:
    cdf, _ = _gelu_parts(x, approximate)
    return {"y": Want(x * cdf, np.abs(x))}


def gelu_backward(x: Array, grad: Array, approximate: str) -> dict[str, Want]:
    cdf, density = _gelu_parts(x, approximate)
    # Beyond 10 the derivative is 0 or 1, whatever x is.
    size = (1.0 + np.abs(x * density)) * (1.0 + np.minimum(np.abs(x), 10.0))
    return {"dx": Want(grad * (cdf + x * density), np.abs(grad) * size)}


def _gelu_parts(x: Array, approximate: str) -> tuple[Array, Array]:
    """Return Phi(x) and its derivative."""
    x = np.clip(x, -1e4, 1e4)  # far beyond where both are 0 or 1: no power of it overflows
    if approximate == "tanh":
        c = math.sqrt(2.0 / math.pi)
        t = np.tanh(c * (x + 0.044715 * x**3))
        return 0.5 * (1.0 + t), 0.5 * (1.0 - t * t) * c * (1.0 + 3 * 0.044715 * x * x)
    return 0.5 * (1.0 + _erf(x / math.sqrt(2.0))), np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def relu(x: Array) -> dict[str, Want]:
    return {"y": plain(np.where(np.isnan(x) | (x > 0), x, 0.0))}


def relu_backward(grad: Array, y: Array) -> dict[str, Want]:
    return {"dx": plain(np.where(np.isnan(y) | (y > 0), grad, 0.0))}


def silu(x: Array) -> dict[str, Want]:
    y = x * _sigmoid(x)
    return {"y": Want(y, np.abs(y) + _flushed(x))}


def silu_backward(grad: Array, x: Array) -> dict[str, Want]:
    slope, size = silu_slope(x)
    return {"dx": Want(grad * slope, np.abs(grad) * size)}


def silu_slope(x: Array) -> tuple[Array, Array]:
    """Return the derivative of x sigmoid(x) and the size of its terms: sigmoid + x / (4 cosh²(x/2))."""
    with np.errstate(over="ignore"):
        density = 0.25 / np.cosh(0.5 * x) ** 2
    s = _sigmoid(x)
    # Beyond 40 the derivative is 0 or 1, whatever x is.
    return s + x * density, s * (1.0 + np.minimum(np.abs(x), 40.0)) + _flushed(x)


def _sigmoid(x: Array) -> Array:
    s: Array = np.exp(np.minimum(x, 0.0)) / (1.0 + np.exp(-np.abs(x)))
    return s


def _flushed(x: Array) -> Array:
    """Return a size that allows for a sigmoid below the normal numbers of float32, near -90, that became 0."""
    size: Array = 2.0**-106 * np.minimum(np.abs(x), 128.0)
    return size


def erf(x: Array) -> dict[str, Want]:
    return {"y": plain(_erf(x))}


def erf_backward(grad: Array, x: Array) -> dict[str, Want]:
    slope = 2.0 / math.sqrt(math.pi) * np.exp(-x * x)
    return {"dx": Want(grad * slope, np.abs(grad) * slope * (1.0 + x * x))}


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


def swiglu(gate_up: Array) -> dict[str, Want]:
    gate, up = np.split(gate_up, 2, axis=-1)
    y = gate * _sigmoid(gate) * up
    return {"y": Want(y, np.abs(y) + _flushed(gate) * np.abs(up))}


def swiglu_backward(gate_up: Array, grad: Array) -> dict[str, Want]:
    gate, up = np.split(gate_up, 2, axis=-1)
    slope, size = silu_slope(gate)
    gated = gate * _sigmoid(gate)
    value = np.concatenate((grad * slope * up, grad * gated), axis=-1)
    terms = np.concatenate(
        (np.abs(grad) * size * np.abs(up), np.abs(grad) * (np.abs(gated) + _flushed(gate))), axis=-1
    )
    return {"dgate_up": Want(value, terms)}


def linear_gelu(x: Array, weight: Array, bias: Array | None, approximate: str) -> dict[str, Want]:
    pre = np.einsum("...i,oi->...o", x, weight)
    terms = np.einsum("...i,oi->...o", np.abs(x), np.abs(weight))
    if bias is not None:
        pre, terms = pre + bias, terms + np.abs(bias)
    y = gelu(pre, approximate)["y"].value
    # GELU's slope is nowhere above 1.13.
    return {"y": Want(y, 1.2 * terms, x.shape[-1]), "pre": Want(pre, terms, x.shape[-1])}
