"""Reductions: sums that cancel and long ones, several axes, ties, NaN and infinities, squares out of range."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Built, Data, OpCase, case
from ..oracles import Want
from ..oracles import reduction as oracles

CASES: list[OpCase] = []
Shape = tuple[int, ...]
Oracle = Callable[..., dict[str, Want]]
SINGLE = ("float32",)
AXES: tuple[tuple[str, Shape, Shape, bool], ...] = (
    ("last", (3, 5, 37), (2,), False),
    ("first_kept", (33, 4), (0,), True),
    ("two", (3, 5, 7, 2), (0, 2), False),
    ("two_kept", (3, 5, 7), (0, 2), True),
    ("all", (6, 11), (0, 1), False),
    ("rows4096", (4096, 5), (0,), False),
    ("long", (3, 4096), (1,), False),
    ("size1", (3, 1, 4), (1,), False),
    ("none", (3, 4), (), False),
    ("0d", (), (), True),
)


def small(shape: Shape, axes: Shape, keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def only(name: str) -> tuple[str, ...] | None:
    return SINGLE if name in ("size1", "none", "0d") else None


def reduce(d: Data, oracle: Oracle, shape: Shape, *how: Any, mean: float = 0.3) -> Built:
    return Built((d.normal(*shape, mean=mean), *how), oracle)


def spread(d: Data, oracle: Oracle, shape: Shape, axes: Shape, keepdims: bool) -> Built:
    return Built((d.normal(*small(shape, axes, keepdims), mean=0.3), shape, axes, keepdims), oracle)


for name, shape, axes, keepdims in AXES:
    for op, oracle, back in (
        ("Sum", oracles.sum_, oracles.sum_backward),
        ("Mean", oracles.mean, oracles.mean_backward),
    ):
        how = (shape, axes, keepdims)
        case(CASES, f"{op}Forward", name, reduce, oracle, *how, clause="4.7", dtypes=only(name))
        case(CASES, f"{op}Backward", name, spread, back, *how, dtypes=only(name))
case(CASES, "SumForward", "cancels", reduce, oracles.sum_, (5, 1025), (1,), False, mean=0.0, clause="4.7")
case(CASES, "SumForward", "nothing", reduce, oracles.sum_, (0, 3), (0,), False, dtypes=SINGLE, clause="4.4")
case(CASES, "MeanForward", "nothing", reduce, oracles.mean, (0, 3), (0,), False, dtypes=SINGLE, clause="4.4")


def weighed(d: Data, shape: Shape) -> np.ndarray:
    """Return numbers for a sum of hundreds of thousands: a few near each place where it may be cut are as large as a
    thousand others, so that one of them that is lost, or counted twice, shows.
    """
    x = 1e-3 * (0.5 + d.rng.random(math.prod(shape)))
    for part in range(17):
        near = part * (x.size - 1) // 16
        x[max(0, near - 8) : near + 9] = d.rng.uniform(0.5, 2.0, x[max(0, near - 8) : near + 9].shape)
    return d.round(x.reshape(shape))


def extreme(
    d: Data, oracle: Oracle, shape: Shape, axes: Shape, keepdims: bool, special: bool = False
) -> Built:
    x = d.normal(*shape, mean=-3.0)
    if special:
        at = d.rng.random(shape)
        x[at < 0.4], x[at < 0.2], x[at < 0.02] = math.inf, -math.inf, math.nan
    return Built((x, axes, keepdims), oracle)


def extreme_backward(
    d: Data, oracle: Oracle, shape: Shape, axes: Shape, keepdims: bool, ties: bool = False, nan: bool = False
) -> Built:
    x = d.round(d.rng.integers(-2, 3, shape)) if ties else d.normal(*shape, mean=-3.0)
    if nan:
        x[d.rng.random(shape) < 0.05] = math.nan
    y = oracle(x, axes, keepdims)["y"].value
    grad = d.round(0.3 + 0.5 * np.nan_to_num(y) + d.rng.standard_normal(y.shape))
    return Built((grad, x, y, axes, keepdims), oracles.extreme_backward)


for op, oracle in (("Max", oracles.max_), ("Min", oracles.min_)):
    for name, shape, axes, keepdims in AXES:
        case(CASES, f"{op}Forward", name, extreme, oracle, shape, axes, keepdims, dtypes=only(name))
        case(CASES, f"{op}Backward", name, extreme_backward, oracle, shape, axes, keepdims, dtypes=only(name))
    case(CASES, f"{op}Forward", "special", extreme, oracle, (3, 17, 5), (1,), False, True, clause="4.7")
    case(CASES, f"{op}Backward", "ties", extreme_backward, oracle, (5, 37), (1,), False, ties=True)
    case(CASES, f"{op}Backward", "ties_two", extreme_backward, oracle, (3, 5, 7), (0, 2), True, ties=True)
    case(CASES, f"{op}Backward", "ties_all", extreme_backward, oracle, (64, 65), (0, 1), False, ties=True)
    case(
        CASES,
        f"{op}Backward",
        "nan",
        extreme_backward,
        oracle,
        (3, 17, 5),
        (1,),
        False,
        True,
        True,
        clause="4.7",
    )


def place(d: Data, oracle: Oracle, shape: Shape, axis: int, keepdims: bool, what: str = "") -> Built:
    x = d.round(d.rng.integers(-2, 3, shape)) if what == "ties" else d.normal(*shape, mean=0.5)
    if what == "nan":
        x[d.rng.random(shape) < 0.1] = math.nan
    return Built((x, axis, keepdims), oracle)


for op, oracle in (("ArgMax", oracles.argmax), ("ArgMin", oracles.argmin)):
    case(CASES, op, "last", place, oracle, (3, 5, 37), 2, False)
    case(CASES, op, "first_kept", place, oracle, (33, 4), 0, True)
    case(CASES, op, "ties", place, oracle, (5, 37), 1, False, "ties")
    case(CASES, op, "ties_middle", place, oracle, (4, 9, 3), 1, True, "ties")
    case(CASES, op, "nan", place, oracle, (9, 13), 1, False, "nan", clause="4.7")
    case(CASES, op, "rows4096", place, oracle, (4096, 3), 0, False)
    case(CASES, op, "size1", place, oracle, (3, 1), 1, False, dtypes=SINGLE)


def norm(d: Data, shape: Shape, axes: Shape, keepdims: bool, scale: float = 1.0) -> Built:
    return Built((d.normal(*shape, mean=0.2 * scale, scale=scale), axes, keepdims), oracles.norm)


def norm_backward(d: Data, shape: Shape, axes: Shape, keepdims: bool, scale: float = 1.0) -> Built:
    x = d.normal(*shape, mean=0.2 * scale, scale=scale)
    y = d.round(oracles.norm(x, axes, keepdims)["y"].value)
    return Built((d.normal(*y.shape, mean=0.3), x, y, axes, keepdims), oracles.norm_backward)


for name, shape, axes, keepdims in AXES:
    case(CASES, "NormForward", name, norm, shape, axes, keepdims, clause="4.7", dtypes=only(name))
    case(CASES, "NormBackward", name, norm_backward, shape, axes, keepdims, dtypes=only(name))
for name, scale, dtypes in (
    ("huge", 1e30, ("float32", "bfloat16")),
    ("tiny", 1e-30, ("float32", "bfloat16")),
    ("huge_half", 3e3, ("float16",)),
    ("huge_double", 1e200, ("float64",)),
    ("zero", 0.0, ("float32", "bfloat16", "float16")),
):
    case(CASES, "NormForward", name, norm, (4, 37), (1,), False, scale, dtypes=dtypes, clause="4.7")
    case(CASES, "NormBackward", name, norm_backward, (4, 37), (1,), False, scale, dtypes=dtypes, clause="4.7")
case(CASES, "NormForward", "nothing", norm, (0, 3), (0,), False, dtypes=SINGLE, clause="4.4")


for name, shape, axis in (
    ("last", (3, 5, 37), 2),
    ("first", (33, 4), 0),
    ("long", (2, 4096), 1),
    ("size1", (3, 1, 2), 1),
    ("nothing", (0, 3), 0),
):
    clause, some = (
        ("4.4" if name == "nothing" else "4.7"),
        (SINGLE if name in ("size1", "nothing") else None),
    )
    case(CASES, "CumSumForward", name, reduce, oracles.cumsum, shape, axis, clause=clause, dtypes=some)
    case(
        CASES,
        "CumSumBackward",
        name,
        reduce,
        oracles.cumsum_backward,
        shape,
        axis,
        clause=clause,
        dtypes=some,
    )
