"""Samples of reductions, softmax, norms, losses, and steps over lists of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .draw import Draw, Sample, sample


def _over_axes(name: str, fn: Any, elements: bool = False) -> None:
    """``elements``: what is reduced has some."""

    @sample(name)
    def draw_case(d: Draw) -> Sample:
        x = d.values(d.shape())
        axes, keep = d.axes(x.shape), d.flag()
        if elements and any(x.shape[a] == 0 for a in axes):
            axes = ()
        return Sample((x, axes, keep), (np.asarray(fn(x, axes, keep)),), smooth=x.size > 0)


_over_axes("SumForward", lambda x, axes, keep: x.sum(axes, keepdims=keep))
_over_axes("MeanForward", lambda x, axes, keep: x.mean(axes, keepdims=keep), elements=True)
_over_axes("MaxForward", lambda x, axes, keep: x.max(axes, keepdims=keep), elements=True)
_over_axes("MinForward", lambda x, axes, keep: x.min(axes, keepdims=keep), elements=True)
_over_axes("NormForward", lambda x, axes, keep: np.sqrt((x * x).sum(axes, keepdims=keep)))


def _over_axis(name: str, fn: Any) -> None:
    @sample(name)
    def draw_case(d: Draw) -> Sample:
        x = d.values(d.shape(1))
        axis = d.axis(x.shape)
        return Sample((x, axis), (fn(x, axis),))


def _log_sum_exp(x: np.ndarray, axis: int) -> np.ndarray:
    return np.log(np.exp(x).sum(axis, keepdims=True))


with np.errstate(divide="ignore"):
    _over_axis("CumSumForward", lambda x, axis: np.cumsum(x, axis))
    _over_axis("LogSoftmaxForward", lambda x, axis: x - _log_sum_exp(x, axis) if x.size else x)
    _over_axis("SoftmaxForward", lambda x, axis: np.exp(x - _log_sum_exp(x, axis)) if x.size else x)


def _place(name: str, fn: Any) -> None:
    @sample(name)
    def draw_case(d: Draw) -> Sample:
        x = d.values(tuple(max(n, 1) for n in d.shape(1)))
        axis, keep = d.axis(x.shape), d.flag()
        return Sample((x, axis, keep), (fn(x, axis, keepdims=keep),))


_place("ArgMax", np.argmax)
_place("ArgMin", np.argmin)


# Norms --------------------------------------------------------------------------------------------------------------


def _rows(d: Draw) -> np.ndarray:
    return d.values((*d.shape(high=2, most=12), d.size(1)))


def _layer_norm(x: Any, weight: Any, bias: Any, eps: float) -> tuple[np.ndarray, ...]:
    mean = x.mean(-1)
    rstd = 1 / np.sqrt(((x - mean[..., None]) ** 2).mean(-1) + eps)
    return (x - mean[..., None]) * rstd[..., None] * weight + (0 if bias is None else bias), mean, rstd


def _rms_norm(x: Any, weight: Any, eps: float) -> tuple[np.ndarray, ...]:
    rstd = 1 / np.sqrt((x * x).mean(-1) + eps)
    return x * rstd[..., None] * weight, rstd


@sample("LayerNormForward")
def _layer(d: Draw) -> Sample:
    x = _rows(d)
    weight, bias = d.values(x.shape[-1:]), d.values(x.shape[-1:]) if d.flag() else None
    return Sample((x, weight, bias, 0.1), _layer_norm(x, weight, bias, 0.1))


@sample("RmsNormForward")
def _rms(d: Draw) -> Sample:
    x = _rows(d)
    weight = d.values(x.shape[-1:])
    return Sample((x, weight, 0.1), _rms_norm(x, weight, 0.1))


@sample("AddLayerNormForward")
def _add_layer(d: Draw) -> Sample:
    x = _rows(d)
    residual, weight = d.values(x.shape), d.values(x.shape[-1:])
    bias = d.values(x.shape[-1:]) if d.flag() else None
    return Sample(
        (x, residual, weight, bias, 0.1), (x + residual, *_layer_norm(x + residual, weight, bias, 0.1))
    )


@sample("AddRmsNormForward")
def _add_rms(d: Draw) -> Sample:
    x = _rows(d)
    residual, weight = d.values(x.shape), d.values(x.shape[-1:])
    return Sample((x, residual, weight, 0.1), (x + residual, *_rms_norm(x + residual, weight, 0.1)))


# Losses -------------------------------------------------------------------------------------------------------------


def _cross_entropy(logits: Any, target: Any, ignored: int, s: float, how: str) -> tuple[np.ndarray, ...]:
    classes = logits.shape[-1]
    rows, targets = logits.reshape(-1, classes), target.ravel()
    lse = np.log(np.exp(rows).sum(-1))
    losses = [
        lse[i] - (1 - s) * rows[i, t] - s * rows[i].sum() / classes
        for i, t in enumerate(targets)
        if t != ignored
    ]
    total = np.sum(losses) if how == "sum" else np.sum(losses) / len(losses) if losses else np.nan
    return np.asarray(total), lse.reshape(target.shape)


def _options(d: Draw) -> tuple[int, float, str]:
    return d.one_of(-100, 0, 2), d.one_of(0.0, 0.125), d.one_of("mean", "sum")


@sample("CrossEntropyForward")
def _loss(d: Draw) -> Sample:
    logits = d.values((*d.shape(high=2, most=9), d.size(1)))
    target, options = d.indices(logits.shape[-1], logits.shape[:-1]), _options(d)
    want = _cross_entropy(logits, target, *options)
    return Sample((logits, target, *options), want, smooth=bool(np.isfinite(want[0])))


@sample("LinearCrossEntropyForward")
def _linear_loss(d: Draw) -> Sample:
    x = d.values((*d.shape(high=2, most=9), d.int(1, 3))) / 2
    weight = d.values((d.size(1), x.shape[-1])) / 2
    target, options = d.indices(len(weight), x.shape[:-1]), _options(d)
    want = _cross_entropy(np.einsum("...c,vc->...v", x, weight), target, *options)
    want = (*want, np.full(target.shape, float(len(weight))))
    return Sample((x, weight, target, *options), want, smooth=bool(np.isfinite(want[0])))


@sample("VocabParallelCrossEntropyForward")
def _vocab_parallel(d: Draw) -> Sample:
    logits = d.values((*d.shape(high=2, most=9), d.size(1)))
    n = logits.shape[-1]
    first, real = d.int(0, 4), d.int(1, 9)
    target = d.indices(real, logits.shape[:-1])
    mine = [c for c in range(n) if first + c < real]
    some = logits[..., mine]
    at = target - first
    picked = np.zeros(target.shape)
    for place in np.ndindex(target.shape):
        picked[place] = logits[(*place, at[place])] if at[place] in mine else 0.0
    peak = some.max(-1, initial=-np.inf)
    total = np.exp(some - peak[..., None]).sum(-1)
    return Sample((logits, target, first, real, -100), (peak, total, picked, some.sum(-1)))


# Lists of tensors ---------------------------------------------------------------------------------------------------


def _like(d: Draw, tensors: list[np.ndarray]) -> list[np.ndarray]:
    return [d.values(t.shape) for t in tensors]


def _list(d: Draw) -> list[np.ndarray]:
    return [d.values(d.shape(high=2)) for _ in range(d.int(1, 3))]


@sample("AdamW")
def _adamw(d: Draw) -> Sample:
    p = _list(d)
    g, m, v = _like(d, p), _like(d, p), [np.abs(x) for x in _like(d, p)]
    lr, b1, b2, eps, decay, t = 0.125, 0.75, 0.875, 0.5, 0.25, d.int(1, 5)
    m2 = [b1 * x + (1 - b1) * y for x, y in zip(m, g, strict=True)]
    v2 = [b2 * x + (1 - b2) * y * y for x, y in zip(v, g, strict=True)]
    p2 = [
        x - lr * decay * x - lr * (y / (1 - b1**t)) / (np.sqrt(z / (1 - b2**t)) + eps)
        for x, y, z in zip(p, m2, v2, strict=True)
    ]
    return Sample((p, g, m, v, lr, b1, b2, eps, decay, t), (*p2, *m2, *v2))


@sample("SGD")
def _sgd(d: Draw) -> Sample:
    p = _list(d)
    g, momenta = _like(d, p), _like(d, p)
    lr, mu, damp, decay, nesterov, first = 0.125, 0.75, 0.25, 0.5, d.flag(), d.flag()
    grads = [y + decay * x for x, y in zip(p, g, strict=True)]
    b2 = [y if first else mu * b + (1 - damp) * y for y, b in zip(grads, momenta, strict=True)]
    p2 = [x - lr * (y + mu * b if nesterov else b) for x, y, b in zip(p, grads, b2, strict=True)]
    return Sample((p, g, momenta, lr, mu, damp, decay, nesterov, first), (*p2, *b2))


@sample("GlobalNorm")
def _global_norm(d: Draw) -> Sample:
    tensors = _list(d)
    return Sample((tensors,), (np.asarray(np.sqrt(sum((t * t).sum() for t in tensors))),))


@sample("AllFinite")
def _all_finite(d: Draw) -> Sample:
    tensors = _list(d)
    bad = tensors[-1].size and d.flag()
    if bad:
        tensors[-1].flat[d.int(0, tensors[-1].size - 1)] = d.one_of(np.nan, -np.inf)
    return Sample((tensors,), (np.asarray(not bad),))


@sample("ScaleInPlace")
def _scale(d: Draw) -> Sample:
    tensors = _list(d)
    return Sample((tensors, -0.75), tuple(t * -0.75 for t in tensors))
