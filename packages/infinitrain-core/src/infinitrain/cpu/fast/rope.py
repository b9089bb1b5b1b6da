"""Rotary position embedding, rows split over threads: neighbours as complex numbers, halves as they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from .gemm import bounds
from .jit import parallel, parts, prange, run, serial

f32 = np.float32
GRAIN = 1 << 15
"""Elements worth a thread: about 10 us."""


def RopeForward(
    x: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int, *, out: Any
) -> None:
    _rotate(x, cos, sin, heads, rotated, interleaved, position, 1.0, out)


def RopeBackward(
    grad: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int, *, out: Any
) -> None:
    _rotate(grad, cos, sin, heads, rotated, interleaved, position, -1.0, out)


def _rotate(
    x: Any,
    cos: Any,
    sin: Any,
    heads: int,
    rotated: int,
    interleaved: bool,
    position: int,
    sign: float,
    out: Any,
) -> None:
    b, t, width = x.shape
    body, split = (_turn_pairs, _split_pairs) if interleaved else (_turn_halves, _split_halves)
    a, y = (z.array.reshape(b * t, width) for z in (x, out))
    c, s = (table.array[position : position + t] for table in (cos, sin))
    run(body, split, b * t, parts(x.numel, GRAIN), a, c, s, f32(sign), rotated, y)


@serial
def _turn_halves(start, stop, x, cos, sin, sign, rotated, y):
    half = cos.shape[1]
    for i in range(start, stop):
        row, r = x[i], y[i]
        c, s = cos[i % len(cos)], sin[i % len(cos)]
        for h in range(rotated):
            a, b = row[2 * h * half : (2 * h + 1) * half], row[(2 * h + 1) * half : (2 * h + 2) * half]
            p, q = r[2 * h * half : (2 * h + 1) * half], r[(2 * h + 1) * half : (2 * h + 2) * half]
            for j in range(half):
                p[j] = a[j] * c[j] - b[j] * (sign * s[j])
            for j in range(half):
                q[j] = a[j] * (sign * s[j]) + b[j] * c[j]
        rest, copied = row[2 * rotated * half :], r[2 * rotated * half :]
        for j in range(rest.size):
            copied[j] = rest[j]


@parallel
def _split_halves(nt, x, cos, sin, sign, rotated, y):
    for t in prange(nt):
        i, j = bounds(t, nt, len(x), 1)
        _turn_halves(i, j, x, cos, sin, sign, rotated, y)


@serial
def _turn_pairs(start, stop, x, cos, sin, sign, rotated, y):
    half = cos.shape[1]
    for i in range(start, stop):
        row, r = x[i].view(np.complex64), y[i].view(np.complex64)
        c, s = cos[i % len(cos)], sin[i % len(cos)]
        for h in range(rotated):
            a, p = row[h * half : (h + 1) * half], r[h * half : (h + 1) * half]
            for j in range(half):
                p[j] = complex(
                    a[j].real * c[j] - a[j].imag * (sign * s[j]), a[j].real * (sign * s[j]) + a[j].imag * c[j]
                )
        rest, copied = row[rotated * half :], r[rotated * half :]
        for j in range(rest.size):
            copied[j] = rest[j]


@parallel
def _split_pairs(nt, x, cos, sin, sign, rotated, y):
    for t in prange(nt):
        i, j = bounds(t, nt, len(x), 1)
        _turn_pairs(i, j, x, cos, sin, sign, rotated, y)
