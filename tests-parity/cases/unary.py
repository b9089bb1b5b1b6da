"""Functions of one tensor, element by element."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .case import Case, given, normal, positive, signed, whole


def _same(op: str, *inputs: object) -> list[Case]:
    return [
        Case(op, f"of_input_{i}", lambda f, x: f(x), getattr(torch, op), (x,)) for i, x in enumerate(inputs)
    ]


CASES = [
    *_same("neg", normal(3, 5), whole(-9, 9, 7)),
    *_same("abs", signed(3, 5), given([-2.0, 0.0, 3.0]), whole(-9, 9, 7)),
    *_same("reciprocal", signed(3, 5)),
    *_same("exp", normal(3, 5), normal(9, scale=8)),
    *_same("log", positive(3, 5)),
    *_same("sqrt", positive(3, 5)),
    *_same("rsqrt", positive(3, 5)),
    *_same("sin", normal(3, 5), normal(9, scale=20)),
    *_same("cos", normal(3, 5), normal(9, scale=20)),
    *_same("tanh", normal(3, 5), normal(9, scale=5)),
    *_same("sigmoid", normal(3, 5), normal(9, scale=20)),
    *_same("relu", normal(3, 5), given([-2.0, 0.0, -0.0, 3.0])),
    *_same(
        "erf", normal(3, 5), normal(60, scale=3), given([-2.6, -2.4, 0.0, 1e-9, 2.49, 2.51]), whole(-3, 3, 7)
    ),
    *[
        Case("silu", f"scale {scale}", lambda f, x: f(x), F.silu, (normal(3, 41, scale=scale),))
        for scale in (1.0, 30.0)
    ],
    *_same("isfinite", given([1.0, float("inf"), float("nan"), float("-inf")]), whole(-3, 3, 7)),
    *_same("isnan", given([1.0, float("inf"), float("nan")]), whole(-3, 3, 7)),
    Case("clone", "", lambda f, x: f(x), torch.clone, (normal(2, 3),)),
]
