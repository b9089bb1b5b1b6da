"""NumPy expressions of reductions, softmax, norms, losses, and what an optimizer does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _ops_expressions import Rng, Shape, add, extra, normal, one, positive, targets, two


def column(rng: Rng, shape: Shape) -> tuple[Any, ...]:
    """The gradient of a sum over axis 1 and what the op needs to undo it."""
    return normal(rng, shape[0]), shape, (1,), False


def with_extreme(largest: bool) -> Any:
    def make(rng: Rng, shape: Shape) -> tuple[Any, ...]:
        x = normal(rng, *shape)
        return normal(rng, shape[0]), x, x.max(1) if largest else x.min(1), (1,), False

    return make


def extreme_backward(g: np.ndarray, x: np.ndarray, y: np.ndarray, *_: Any) -> np.ndarray:
    tied = (x == y[:, None]).astype(np.float32)
    return tied * (g / tied.sum(1))[:, None]


def with_norm(rng: Rng, shape: Shape) -> tuple[Any, ...]:
    x = normal(rng, *shape)
    return normal(rng, shape[0]), x, np.sqrt((x * x).sum(1)), (1,), False


# Reductions
add("SumForward", extra(one, (0, 1), False), lambda x, *_: x.sum(), "x.sum()")
add("SumForward", extra(one, (1,), False), lambda x, *_: x.sum(1), "x.sum(1)")
add(
    "SumBackward",
    column,
    lambda g, s, *_: np.broadcast_to(g[:, None], s).copy(),
    "np.broadcast_to(g[:, None], s).copy()",
)
add("MeanForward", extra(one, (1,), False), lambda x, *_: x.mean(1), "x.mean(1)")
add(
    "MeanBackward",
    column,
    lambda g, s, *_: np.broadcast_to((g / s[1])[:, None], s).copy(),
    "np.broadcast_to((g / n)[:, None], s).copy()",
)
add("MaxForward", extra(one, (1,), False), lambda x, *_: x.max(1), "x.max(1)")
add("MinForward", extra(one, (1,), False), lambda x, *_: x.min(1), "x.min(1)")
_TEXT = "t = (x == y[:, None]).astype(np.float32); t * (g / t.sum(1))[:, None]"
add("MaxBackward", with_extreme(True), extreme_backward, _TEXT)
add("MinBackward", with_extreme(False), extreme_backward, _TEXT)
add("ArgMax", extra(one, 1, False), lambda x, *_: x.argmax(1), "x.argmax(1)")
add("ArgMin", extra(one, 1, False), lambda x, *_: x.argmin(1), "x.argmin(1)")
add("NormForward", extra(one, (1,), False), lambda x, *_: np.sqrt((x * x).sum(1)), "np.sqrt((x * x).sum(1))")
add("NormBackward", with_norm, lambda g, x, y, *_: x * (g / y)[:, None], "x * (g / y)[:, None]")
add("CumSumForward", extra(one, 1), lambda x, _: np.cumsum(x, 1), "np.cumsum(x, 1)")
add(
    "CumSumBackward",
    extra(one, 1),
    lambda g, _: np.cumsum(g[:, ::-1], 1)[:, ::-1],
    "np.cumsum(g[:, ::-1], 1)[:, ::-1]",
)


# Softmax
def softmax(x: np.ndarray, _: int) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: np.ndarray, _: int = 1) -> np.ndarray:
    y = x - x.max(-1, keepdims=True)
    return y - np.log(np.exp(y).sum(-1, keepdims=True))


add("SoftmaxForward", extra(one, 1), softmax, "e = np.exp(x - x.max(-1)); e / e.sum(-1)")
add(
    "SoftmaxBackward",
    extra(two, 1),
    lambda g, y, _: y * (g - (g * y).sum(-1, keepdims=True)),
    "y * (g - (g * y).sum(-1))",
)
add("LogSoftmaxForward", extra(one, 1), log_softmax, "y = x - x.max(-1); y - np.log(np.exp(y).sum(-1))")
add(
    "LogSoftmaxBackward",
    lambda rng, s: (normal(rng, *s), log_softmax(normal(rng, *s)), 1),
    lambda g, y, _: g - np.exp(y) * g.sum(-1, keepdims=True),
    "g - np.exp(y) * g.sum(-1)",
)


# Norms, with and without the sum before them
def layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
    mean = x.mean(-1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return (x - mean) * rstd * w + b, mean[..., 0], rstd[..., 0]


def layer_norm_backward(
    x: np.ndarray, w: np.ndarray, mean: np.ndarray, rstd: np.ndarray, g: np.ndarray
) -> tuple[np.ndarray, ...]:
    h = (x - mean[:, None]) * rstd[:, None]
    d = g * w
    dx = rstd[:, None] * (d - d.mean(-1, keepdims=True) - h * (d * h).mean(-1, keepdims=True))
    return dx, (g * h).sum(0), g.sum(0)


def rms_norm(x: np.ndarray, w: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
    rstd = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return x * rstd * w, rstd[..., 0]


def rms_norm_backward(
    x: np.ndarray, w: np.ndarray, rstd: np.ndarray, g: np.ndarray
) -> tuple[np.ndarray, ...]:
    h = x * rstd[:, None]
    d = g * w
    return rstd[:, None] * (d - h * (d * h).mean(-1, keepdims=True)), (g * h).sum(0)


def add_layer_norm(
    x: np.ndarray, r: np.ndarray, w: np.ndarray, b: np.ndarray, eps: float
) -> tuple[np.ndarray, ...]:
    total = x + r
    return (total, *layer_norm(total, w, b, eps))


def add_layer_norm_backward(
    x: np.ndarray, w: np.ndarray, mean: np.ndarray, rstd: np.ndarray, more: np.ndarray, g: np.ndarray
) -> tuple[np.ndarray, ...]:
    dx, *others = layer_norm_backward(x, w, mean, rstd, g)
    return (dx + more, *others)


def add_rms_norm(x: np.ndarray, r: np.ndarray, w: np.ndarray, eps: float) -> tuple[np.ndarray, ...]:
    total = x + r
    return (total, *rms_norm(total, w, eps))


def add_rms_norm_backward(
    x: np.ndarray, w: np.ndarray, rstd: np.ndarray, more: np.ndarray, g: np.ndarray
) -> tuple[np.ndarray, ...]:
    dx, dw = rms_norm_backward(x, w, rstd, g)
    return dx + more, dw


def norm_arguments(
    tensors: int, rows: int, *, statistics: bool = False, mean: bool = False, last: int = 0
) -> Any:
    """Return what makes ``tensors`` inputs, ``rows`` weights, then statistics and ``last`` gradients, or eps."""

    def make(rng: Rng, shape: Shape) -> tuple[Any, ...]:
        xs = [normal(rng, *shape) for _ in range(tensors)]
        ws = [normal(rng, shape[1]) for _ in range(rows)]
        if not statistics:
            return (*xs, *ws, 1e-5)
        found = layer_norm(xs[0], ws[0], ws[0], 1e-5)[1:] if mean else rms_norm(xs[0], ws[0], 1e-5)[1:]
        return (*xs, *ws, *[a.copy() for a in found], *[normal(rng, *shape) for _ in range(last)])

    return make


_LAYER, _RMS = "(x - mean) * rstd * w + b, mean, rstd", "x * rstd * w, rstd"
add("LayerNormForward", norm_arguments(1, 2), layer_norm, _LAYER)
add(
    "LayerNormBackward",
    norm_arguments(1, 1, statistics=True, mean=True, last=1),
    layer_norm_backward,
    "its gradients, written out",
)
add("RmsNormForward", norm_arguments(1, 1), rms_norm, _RMS)
add(
    "RmsNormBackward",
    norm_arguments(1, 1, statistics=True, last=1),
    rms_norm_backward,
    "its gradients, written out",
)
add("AddLayerNormForward", norm_arguments(2, 2), add_layer_norm, f"x = x + r; x, {_LAYER}")
add(
    "AddLayerNormBackward",
    norm_arguments(1, 1, statistics=True, mean=True, last=2),
    add_layer_norm_backward,
    "its gradients, written out",
)
add("AddRmsNormForward", norm_arguments(2, 1), add_rms_norm, f"x = x + r; x, {_RMS}")
add(
    "AddRmsNormBackward",
    norm_arguments(1, 1, statistics=True, last=2),
    add_rms_norm_backward,
    "its gradients, written out",
)


# Losses
def cross_entropy(x: np.ndarray, t: np.ndarray, *_: Any) -> tuple[Any, np.ndarray]:
    peak = x.max(-1)
    lse = peak + np.log(np.exp(x - peak[:, None]).sum(-1))
    return (lse - x[np.arange(len(t)), t]).mean(), lse


def cross_entropy_backward(g: Any, x: np.ndarray, t: np.ndarray, lse: np.ndarray, *_: Any) -> np.ndarray:
    d = np.exp(x - lse[:, None])
    d[np.arange(len(t)), t] -= 1
    return d * (g / len(t)).astype(np.float32)


def cross_entropy_in_place(g: Any, x: np.ndarray, t: np.ndarray, lse: np.ndarray, *_: Any) -> None:
    x[...] = cross_entropy_backward(g, x, t, lse)


def with_lse(rng: Rng, shape: Shape) -> tuple[Any, ...]:
    x, t = normal(rng, *shape), targets(rng, shape)
    return np.array(0.7, np.float32), x, t, cross_entropy(x, t)[1]


def parallel_loss(x: np.ndarray, t: np.ndarray, first: int, *_: Any) -> tuple[np.ndarray, ...]:
    peak, own = x.max(-1), t - first
    there = (own >= 0) & (own < x.shape[1])
    picked = np.where(there, x[np.arange(len(t)), np.where(there, own, 0)], 0)
    return peak, np.exp(x - peak[:, None]).sum(-1), picked, x.sum(-1)


def parallel_loss_backward(
    g: np.ndarray, p: np.ndarray, other: np.ndarray, t: np.ndarray, valid: np.ndarray, *_: Any
) -> np.ndarray:
    d = p * valid
    rows = np.flatnonzero(~other)
    d[rows, t[rows]] -= 1
    return d * g[:, None]


def parallel_arguments(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return normal(rng, *s), rng.integers(0, 2 * s[1], s[0]), s[1], 2 * s[1], -100


def parallel_backward_arguments(rng: Rng, s: Shape) -> tuple[Any, ...]:
    p, other = softmax(normal(rng, *s), 1), rng.random(s[0]) < 0.5
    return normal(rng, s[0]), p, other, targets(rng, s), np.ones(s[1], np.bool_), s[1], 2 * s[1], 0.0


def _cross_entropy_arguments(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return normal(rng, *s), targets(rng, s), -100


_LSE = "lse = peak + np.log(np.exp(x - peak).sum(-1))"
add("CrossEntropyForward", _cross_entropy_arguments, cross_entropy, f"{_LSE}; (lse - x[rows, t]).mean(), lse")
_TEXT = "d = np.exp(x - lse); d[rows, t] -= 1; d * (g / n)"
add("CrossEntropyBackward", with_lse, cross_entropy_backward, _TEXT)
add("CrossEntropyBackwardInPlace", with_lse, cross_entropy_in_place, f"{_TEXT}, to x[...]")
add(
    "VocabParallelCrossEntropyForward",
    parallel_arguments,
    parallel_loss,
    "peak, sum of exp(x - peak), x[rows, t] where it is there, x.sum(-1)",
)
add(
    "VocabParallelCrossEntropyBackward",
    parallel_backward_arguments,
    parallel_loss_backward,
    "d = p * valid; d[rows, t[rows]] -= 1; d * g[:, None]",
)


# Steps
def adamw(
    ps: Any, gs: Any, ms: Any, vs: Any, lr: float, b1: float, b2: float, eps: float, wd: float, t: int
) -> None:
    for p, g, m, v in zip(ps, gs, ms, vs, strict=True):
        m[...] = b1 * m + (1 - b1) * g
        v[...] = b2 * v + (1 - b2) * g * g
        p[...] = p * (1 - lr * wd) - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)


def sgd(ps: Any, gs: Any, bs: Any, lr: float, mu: float, *_: Any) -> None:
    for p, g, b in zip(ps, gs, bs, strict=True):
        b[...] = mu * b + g
        p[...] = p - lr * b


def scale(xs: Any, factor: float) -> None:
    for x in xs:
        x *= factor


def several(*makes: Any) -> Any:
    return lambda rng, shape: tuple(make(rng, shape) for make in makes)


add(
    "AdamW",
    extra(several(one, one, one, positive), 1e-3, 0.9, 0.95, 1e-8, 0.1, 3),
    adamw,
    "m, v, p written out",
)
add(
    "SGD",
    extra(several(one, one, one), 1e-3, 0.9, 0.0, 0.0, False, False),
    sgd,
    "b[...] = mu * b + g; p[...] = p - lr * b",
)
add(
    "GlobalNorm",
    several(two),
    lambda xs: np.float32(math.sqrt(sum(float((x * x).sum()) for x in xs))),
    "math.sqrt(sum((x * x).sum() for x in xs))",
)
add(
    "AllFinite",
    several(two),
    lambda xs: all(np.isfinite(x).all() for x in xs),
    "all(np.isfinite(x).all() for x in xs)",
)
add("ScaleInPlace", extra(several(two), -1.0), scale, "x *= factor, for each x")
