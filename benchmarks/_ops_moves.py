"""NumPy expressions of ops that move, select and place elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from _ops_expressions import Rng, Shape, add, extra, mask, normal, one, two

from infinitrain.dtype import float32

ROWS = 100  # of the tables that are looked up


def cut(rng: Rng, s: Shape) -> tuple[Any, ...]:
    """From element (1, 2) on."""
    return (1, 2), s, (1, 1)


def slice_backward(g: np.ndarray, shape: Shape, *_: Any) -> np.ndarray:
    dx = np.zeros(shape, g.dtype)
    dx[1:, 2:] = g
    return dx


def slice_assign(x: np.ndarray, value: np.ndarray, *_: Any) -> None:
    x[1:, 2:] = value


def inner(rng: Rng, s: Shape) -> np.ndarray:
    return normal(rng, s[0] - 1, s[1] - 2)


def by_eights(rng: Rng, s: Shape) -> tuple[Any, ...]:
    return normal(rng, s[0], s[1] // 8, 8), (0, 2, 1)


# Shapes
add("TransposeForward", extra(one, 0, 1), lambda x, a, b: x.swapaxes(0, 1).copy(), "x.swapaxes(0, 1).copy()")
add("PermuteForward", by_eights, lambda x, axes: x.transpose(axes).copy(), "x.transpose(0, 2, 1).copy()")
add(
    "SliceForward",
    lambda rng, s: (normal(rng, *s), *cut(rng, s)),
    lambda x, *_: x[1:, 2:].copy(),
    "x[1:, 2:].copy()",
)
add(
    "SliceBackward",
    lambda rng, s: (inner(rng, s), s, *cut(rng, s)),
    slice_backward,
    "dx = np.zeros(shape, np.float32); dx[1:, 2:] = g",
)
add(
    "SliceAssign",
    lambda rng, s: (normal(rng, *s), inner(rng, s), *cut(rng, s)),
    slice_assign,
    "x[1:, 2:] = v",
)
add(
    "SplitForward",
    lambda rng, s: (normal(rng, *s), (s[1] // 2, s[1] - s[1] // 2), 1),
    lambda x, sizes, _: tuple(p.copy() for p in np.split(x, 2, 1)),
    "[p.copy() for p in np.split(x, 2, 1)]",
)
add(
    "ConcatForward",
    lambda rng, s: (two(rng, s), 1),
    lambda parts, _: np.concatenate(parts, 1),
    "np.concatenate(parts, 1)",
)
add("RepeatInterleaveForward", extra(one, 2, 1), lambda x, *_: np.repeat(x, 2, 1), "np.repeat(x, 2, 1)")
add(
    "RepeatInterleaveBackward",
    extra(one, 2, 1),
    lambda g, *_: g.reshape(len(g), -1, 2).sum(2),
    "g.reshape(len(g), -1, 2).sum(2)",
)
add(
    "ExpandForward",
    lambda rng, s: (normal(rng, s[1]), s),
    lambda x, s: np.broadcast_to(x, s).copy(),
    "np.broadcast_to(x, shape).copy()",
)
add("ExpandBackward", lambda rng, s: (normal(rng, *s), s[1:]), lambda g, _: g.sum(0), "g.sum(0)")
add("TrilForward", extra(one, 1), np.tril, "np.tril(x, 1)")
add("TriuForward", extra(one, 1), np.triu, "np.triu(x, 1)")

# Masks
add("WhereForward", lambda rng, s: (mask(rng, *s), *two(rng, s)), np.where, "np.where(m, a, b)")
add(
    "WhereBackward",
    lambda rng, s: (mask(rng, *s), normal(rng, *s), s, s),
    lambda m, g, *_: (g * m, g * ~m),
    "g * m, g * ~m",
)
add(
    "MaskForward",
    lambda rng, s: (normal(rng, *s), mask(rng, *s), 2.0),
    lambda x, m, v: np.where(m, np.float32(v), x),
    "np.where(m, np.float32(2), x)",
)
add("MaskBackward", lambda rng, s: (normal(rng, *s), mask(rng, *s), s), lambda g, m, _: g * ~m, "g * ~m")


# Indices
def rows_of(rng: Rng, s: Shape) -> np.ndarray:
    return rng.integers(0, ROWS, s[0])


def everywhere(rng: Rng, s: Shape) -> np.ndarray:
    """Return a column for each element."""
    return rng.integers(0, s[1], s)


def add_rows(i: np.ndarray, g: np.ndarray, rows: int) -> np.ndarray:
    out = np.zeros((rows, g.shape[1]), g.dtype)
    np.add.at(out, i, g)
    return out


def gather_backward(g: np.ndarray, i: np.ndarray, shape: Shape, _: int) -> np.ndarray:
    out = np.zeros(shape, g.dtype)
    np.add.at(out, (np.arange(len(i))[:, None], i), g)
    return out


def scatter(v: np.ndarray, i: np.ndarray, shape: Shape, _: int) -> np.ndarray:
    out = np.zeros(shape, v.dtype)
    np.put_along_axis(out, i, v, 1)
    return out


def scatter_backward(g: np.ndarray, i: np.ndarray, _: int) -> np.ndarray:
    last, columns = np.empty(g.shape, np.int64), np.arange(i.shape[1])
    np.put_along_axis(last, i, columns, 1)
    return np.take_along_axis(g, i, 1) * (np.take_along_axis(last, i, 1) == columns)


def scatter_add(x: np.ndarray, i: np.ndarray, v: np.ndarray, _: int) -> np.ndarray:
    out = x.copy()
    np.add.at(out, (np.arange(len(i))[:, None], i), v)
    return out


def top(x: np.ndarray, k: int, *_: Any) -> tuple[np.ndarray, np.ndarray]:
    i = np.argsort(-x, 1)[:, :k]
    return np.take_along_axis(x, i, 1), i


add("EmbeddingForward", lambda rng, s: (rows_of(rng, s), normal(rng, ROWS, s[1])), lambda i, w: w[i], "w[i]")
add(
    "EmbeddingBackward",
    lambda rng, s: (rows_of(rng, s), normal(rng, *s), ROWS),
    add_rows,
    "np.add.at(zeros, i, g)",
)
add(
    "IndexSelectForward",
    lambda rng, s: (normal(rng, *s), rng.permutation(s[1]), 1),
    lambda x, i, _: x[:, i],
    "x[:, i]",
)
add(
    "IndexSelectBackward",
    lambda rng, s: (normal(rng, *s), rows_of(rng, s), (ROWS, s[1]), 0),
    lambda g, i, shape, _: add_rows(i, g, shape[0]),
    "np.add.at(zeros, i, g)",
)
add(
    "GatherForward",
    lambda rng, s: (normal(rng, *s), everywhere(rng, s), 1),
    lambda x, i, _: np.take_along_axis(x, i, 1),
    "np.take_along_axis(x, i, 1)",
)
add(
    "GatherBackward",
    lambda rng, s: (normal(rng, *s), everywhere(rng, s), s, 1),
    gather_backward,
    "np.add.at(zeros, (rows, i), g)",
)
add(
    "ScatterForward",
    lambda rng, s: (normal(rng, *s), everywhere(rng, s), s, 1),
    scatter,
    "np.put_along_axis(zeros, i, v, 1)",
)
add(
    "ScatterBackward",
    lambda rng, s: (normal(rng, *s), everywhere(rng, s), 1),
    scatter_backward,
    "np.take_along_axis(g, i, 1) where i is the last of its place",
)
add(
    "ScatterAddForward",
    lambda rng, s: (normal(rng, *s), everywhere(rng, s), normal(rng, *s), 1),
    scatter_add,
    "np.add.at(x.copy(), (rows, i), v)",
)
add(
    "OneHot",
    lambda rng, s: (rng.integers(0, s[1], s[0]), s[1], float32),
    lambda i, n, _: (i[:, None] == np.arange(n)).astype(np.float32),
    "(i[:, None] == np.arange(n)).astype(np.float32)",
)
add(
    "TopKForward", extra(one, 8, 1, True), top, "i = np.argsort(-x, 1)[:, :8]; np.take_along_axis(x, i, 1), i"
)
