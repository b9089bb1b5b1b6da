"""Samples of rows that move elements: shapes, slices, joins, and what indices select or place."""

from __future__ import annotations

import numpy as np

from infinitrain import bool_, float64, int64

from .draw import Draw, Sample, Shape, sample


@sample("NoOpForward")
def _view(d: Draw) -> Sample:
    x = d.values(d.shape())
    shape = (*x.shape[:1], 1, *x.shape[1:]) if d.flag() else (x.size,)
    return Sample((x, shape), (x.reshape(shape),))


@sample("TransposeForward")
def _transpose(d: Draw) -> Sample:
    x = d.values(d.shape(1))
    a, b = d.axis(x.shape), d.axis(x.shape)
    return Sample((x, a, b), (np.swapaxes(x, a, b),))


@sample("PermuteForward")
def _permute(d: Draw) -> Sample:
    x = d.values(d.shape())
    axes = tuple(int(a) for a in d.rng.permutation(x.ndim))
    return Sample((x, axes), (np.einsum(x, [*range(x.ndim)], [*axes]),))


def _region(d: Draw, shape: Shape) -> tuple[Shape, Shape, Shape, tuple[list[int], ...]]:
    """Return starts, ends, steps, and the indices that they take of each axis."""
    starts, ends, steps, taken = [], [], [], []
    for n in shape:
        step = d.one_of(-2, -1, 1, 2, 3)
        first, last = sorted((d.int(0, n), d.int(0, n)), reverse=step < 0)
        start, end = (first - 1, last - 1) if step < 0 else (first, last)
        starts, ends, steps = [*starts, start], [*ends, end], [*steps, step]
        taken.append(list(range(start, end, step)))
    return tuple(starts), tuple(ends), tuple(steps), tuple(taken)


@sample("SliceForward")
def _slice(d: Draw) -> Sample:
    x = d.values(d.shape())
    starts, ends, steps, taken = _region(d, x.shape)
    want = x[np.ix_(*taken)] if x.ndim else x
    return Sample((x, starts, ends, steps), (want.reshape([len(t) for t in taken]),))


@sample("SliceAssign")
def _slice_assign(d: Draw) -> Sample:
    x = d.values(d.shape())
    starts, ends, steps, taken = _region(d, x.shape)
    value = d.values(d.partner(tuple(len(t) for t in taken)))
    want = x.copy()
    want[np.ix_(*taken) if x.ndim else ()] = value
    return Sample((x, value, starts, ends, steps), (want,))


def _parts(d: Draw) -> tuple[list[np.ndarray], int]:
    shape = d.shape(1)
    axis = d.axis(shape)
    parts = [(*shape[:axis], d.size(), *shape[axis + 1 :]) for _ in range(d.int(2, 4))]
    return [d.values(p) for p in parts], axis


@sample("SplitForward")
def _split(d: Draw) -> Sample:
    parts, axis = _parts(d)
    return Sample(
        (np.concatenate(parts, axis), tuple(p.shape[axis] for p in parts), axis),
        tuple(parts),
    )


@sample("ConcatForward")
def _concat(d: Draw) -> Sample:
    parts, axis = _parts(d)
    return Sample((parts, axis), (np.concatenate(parts, axis),))


@sample("RepeatInterleaveForward")
def _repeat(d: Draw) -> Sample:
    x, times = d.values(d.shape(1)), d.int(0, 3)
    axis = d.axis(x.shape)
    return Sample((x, times, axis), (np.repeat(x, times, axis),))


@sample("ExpandForward")
def _expand(d: Draw) -> Sample:
    full = d.shape()
    x = d.values(d.partner(full))
    return Sample((x, full), (x * np.ones(full),))


@sample("TrilForward")
def _tril(d: Draw) -> Sample:
    x, k = d.values(d.shape(2)), d.int(-4, 4)
    row, column = np.indices(x.shape)[-2:]
    return Sample((x, k), (np.where(column <= row + k, x, 0),))


@sample("TriuForward")
def _triu(d: Draw) -> Sample:
    x, k = d.values(d.shape(2)), d.int(-4, 4)
    row, column = np.indices(x.shape)[-2:]
    return Sample((x, k), (np.where(column >= row + k, x, 0),))


# Indices ------------------------------------------------------------------------------------------------------------


@sample("EmbeddingForward")
def _embedding(d: Draw) -> Sample:
    weight = d.values((d.int(1, 6), d.size()))
    index = d.indices(len(weight), d.shape(high=3))
    want = np.array([weight[i] for i in index.ravel()]).reshape(*index.shape, weight.shape[1])
    return Sample((index, weight), (want,))


def _along(d: Draw, shape: Shape) -> tuple[int, np.ndarray, list[np.ndarray]]:
    """Return an axis, indices along it, and the place of each of them."""
    axis = d.axis(shape)
    sizes = [d.int(0, n) for n in shape]
    sizes[axis] = d.size() if shape[axis] else 0
    index = d.indices(shape[axis], tuple(sizes))
    at = list(np.indices(index.shape))
    at[axis] = index
    return axis, index, at


@sample("GatherForward")
def _gather(d: Draw) -> Sample:
    x = d.values(d.shape(1))
    axis, index, at = _along(d, x.shape)
    return Sample((x, index, axis), (x[tuple(at)],))


@sample("IndexSelectForward")
def _index_select(d: Draw) -> Sample:
    x = d.values(d.shape(1, 3, 20))
    axis = d.axis(x.shape)
    index = d.indices(x.shape[axis], d.shape(high=2, most=9) if x.shape[axis] else (0, 2))
    return Sample((x, index, axis), (x[(*[slice(None)] * axis, index)],))


@sample("ScatterForward")
def _scatter(d: Draw) -> Sample:
    shape = d.shape(1)
    axis, index, at = _along(d, shape)
    values, want = d.values(index.shape), np.zeros(shape)
    for place in np.ndindex(index.shape):
        want[tuple(int(a[place]) for a in at)] = values[place]
    return Sample((values, index, shape, axis), (want,))


@sample("ScatterAddForward")
def _scatter_add(d: Draw) -> Sample:
    x = d.values(d.shape(1))
    axis, index, at = _along(d, x.shape)
    values, want = d.values(index.shape), x.copy()
    for place in np.ndindex(index.shape):
        want[tuple(int(a[place]) for a in at)] += values[place]
    return Sample((x, index, values, axis), (want,))


@sample("OneHot")
def _one_hot(d: Draw) -> Sample:
    classes, dtype = d.int(1, 5), d.one_of(int64, float64, bool_)
    index = d.indices(classes, d.shape(high=3))
    return Sample((index, classes, dtype), (index[..., None] == np.arange(classes),))


@sample("TopKForward")
def _topk(d: Draw) -> Sample:
    x, largest = d.values(d.shape(1)), d.flag()
    axis = d.axis(x.shape)
    k = d.int(0, x.shape[axis])
    order = np.argsort(-x if largest else x, axis, kind="stable").take(range(k), axis)
    return Sample((x, k, axis, largest), (np.take_along_axis(x, order, axis), order))
