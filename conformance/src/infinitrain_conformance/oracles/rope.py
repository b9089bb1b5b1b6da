"""Rotary position embedding."""

from __future__ import annotations

import numpy as np

from .want import Array, Want


def rope(
    x: Array, cos: Array, sin: Array, heads: int, rotated: int, interleaved: bool, position: int
) -> dict[str, Want]:
    return {"y": _rotate(x, cos, sin, heads, rotated, interleaved, position)}


def rope_backward(
    grad: Array, cos: Array, sin: Array, heads: int, rotated: int, interleaved: bool, position: int
) -> dict[str, Want]:
    """A rotation's transpose is the rotation by the opposite angle."""
    return {"dx": _rotate(grad, cos, -sin, heads, rotated, interleaved, position)}


def _rotate(
    x: Array, cos: Array, sin: Array, heads: int, rotated: int, interleaved: bool, position: int
) -> Want:
    """Head by head and pair by pair, from the definition; what is not rotated has no error beyond rounding."""
    value, size = x.copy(), np.zeros_like(x)
    d = x.shape[2] // heads
    steps = slice(position, position + x.shape[1])
    for head in range(rotated):
        for pair in range(d // 2):
            first, second = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + d // 2)
            i, j = head * d + first, head * d + second
            c, s = cos[steps, pair], sin[steps, pair]
            value[..., i] = x[..., i] * c - x[..., j] * s
            value[..., j] = x[..., i] * s + x[..., j] * c
            size[..., i] = np.abs(x[..., i] * c) + np.abs(x[..., j] * s)
            size[..., j] = np.abs(x[..., i] * s) + np.abs(x[..., j] * c)
    return Want(value, size)
