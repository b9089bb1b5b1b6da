"""NumPy expressions of products of matrices, attention and rotary positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _ops_expressions import Rng, Shape, add, heads_shape, normal, targets, two
from _ops_pointwise import gelu
from _ops_reductions import cross_entropy, cross_entropy_backward

HEADS = 4


def x_and_weight(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return normal(rng, *s), normal(rng, s[1], s[1])


def linear(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return *x_and_weight(rng, s), normal(rng, s[1])


def linear_gelu(x: np.ndarray, w: np.ndarray, b: np.ndarray, how: str) -> tuple[np.ndarray, np.ndarray]:
    pre = x @ w.T + b
    return gelu(pre, how), pre


def gemm(a: np.ndarray, b: np.ndarray, c: np.ndarray, alpha: float, beta: float, *_: bool) -> None:
    c[...] = alpha * (a @ b) + beta * c


add("LinearForward", linear, lambda x, w, b: x @ w.T + b, "x @ w.T + b")
add("LinearBackwardInput", lambda rng, s: x_and_weight(rng, s)[::-1], lambda w, g: g @ w, "g @ w")
add("LinearBackwardWeight", two, lambda x, g: g.T @ x, "g.T @ x")
add("LinearBackwardBias", lambda rng, s: (normal(rng, *s),), lambda g: g.sum(0), "g.sum(0)")
add(
    "LinearBackward",
    lambda rng, s: (normal(rng, *s), normal(rng, s[1], s[1]), normal(rng, *s)),
    lambda x, w, g: (g @ w, g.T @ x, g.sum(0)),
    "g @ w, g.T @ x, g.sum(0)",
)
add("MatmulForward", x_and_weight, lambda a, b: a @ b, "a @ b")
add(
    "MatmulBackwardInput", lambda rng, s: (*x_and_weight(rng, s)[::-1], s), lambda b, g, _: g @ b.T, "g @ b.T"
)
add("MatmulBackwardOther", lambda rng, s: (*two(rng, s), (s[1], s[1])), lambda a, g, _: a.T @ g, "a.T @ g")
add(
    "Gemm",
    lambda rng, s: (*x_and_weight(rng, s), normal(rng, *s), 0.7, 0.5, False, False),
    gemm,
    "c[...] = alpha * (a @ b) + beta * c",
)
add("LinearGeluForward", lambda rng, s: (*linear(rng, s), "tanh"), linear_gelu, "y = x @ w.T + b; gelu(y), y")


# Cross-entropy over a linear layer
def linear_loss(x: np.ndarray, w: np.ndarray, t: np.ndarray) -> tuple[Any, ...]:
    return *cross_entropy(x @ w.T, t), np.full(t.shape, len(w), x.dtype)


def linear_loss_backward(
    g: Any, x: np.ndarray, w: np.ndarray, t: np.ndarray, lse: np.ndarray, present: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    d = cross_entropy_backward(g, x @ w.T, t, lse)
    return d @ w, d.T @ x


def loss_arguments(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return normal(rng, *s), 0.1 * normal(rng, 4 * s[1], s[1]), targets(rng, (s[0], 4 * s[1]))


def loss_backward_arguments(rng: Rng, s: Shape) -> tuple[Any, ...]:
    x, w, t = loss_arguments(rng, s)
    return np.array(0.7, np.float32), x, w, t, *linear_loss(x, w, t)[1:]


add("LinearCrossEntropyForward", loss_arguments, linear_loss, "cross_entropy(x @ w.T, t)")
add(
    "LinearCrossEntropyBackward",
    loss_backward_arguments,
    linear_loss_backward,
    "d = its gradient at x @ w.T; d @ w, d.T @ x",
)


# Attention
def split(qkv: np.ndarray) -> list[np.ndarray]:
    b, t, _ = qkv.shape
    return [p.reshape(b, t, HEADS, -1).transpose(0, 2, 1, 3) for p in np.split(qkv, 3, -1)]


def scores(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    t = q.shape[2]
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return np.where(np.tril(np.ones((t, t), np.bool_)), s, -np.inf)


def joined(heads: np.ndarray) -> np.ndarray:
    b, _, t, _ = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(b, t, -1)


def attention(qkv: np.ndarray, *_: Any) -> tuple[np.ndarray, np.ndarray]:
    q, k, v = split(qkv)
    s = scores(q, k)
    peak = s.max(-1, keepdims=True)
    e = np.exp(s - peak)
    total = e.sum(-1, keepdims=True)
    return joined((e / total) @ v), (peak + np.log(total))[..., 0]


def attention_backward(qkv: np.ndarray, y: np.ndarray, lse: np.ndarray, g: np.ndarray, *_: Any) -> np.ndarray:
    q, k, v = split(qkv)
    o, do = (p.reshape(*p.shape[:2], HEADS, -1).transpose(0, 2, 1, 3) for p in (y, g))
    p = np.exp(scores(q, k) - lse[..., None])
    ds = p * (do @ v.swapaxes(-1, -2) - (do * o).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return np.concatenate([joined(d) for d in (ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do)], -1)


def attention_arguments(rng: Rng, s: Shape) -> tuple[Any, ...]:
    b, t, width = heads_shape(s)
    return normal(rng, b, t, 3 * width), HEADS, HEADS, True


def attention_backward_arguments(rng: Rng, s: Shape) -> tuple[Any, ...]:
    qkv, *how = attention_arguments(rng, s)
    return qkv, *attention(qkv), normal(rng, *heads_shape(s)), *how


add(
    "AttentionForward",
    attention_arguments,
    attention,
    "softmax(where(tril, q @ k.T / sqrt(d), -inf)) @ v, by heads",
)
add("AttentionBackward", attention_backward_arguments, attention_backward, "its gradients, written out")


# Rotary positions
def rope(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, *_: Any) -> np.ndarray:
    b, t, _ = x.shape
    pairs = x.reshape(b, t, HEADS, -1, 2)
    first, second, c, s = pairs[..., 0], pairs[..., 1], cos[:t, None], sin[:t, None]
    y = np.empty_like(pairs)
    y[..., 0] = first * c - second * s
    y[..., 1] = second * c + first * s
    return y.reshape(x.shape)


def rope_halves(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, *_: Any) -> np.ndarray:
    b, t, _ = x.shape
    first, second = np.split(x.reshape(b, t, HEADS, -1), 2, -1)
    c, s = cos[:t, None], sin[:t, None]
    return np.concatenate((first * c - second * s, second * c + first * s), -1).reshape(x.shape)


def rope_arguments(interleaved: bool) -> Any:
    def make(rng: Rng, s: Shape) -> tuple[Any, ...]:
        b, t, width = heads_shape(s)
        angle = normal(rng, t, width // HEADS // 2)
        return normal(rng, b, t, width), np.cos(angle), np.sin(angle), HEADS, HEADS, interleaved, 0

    return make


_TEXT = "y[..., 0] = a * c - b * s; y[..., 1] = b * c + a * s"
add("RopeForward", rope_arguments(True), rope, _TEXT)
add("RopeForward", rope_arguments(False), rope_halves, "np.concatenate((a * c - b * s, b * c + a * s), -1)")
add(
    "RopeBackward",
    rope_arguments(True),
    lambda g, c, s, *_: rope(g, c, -s),
    _TEXT.replace("- b", "+ b").replace("c + a", "c - a"),
)
