"""Dropout, its masks from Philox4x64-10 (Salmon et al., 2011), written from the paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .want import Array, Want, plain

MASK = 2**64 - 1


def philox(key: tuple[int, int], counter: Sequence[Array]) -> tuple[Array, ...]:
    """Return the four words of each block; ``counter`` are arrays of uint64 that broadcast."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        high0, low0 = _product(c0, 0xD2E7470EE14C6C93)
        high1, low1 = _product(c2, 0xCA5A826395121157)
        c0, c1, c2, c3 = high1 ^ c1 ^ np.uint64(k0), low1, high0 ^ c3 ^ np.uint64(k1), low0
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return c0, c1, c2, c3


def _product(a: Array, b: int) -> tuple[Array, Array]:
    """Return the high and the low word of a product of 128 bits, from halves of 32."""
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, np.uint64(b & (2**32 - 1)), np.uint64(b >> 32)
    middle = (a0 * b0 >> half) + (a1 * b0 & low) + (a0 * b1 & low)
    return a1 * b1 + (a1 * b0 >> half) + (a0 * b1 >> half) + (middle >> half), a * np.uint64(b)


def kept(shape: tuple[int, ...], p: float, key: int, step: int, first_sample: int) -> Array:
    """Return 1.0 where dropout keeps, 0.0 elsewhere: one block of eight decisions after the other."""
    samples, size = (shape[0], int(np.prod(shape[1:], dtype=int))) if shape else (1, 1)
    block = np.arange(1, -(-size // 8) + 1, dtype=np.uint64)[None, :]
    sample = np.array([first_sample + i for i in range(samples)], np.uint64)[:, None]
    words = philox((key, 0), (block, sample, np.full((1, 1), step, np.uint64), np.zeros((1, 1), np.uint64)))
    halves = [half for word in words for half in (word & np.uint64(2**32 - 1), word >> np.uint64(32))]
    found = np.stack(np.broadcast_arrays(*halves), -1).reshape(samples, -1)[:, :size]
    return (found >= np.uint64(round(p * 2**32))).astype(np.float64).reshape(shape)


def dropout(x: Array, p: float, key: int, step: int, first_sample: int) -> dict[str, Want]:
    scale = 1.0 / (1.0 - p) if p < 1 else 0.0
    return {"y": plain(np.where(kept(x.shape, p, key, step, first_sample) == 1.0, x * scale, 0.0))}


def dropout_backward(grad: Array, p: float, key: int, step: int, first_sample: int) -> dict[str, Want]:
    return {"dx": dropout(grad, p, key, step, first_sample)["y"]}
