"""NumPy expressions of ops that work element by element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from _ops_expressions import Rng, Shape, above_zero, add, extra, mask, normal, one, positive, three, two

from infinitrain.dtype import float64


def with_row(rng: Rng, shape: Shape) -> tuple[Any, ...]:
    """Arguments of the gradient of a + b where b is one row."""
    return normal(rng, *shape), shape, shape[1:]


# Arithmetic
add("AddForward", two, lambda a, b: a + b, "a + b")
add("SubForward", two, lambda a, b: a - b, "a - b")
add("MulForward", two, lambda a, b: a * b, "a * b")
add("DivForward", two, lambda a, b: a / b, "a / b")
add("AddBackward", with_row, lambda g, *_: (g.copy(), g.sum(0)), "g.copy(), g.sum(0)")
add("SubBackward", with_row, lambda g, *_: (g.copy(), -g.sum(0)), "g.copy(), -g.sum(0)")
add("MulBackward", three, lambda g, a, b: (g * b, g * a), "g * b, g * a")
add("DivBackward", three, lambda g, a, b: (g / b, -g * a / b**2), "g / b, -g * a / b**2")
add("AddScalarForward", extra(one, 0.7), lambda a, s: a + s, "a + 0.7")
add("MulScalarForward", extra(one, 0.7), lambda a, s: a * s, "a * 0.7")
add("DivScalarForward", extra(one, 0.7, False), lambda a, s, _: a / s, "a / 0.7")
add("DivScalarForward", extra(positive, 0.7, True), lambda a, s, _: s / a, "0.7 / a")
add("DivScalarBackward", extra(two, 0.7), lambda g, a, s: -g * s / a**2, "-g * 0.7 / a**2")
add("PowForward", extra(one, 2.0, False), lambda a, s, _: a**2, "a**2")
add("PowForward", extra(positive, 1.5, False), lambda a, s, _: a**s, "a**1.5")
add("PowBackward", extra(two, 3.0, False), lambda g, a, *_: g * 3 * a**2, "g * 3 * a**2")
add(
    "PowTensorForward",
    lambda rng, s: (above_zero(rng, *s), normal(rng, *s)),
    lambda a, b: a**b,
    "a**b",
)
add(
    "PowTensorBackward",
    lambda rng, s: (normal(rng, *s), above_zero(rng, *s), normal(rng, *s)),
    lambda g, a, b: (g * b * a ** (b - 1), g * a**b * np.log(a)),
    "g * b * a**(b - 1), g * a**b * np.log(a)",
)


def larger_backward(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tie = 0.5 * g * (a == b)
    return g * (a > b) + tie, g * (a < b) + tie


def smaller_backward(g: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tie = 0.5 * g * (a == b)
    return g * (a < b) + tie, g * (a > b) + tie


add("MaximumForward", two, np.maximum, "np.maximum(a, b)")
add("MinimumForward", two, np.minimum, "np.minimum(a, b)")
_TEXT = "t = 0.5 * g * (a == b); g * (a {} b) + t, g * (a {} b) + t"
add("MaximumBackward", three, larger_backward, _TEXT.format(">", "<"))
add("MinimumBackward", three, smaller_backward, _TEXT.format("<", ">"))
add("ClampForward", extra(one, -0.5, 0.5), np.clip, "np.clip(x, -0.5, 0.5)")
add(
    "ClampBackward",
    extra(two, 0.6, 1.2),
    lambda g, x, low, high: g * ((x >= low) & (x <= high)),
    "g * ((x >= 0.6) & (x <= 1.2))",
)

# Comparisons
for _name, _sign, _compare in (
    ("Equals", "==", np.equal),
    ("NotEquals", "!=", np.not_equal),
    ("Lt", "<", np.less),
    ("Le", "<=", np.less_equal),
    ("Gt", ">", np.greater),
    ("Ge", ">=", np.greater_equal),
):
    add(f"{_name}Forward", two, _compare, f"a {_sign} b")
    add(f"{_name}ScalarForward", extra(one, 0.1), _compare, f"a {_sign} 0.1")
add("AndForward", lambda rng, s: (mask(rng, *s), mask(rng, *s)), lambda a, b: a & b, "a & b")
add("OrForward", lambda rng, s: (mask(rng, *s), mask(rng, *s)), lambda a, b: a | b, "a | b")
add("NotForward", lambda rng, s: (mask(rng, *s),), lambda a: ~a, "~a")
add("IsFiniteForward", one, np.isfinite, "np.isfinite(x)")
add("IsNanForward", one, np.isnan, "np.isnan(x)")

# Functions of one tensor
add("NegForward", one, lambda x: -x, "-x")
add("AbsForward", one, np.abs, "np.abs(x)")
add(
    "AbsBackward",
    lambda rng, s: (normal(rng, *s), normal(rng, *s)),
    lambda g, x: g * np.sign(x),
    "g * np.sign(x)",
)
add("ReciprocalForward", positive, lambda x: 1 / x, "1 / x")
add("ReciprocalBackward", two, lambda g, x: -g / x**2, "-g / x**2")
add("ExpForward", one, np.exp, "np.exp(x)")
add("ExpBackward", two, lambda g, y: g * y, "g * y")
add("LogForward", positive, np.log, "np.log(x)")
add("LogBackward", two, lambda g, x: g / x, "g / x")
add("SqrtForward", positive, np.sqrt, "np.sqrt(x)")
add("SqrtBackward", two, lambda g, y: g / (2 * y), "g / (2 * y)")
add("RsqrtForward", positive, lambda x: 1 / np.sqrt(x), "1 / np.sqrt(x)")
add("RsqrtBackward", two, lambda g, x: -0.5 * g / (x * np.sqrt(x)), "-0.5 * g / (x * np.sqrt(x))")
add("SinForward", one, np.sin, "np.sin(x)")
add("SinBackward", two, lambda g, x: g * np.cos(x), "g * np.cos(x)")
add("CosForward", one, np.cos, "np.cos(x)")
add("CosBackward", two, lambda g, x: -g * np.sin(x), "-g * np.sin(x)")
add("TanhForward", one, np.tanh, "np.tanh(x)")
add("TanhBackward", two, lambda g, y: g * (1 - y * y), "g * (1 - y * y)")
add("SigmoidForward", one, lambda x: 1 / (1 + np.exp(-x)), "1 / (1 + np.exp(-x))")
add("SigmoidBackward", two, lambda g, y: g * y * (1 - y), "g * y * (1 - y)")
_E = 2 / math.sqrt(math.pi)
add("ErfBackward", two, lambda g, x: g * _E * np.exp(-x * x), "g * c * np.exp(-x * x)")

# Activations
_C = math.sqrt(2 / math.pi)


def gelu(x: np.ndarray, _: str) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(_C * (x + 0.044715 * x * x * x)))


def gelu_backward(x: np.ndarray, g: np.ndarray, _: str) -> np.ndarray:
    t = np.tanh(_C * (x + 0.044715 * x * x * x))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _C * (1 + 3 * 0.044715 * x * x))


def silu_backward(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    s = 1 / (1 + np.exp(-x))
    return g * s * (1 + x * (1 - s))


def swiglu(x: np.ndarray) -> np.ndarray:
    gate, up = np.split(x, 2, -1)
    return gate / (1 + np.exp(-gate)) * up


def swiglu_backward(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    gate, up = np.split(x, 2, -1)
    s = 1 / (1 + np.exp(-gate))
    return np.concatenate((g * up * s * (1 + gate * (1 - s)), g * gate * s), -1)


def dropout(x: np.ndarray, p: float, *_: int) -> np.ndarray:
    return x * (_random.random(x.shape, np.float32) >= p) / (1 - p)


_random = np.random.default_rng(1)
add("ReluForward", one, lambda x: np.maximum(x, 0), "np.maximum(x, 0)")
add(
    "ReluBackward",
    lambda rng, s: (normal(rng, *s), np.maximum(normal(rng, *s), 0)),
    lambda g, y: g * (y > 0),
    "g * (y > 0)",
)
add("SiluForward", one, lambda x: x / (1 + np.exp(-x)), "x / (1 + np.exp(-x))")
add("SiluBackward", two, silu_backward, "s = 1 / (1 + np.exp(-x)); g * s * (1 + x * (1 - s))")
add("GeluForward", extra(one, "tanh"), gelu, "0.5 * x * (1 + np.tanh(c * (x + 0.044715 * x * x * x)))")
add("GeluBackward", extra(two, "tanh"), gelu_backward, "its derivative, written out")
add("SwigluForward", one, swiglu, "gate / (1 + np.exp(-gate)) * up")
add(
    "SwigluBackward",
    lambda rng, s: (normal(rng, *s), normal(rng, s[0], s[1] // 2)),
    swiglu_backward,
    "np.concatenate((g * up * s * (1 + gate * (1 - s)), g * gate * s), -1)",
)
_TEXT = "x * (rng.random(x.shape, np.float32) >= p) / (1 - p)"
add("DropoutForward", extra(one, 0.1, 7, 3, 0), dropout, _TEXT, random=True)
add("DropoutBackward", extra(one, 0.1, 7, 3, 0), dropout, _TEXT.replace("x *", "g *"), random=True)


# Into memory that is there
def fill(x: np.ndarray, value: float) -> None:
    x[...] = value


def copy(x: np.ndarray, y: np.ndarray) -> None:
    x[...] = y


def accumulate(g: np.ndarray, rate: float, x: np.ndarray) -> None:
    x += rate * g


def accumulate_whole(g: np.ndarray, rate: float, x: np.ndarray) -> None:
    x += g


def gradient_and_sum(rate: float) -> Any:
    return lambda rng, s: (normal(rng, *s), rate, normal(rng, *s))


add("Fill", extra(one, 0.7), fill, "x[...] = 0.7")
add("Copy", two, copy, "x[...] = y")
add("Cast", extra(one, float64), lambda a, _: a.astype(np.float64), "a.astype(np.float64)")
add("AccumulateGrad", gradient_and_sum(1.0), accumulate_whole, "x += g")
add("AccumulateGrad", gradient_and_sum(0.5), accumulate, "x += 0.5 * g")
