"""How far we may be from PyTorch: one table, with reasons. Where it says nothing, a row holds for every op.

float32, float64: norm(ours - theirs) / norm(theirs), PyTorch computing in the same dtype.

bfloat16, float16: element by element, PyTorch computing in float64 from the same rounded inputs,

    allowed = 0.51 ulp(exact) + 2**-19 max |exact|

which is one rounding of sums in float32 at any length [contract 4.7]. ``ROUNDED`` lists, with the reason, what rounds
in between; there PyTorch rounds in the same places, and ours may be twice as far from float64 as PyTorch's own half
result is, at the worst element. Where PyTorch's half result is within the limit too, the two are at most one unit
apart.

float32 at extreme scales: PyTorch in float64 from the same inputs; ``single`` of the largest element.

Integers, bools, and what moves elements: equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from agreement import array

SINGLE: Final = 2e-6  # several float32 operations, of which library functions err by a few units
LONG: Final = 1e-5  # of cases/large.py: thousands of float32 numbers of one sign, added one after the other
DOUBLE: Final = 1e-13  # the same of float64
HALVES: Final = {"bfloat16": (2.0**-7, -126), "float16": (2.0**-10, -14)}  # unit at 1, least exponent
ROUNDINGS: Final = 0.51  # half a unit; float32 before it may fall on the other side of a tie
SUMS: Final = 2.0**-19  # float32's 2**-23 times what library functions and sums of thousands lose

_RESULT = "the gradient is made of the result, which was rounded"
_TWICE = "two ops, each of which rounds"
_SUM = "the norm, and its gradient, of a sum that is a result itself, so that it was rounded"
ROUNDED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("exp", "sqrt", "tanh", "sigmoid", "softmax", "log_softmax", "norm"), _RESULT),
    **dict.fromkeys((f"{op}-a_tensor_twice" for op in ("add", "sub", "mul", "div")), _TWICE),
    **dict.fromkeys(("add_layer_norm", "add_rms_norm"), _SUM),
    "linear_gelu": "the gradient passes GELU's derivative on, rounded, to two matrix products",
    "attention": "the gradient is made of the result, which was rounded; PyTorch rounds the probabilities as well",
    "VocabParallelCrossEntropyBackward": "it is given probabilities, which were rounded",
    "linear_cross_entropy": "logits are rounded, as those of a linear layer are",
}
"""Ops, or single cases, that round in between."""


def single(case: Any) -> float:
    """Return the tolerance of a case in float32."""
    return LONG if case.about.startswith("large") else SINGLE


def limits(case: Any, exact: np.ndarray, theirs: np.ndarray, dtype: str) -> np.ndarray:
    """Return how far each element of a half result may be from ``exact``."""
    largest = np.abs(exact).max(initial=0)
    allowed = ROUNDINGS * ulps(exact, dtype) + SUMS * largest
    if str(case) in ROUNDED or case.op in ROUNDED:
        allowed += 2 * np.abs(theirs - exact).max(initial=0)
    return allowed


def ulps(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return the unit in the last place that ``dtype`` has at each element of x, subnormals included."""
    unit, least = HALVES[dtype]
    return unit * 2.0 ** np.maximum(np.frexp(x)[1] - 1.0, least)


def assert_half(case: Any, what: str, ours: Any, theirs: Any, exact: Any, dtype: str) -> float:
    """Fail unless our half result is within its limits; return its worst error in them."""
    a, b, c = array(ours), array(theirs), array(exact)
    assert a.shape == c.shape, f"{case} {what}: shape {a.shape}, theirs {c.shape}"
    outside = ~np.isfinite(b)  # of the range of float16
    np.testing.assert_array_equal(a[outside], b[outside])
    a, b, c = a[~outside], b[~outside], c[~outside]
    allowed = limits(case, c, b, dtype)
    worst = _worst(a, c, allowed)
    assert worst <= 1, (
        f"{case} {what}, {dtype}: {worst:.3g} times the limit from PyTorch in float64\n"
        f"ours {a.reshape(-1)[:6]}\nexact {c.reshape(-1)[:6]}\nPyTorch's {dtype} {b.reshape(-1)[:6]}"
    )
    if _worst(b, c, allowed) <= 1:
        apart = _worst(a, b, ulps(b, dtype) + 2 * allowed - 2 * ROUNDINGS * ulps(c, dtype))
        assert apart <= 1, (
            f"{case} {what}, {dtype}: {apart:.3g} times a unit in the last place from PyTorch's {dtype}"
        )
    return worst


def _worst(a: np.ndarray, b: np.ndarray, allowed: np.ndarray) -> float:
    """Return the largest |a - b| / allowed; equal elements are 0 apart, infinities and NaN included."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.where(same, 0, np.abs(a - b) / allowed).max(initial=0))


def assert_scaled(case: Any, what: str, ours: Any, exact: Any) -> None:
    """Fail unless a float32 result is PyTorch's in float64, where float32 reaches, to a few units of the largest."""
    a, c = array(ours), array(exact)
    with np.errstate(over="ignore"):
        rounded = c.astype(np.float32).astype(np.float64)
    largest = np.abs(c[np.isfinite(rounded)]).max(initial=0)
    worst = _worst(a, rounded, single(case) * largest + 2.0**-149)
    assert worst <= 1, (
        f"{case} {what}: {worst:.3g} times the limit\nours {a.reshape(-1)[:6]}\nexact {c.reshape(-1)[:6]}"
    )
