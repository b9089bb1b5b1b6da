"""Reductions, and running sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .want import Array, Want, plain

Axes = tuple[int, ...]


def _count(shape: tuple[int, ...], axes: Axes) -> int:
    return int(np.prod([shape[a] for a in axes], dtype=int))


def _opened(y: Array, shape: tuple[int, ...], axes: Axes) -> Array:
    """Return a reduced array with size 1 in the place of its reduced axes."""
    return y.reshape([1 if i in axes else n for i, n in enumerate(shape)])


def sum_(x: Array, axes: Axes, keepdims: bool) -> dict[str, Want]:
    total, size = x.sum(axes, keepdims=keepdims), np.abs(x).sum(axes, keepdims=keepdims)
    return {"y": Want(np.asarray(total), np.asarray(size), _count(x.shape, axes))}


def mean(x: Array, axes: Axes, keepdims: bool) -> dict[str, Want]:
    total, n = sum_(x, axes, keepdims)["y"], _count(x.shape, axes)
    with np.errstate(invalid="ignore"):
        return {"y": Want(total.value / n if n else total.value / 0.0, total.magnitude / max(1, n), n)}


def sum_backward(grad: Array, shape: tuple[int, ...], axes: Axes, keepdims: bool) -> dict[str, Want]:
    return {"dx": plain(np.broadcast_to(_opened(grad, shape, axes), shape))}


def mean_backward(grad: Array, shape: tuple[int, ...], axes: Axes, keepdims: bool) -> dict[str, Want]:
    return {"dx": plain(np.broadcast_to(_opened(grad, shape, axes), shape) / max(1, _count(shape, axes)))}


def max_(x: Array, axes: Axes, keepdims: bool) -> dict[str, Want]:
    return {"y": plain(np.asarray(np.max(x, axis=axes, keepdims=keepdims)))}


def min_(x: Array, axes: Axes, keepdims: bool) -> dict[str, Want]:
    return {"y": plain(np.asarray(np.min(x, axis=axes, keepdims=keepdims)))}


def extreme_backward(grad: Array, x: Array, y: Array, axes: Axes, keepdims: bool) -> dict[str, Want]:
    """Elements that tie share the gradient equally; a NaN is the extreme where there is one."""
    y, grad = _opened(y, x.shape, axes), _opened(grad, x.shape, axes)
    tied = np.where(np.isnan(y), np.isnan(x), x == y)
    return {"dx": plain(grad * tied / tied.sum(axes, keepdims=True))}


def _argument(find: Callable[..., Array]) -> Callable[..., dict[str, Want]]:
    """Return the oracle of ArgMax or ArgMin: the first of equals, the first NaN where there is one."""

    def oracle(x: Array, axis: int, keepdims: bool) -> dict[str, Want]:
        best = find(x, axis=axis, keepdims=True)
        hit = np.where(np.isnan(best), np.isnan(x), x == best)
        place = np.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        first = np.where(hit, place, x.shape[axis]).min(axis=axis, keepdims=keepdims)
        return {"y": plain(np.asarray(first, np.float64))}

    return oracle


argmax, argmin = _argument(np.max), _argument(np.min)


def norm(x: Array, axes: Axes, keepdims: bool) -> dict[str, Want]:
    y = np.sqrt((x.astype(np.longdouble) ** 2).sum(axes, keepdims=keepdims)).astype(np.float64)
    return {"y": Want(np.asarray(y), np.asarray(y), _count(x.shape, axes))}


def norm_backward(grad: Array, x: Array, y: Array, axes: Axes, keepdims: bool) -> dict[str, Want]:
    y, grad = _opened(y, x.shape, axes), _opened(grad, x.shape, axes)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {"dx": plain(np.where(y == 0, 0.0, grad * (x / y)))}


def cumsum(x: Array, axis: int) -> dict[str, Want]:
    return {"y": Want(np.cumsum(x, axis), np.cumsum(np.abs(x), axis), x.shape[axis])}


def cumsum_backward(grad: Array, axis: int) -> dict[str, Want]:
    """Each element counts in the sums that follow it: a running sum from the end."""
    ends = cumsum(np.flip(grad, axis), axis)["y"]
    return {"dx": Want(np.flip(ends.value, axis), np.flip(ends.magnitude, axis), ends.terms)}
