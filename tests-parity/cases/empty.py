"""Tensors without elements: shapes and dtypes are PyTorch's, sums over nothing 0, means over nothing NaN."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .case import Case, normal, whole

_NONE = normal(0, 3)
_SAME = ("neg", "abs", "exp", "log", "sqrt", "rsqrt", "sin", "tanh", "sigmoid", "relu", "erf", "reciprocal")


def _case(op: str, about: str, ours: object, theirs: object, *inputs: object) -> Case:
    return Case(op, f"empty, {about}" if about else "empty", ours, theirs, inputs or (_NONE,))


CASES = [
    *[_case(op, "", lambda f, x: f(x), getattr(torch, op)) for op in _SAME],
    *[
        _case(op, "", lambda f, x: f(x, x), lambda x, op=op: getattr(torch, op)(x, x))
        for op in ("add", "mul", "div")
    ],
    _case("add", "broadcast", lambda f, a, b: f(a, b), torch.add, normal(0, 1), normal(3)),
    *[
        _case(op, f"along {a}", lambda f, x, a=a: f(x, a), lambda x, op=op, a=a: getattr(torch, op)(x, a))
        for op in ("sum", "mean", "cumsum", "softmax", "log_softmax")
        for a in (0, 1)
    ],
    _case("max", "along 1", lambda f, x: f(x, 1), lambda x: x.amax(1)),
    _case("norm", "along 0", lambda f, x: f(x, 0), lambda x: torch.linalg.vector_norm(x, dim=0)),
    _case("mean", "all", lambda f, x: f(x), torch.mean),
    _case("matmul", "rows", lambda f, a, b: f(a, b), torch.matmul, _NONE, normal(3, 4)),
    _case("matmul", "inner axis", lambda f, a, b: f(a, b), torch.matmul, normal(2, 0), normal(0, 4)),
    _case("matmul", "batch", lambda f, a, b: f(a, b), torch.matmul, normal(0, 2, 3), normal(3, 4)),
    _case("linear", "rows", lambda f, x, w, b: f(x, w, b), F.linear, _NONE, normal(4, 3), normal(4)),
    _case(
        *("layer_norm", "rows", lambda f, x, w, b: f(x, w, b), lambda x, w, b: F.layer_norm(x, (3,), w, b)),
        *(_NONE, normal(3), normal(3)),
    ),
    _case(
        *("rms_norm", "rows", lambda f, x, w: f(x, w), lambda x, w: F.rms_norm(x, (3,), w, 1e-6)),
        *(_NONE, normal(3)),
    ),
    _case("gelu", "", lambda f, x: f(x), lambda x: F.gelu(x, approximate="tanh")),
    _case(
        "concat",
        "beside others",
        lambda f, a, b: f([a, b]),
        lambda a, b: torch.cat([a, b]),
        _NONE,
        normal(2, 3),
    ),
    _case("embedding", "ids", lambda f, i, w: f(i, w), F.embedding, whole(0, 7, 0), normal(7, 3)),
    _case("transpose", "", lambda f, x: f(x), lambda x: x.mT),
    _case("where", "", lambda f, x: f(x > 0, x, 1.0), lambda x: torch.where(x > 0, x, 1.0)),
]
