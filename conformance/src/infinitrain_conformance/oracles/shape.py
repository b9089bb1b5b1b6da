"""Moving elements. Slices are lists of indices, so that what ``start:end:step`` means stands in one place: range."""

from __future__ import annotations

from typing import Any

import numpy as np

from .want import Array, Want, plain, sum_to

Shape = tuple[int, ...]


def _taken(starts: Shape, ends: Shape, steps: Shape) -> Any:
    return np.ix_(*[np.array(r, np.int64) for r in map(range, starts, ends, steps)])


def permute(x: Array, axes: Shape) -> dict[str, Want]:
    at = np.indices([x.shape[a] for a in axes])  # each element's own place; what is there lies where axes say
    return {"y": plain(np.asarray(x[tuple(at[axes.index(i)] for i in range(x.ndim))]))}


def transpose(x: Array, axis0: int, axis1: int) -> dict[str, Want]:
    axes = list(range(x.ndim))
    axes[axis0], axes[axis1] = axes[axis1], axes[axis0]
    return permute(x, tuple(axes))


def slice_(x: Array, starts: Shape, ends: Shape, steps: Shape) -> dict[str, Want]:
    return {"y": plain(np.asarray(x[_taken(starts, ends, steps)]))}


def slice_backward(grad: Array, shape: Shape, starts: Shape, ends: Shape, steps: Shape) -> dict[str, Want]:
    dx = np.zeros(shape)
    dx[_taken(starts, ends, steps)] = grad
    return {"dx": plain(dx)}


def slice_assign(x: Array, value: Array, starts: Shape, ends: Shape, steps: Shape) -> dict[str, Want]:
    x = x.copy()
    x[_taken(starts, ends, steps)] = value
    return {"x": plain(x)}


def split(x: Array, sizes: Shape, axis: int) -> dict[str, Want]:
    ends = np.cumsum(sizes)
    return {
        f"pieces[{i}]": plain(np.take(x, np.arange(end - size, end), axis))
        for i, (size, end) in enumerate(zip(sizes, ends, strict=True))
    }


def concat(tensors: tuple[Array, ...], axis: int) -> dict[str, Want]:
    y = np.empty(
        [sum(t.shape[axis] for t in tensors) if i == axis else n for i, n in enumerate(tensors[0].shape)]
    )
    at = 0
    for t in tensors:
        for i in range(t.shape[axis]):
            y[(slice(None),) * axis + (at,)] = t[(slice(None),) * axis + (i,)]
            at += 1
    return {"y": plain(y)}


def repeat(x: Array, repeats: int, axis: int) -> dict[str, Want]:
    return {"y": plain(np.take(x, np.arange(x.shape[axis] * repeats) // max(1, repeats), axis))}


def repeat_backward(grad: Array, repeats: int, axis: int) -> dict[str, Want]:
    parts = [np.take(grad, np.arange(i, grad.shape[axis], repeats), axis) for i in range(repeats)]
    stacked = np.stack(parts)
    return {"dx": Want(stacked.sum(0), np.abs(stacked).sum(0), repeats)}


def expand(x: Array, shape: Shape) -> dict[str, Want]:
    return {"y": plain(np.broadcast_to(x, shape))}


def expand_backward(grad: Array, shape: Shape) -> dict[str, Want]:
    terms = max(1, grad.size // max(1, int(np.prod(shape, dtype=int))))
    return {"dx": Want(sum_to(grad, shape), sum_to(np.abs(grad), shape), terms)}


def _triangle(x: Array, keep: Any) -> dict[str, Want]:
    row, column = np.indices(x.shape[-2:])
    return {"y": plain(np.where(keep(column - row), x, 0.0))}


def tril(x: Array, diagonal: int) -> dict[str, Want]:
    return _triangle(x, lambda above: above <= diagonal)


def triu(x: Array, diagonal: int) -> dict[str, Want]:
    return _triangle(x, lambda above: above >= diagonal)
