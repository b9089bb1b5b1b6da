"""CPU kernels of optimizer steps: in place, in blocks that stay in cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .blocks import BLOCK, blocks


def AdamW(
    params: Any, grads: Any, ms: Any, vs: Any,
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int,
) -> None:  # fmt: skip
    rate = lr / (1.0 - beta1**step)
    bias2 = 1.0 / math.sqrt(1.0 - beta2**step)
    keep = 1.0 - lr * weight_decay
    for param, grad, mean, square in zip(params, grads, ms, vs, strict=True):
        scratch = np.empty(min(BLOCK, param.numel), param.array.dtype)
        for p, g, m, v in blocks(param.array, grad.array, mean.array, square.array):
            t = scratch[: p.size]
            m *= beta1
            np.multiply(g, 1.0 - beta1, out=t)
            m += t
            v *= beta2
            np.multiply(g, g, out=t)
            t *= 1.0 - beta2
            v += t
            np.sqrt(v, out=t)
            t *= bias2
            t += eps
            np.divide(m, t, out=t)
            t *= rate
            if keep != 1.0:
                p *= keep
            p -= t


def SquaredNorm(tensors: Any, *, out: Any) -> None:
    total = 0.0
    for t in tensors:
        flat = t.array.reshape(-1)
        for start in range(0, flat.size, 1 << 20):  # float32 sums inside, float64 across
            part = flat[start : start + (1 << 20)]
            total += float(np.dot(part, part))
    out.array[...] = total


def ScaleInPlace(tensors: Any, factor: float) -> None:
    for t in tensors:
        t.array *= t.array.dtype.type(factor)
