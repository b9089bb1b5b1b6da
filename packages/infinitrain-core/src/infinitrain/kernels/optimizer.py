"""Array kernels of optimizer steps: computed in float32 or wider, rounded once into each tensor."""

from __future__ import annotations

import math
from typing import Any

from .linear import widened
from .registry import array_kernel


def bias_corrections(beta1: float, beta2: float, step: int) -> tuple[float, float]:
    """Return 1 - beta1ᵗ and 1 - beta2ᵗ of AdamW's step t. Raises ValueError."""
    if not (0 <= beta1 < 1 and 0 <= beta2 < 1 and 1 <= step < math.inf):
        raise ValueError(
            f"AdamW: beta1={beta1}, beta2={beta2} are in 0..1, below 1, and step={step} at least 1"
        )
    return 1.0 - beta1**step, 1.0 - beta2**step


@array_kernel()
def AdamW(
    xp: Any, params: Any, grads: Any, ms: Any, vs: Any,
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int,
) -> None:  # fmt: skip
    bias1, bias2 = bias_corrections(beta1, beta2, step)
    for p, g, m, v in zip(params, grads, ms, vs, strict=True):
        g, wide = widened(xp, g), widened(xp, p)
        new_m = widened(xp, m) * beta1 + g * (1.0 - beta1)
        new_v = widened(xp, v) * beta2 + g * g * (1.0 - beta2)
        update = (new_m / bias1) / (xp.sqrt(new_v / bias2) + eps)
        p[...] = xp.astype(wide * (1.0 - lr * weight_decay) - update * lr, p.dtype)
        m[...] = xp.astype(new_m, m.dtype)
        v[...] = xp.astype(new_v, v.dtype)


@array_kernel()
def SGD(
    xp: Any, params: Any, grads: Any, momenta: Any,
    lr: float, momentum: float, dampening: float, weight_decay: float, nesterov: bool, first: bool,
) -> None:  # fmt: skip
    for i, (p, g) in enumerate(zip(params, grads, strict=True)):
        g, wide = widened(xp, g), widened(xp, p)
        if weight_decay:
            g = g + wide * weight_decay
        if momenta:
            b = g if first else widened(xp, momenta[i]) * momentum + g * (1.0 - dampening)
            momenta[i][...] = xp.astype(b, momenta[i].dtype)
            g = g + b * momentum if nesterov else b
        p[...] = xp.astype(wide - g * lr, p.dtype)


@array_kernel()
def GlobalNorm(xp: Any, tensors: Any) -> Any:
    wide = xp.float64 if any(str(t.dtype).endswith("float64") for t in tensors) else xp.float32
    zero = xp.zeros((), dtype=wide, **xp.on(tensors[0]))
    filled = [xp.astype(t, wide, copy=False) for t in tensors if math.prod(t.shape)]
    total = sum((xp.sum(t * t) for t in filled), start=zero)
    # One pass, unless the squares left the dtype's range: below this what was flushed to zero would be missed.
    limits = xp.finfo(wide)
    lost = sum(math.prod(t.shape) for t in filled) * float(limits.smallest_normal) / float(limits.eps)
    if not filled or lost < float(total) <= float(limits.max):
        return xp.sqrt(total)
    largest = zero
    for t in filled:
        largest = xp.maximum(largest, xp.max(xp.abs(t)))
    if not 0.0 < float(largest) <= float(limits.max):
        return largest  # 0, an infinity or NaN
    shares = [t / largest for t in filled]
    return largest * xp.sqrt(sum((xp.sum(t * t) for t in shares), start=zero))


@array_kernel()
def AllFinite(xp: Any, tensors: Any) -> Any:
    finite = xp.ones((), dtype=xp.bool, **xp.on(tensors[0]))
    for t in tensors:
        finite = xp.logical_and(finite, xp.all(xp.isfinite(t)))
    return finite


@array_kernel()
def ScaleInPlace(xp: Any, tensors: Any, factor: float) -> None:
    for t in tensors:
        t[...] = xp.astype(widened(xp, t) * factor, t.dtype)
