"""Reductions and what moves elements: sums that cancel, long sums, odd axes; moved elements are compared exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Built, Data, OpCase, case
from ..oracles import Want, plain

CASES: list[OpCase] = []
Array = np.ndarray


def reduce(
    d: Data, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, mean: bool, at: float
) -> Built:
    def oracle(x: Array, axes: tuple[int, ...], keepdims: bool) -> dict[str, Want]:
        count = int(np.prod([x.shape[a] for a in axes], dtype=int))
        by = count if mean else 1
        total, size = x.sum(axes, keepdims=keepdims) / by, np.abs(x).sum(axes, keepdims=keepdims) / by
        return {"y": Want(total, size, count)}

    return Built((d.normal(*shape, mean=at), axes, keepdims), oracle)


def spread(d: Data, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, mean: bool) -> Built:
    given = tuple(1 if i in axes else n for i, n in enumerate(shape))
    small = given if keepdims else tuple(n for i, n in enumerate(shape) if i not in axes)

    def oracle(grad: Array, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> dict[str, Want]:
        by = int(np.prod([shape[a] for a in axes], dtype=int)) if mean else 1
        return {"dx": plain(np.broadcast_to(grad.reshape(given), shape) / by)}

    return Built((d.normal(*small, mean=0.3), shape, axes, keepdims), oracle)


for name, shape, axes, keepdims, at in (
    ("last", (3, 5, 37), (2,), False, 0.5),
    ("first_kept", (33, 4), (0,), True, 0.0),
    ("two", (3, 5, 7, 2), (0, 2), False, 2.0),
    ("all", (6, 11), (0, 1), False, 0.1),
    ("long", (3, 4096), (1,), False, 0.3),
    ("square", (5, 5, 3), (0,), False, 0.5),  # another axis gives the same shape
):
    for op, mean in (("Sum", False), ("Mean", True)):
        case(CASES, f"{op}Forward", name, reduce, shape, axes, keepdims, mean, at, clause="4.7")
        case(CASES, f"{op}Backward", name, spread, shape, axes, keepdims, mean)


def extreme(
    d: Data, op: Callable[..., Array], shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool
) -> Built:
    return Built(
        (d.normal(*shape, mean=-3.0), axes, keepdims),
        lambda x, axes, keepdims: {"y": plain(op(x, axis=axes, keepdims=keepdims))},
    )


for name, shape, axes, keepdims in (
    ("last", (3, 5, 37), (2,), False),
    ("two_kept", (3, 5, 7), (0, 2), True),
    ("square", (5, 5, 3), (0,), False),
):
    case(CASES, "MaxForward", name, extreme, np.max, shape, axes, keepdims)
    case(CASES, "MinForward", name, extreme, np.min, shape, axes, keepdims)


def moved(d: Data, shape: tuple[int, ...], how: Callable[..., Array], *args: Any) -> Built:
    return Built((d.normal(*shape), *args), lambda x, *args: {"y": plain(how(x, *args))})


def _slice(x: Array, starts: tuple[int, ...], ends: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    return x[tuple(slice(a, b, c) for a, b, c in zip(starts, ends, steps, strict=True))]


case(CASES, "TransposeForward", "last", moved, (3, 5, 7), np.swapaxes, 1, 2)
case(CASES, "TransposeForward", "outer", moved, (3, 5, 7), np.swapaxes, 0, 2)
case(CASES, "TransposeForward", "cube", moved, (4, 4, 4), np.swapaxes, 0, 1, dtypes=("float32",))
case(CASES, "PermuteForward", "heads", moved, (2, 5, 3, 4), np.transpose, (0, 2, 1, 3))
case(CASES, "PermuteForward", "cube", moved, (4, 4, 4), np.transpose, (1, 2, 0), dtypes=("float32",))
case(CASES, "SliceForward", "steps", moved, (9, 7), _slice, (1, 0), (9, 6), (3, 2))
case(CASES, "SliceForward", "to_the_end", moved, (9, 7), _slice, (0, 2), (9, 7), (4, 2), dtypes=("float32",))
case(CASES, "RepeatInterleaveForward", "middle", moved, (2, 3, 4), np.repeat, 3, 1)
case(CASES, "ExpandForward", "broadcast", moved, (3, 1, 4), np.broadcast_to, (2, 3, 5, 4))
case(CASES, "TrilForward", "below", moved, (2, 6, 5), np.tril, -1)
case(CASES, "TriuForward", "above", moved, (5, 6), np.triu, 1)
