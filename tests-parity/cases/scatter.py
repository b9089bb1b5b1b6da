"""Scatter, top-k, one-hot. torch.scatter's own gradient holds for places that do not repeat."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .case import Case, Maker, normal, whole


def distinct(*shape: int, classes: int) -> Maker:
    """Indices along the last axis, none twice in a row."""
    return lambda rng: rng.permuted(rng.random((*shape[:-1], classes)), axis=-1).argsort(-1)[..., : shape[-1]]


def _scatter(x: Any, i: Any, *shape: int) -> Any:
    return torch.zeros(shape, dtype=x.dtype).scatter(-1, i, x)


def _topk(about: str, make: Maker, k: int, axis: int, largest: bool) -> Case:
    return Case(
        *("topk", about, lambda f, x: f(x, k, axis, largest)),
        lambda x: torch.topk(x, k, axis, largest),
        (make,),
    )


CASES = [
    Case(
        *("scatter", "router", lambda f, x, i: f(x, -1, i, (9, 8)), lambda x, i: _scatter(x, i, 9, 8)),
        (normal(9, 2), distinct(9, 2, classes=8)),
    ),
    Case(
        *("scatter", "fewer rows", lambda f, x, i: f(x, 1, i, (5, 7)), lambda x, i: _scatter(x, i, 5, 7)),
        (normal(3, 4), distinct(3, 4, classes=7)),
    ),
    *[
        Case(
            *("scatter_add", f"axis {axis}", lambda f, x, i, v, axis=axis: f(x, axis, i, v)),
            lambda x, i, v, axis=axis: x.scatter_add(axis, i, v),
            (normal(4, 4, 4), whole(0, 4, 3, 4, 2), normal(3, 4, 2)),
        )
        for axis in (0, 1, -1)
    ],
    Case(
        *("scatter_add", "one row", lambda f, x, i, v: f(x, 0, i, v), lambda x, i, v: x.scatter_add(0, i, v)),
        (normal(3), whole(0, 2, 400), normal(400)),
    ),
    Case("one_hot", "2-d", lambda f, i: f(i, 7), lambda i: F.one_hot(i, 7), (whole(0, 7, 4, 3),)),
    Case("one_hot", "0-d", lambda f, i: f(i, 7), lambda i: F.one_hot(i, 7), (whole(0, 7),)),
    _topk("last", normal(5, 16), 4, -1, True),
    _topk("smallest", normal(5, 16), 4, -1, False),
    _topk("first axis", normal(9, 3, 2), 9, 0, True),
    _topk("ints", lambda rng: rng.permutation(40).reshape(4, 10), 3, 1, True),
]
