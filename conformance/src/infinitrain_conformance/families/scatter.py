"""Putting values by indices: repeated places, thousands of rows."""

from __future__ import annotations

from ..cases import Built, Data, OpCase, case
from ..oracles import scatter as oracles
from .indexing import Shape, zipf

CASES: list[OpCase] = []


def scatter(d: Data, shape: Shape, index: Shape, axis: int) -> Built:
    return Built((d.normal(*index, mean=1.0), zipf(d, index, shape[axis]), shape, axis), oracles.scatter)


def scatter_backward(d: Data, shape: Shape, index: Shape, axis: int) -> Built:
    return Built((d.normal(*shape, mean=1.0), zipf(d, index, shape[axis]), axis), oracles.scatter_backward)


def add(d: Data, shape: Shape, index: Shape, axis: int) -> Built:
    values = d.normal(*index, mean=0.3)
    return Built((d.normal(*shape), zipf(d, index, shape[axis]), values, axis), oracles.scatter_add)


for name, shape, index, axis in (
    ("last", (5, 37), (4, 61), 1),
    ("routing", (4096, 8), (4096, 2), 1),
    ("middle", (3, 7, 5), (3, 11, 2), 1),
    ("hot", (5, 3), (4099, 2), 0),
    ("size1", (1, 4), (9, 3), 0),
    ("vector", (13,), (5,), 0),
    ("no_values", (5, 3), (0, 3), 0),
    ("nothing", (0, 3), (0, 3), 1),
):
    only = None if name in ("last", "routing", "hot") else ("float32",)
    clause = "4.7" if name == "hot" else "4.4" if name.startswith("no") else "4.1"
    case(CASES, "ScatterForward", name, scatter, shape, index, axis, dtypes=only, clause=clause)
    case(CASES, "ScatterBackward", name, scatter_backward, shape, index, axis, dtypes=only, clause=clause)
    case(CASES, "ScatterAddForward", name, add, shape, index, axis, dtypes=only, clause=clause)
