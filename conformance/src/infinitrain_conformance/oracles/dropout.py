"""Dropout, its masks from Philox4x64-10 (Salmon et al., 2011) in Python's integers."""

from __future__ import annotations

import numpy as np

from .want import Array, Want, plain

MASK = 2**64 - 1


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Return the four words of one block."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        high0, low0 = divmod(c0 * 0xD2E7470EE14C6C93, 2**64)
        high1, low1 = divmod(c2 * 0xCA5A826395121157, 2**64)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & MASK, (k1 + 0xBB67AE8584CAA73B) & MASK
    return c0, c1, c2, c3


def kept(shape: tuple[int, ...], p: float, key: int, step: int, first_sample: int) -> Array:
    """Return 1.0 where dropout keeps, 0.0 elsewhere: one block of eight decisions after the other."""
    samples, size = (shape[0], int(np.prod(shape[1:], dtype=int))) if shape else (1, 1)
    found = np.zeros((samples, size))
    for i in range(samples):
        for start in range(0, size, 8):
            words = philox((key, 0), (start // 8 + 1, first_sample + i, step, 0))
            halves = [half for word in words for half in (word % 2**32, word // 2**32)]
            for j, half in enumerate(halves[: size - start]):
                found[i, start + j] = half >= round(p * 2**32)
    return found.reshape(shape)


def dropout(x: Array, p: float, key: int, step: int, first_sample: int) -> dict[str, Want]:
    scale = 1.0 / (1.0 - p) if p < 1 else 0.0
    return {"y": plain(np.where(kept(x.shape, p, key, step, first_sample) == 1.0, x * scale, 0.0))}


def dropout_backward(grad: Array, p: float, key: int, step: int, first_sample: int) -> dict[str, Want]:
    return {"dx": dropout(grad, p, key, step, first_sample)["y"]}
