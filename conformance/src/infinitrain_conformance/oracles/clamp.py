"""Clamp, the larger and the smaller of two, and what is finite."""

from __future__ import annotations

import numpy as np

from .want import Array, Want, plain, sum_to


def clamp(x: Array, low: float, high: float) -> dict[str, Want]:
    y = x.copy()
    y[x < low] = low
    y[x > high] = high
    return {"y": plain(y)}


def clamp_backward(grad: Array, x: Array, low: float, high: float) -> dict[str, Want]:
    dx = grad.copy()
    dx[~((low <= x) & (x <= high))] = 0.0
    return {"dx": plain(dx)}


def larger(a: Array, b: Array) -> dict[str, Want]:
    a, b = np.broadcast_arrays(a, b)
    y = np.where(a > b, a, b)
    return {"y": plain(np.where(np.isnan(a), a, y))}


def smaller(a: Array, b: Array) -> dict[str, Want]:
    y = larger(-a, -b)["y"].value
    return {"y": plain(-y)}


def larger_backward(grad: Array, a: Array, b: Array) -> dict[str, Want]:
    """Each operand's share of grad is 1, 1/2 or 0: half of 1 + sign(a - b), or 1 where that is NaN."""
    with np.errstate(invalid="ignore"):
        sign = np.where(np.equal(a, b), 0.0, np.sign(a - b))  # the difference of two infinities is NaN
    found = {}
    for name, operand, sided in (("da", a, sign), ("db", b, -sign)):
        part = np.where(np.isnan(sided), 1.0, 0.5 * (1.0 + sided))
        share = np.where(part == 0, 0.0, part * grad)  # nothing, of an infinite gradient too
        count = max(1, grad.size // max(1, operand.size))
        found[name] = Want(sum_to(share, operand.shape), sum_to(np.abs(share), operand.shape), count)
    return found


def smaller_backward(grad: Array, a: Array, b: Array) -> dict[str, Want]:
    return larger_backward(grad, -a, -b)


def is_finite(x: Array) -> dict[str, Want]:
    return {"y": plain((np.abs(x) < np.inf).astype(np.float64))}


def is_nan(x: Array) -> dict[str, Want]:
    return {"y": plain((x != x).astype(np.float64))}
