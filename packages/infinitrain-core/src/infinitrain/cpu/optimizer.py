"""CPU kernels of optimizer steps: in place, in blocks that stay in cache."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..kernels.optimizer import bias_corrections
from .blocks import BLOCK, blocks


def AdamW(
    params: Any, grads: Any, ms: Any, vs: Any,
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int,
) -> None:  # fmt: skip
    bias1, bias2 = bias_corrections(beta1, beta2, step)
    rate, bias2 = lr / bias1, 1.0 / math.sqrt(bias2)
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


def GlobalNorm(tensors: Any, *, out: Any) -> None:
    flat = [t.array.reshape(-1) for t in tensors if t.numel]
    with np.errstate(all="ignore"):
        # One pass: sums in the elements' dtype inside, short ones, as the squares all have one sign; float64 across.
        total = sum(float(np.dot(part, part)) for part in _parts(flat))
        limits = np.finfo(min((a.dtype for a in flat), key=lambda d: d.itemsize, default=np.float32))
        # Below this, squares that were flushed to zero would be missed.
        lost = sum(a.size for a in flat) * float(limits.smallest_normal) / float(limits.eps)
        if flat and not lost < total < math.inf:
            out.array[...] = _scaled_norm(flat)
        else:
            out.array[...] = math.sqrt(total)


def _parts(flat: list[np.ndarray]) -> Iterator[np.ndarray]:
    for a in flat:
        for start in range(0, a.size, BLOCK):
            yield a[start : start + BLOCK]


def _scaled_norm(flat: list[np.ndarray]) -> float:
    """Return the norm when squares overflow or underflow: of the elements' shares in the largest one."""
    largest = float(max((np.abs(part).max() for part in _parts(flat)), key=_nan_last))
    if not 0.0 < largest < math.inf:
        return largest  # 0, an infinity or NaN
    total = 0.0
    for part in _parts(flat):
        share = part.astype(np.float64) / largest
        total += float(np.dot(share, share))
    return largest * math.sqrt(total)


def _nan_last(value: Any) -> tuple[bool, float]:
    return bool(np.isnan(value)), float(value)


def AllFinite(tensors: Any, *, out: Any) -> None:
    flat = [t.array.reshape(-1) for t in tensors]
    out.array[...] = all(bool(np.isfinite(part).all()) for part in _parts(flat))


def ScaleInPlace(tensors: Any, factor: float) -> None:
    for t in tensors:
        t.array *= t.array.dtype.type(factor)
