"""Arithmetic of two tensors, or of a tensor and a number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

import infinitrain as it

from .case import Case, Maker, given, mask, normal, positive, signed, whole

_SHAPES = {
    "same shapes": ((3, 5), (3, 5)),
    "second broadcast": ((2, 3, 5), (5,)),
    "first broadcast": ((1, 5), (2, 3, 5)),
    "both broadcast": ((2, 1, 5), (3, 1)),
    "with a 0-d tensor": ((2, 3), ()),
}


def _arithmetic(op: str, symbol: Callable[..., Any], divisor: Callable[..., Maker] = normal) -> list[Case]:
    cases = [
        Case(op, about, lambda f, a, b: f(a, b), symbol, (normal(*left), divisor(*right)))
        for about, (left, right) in _SHAPES.items()
    ]
    return [
        *cases,
        Case(op, "a tensor twice", lambda f, a: f(a, a * a), lambda a: symbol(a, a * a), (divisor(4),)),
        Case(op, "tensor and number", lambda f, a: f(a, -1.7), lambda a: symbol(a, -1.7), (normal(3, 5),)),
        Case(op, "number and tensor", lambda f, b: f(2.3, b), lambda b: symbol(2.3, b), (divisor(3, 5),)),
        Case(op, "float and ints", lambda f, a, n: f(a, n), symbol, (normal(3, 5), whole(1, 9, 5))),
        Case(op, "ints", lambda f, a, b: f(a, b), symbol, (whole(-9, 9, 3, 4), whole(1, 9, 4)), narrow=True),
        Case(
            op,
            "int and float number",
            lambda f, a: f(a, 0.5),
            lambda a: symbol(a, 0.5),
            (whole(1, 9, 4),),
            narrow=True,
        ),
        Case(
            *(op, "two sizes of int", lambda f, a, b: f(a, b), symbol),
            (whole(-9, 9, 4, dtype="int16"), whole(1, 9, 4, dtype="int32")),
            narrow=True,
        ),
        Case(
            *(op, "two widths of float", lambda f, a, b: f(a, b.astype("float32"))),
            lambda a, b: symbol(a, b.float()),
            (normal(3, 4), divisor(4)),
            narrow=True,
        ),
    ]


_POWERS = [-2.5, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0]

CASES = [
    *_arithmetic("add", operator.add),
    *_arithmetic("sub", operator.sub),
    *_arithmetic("mul", operator.mul),
    *_arithmetic("div", operator.truediv, signed),
    *[
        Case("pow", f"to {p}", lambda f, a, p=p: f(a, p), lambda a, p=p: a**p, (positive(3, 4),))
        for p in _POWERS
    ],
    *[
        Case("pow", f"of {base}", lambda f, b, c=base: f(c, b), lambda b, c=base: c**b, (normal(3, 4),))
        for base in (0.3, 1.0, 2.0)
    ],
    Case("pow", "negative base", lambda f, a: f(a, 3), lambda a: a**3, (signed(3, 4),)),
    Case("pow", "zero base", lambda f, a: f(a, 2), lambda a: a**2, (given([0.0, -1.5, 2.0]),)),
    Case("pow", "two tensors", lambda f, a, b: f(a, b), torch.pow, (positive(2, 1, 5), normal(3, 1))),
    Case("pow", "ints", lambda f, a: f(a, 3), lambda a: a**3, (whole(-5, 6, 7),)),
    Case("pow", "int tensors", lambda f, a, b: f(a, b), torch.pow, (whole(-5, 6, 7), whole(0, 5, 7))),
    Case("add", "bools", lambda f, a, b: f(a, b), torch.add, (mask(9), mask(9))),
    Case("mul", "bools", lambda f, a, b: f(a, b), torch.mul, (mask(9), mask(9))),
    *[
        Case(
            *("cast", f"to {dtype}", lambda f, x, to=dtype: f(x, getattr(it, to))),
            lambda x, to=dtype: x.to(getattr(torch, to)),
            (normal(40, scale=30),),
            narrow=True,
        )
        for dtype in ("float16", "bfloat16", "float32", "float64", "int32", "int8")
    ],
    Case(
        "cast", "to bool", lambda f, x: f(x, it.bool_), lambda x: x.bool(), (given([0.0, -0.0, 0.2, -3.0]),)
    ),
    Case("cast", "from ints", lambda f, x: f(x, it.float32), lambda x: x.float(), (whole(-9, 9, 7),)),
]
