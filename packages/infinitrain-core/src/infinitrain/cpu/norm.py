"""CPU kernels of the normalisations, with and without the residual before them, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import row_blocks
from .linear import rows
from .ufuncs import ones


def _rstd(h: np.ndarray, eps: float) -> np.ndarray:
    """Return 1 / sqrt(mean(h²) + eps) of each row."""
    r: np.ndarray = np.vecdot(h, h)
    r /= h.shape[1]
    r += eps
    np.sqrt(r, out=r)
    np.divide(1.0, r, out=r)
    return r


def _add_to(out: np.ndarray, value: np.ndarray, accumulate: bool) -> None:
    if accumulate:
        out += value
    else:
        out[...] = value


def LayerNormForward(x: Any, weight: Any, bias: Any, eps: float, *, out: Any) -> None:
    _layer_norm(None, None, rows(x.array), weight, bias, eps, out)


def AddLayerNormForward(x: Any, residual: Any, weight: Any, bias: Any, eps: float, *, out: Any) -> None:
    _layer_norm(rows(x.array), rows(residual.array), rows(out[0].array), weight, bias, eps, out[1:])


def _layer_norm(
    a: np.ndarray | None, b: np.ndarray | None, x: np.ndarray, weight: Any, bias: Any, eps: float, out: Any
) -> None:
    """Fill out (y, mean, rstd) for rows x, which a + b goes into first where they are given."""
    y, mean, rstd = rows(out[0].array), out[1].array.reshape(-1), out[2].array.reshape(-1)
    w = weight.array
    for i in row_blocks(*x.shape):
        if a is not None and b is not None:
            np.add(a[i], b[i], out=x[i])
        h = y[i]
        m = np.add.reduce(x[i], 1)
        m /= x.shape[1]
        np.subtract(x[i], m[:, None], out=h)
        r = _rstd(h, eps)
        mean[i], rstd[i] = m, r
        h *= r[:, None]
        h *= w
        if bias is not None:
            h += bias.array


def LayerNormBackward(
    x: Any, weight: Any, mean: Any, rstd: Any, grad: Any, *, out: Any, accumulate: bool = False
) -> None:
    AddLayerNormBackward(x, weight, mean, rstd, None, grad, out=out, accumulate=accumulate)


def AddLayerNormBackward(
    sum: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    grad_sum: Any,
    grad: Any,
    *,
    out: Any,
    accumulate: bool = False,
) -> None:
    x, dy, dx = rows(sum.array), rows(grad.array), rows(out[0].array)
    m, r, w = mean.array.reshape(-1, 1), rstd.array.reshape(-1, 1), weight.array
    width = x.shape[1]
    dweight, dbias = np.zeros(width, w.dtype), np.zeros(width, w.dtype)
    for i in row_blocks(*x.shape):
        h, g = x[i] - m[i], dy[i]
        h *= r[i]
        one = ones(len(g), g.dtype.char)
        dbias += np.matmul(one, g)[0]
        d = np.multiply(g, h, out=dx[i])
        dweight += np.matmul(one, d)[0]
        np.multiply(g, w, out=d)
        along = np.vecdot(d, h)
        along /= width
        d -= (np.add.reduce(d, 1) / width)[:, None]
        h *= along[:, None]
        d -= h
        d *= r[i]
        if grad_sum is not None:
            d += rows(grad_sum.array)[i]
    _add_to(out[1].array, dweight, accumulate)
    _add_to(out[2].array, dbias, accumulate)


def RmsNormForward(x: Any, weight: Any, eps: float, *, out: Any) -> None:
    _rms_norm(None, None, rows(x.array), weight, eps, out)


def AddRmsNormForward(x: Any, residual: Any, weight: Any, eps: float, *, out: Any) -> None:
    _rms_norm(rows(x.array), rows(residual.array), rows(out[0].array), weight, eps, out[1:])


def _rms_norm(
    a: np.ndarray | None, b: np.ndarray | None, x: np.ndarray, weight: Any, eps: float, out: Any
) -> None:
    """Fill out (y, rstd) for rows x, which a + b goes into first where they are given."""
    y, rstd, w = rows(out[0].array), out[1].array.reshape(-1), weight.array
    for i in row_blocks(*x.shape):
        if a is not None and b is not None:
            np.add(a[i], b[i], out=x[i])
        rstd[i] = r = _rstd(x[i], eps)
        h = np.multiply(x[i], r[:, None], out=y[i])
        h *= w


def RmsNormBackward(x: Any, weight: Any, rstd: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    AddRmsNormBackward(x, weight, rstd, None, grad, out=out, accumulate=accumulate)


def AddRmsNormBackward(
    sum: Any, weight: Any, rstd: Any, grad_sum: Any, grad: Any, *, out: Any, accumulate: bool = False
) -> None:
    x, dy, dx = rows(sum.array), rows(grad.array), rows(out[0].array)
    r, w = rstd.array.reshape(-1, 1), weight.array
    width = x.shape[1]
    dweight = np.zeros(width, w.dtype)
    for i in row_blocks(*x.shape):
        h, g = x[i] * r[i], dy[i]
        d = np.multiply(g, h, out=dx[i])
        dweight += np.matmul(ones(len(d), d.dtype.char), d)[0]
        np.multiply(g, w, out=d)
        along = np.vecdot(d, h)
        along /= width
        h *= along[:, None]
        d -= h
        d *= r[i]
        if grad_sum is not None:
            d += rows(grad_sum.array)[i]
    _add_to(out[1].array, dweight, accumulate)
