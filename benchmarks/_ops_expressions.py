"""The plain NumPy expression of each op, as one would write it in a script."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, int]
Rng = np.random.Generator


@dataclass(frozen=True)
class Expression:
    """``numpy(*make(rng, shape))`` does what the op does with the same arguments."""

    op: str
    make: Callable[[Rng, Shape], tuple[Any, ...]]
    numpy: Callable[..., Any]
    text: str


EXPRESSIONS: list[Expression] = []


def add(op: str, make: Callable[[Rng, Shape], tuple[Any, ...]], numpy: Callable[..., Any], text: str) -> None:
    EXPRESSIONS.append(Expression(op, make, numpy, text))


def normal(rng: Rng, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def one(rng: Rng, shape: Shape) -> tuple[np.ndarray]:
    return (normal(rng, *shape),)


def positive(rng: Rng, shape: Shape) -> tuple[np.ndarray]:
    return (rng.random(shape, np.float32) + np.float32(0.5),)


def two(rng: Rng, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    return normal(rng, *shape), rng.random(shape, np.float32) + np.float32(0.5)


def three(rng: Rng, shape: Shape) -> tuple[np.ndarray, ...]:
    return normal(rng, *shape), *two(rng, shape)


def row(rng: Rng, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    return normal(rng, *shape), normal(rng, shape[1])


def extra(
    make: Callable[[Rng, Shape], tuple[Any, ...]], *values: Any
) -> Callable[[Rng, Shape], tuple[Any, ...]]:
    return lambda rng, shape: (*make(rng, shape), *values)


# Arithmetic
add("AddForward", two, lambda a, b: a + b, "a + b")
add("SubForward", two, lambda a, b: a - b, "a - b")
add("MulForward", two, lambda a, b: a * b, "a * b")
add("DivForward", two, lambda a, b: a / b, "a / b")
add("AddScalarForward", extra(one, 0.7), lambda a, s: a + s, "a + 0.7")
add("MulScalarForward", extra(one, 0.7), lambda a, s: a * s, "a * 0.7")
add("PowForward", extra(one, 2.0, False), lambda a, s, _: a**2, "a**2")
add("MulBackward", three, lambda g, a, b: (g * b, g * a), "g * b, g * a")
add("DivBackward", three, lambda g, a, b: (g / b, -g * a / b**2), "g / b, -g * a / b**2")
add("MaximumForward", two, np.maximum, "np.maximum(a, b)")
add("EqualsForward", two, lambda a, b: a == b, "a == b")
add("LtScalarForward", extra(one, 0.1), lambda a, s: a < s, "a < 0.1")
add(
    "Cast",
    lambda rng, shape: (normal(rng, *shape), _float64()),
    lambda a, _: a.astype(np.float64),
    "a.astype(np.float64)",
)


def _float64() -> Any:
    from infinitrain.dtype import float64

    return float64


# Functions of one tensor
add("NegForward", one, lambda x: -x, "-x")
add("AbsForward", one, np.abs, "np.abs(x)")
add("ExpForward", one, np.exp, "np.exp(x)")
add("LogForward", positive, np.log, "np.log(x)")
add("SqrtForward", positive, np.sqrt, "np.sqrt(x)")
add("RsqrtForward", positive, lambda x: 1 / np.sqrt(x), "1 / np.sqrt(x)")
add("TanhForward", one, np.tanh, "np.tanh(x)")
add("SinForward", one, np.sin, "np.sin(x)")
add("SigmoidForward", one, lambda x: 1 / (1 + np.exp(-x)), "1 / (1 + np.exp(-x))")
add("SiluForward", one, lambda x: x / (1 + np.exp(-x)), "x / (1 + np.exp(-x))")
add("ReluForward", one, lambda x: np.maximum(x, 0), "np.maximum(x, 0)")
add("ClampForward", extra(one, -0.5, 0.5), np.clip, "np.clip(x, -0.5, 0.5)")
add("TanhBackward", two, lambda g, y: g * (1 - y * y), "g * (1 - y * y)")
add("ExpBackward", two, lambda g, y: g * y, "g * y")
add("SigmoidBackward", two, lambda g, y: g * y * (1 - y), "g * y * (1 - y)")
_C = math.sqrt(2 / math.pi)


def gelu(x: np.ndarray, _: str) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(_C * (x + 0.044715 * x * x * x)))


def gelu_backward(x: np.ndarray, g: np.ndarray, _: str) -> np.ndarray:
    t = np.tanh(_C * (x + 0.044715 * x * x * x))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _C * (1 + 3 * 0.044715 * x * x))


add("GeluForward", extra(one, "tanh"), gelu, "0.5 * x * (1 + np.tanh(c * (x + 0.044715 * x**3)))")
add("GeluBackward", extra(two, "tanh"), gelu_backward, "the derivative, written out")


def swiglu(x: np.ndarray) -> np.ndarray:
    gate, up = np.split(x, 2, -1)
    return gate / (1 + np.exp(-gate)) * up


add("SwigluForward", one, swiglu, "gate / (1 + np.exp(-gate)) * up")

# Reductions
add("SumForward", extra(one, (0, 1), False), lambda x, axes, _: x.sum(), "x.sum()")
add("MeanForward", extra(one, (1,), False), lambda x, axes, _: x.mean(1), "x.mean(1)")
add("MaxForward", extra(one, (1,), False), lambda x, axes, _: x.max(1), "x.max(1)")
add("ArgMax", extra(one, 1, False), lambda x, axis, _: x.argmax(1), "x.argmax(1)")
add("CumSumForward", extra(one, 1), lambda x, axis: np.cumsum(x, 1), "np.cumsum(x, 1)")
add("LinearBackwardBias", one, lambda g: g.sum(0), "g.sum(0)")


def softmax(x: np.ndarray, _: int) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x: np.ndarray, _: int) -> np.ndarray:
    y = x - x.max(-1, keepdims=True)
    return y - np.log(np.exp(y).sum(-1, keepdims=True))


add("SoftmaxForward", extra(one, 1), softmax, "e = np.exp(x - x.max(-1)); e / e.sum(-1)")
add("LogSoftmaxForward", extra(one, 1), log_softmax, "y = x - x.max(-1); y - np.log(np.exp(y).sum(-1))")
add(
    "SoftmaxBackward",
    extra(two, 1),
    lambda g, y, _: y * (g - (g * y).sum(-1, keepdims=True)),
    "y * (g - (g * y).sum(-1))",
)


def layer_norm(x: np.ndarray, w: np.ndarray, b: np.ndarray, eps: float) -> np.ndarray:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(-1, keepdims=True) + eps) * w + b


def rms_norm(x: np.ndarray, w: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


add(
    "LayerNormForward",
    lambda rng, shape: (*row(rng, shape), normal(rng, shape[1]), 1e-5),
    layer_norm,
    "(x - x.mean(-1)) / np.sqrt(x.var(-1) + eps) * w + b",
)
add("RmsNormForward", extra(row, 1e-5), rms_norm, "x / np.sqrt((x * x).mean(-1) + eps) * w")


# Products
def linear(rng: Rng, shape: Shape) -> tuple[np.ndarray, ...]:
    return normal(rng, *shape), normal(rng, shape[1], shape[1]), normal(rng, shape[1])


add("LinearForward", linear, lambda x, w, b: x @ w.T + b, "x @ w.T + b")
add(
    "LinearBackwardInput",
    lambda rng, s: (normal(rng, s[1], s[1]), normal(rng, *s)),
    lambda w, g: g @ w,
    "g @ w",
)
add("LinearBackwardWeight", two, lambda x, g: g.T @ x, "g.T @ x")
add("MatmulForward", lambda rng, s: (normal(rng, *s), normal(rng, s[1], s[1])), lambda a, b: a @ b, "a @ b")

# Moving elements
add("TransposeForward", extra(one, 0, 1), lambda x, a, b: x.swapaxes(0, 1).copy(), "x.swapaxes(0, 1).copy()")
add(
    "SliceForward",
    lambda rng, s: (normal(rng, *s), (1, 2), s, (1, 1)),
    lambda x, *_: x[1:, 2:].copy(),
    "x[1:, 2:].copy()",
)
add(
    "ConcatForward",
    lambda rng, s: (two(rng, s), 1),
    lambda parts, axis: np.concatenate(parts, 1),
    "np.concatenate(parts, 1)",
)
add("WhereForward", lambda rng, s: (rng.random(s) < 0.5, *two(rng, s)), np.where, "np.where(mask, a, b)")
add(
    "MaskForward",
    lambda rng, s: (normal(rng, *s), rng.random(s) < 0.5, 2.0),
    lambda x, m, v: np.where(m, np.float32(v), x),
    "np.where(mask, 2, x)",
)
add(
    "ExpandForward",
    lambda rng, s: (normal(rng, s[1]), s),
    lambda x, s: np.broadcast_to(x, s).copy(),
    "np.broadcast_to(x, shape).copy()",
)
add(
    "EmbeddingForward",
    lambda rng, s: (rng.integers(0, 100, s[0]), normal(rng, 100, s[1])),
    lambda i, w: w[i],
    "w[i]",
)
add(
    "GatherForward",
    lambda rng, s: (normal(rng, *s), rng.integers(0, s[1], s), 1),
    lambda x, i, a: np.take_along_axis(x, i, 1),
    "np.take_along_axis(x, i, 1)",
)


def scatter_add(i: np.ndarray, g: np.ndarray, rows: int) -> np.ndarray:
    out = np.zeros((rows, g.shape[1]), g.dtype)
    np.add.at(out, i, g)
    return out


add(
    "EmbeddingBackward",
    lambda rng, s: (rng.integers(0, 100, s[0]), normal(rng, *s), 100),
    scatter_add,
    "np.add.at(zeros, i, g)",
)


# Losses and steps
def cross_entropy(x: np.ndarray, t: np.ndarray, *_: Any) -> np.ndarray:
    y = log_softmax(x, 1)
    return -y[np.arange(len(t)), t].mean()


add(
    "CrossEntropyForward",
    lambda rng, s: (normal(rng, *s), rng.integers(0, s[1], s[0]), -100),
    cross_entropy,
    "-log_softmax(x)[rows, t].mean()",
)


def adamw(
    ps: Any, gs: Any, ms: Any, vs: Any, lr: float, b1: float, b2: float, eps: float, wd: float, t: int
) -> None:
    for p, g, m, v in zip(ps, gs, ms, vs, strict=True):
        m[...] = b1 * m + (1 - b1) * g
        v[...] = b2 * v + (1 - b2) * g * g
        p[...] = p * (1 - lr * wd) - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)


def adamw_arguments(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return (
        (normal(rng, *s),),
        (normal(rng, *s),),
        one(rng, s),
        positive(rng, s),
        1e-3,
        0.9,
        0.95,
        1e-8,
        0.1,
        3,
    )


add("AdamW", adamw_arguments, adamw, "m, v, p written out")
