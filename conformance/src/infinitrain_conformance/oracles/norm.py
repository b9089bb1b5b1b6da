"""Normalisation."""

from __future__ import annotations

import math

import numpy as np

from .want import Array, Want, rows


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
