"""What a router does: the best experts of each token, with ties and NaN; one-hot maps."""

from __future__ import annotations

import math

import numpy as np

from ..cases import Built, Data, OpCase, case
from ..oracles import scatter, topk
from .indexing import Shape, zipf

CASES: list[OpCase] = []


def best(d: Data, shape: Shape, k: int, axis: int, largest: bool, special: bool = False) -> Built:
    x = d.normal(*shape, mean=0.5)
    if special:
        at = d.rng.random(shape)
        x[at < 0.6], x[at < 0.5], x[at < 0.3] = -math.inf, math.inf, math.nan
    return Built((x, k, axis, largest), topk.topk)


def tied(d: Data, shape: Shape, k: int, axis: int, largest: bool) -> Built:
    return Built((d.round(d.rng.integers(0, 3, shape)), k, axis, largest), topk.topk)


for name, shape, k, axis, largest in (
    ("experts", (33, 8), 2, 1, True),
    ("smallest", (5, 37), 11, 1, False),
    ("first_axis", (41, 3, 2), 5, 0, True),
    ("all", (3, 16), 16, 1, True),
    ("rows4096", (4096, 8), 2, 1, True),
):
    case(CASES, "TopKForward", name, best, shape, k, axis, largest)
case(CASES, "TopKForward", "ties", tied, (64, 37), 9, 1, True)
case(CASES, "TopKForward", "ties_smallest", tied, (37, 5), 9, 0, False)
for largest in (True, False):
    name = "special_largest" if largest else "special_smallest"
    case(CASES, "TopKForward", name, best, (16, 13), 7, 1, largest, True, clause="4.7")
case(CASES, "TopKForward", "vector", best, (1,), 1, 0, True, dtypes=("float32",))
case(CASES, "TopKForward", "none", best, (3, 4), 0, 1, True, dtypes=("float32",), clause="4.4")


def one_hot(d: Data, shape: Shape, classes: int) -> Built:
    return Built((np.asarray(zipf(d, shape, classes)), classes, d.dtype), scatter.one_hot)


case(CASES, "OneHot", "map", one_hot, (33, 2), 8)
case(CASES, "OneHot", "0d", one_hot, (), 3, dtypes=("float32",))
case(CASES, "OneHot", "one_class", one_hot, (5,), 1, dtypes=("float32",))
case(CASES, "OneHot", "no_ids", one_hot, (0, 3), 4, dtypes=("float32",), clause="4.4")
