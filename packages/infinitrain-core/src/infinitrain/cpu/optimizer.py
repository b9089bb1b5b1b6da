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


def SGD(
    params: Any, grads: Any, momenta: Any,
    lr: float, momentum: float, dampening: float, weight_decay: float, nesterov: bool, first: bool,
) -> None:  # fmt: skip
    for n, (param, grad) in enumerate(zip(params, grads, strict=True)):
        one, two = (np.empty(min(BLOCK, param.numel), param.array.dtype) for _ in range(2))
        held = (momenta[n].array,) if momenta else ()
        for p, g, *b in blocks(param.array, grad.array, *held):
            step, t = one[: p.size], two[: p.size]
            if weight_decay:
                np.multiply(p, weight_decay, step)
                g = np.add(step, g, step)
            if b:
                if first:
                    np.copyto(b[0], g)
                else:
                    np.multiply(b[0], momentum, b[0])
                    np.add(b[0], np.multiply(g, 1.0 - dampening, t) if dampening else g, b[0])
                g = np.add(g, np.multiply(b[0], momentum, t), t) if nesterov else b[0]
            np.subtract(p, np.multiply(g, lr, step), p)


# A sum of squares below its count times this might lack squares that were flushed to zero.
_LOST = {
    t: float(np.finfo(t).smallest_normal / np.finfo(t).eps)
    for t in (np.dtype(np.float32), np.dtype(np.float64))
}


def GlobalNorm(tensors: Any, *, out: Any) -> None:
    flat = [t.array.reshape(-1) for t in tensors if t.numel]
    total, lost = _squares(flat), sum([a.size * _LOST[a.dtype] for a in flat])
    out.array[...] = math.sqrt(total) if not flat or lost < total < math.inf else _scaled_norm(flat)


def _squares(flat: list[np.ndarray]) -> float:
    """Return the sum of squares in one pass, as inner products of parts: NaN or infinite where an element is."""
    # Sums in the elements' dtype inside, short ones, as the squares all have one sign; float64 across.
    return sum([float(np.dot(part, part)) for part in _parts(flat)])


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
    # Squares that overflow are no infinite elements; else one look at the sum is enough.
    finite = math.isfinite(_squares(flat)) or all(bool(np.isfinite(part).all()) for part in _parts(flat))
    out.array[...] = finite


def ScaleInPlace(tensors: Any, factor: float) -> None:
    for t in tensors:
        np.multiply(t.array, factor, t.array)
