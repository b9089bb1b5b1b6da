"""Selecting by indices and masks. Indices follow Zipf's law, so that one place of a gradient gathers hundreds of
contributions.
"""

from __future__ import annotations

import math

import numpy as np

from ..cases import As, Built, Data, OpCase, case
from ..oracles import indexing as oracles

CASES: list[OpCase] = []
Shape = tuple[int, ...]


def zipf(d: Data, shape: Shape, rows: int) -> np.ndarray:
    """Return indices in 0..rows-1, few of them often."""
    if not rows:
        return np.zeros(shape, np.int64)
    weights = 1.0 / np.arange(1, rows + 1)
    ids = d.rng.choice(rows, size=shape, p=weights / weights.sum())
    return np.asarray(d.rng.permutation(rows)[ids], np.int64)


def forward(d: Data, shape: Shape, rows: int, width: int) -> Built:
    return Built((zipf(d, shape, rows), d.normal(rows, width, mean=1.0)), oracles.embedding)


def backward(d: Data, shape: Shape, rows: int, width: int, mean: float = 0.2) -> Built:
    return Built((zipf(d, shape, rows), d.normal(*shape, width, mean=mean), rows), oracles.embedding_backward)


case(CASES, "EmbeddingForward", "zipf", forward, (4, 33), 53, 24)
case(CASES, "EmbeddingForward", "one", forward, (1,), 3, 1, dtypes=("float32",))
case(CASES, "EmbeddingForward", "no_ids", forward, (0,), 3, 2, dtypes=("float32",), clause="4.4")
case(CASES, "EmbeddingForward", "0d", forward, (), 3, 2, dtypes=("float32",))
case(CASES, "EmbeddingBackward", "zipf", backward, (4, 33), 53, 24)
case(CASES, "EmbeddingBackward", "hot", backward, (2048,), 7, 9, clause="4.7")
case(CASES, "EmbeddingBackward", "no_ids", backward, (0,), 3, 2, dtypes=("float32",), clause="4.4")


def gather(d: Data, shape: Shape, index: Shape, axis: int) -> Built:
    return Built((d.normal(*shape, mean=1.0), zipf(d, index, shape[axis]), axis), oracles.gather)


def gather_backward(d: Data, shape: Shape, index: Shape, axis: int) -> Built:
    grad = d.normal(*index, mean=0.2)
    return Built((grad, zipf(d, index, shape[axis]), shape, axis), oracles.gather_backward)


GATHERED: tuple[tuple[str, Shape, Shape, int], ...] = (
    ("last", (5, 37), (4, 61), 1),
    ("middle", (3, 7, 5), (3, 11, 2), 1),
    ("first", (7, 3), (4099, 3), 0),
    ("rows4096", (4096, 7), (4096, 2), 1),
    ("size1", (1, 4), (9, 3), 0),
    ("vector", (13,), (5,), 0),
    ("nothing", (5, 3), (0, 3), 0),
)
for name, shape, index, axis in GATHERED:
    only = None if name in ("last", "first", "rows4096") else ("float32",)
    clause = "4.7" if name == "first" else "4.4" if name == "nothing" else "4.1"
    case(CASES, "GatherForward", name, gather, shape, index, axis, dtypes=only, clause=clause)
    case(CASES, "GatherBackward", name, gather_backward, shape, index, axis, dtypes=only, clause=clause)


def select(d: Data, shape: Shape, index: Shape, axis: int) -> Built:
    return Built((d.normal(*shape, mean=1.0), zipf(d, index, shape[axis]), axis), oracles.index_select)


def select_backward(d: Data, shape: Shape, index: Shape, axis: int) -> Built:
    grad = d.normal(*shape[:axis], *index, *shape[axis + 1 :], mean=0.2)
    return Built((grad, zipf(d, index, shape[axis]), shape, axis), oracles.index_select_backward)


SELECTED: tuple[tuple[str, Shape, Shape, int], ...] = (
    ("middle", (3, 11, 7), (4, 9), 1),
    ("last", (5, 13), (37,), 1),
    ("rows4096", (53, 3), (4096,), 0),
    ("0d", (5, 3), (), 0),
    ("size1", (2, 1), (3,), 1),
    ("nothing", (5, 3), (0, 2), 0),
)
for name, shape, index, axis in SELECTED:
    only = None if name in ("middle", "last", "rows4096") else ("float32",)
    clause = "4.7" if name == "rows4096" else "4.4" if name == "nothing" else "4.1"
    case(CASES, "IndexSelectForward", name, select, shape, index, axis, dtypes=only, clause=clause)
    case(CASES, "IndexSelectBackward", name, select_backward, shape, index, axis, dtypes=only, clause=clause)


def some(d: Data, shape: Shape) -> np.ndarray:
    return np.asarray(d.rng.random(shape) < 0.4)


def mask(d: Data, shape: Shape, at: Shape, value: float) -> Built:
    number = value if d.dtype.is_floating else bool(value > 0) if d.dtype.name == "bool" else 5
    return Built((d.normal(*shape, mean=0.5), some(d, at), number), oracles.mask)


def mask_backward(d: Data, shape: Shape, at: Shape) -> Built:
    grad = d.normal(*np.broadcast_shapes(shape, at), mean=0.2)
    return Built((grad, some(d, at), shape), oracles.mask_backward)


MASKS: tuple[tuple[str, Shape, Shape, float], ...] = (
    ("same", (3, 5, 37), (3, 5, 37), 2.5),
    ("causal", (2, 3, 16, 16), (16, 16), -math.inf),
    ("both", (4, 1, 6), (3, 1), -0.1),
    ("row", (7,), (4096, 1), 1.0),
    ("0d", (), (), 3.0),
    ("nothing", (0, 3), (3,), 3.0),
)
for name, shape, at, value in MASKS:
    only = None if name in ("same", "causal", "both", "row") else ("float32",)
    clause = "4.4" if name == "nothing" else "4.7" if name == "row" else "4.1"
    case(CASES, "MaskForward", name, mask, shape, at, value, dtypes=only, clause=clause)
    case(CASES, "MaskBackward", name, mask_backward, shape, at, dtypes=only, clause=clause)


def where(d: Data, condition: Shape, a: Shape, b: Shape, other: str = "") -> Built:
    left, right = d.normal(*a, mean=1.0), d.normal(*b, mean=-1.0)
    if other:
        return Built((some(d, condition), left, As(np.trunc(9 * right), other)), oracles.where)
    return Built((some(d, condition), left, right), oracles.where)


def where_backward(d: Data, condition: Shape, a: Shape, b: Shape) -> Built:
    grad = d.normal(*np.broadcast_shapes(condition, a, b), mean=0.2)
    return Built((some(d, condition), grad, a, b), oracles.where_backward)


CHOSEN: tuple[tuple[str, Shape, Shape, Shape], ...] = (
    ("same", (3, 5, 37), (3, 5, 37), (3, 5, 37)),
    ("all", (2, 1, 1), (3, 1), (1, 41)),
    ("row", (4096, 1), (5,), (4096, 5)),
    ("0d", (), (), ()),
    ("nothing", (0,), (1,), ()),
)
for name, condition, a, b in CHOSEN:
    only = None if name in ("same", "all", "row") else ("float32",)
    clause = "4.4" if name == "nothing" else "4.7" if name == "row" else "4.1"
    case(CASES, "WhereForward", name, where, condition, a, b, dtypes=only, clause=clause)
    case(CASES, "WhereBackward", name, where_backward, condition, a, b, dtypes=only, clause=clause)
case(CASES, "WhereForward", "with_ints", where, (4, 5), (4, 5), (5,), other="int32")
