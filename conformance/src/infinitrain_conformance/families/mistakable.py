"""Data in which a mistake keeps the shape, or the first digits: equal sizes along several axes, where the wrong axis
gives results of the right shape; numbers a few units in the last place apart, which fewer digits make equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cases import Built, Data, OpCase, case
from ..oracles import clamp as bounds
from ..oracles import plain
from ..oracles import reduction as sums
from ..oracles import shape as moves
from ..tolerances import eps
from .compare import COMPARE
from .indexing import select, select_backward
from .linear import gemm
from .moe import best
from .reduction import Oracle, extreme, extreme_backward, norm, norm_backward, place, reduce, spread
from .shape import moved

CASES: list[OpCase] = []
Compare = Callable[[Any, Any], Any]
SINGLE = ("float32",)
CUBE = (5, 5, 5)
BRICK = (5, 5, 3)

for op, oracle, back in (("Sum", sums.sum_, sums.sum_backward), ("Mean", sums.mean, sums.mean_backward)):
    case(CASES, f"{op}Forward", "equal_sizes", reduce, oracle, BRICK, (0,), False, dtypes=SINGLE)
    case(CASES, f"{op}Backward", "equal_sizes", spread, back, BRICK, (0,), False, dtypes=SINGLE)
for op, oracle in (("Max", sums.max_), ("Min", sums.min_)):
    case(CASES, f"{op}Forward", "equal_sizes", extreme, oracle, BRICK, (0,), False, dtypes=SINGLE)
    case(CASES, f"{op}Backward", "equal_sizes", extreme_backward, oracle, BRICK, (0,), False, dtypes=SINGLE)
case(CASES, "NormForward", "equal_sizes", norm, BRICK, (0,), False, dtypes=SINGLE)
case(CASES, "NormBackward", "equal_sizes", norm_backward, BRICK, (0,), False, dtypes=SINGLE)

case(CASES, "TransposeForward", "equal_sizes", moved, CUBE, moves.transpose, 0, 1, dtypes=SINGLE)
case(CASES, "PermuteForward", "equal_sizes", moved, CUBE, moves.permute, (1, 2, 0), dtypes=SINGLE)
# Rows 0, 4, 8 of nine; steps of 3 would take as many.
case(
    CASES, "SliceForward", "equal_counts", moved, (9, 7), moves.slice_, (0, 2), (9, 7), (4, 2), dtypes=SINGLE
)
case(
    *(CASES, "SliceBackward", "equal_counts", moved, (3, 3), moves.slice_backward),
    *((9, 7), (0, 2), (9, 7), (4, 2)),
    dtypes=SINGLE,
)
case(CASES, "IndexSelectForward", "equal_sizes", select, (5, 5), (5,), 0, dtypes=SINGLE)
case(CASES, "IndexSelectBackward", "equal_sizes", select_backward, (5, 5), (5,), 0, dtypes=SINGLE)
case(CASES, "TopKForward", "equal_sizes", best, (7, 7), 7, 0, True, dtypes=SINGLE)
for flags in ((False, False), (True, True)):
    name = "square_transposed" if flags[0] else "square"
    case(CASES, "Gemm", name, gemm, (6, 6), (6, 6), 1.5, 0.5, flags, dtypes=SINGLE)


def near(d: Data, *shape: int) -> np.ndarray:
    """Return numbers from 1 on that are one unit in the last place apart, in random order."""
    count = int(np.prod(shape))
    ranks = d.rng.permutation(count) % 64
    return 1.0 + ranks.reshape(shape) * eps(d.dtype)


def nearest(d: Data, oracle: Oracle) -> Built:
    return Built((near(d, 9, 37), 1, False), oracle)


def pair(d: Data, oracle: Oracle) -> Built:
    return Built((near(d, 5, 37), near(d, 37)), oracle)


def near_number(d: Data, compare: Compare) -> Built:
    return Built(
        (near(d, 5, 37), 1.0 + 32 * eps(d.dtype)), lambda a, value: {"y": plain(1.0 * compare(a, value))}
    )


PRECISE = ("float32", "float64")
for op, oracle in (("ArgMax", sums.argmax), ("ArgMin", sums.argmin)):
    case(CASES, op, "equal_sizes", place, oracle, (7, 7), 0, False, dtypes=SINGLE)
    case(CASES, op, "near", nearest, oracle, dtypes=PRECISE)
case(CASES, "MaximumForward", "near", pair, bounds.larger, dtypes=PRECISE)
case(CASES, "MinimumForward", "near", pair, bounds.smaller, dtypes=PRECISE)
for name, compare in COMPARE.items():
    case(CASES, f"{name}ScalarForward", "near", near_number, compare, dtypes=PRECISE)
