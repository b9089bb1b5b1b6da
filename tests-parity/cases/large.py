"""Sums over thousands of rows, of numbers far from 0, and of words as frequent as words are.

In half precision they show an accumulator that is not float32 [contract 4.7].
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from .case import Case, Maker, normal, whole

N = 4096


def around(mean: float, *shape: int) -> Maker:
    """Normal values around ``mean``."""
    return lambda rng: mean + rng.standard_normal(shape)


def zipf(classes: int, *shape: int) -> Maker:
    """Ids of which the first are the most frequent, by far."""
    return lambda rng: np.minimum(rng.zipf(1.3, shape) - 1, classes - 1).astype(np.int64)


def _case(op: str, about: str, ours: object, theirs: object, *inputs: Maker) -> Case:
    return Case(op, f"large, {about}" if about else "large", ours, theirs, inputs)


_MEAN, _COLUMN = around(10.0, N, 5), around(10.0, 5)

CASES = [
    *[
        _case(
            op, f"along {a}", lambda f, x, a=a: f(x, a), lambda x, op=op, a=a: getattr(torch, op)(x, a), _MEAN
        )
        for op in ("sum", "mean")
        for a in (0, 1)
    ],
    _case("norm", "along 0", lambda f, x: f(x, 0), lambda x: torch.linalg.vector_norm(x, dim=0), _MEAN),
    _case("add", "bias", lambda f, x, b: f(x, b), torch.add, _MEAN, _COLUMN),
    _case("mul", "scale", lambda f, x, b: f(x, b), torch.mul, _MEAN, _COLUMN),
    _case(
        "matmul", "inner axis", lambda f, a, b: f(a, b), torch.matmul, around(1.0, 3, N), around(1.0, N, 2)
    ),
    _case("linear", "rows", lambda f, x, w, b: f(x, w, b), F.linear, _MEAN, normal(3, 5), normal(3)),
    _case(
        *("layer_norm", "rows", lambda f, x, w, b: f(x, w, b), lambda x, w, b: F.layer_norm(x, (5,), w, b)),
        *(_MEAN, normal(5), normal(5)),
    ),
    _case(
        *("rms_norm", "rows", lambda f, x, w: f(x, w), lambda x, w: F.rms_norm(x, (5,), w, 1e-6)),
        *(_MEAN, normal(5)),
    ),
    _case("embedding", "frequent words", lambda f, i, w: f(i, w), F.embedding, zipf(50, N), normal(50, 3)),
    _case(
        *("index_select", "frequent rows", lambda f, x, i: f(x, 0, i), lambda x, i: x.index_select(0, i)),
        *(normal(50, 3), zipf(50, N)),
    ),
    _case(
        *("scatter_add", "frequent rows", lambda f, x, i, v: f(x, 0, i, v)),
        lambda x, i, v: x.scatter_add(0, i, v),
        *(normal(50), zipf(50, N), around(1.0, N)),
    ),
    _case("log_softmax", "", lambda f, x: f(x, 0), lambda x: x.log_softmax(0), normal(N, 2)),
    _case(
        *("cross_entropy", "rows", lambda f, x, y: f(x, y), F.cross_entropy),
        *(around(10.0, N, 7), whole(0, 7, N)),
    ),
    _case(
        *("linear_cross_entropy", "rows", lambda f, x, w, y: f(x, w, y)),
        lambda x, w, y: F.cross_entropy(F.linear(x, w).float() if x.itemsize == 2 else F.linear(x, w), y),
        *(around(1.0, N, 5), normal(31, 5), zipf(31, N)),
    ),
]
