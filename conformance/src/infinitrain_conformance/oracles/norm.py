"""Normalisation, alone and after a residual."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .want import Array, Want, rows

Round = Callable[[Array], Array]


def layer_norm(x: Array, weight: Array, bias: Array | None, eps: float) -> dict[str, Want]:
    mean = x.mean(-1, keepdims=True)
    rstd = 1.0 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    h = (x - mean) * rstd
    spread = np.abs(x).mean(-1, keepdims=True)
    y, size = h * weight, (np.abs(x) + spread) * rstd * np.abs(weight)
    if bias is not None:
        y, size = y + bias, size + np.abs(bias)
    # A mean that is off by d shifts the variance by d squared only; what remains is the rounding of x - mean.
    d = spread * rstd * 2.0**-23
    rstd_size = rstd * (1.0 + spread * rstd * d)
    return {
        "y": Want(y, size),
        "mean": Want(mean[..., 0], spread[..., 0]),
        "rstd": Want(rstd[..., 0], np.broadcast_to(rstd_size, rstd.shape)[..., 0]),
    }


def layer_norm_backward(x: Array, weight: Array, mean: Array, rstd: Array, grad: Array) -> dict[str, Want]:
    r = rstd[..., None]
    h = (x - mean[..., None]) * r
    h_size = np.abs(h) + np.abs(mean[..., None]) * r * 2.0**-2  # x - mean is exact to a unit of mean, at most
    g = grad * weight
    dx = r * (g - g.mean(-1, keepdims=True) - h * (g * h).mean(-1, keepdims=True))
    size = r * (
        np.abs(g) + np.abs(g).mean(-1, keepdims=True) + h_size * (np.abs(g) * h_size).mean(-1, keepdims=True)
    )
    n = math.prod(x.shape[:-1])
    return {
        "dx": Want(dx, size),
        "dweight": Want(rows(grad * h).sum(0), rows(np.abs(grad) * h_size).sum(0), n),
        "dbias": Want(rows(grad).sum(0), np.abs(rows(grad)).sum(0), n),
    }


def rms_norm(x: Array, weight: Array, eps: float) -> dict[str, Want]:
    mean_square = np.einsum("...i,...i->...", x, x) / x.shape[-1]
    rstd = np.asarray((mean_square + eps) ** -0.5)
    y = np.einsum("...i,...,i->...i", x, rstd, weight)
    return {"y": Want(y, np.abs(y)), "rstd": Want(rstd, rstd)}


def rms_norm_backward(x: Array, weight: Array, rstd: Array, grad: Array) -> dict[str, Want]:
    """By the derivative of x_i rstd: rstd (1 at i = j) - x_i x_j rstd³ / n."""
    n, r = x.shape[-1], rstd[..., None]
    g = grad * weight
    along = np.einsum("...j,...j->...", g, x)[..., None]
    size = np.einsum("...j,...j->...", np.abs(g), np.abs(x))[..., None]
    dx = r * g - x * along * r**3 / n
    return {
        "dx": Want(dx, np.abs(r * g) + np.abs(x) * size * r**3 / n),
        "dweight": Want(
            rows(grad * x * r).sum(0), np.abs(rows(grad * x * r)).sum(0), math.prod(x.shape[:-1])
        ),
    }


def add_layer_norm(
    x: Array, residual: Array, weight: Array, bias: Array | None, eps: float, round: Round
) -> dict[str, Want]:
    """The norm is that of the sum as its dtype holds it: ``round`` says how."""
    total = x + residual
    return {"sum": Want(total, np.abs(total)), **layer_norm(round(total), weight, bias, eps)}


def add_layer_norm_backward(
    total: Array, weight: Array, mean: Array, rstd: Array, grad_sum: Array | None, grad: Array
) -> dict[str, Want]:
    return _with_sum(layer_norm_backward(total, weight, mean, rstd, grad), grad_sum)


def add_rms_norm(x: Array, residual: Array, weight: Array, eps: float, round: Round) -> dict[str, Want]:
    total = x + residual
    return {"sum": Want(total, np.abs(total)), **rms_norm(round(total), weight, eps)}


def add_rms_norm_backward(
    total: Array, weight: Array, rstd: Array, grad_sum: Array | None, grad: Array
) -> dict[str, Want]:
    return _with_sum(rms_norm_backward(total, weight, rstd, grad), grad_sum)


def _with_sum(wants: dict[str, Want], grad_sum: Array | None) -> dict[str, Want]:
    dx = wants["dx"]
    if grad_sum is None:
        return wants
    return wants | {"dx": Want(dx.value + grad_sum, dx.magnitude + np.abs(grad_sum))}
