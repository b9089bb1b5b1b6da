"""CPU kernels of layer normalisation, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import row_blocks


def LayerNormForward(x: Any, weight: Any, bias: Any, eps: float, *, out: Any) -> None:
    width = x.shape[-1]
    rows, y = x.array.reshape(-1, width), out[0].array.reshape(-1, width)
    mean, rstd = out[1].array.reshape(-1), out[2].array.reshape(-1)
    w, b = weight.array, None if bias is None else bias.array
    for i in row_blocks(len(rows), width):
        h = y[i]
        m = np.add.reduce(rows[i], 1)
        m /= width
        np.subtract(rows[i], m[:, None], out=h)
        r = np.einsum("ij,ij->i", h, h)
        r /= width
        r += eps
        np.sqrt(r, out=r)
        np.divide(1.0, r, out=r)
        mean[i], rstd[i] = m, r
        h *= r[:, None]
        h *= w
        if b is not None:
            h += b


def LayerNormBackward(
    x: Any, weight: Any, mean: Any, rstd: Any, grad: Any, *, out: Any, accumulate: bool = False
) -> None:
    width = x.shape[-1]
    rows, dy, dx = (t.array.reshape(-1, width) for t in (x, grad, out[0]))
    m, r, w = mean.array.reshape(-1, 1), rstd.array.reshape(-1, 1), weight.array
    dweight = np.zeros(width, w.dtype)
    dbias = np.zeros(width, w.dtype)
    for i in row_blocks(len(rows), width):
        h, g = rows[i] - m[i], dy[i]
        h *= r[i]
        dbias += np.add.reduce(g, 0)
        dweight += np.einsum("ij,ij->j", g, h)
        d = np.multiply(g, w, out=dx[i])
        along = np.einsum("ij,ij->i", d, h)
        along /= width
        d -= (np.add.reduce(d, 1) / width)[:, None]
        h *= along[:, None]
        d -= h
        d *= r[i]
    for target, value in ((out[1].array, dweight), (out[2].array, dbias)):
        if accumulate:
            target += value
        else:
            target[...] = value
