"""Functions of one tensor, element by element."""

from __future__ import annotations

import torch

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
    Case("clone", "", lambda f, x: f(x), torch.clone, (normal(2, 3),)),
]
