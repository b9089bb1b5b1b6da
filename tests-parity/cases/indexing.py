"""Selecting by slices, indices and masks. Indices repeat, so that gradients have to add up."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .case import Case, Maker, mask, normal, whole

_INDICES: dict[str, Any] = {
    "int": 2,
    "negative int": -1,
    "slice": slice(1, 3),
    "steps": (slice(None, None, 2), slice(1, None, 3)),
    "mixed": (slice(1, None), None, -2, slice(0, 5, 2)),
    "ellipsis": (..., 1),
    "first and last": (0, ..., slice(2, 4)),
    "nothing": slice(2, 2),
    "all ints": (1, 2, 3),
}


# The new axes of x[2, :, i] come first in NumPy, and here; torch leaves them last. Core's tests have that case.
_BY_TENSOR: dict[str, Any] = {
    "alone": lambda i: i,
    "after a slice": lambda i: (slice(1, None), i),
    "last": lambda i: (..., i),
    "beside an int": lambda i: (2, i),
    "before an int": lambda i: (i, slice(None), 1),
    "with a new axis": lambda i: (None, i, None),
}


def _assigned(f: Any, x: Any, index: Any, value: Any) -> Any:
    x = x.detach().clone()
    if f is None:
        x[index] = value
    else:
        f(x, index, value)
    return x


def _assign(about: str, index: Any, *value: Maker, number: float = 0.0) -> Case:
    return Case(
        *("setitem", about),
        lambda f, x, *v: _assigned(
            f, x, index(x) if callable(index) else index, v[0].detach() if v else number
        ),
        lambda x, *v: _assigned(
            None, x, index(x) if callable(index) else index, v[0].detach() if v else number
        ),
        (normal(4, 5, 6), *value),
    )


def _where(about: str, condition: Maker, *shapes: tuple[int, ...]) -> Case:
    inputs = (condition, *[normal(*shape) for shape in shapes])
    return Case("where", about, lambda f, c, a, b: f(c, a, b), torch.where, inputs)


CASES = [
    *[
        Case("getitem", about, lambda f, x, i=index: f(x, i), lambda x, i=index: x[i], (normal(4, 5, 6),))
        for about, index in _INDICES.items()
    ],
    Case(
        "getitem", "backwards", lambda f, x: f(x, slice(None, None, -1)), lambda x: x.flip(0), (normal(5, 2),)
    ),
    *[
        Case(
            *("getitem", f"tensor {about}", lambda f, x, i, at=at: f(x, at(i)), lambda x, i, at=at: x[at(i)]),
            (normal(4, 5, 6), whole(0, 4, 2, 7)),
        )
        for about, at in _BY_TENSOR.items()
    ],
    _assign("int", 1, normal(5, 6)),
    _assign("steps", (slice(None, None, 2), ..., slice(1, None, 3)), normal(2, 5, 1)),
    _assign("number", (slice(1, 3), 2), number=2.5),
    _assign("mask", lambda x: x > 0.5, number=-1.0),
    *[
        Case(
            *("index_select", f"axis {axis}", lambda f, x, i, axis=axis: f(x, axis, i)),
            lambda x, i, axis=axis: x.index_select(axis, i),
            (normal(4, 5, 6), whole(0, 4, 9)),
        )
        for axis in (0, 1, -1)
    ],
    Case(
        *("embedding", "", lambda f, i, w: f(i, w), F.embedding),
        (whole(0, 7, 3, 5), normal(7, 4)),
    ),
    Case(
        *("embedding", "int32 and unused rows", lambda f, i, w: f(i, w), F.embedding),
        (whole(0, 5, 6, dtype="int32"), normal(50, 3)),
    ),
    *[
        Case(
            *("gather", f"axis {axis}", lambda f, x, i, axis=axis: f(x, axis, i)),
            lambda x, i, axis=axis: x.gather(axis, i),
            (normal(4, 4, 5), whole(0, 4, 3, 4, 2)),
        )
        for axis in (0, 1, -1)
    ],
    Case(
        "masked_fill",
        "same shape",
        lambda f, x, m: f(x, m, -2.5),
        lambda x, m: x.masked_fill(m, -2.5),
        (normal(4, 5), mask(4, 5)),
    ),
    Case(
        "masked_fill",
        "mask broadcast",
        lambda f, x, m: f(x, m, 7),
        lambda x, m: x.masked_fill(m, 7),
        (normal(2, 4, 5), mask(4, 1)),
    ),
    _where("same shapes", mask(4, 5), (4, 5), (4, 5)),
    _where("condition broadcast", mask(5), (4, 5), (4, 5)),
    _where("all broadcast", mask(2, 1, 1), (3, 1), (5,)),
    Case(
        "where",
        "number first",
        lambda f, c, b: f(c, 1.5, b),
        lambda c, b: torch.where(c, 1.5, b),
        (mask(4, 5), normal(5)),
    ),
    Case(
        "where",
        "number second",
        lambda f, c, a: f(c, a, -3),
        lambda c, a: torch.where(c, a, -3),
        (mask(4, 5), normal(4, 1)),
    ),
]
