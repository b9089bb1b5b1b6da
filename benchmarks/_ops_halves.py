"""NumPy expressions in bfloat16, with ml_dtypes: for information, as NumPy computes there number by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from _ops_expressions import Expression, Make, Rng, Shape, two
from _ops_products import linear
from _ops_reductions import layer_norm, norm_arguments


def half(make: Make) -> Make:
    """Return ``make`` with its arrays in bfloat16."""

    def rounded(rng: Rng, shape: Shape) -> tuple[Any, ...]:
        return tuple(
            a.astype(ml_dtypes.bfloat16) if isinstance(a, np.ndarray) else a for a in make(rng, shape)
        )

    return rounded


def wide(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn`` computed in float32, its first result rounded to bfloat16."""

    def call(*args: Any) -> Any:
        got = fn(*[a.astype(np.float32) if isinstance(a, np.ndarray) else a for a in args])
        if isinstance(got, tuple):
            return got[0].astype(ml_dtypes.bfloat16), *got[1:]
        return got.astype(ml_dtypes.bfloat16)

    return call


_WIDE = ", in float32, rounded to bfloat16"
HALVES = [
    Expression("AddForward", half(two), lambda a, b: a + b, "a + b", tolerance=1e-2),
    Expression("MulForward", half(two), lambda a, b: a * b, "a * b", tolerance=1e-2),
    Expression(
        "LinearForward", half(linear), wide(lambda x, w, b: x @ w.T + b), "x @ w.T + b" + _WIDE, tolerance=1e-2
    ),
    Expression(
        "LayerNormForward", half(norm_arguments(1, 2)), wide(layer_norm), "layer_norm(x, w, b)" + _WIDE,
        tolerance=1e-2,
    ),
]  # fmt: skip
