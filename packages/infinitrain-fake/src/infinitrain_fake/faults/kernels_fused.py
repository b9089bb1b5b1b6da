"""Faults of LayerNorm, Softmax, CrossEntropy and Attention kernels (L2 forward, L3 backward)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .catalogue import Call, kernel_fault


def _normalise(call: Call, variance: np.ndarray, outside: bool = False) -> np.ndarray:
    x = call.wide("x")
    mean = x.mean(-1, keepdims=True)
    eps = call["eps"]
    scale = 1.0 / (np.sqrt(variance) + eps) if outside else 1.0 / np.sqrt(variance + eps)
    y = (x - mean) * scale * call.wide("weight")
    return y if call["bias"] is None else y + call.wide("bias")


@kernel_fault("LayerNormForward", "4.1", "L2")
def layernorm_unbiased_variance(call: Call) -> Any:
    """LayerNormForward divides the variance by n - 1."""
    y, mean, rstd = call.good()
    x = call.wide("x")
    if x.shape[-1] > 1:
        variance = x.var(-1, ddof=1, keepdims=True)
        y.array[...] = _normalise(call, variance)
        rstd.array[...] = 1.0 / np.sqrt(variance[..., 0] + call["eps"])
    return y, mean, rstd


@kernel_fault("LayerNormForward", "4.1", "L2")
def layernorm_eps_outside_root(call: Call) -> Any:
    """LayerNormForward adds eps to the standard deviation instead of to the variance."""
    y, mean, rstd = call.good()
    variance = call.wide("x").var(-1, keepdims=True)
    y.array[...] = _normalise(call, variance, outside=True)
    rstd.array[...] = 1.0 / (np.sqrt(variance[..., 0]) + call["eps"])
    return y, mean, rstd


@kernel_fault("LayerNormForward", "4.7", "L2")
def layernorm_one_pass_variance(call: Call) -> Any:
    """LayerNormForward computes E[x²] - E[x]² in float32: no digits are left once the mean is large."""
    y, mean, rstd = call.good()
    x = call["x"].array.astype(np.float32)
    n = np.float32(x.shape[-1])
    average = x.sum(-1, keepdims=True, dtype=np.float32) / n
    variance = np.maximum((x * x).sum(-1, keepdims=True, dtype=np.float32) / n - average * average, 0)
    y.array[...] = _normalise(call, variance)
    rstd.array[...] = 1.0 / np.sqrt(variance[..., 0] + call["eps"])
    return y, mean, rstd


@kernel_fault("LayerNormForward", "4.1", "L2")
def layernorm_saves_variance(call: Call) -> Any:
    """LayerNormForward's third result is the variance, not the reciprocal standard deviation."""
    y, mean, rstd = call.good()
    rstd.array[...] = call.wide("x").var(-1)
    return y, mean, rstd


def _layernorm_terms(call: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rstd = call.wide("rstd")[..., None]
    h = (call.wide("x") - call.wide("mean")[..., None]) * rstd
    return h, call.wide("grad") * call.wide("weight"), rstd


@kernel_fault("LayerNormBackward", "4.1", "L3")
def layernorm_dx_drops_h_term(call: Call) -> Any:
    """LayerNormBackward's dx lacks the term h mean(g h)."""
    dx, dweight, dbias = call.good()
    _, g, rstd = _layernorm_terms(call)
    dx.array[...] = rstd * (g - g.mean(-1, keepdims=True))
    return dx, dweight, dbias


@kernel_fault("LayerNormBackward", "4.1", "L3")
def layernorm_dx_drops_mean_term(call: Call) -> Any:
    """LayerNormBackward's dx lacks the term mean(g)."""
    dx, dweight, dbias = call.good()
    h, g, rstd = _layernorm_terms(call)
    dx.array[...] = rstd * (g - h * (g * h).mean(-1, keepdims=True))
    return dx, dweight, dbias


@kernel_fault("LayerNormBackward", "4.1", "L3")
def layernorm_dweight_of_x(call: Call) -> Any:
    """LayerNormBackward's dweight sums grad x instead of grad h."""
    dx, dweight, dbias = call.good()
    grad, x = call.wide("grad"), call.wide("x")
    dweight.array[...] = (grad * x).reshape(-1, x.shape[-1]).sum(0)
    return dx, dweight, dbias


def _axis(call: Call) -> int:
    return next(a for a in call.args.values() if isinstance(a, int))


@kernel_fault("SoftmaxForward", "4.1", "L2")
def softmax_wrong_axis(call: Call) -> Any:
    """SoftmaxForward works over the axis before the one asked for, when there is one."""
    y = call.good()
    x = call.wide(call.row.param_names[0])
    if x.ndim > 1:
        axis = _axis(call) % x.ndim - 1
        e = np.exp(x - x.max(axis, keepdims=True))
        y.array[...] = e / e.sum(axis, keepdims=True)
    return y


@kernel_fault("SoftmaxForward", "4.7", "L2")
def softmax_overflows(call: Call) -> Any:
    """SoftmaxForward does not subtract the maximum: large inputs overflow."""
    y = call.good()
    x = call.wide(call.row.param_names[0]).astype(np.float32)
    axis = _axis(call)
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(x)
        y.array[...] = e / e.sum(axis, keepdims=True)
    return y


@kernel_fault("SoftmaxBackward", "4.1", "L3")
def softmax_dx_diagonal_only(call: Call) -> Any:
    """SoftmaxBackward's dx is grad y (1 - y): the diagonal of the Jacobian only."""
    dx = call.good()
    y = call.wide("y" if "y" in call.args else "output")
    dx.array[...] = call.wide("grad") * y * (1.0 - y)
    return dx


@kernel_fault("CrossEntropyForward", "4.7", "L2")
def cross_entropy_overflows(call: Call) -> Any:
    """CrossEntropyForward does not subtract the maximum: large logits give infinity."""
    loss, lse = call.good()
    logits = call.wide("logits").astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        sums = np.log(np.exp(logits).sum(-1))
        target = call["target"].array.astype(np.int64)
        valid = target != call["ignore_index"]
        picked = np.take_along_axis(logits, np.where(valid, target, 0)[..., None], -1)[..., 0]
        loss.array[...] = np.where(valid, sums - picked, 0.0).sum() / valid.sum()
    lse.array[...] = sums
    return loss, lse


@kernel_fault("CrossEntropyForward", "4.1", "L2")
def cross_entropy_counts_ignored(call: Call) -> Any:
    """CrossEntropyForward divides by the number of all targets, ignored ones included."""
    loss, lse = call.good()
    target = call["target"].array
    loss.array[...] = loss.array * ((target != call["ignore_index"]).sum() / max(1, target.size))
    return loss, lse


@kernel_fault("CrossEntropyBackward", "4.1", "L3")
def cross_entropy_gradient_not_scaled(call: Call) -> Any:
    """CrossEntropyBackward takes the incoming gradient as 1."""
    d = call.good()
    scale = float(call["grad"].array.astype(np.float64).reshape(()))
    if scale:
        d.array[...] = d.array.astype(np.float64) / scale
    return d


@kernel_fault("CrossEntropyBackward", "4.1", "L3")
def cross_entropy_gradient_of_ignored(call: Call) -> Any:
    """CrossEntropyBackward gives ignored targets the gradient of class 0."""
    d = call.good()
    logits, target = call.wide("logits"), call["target"].array
    ignored = target == call["ignore_index"]
    if ignored.any() and not ignored.all():
        p = np.exp(logits - call.wide("lse")[..., None])
        p[..., 0] -= 1.0
        scale = call["grad"].array.astype(np.float32).reshape(()) / (~ignored).sum()
        d.array[ignored] = p[ignored] * scale
    return d


def _heads(call: Call, packed: np.ndarray, first: int, count: int) -> np.ndarray:
    """Return heads ``first`` to ``first + count`` of packed (B, T, n d) as (B, count, T, d)."""
    b, t, width = packed.shape
    d = width // (call["n_head"] + 2 * call["n_kv_head"])
    return packed.reshape(b, t, -1, d)[:, :, first : first + count].transpose(0, 2, 1, 3)


@kernel_fault("AttentionForward", "4.1", "L2")
def attention_sees_next_token(call: Call) -> Any:
    """AttentionForward's causal mask is off by one: a position sees the one after it."""
    y, lse = call.good()
    if call["causal"]:
        qkv, heads, groups = call.wide("qkv"), call["n_head"], call["n_kv_head"]
        q = _heads(call, qkv, 0, heads)
        k = _heads(call, qkv, heads, groups).repeat(heads // groups, 1)
        v = _heads(call, qkv, heads + groups, groups).repeat(heads // groups, 1)
        t, d = q.shape[-2:]
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(d)
        scores = np.where(np.tri(t, t, 1, dtype=bool), scores, -np.inf)
        peak = scores.max(-1, keepdims=True)
        e = np.exp(scores - peak)
        total = e.sum(-1, keepdims=True)
        y.array[...] = (e / total @ v).transpose(0, 2, 1, 3).reshape(y.shape)
        lse.array[...] = (peak + np.log(total))[..., 0]
    return y, lse


@kernel_fault("AttentionForward", "4.1", "L2")
def attention_not_scaled(call: Call) -> Any:
    """AttentionForward does not divide the scores by the root of the head size."""
    from infinitrain.backend import from_array

    qkv = call["qkv"]
    width = qkv.shape[-1] // (call["n_head"] + 2 * call["n_kv_head"])
    array = np.array(qkv.array)
    array[..., : call["n_head"] * width] *= array.dtype.type(math.sqrt(width))
    return call.good(qkv=from_array(array, qkv.device))


@kernel_fault("AttentionBackward", "4.1", "L3")
def attention_dk_not_scaled(call: Call) -> Any:
    """AttentionBackward's gradients of q and k lack the factor 1 / sqrt(head size)."""
    d = call.good()
    width = d.shape[-1] // (call["n_head"] + 2 * call["n_kv_head"])
    part = d.array[..., : (call["n_head"] + call["n_kv_head"]) * width]
    part *= part.dtype.type(math.sqrt(width))
    return d


@kernel_fault("AttentionBackward", "4.1", "L3")
def attention_shared_heads_not_summed(call: Call) -> Any:
    """AttentionBackward averages the query heads' gradients of a shared key/value head instead of adding."""
    d = call.good()
    shared = call["n_head"] // call["n_kv_head"]
    width = d.shape[-1] // (call["n_head"] + 2 * call["n_kv_head"])
    part = d.array[..., call["n_head"] * width :]
    part /= part.dtype.type(shared)
    return d
