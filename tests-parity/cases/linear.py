"""Products of matrices, with broadcast leading axes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .case import Case, normal

_MATMULS = {
    "matrices": ((3, 4), (4, 5)),
    "batches": ((2, 3, 4), (2, 4, 5)),
    "second broadcast": ((2, 6, 3, 4), (4, 5)),
    "first broadcast": ((3, 4), (2, 6, 4, 5)),
    "both broadcast": ((2, 1, 3, 4), (6, 4, 5)),
    "vector and matrix": ((4,), (4, 5)),
    "vector and batch": ((4,), (2, 4, 5)),
    "batch and vector": ((2, 3, 4), (4,)),
    "vectors": ((4,), (4,)),
    "long": ((3, 1501), (1501, 2)),
}

CASES = [
    *[
        Case("matmul", about, lambda f, a, b: f(a, b), torch.matmul, (normal(*a), normal(*b)))
        for about, (a, b) in _MATMULS.items()
    ],
    Case("outer", "", lambda f, a, b: f(a, b), torch.outer, (normal(4), normal(3))),
    Case(
        "linear", "bias", lambda f, x, w, b: f(x, w, b), F.linear, (normal(2, 3, 4), normal(5, 4), normal(5))
    ),
    Case("linear", "no bias", lambda f, x, w: f(x, w), F.linear, (normal(2, 3, 4), normal(5, 4))),
    Case(
        "linear",
        "4 axes",
        lambda f, x, w, b: f(x, w, b),
        F.linear,
        (normal(2, 3, 2, 7), normal(5, 7), normal(5)),
    ),
    Case("linear", "one row", lambda f, x, w, b: f(x, w, b), F.linear, (normal(4), normal(5, 4), normal(5))),
]
