"""Dropout: bits of Philox4x64-10 and what they keep, a piece of a sample at a time."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...philox import word
from .. import dropout as numpy_kernels
from .gemm import bounds
from .jit import inline, parallel, parts, prange, run, serial

f32, u64 = np.float32, np.uint64
GRAIN = 1 << 13
"""Elements worth a thread: about 10 us."""
PIECE = 1024
_M0, _M1 = u64(0xD2E7470EE14C6C93), u64(0xCA5A826395121157)  # of Philox: multipliers and steps of the key
_W0, _W1 = u64(0x9E3779B97F4A7C15), u64(0xBB67AE8584CAA73B)


def DropoutForward(x: Any, p: float, key: int, step: int, first_sample: int, *, out: Any) -> None:
    first_sample, step, key = word("first_sample", first_sample), word("step", step), word("key", key)
    samples, size = (x.shape[0], prod(x.shape[1:])) if x.shape else (1, 1)
    threshold = round(p * 2**32)
    if (
        first_sample + samples > 2**64 or threshold == 2**32
    ):  # a carry into the counter's next word; nothing is kept
        numpy_kernels.DropoutForward(x, p, key, step, first_sample, out=out)
        return
    pieces, scale = -(-size // PIECE), f32(1.0 / (1.0 - p))
    a, y = (t.array.reshape(samples, size) for t in (x, out))
    words = u64(key), u64(step), u64(first_sample)
    nt = parts(a.size, GRAIN)
    run(_drop, _split_drop, samples * pieces, nt, pieces, np.uint32(threshold), scale, *words, a, y)


def DropoutBackward(grad: Any, p: float, key: int, step: int, first_sample: int, *, out: Any) -> None:
    DropoutForward(grad, p, key, step, first_sample, out=out)


def _halves(typing_context, a, b):
    """The halves of the product of two 64-bit words, the upper one first: one instruction."""
    pair = types.UniTuple(types.uint64, 2)

    def code(context, builder, signature, args):
        word, wide = ir.IntType(64), ir.IntType(128)
        product = builder.mul(*[builder.zext(arg, wide) for arg in args])
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return context.make_tuple(builder, pair, (upper, builder.trunc(product, word)))

    return pair(types.uint64, types.uint64), code


_product: Any = intrinsic(_halves)


@inline
def _philox(c0, c1, c2, key, words, at):
    """Write the four words of counter (c0, c1, c2, 0) and key (key, 0)."""
    c3, k0, k1 = u64(0), key, u64(0)
    for _ in range(10):
        (upper, lower), (other, c0) = _product(_M0, c0), _product(_M1, c2)
        c0, c1, c2, c3 = other ^ c1 ^ k0, c0, upper ^ c3 ^ k1, lower
        k0, k1 = k0 + _W0, k1 + _W1
    words[at], words[at + 1], words[at + 2], words[at + 3] = c0, c1, c2, c3


@serial
def _drop(start, stop, pieces, threshold, scale, key, step, first_sample, x, y):
    words = np.empty(PIECE // 2, np.uint64)
    halves = words.view(np.uint32)
    for i in range(start, stop):
        sample, begin = i // pieces, i % pieces * PIECE
        a, r = x[sample, begin : begin + PIECE], y[sample, begin : begin + PIECE]
        for k in range((a.size + 7) // 8):
            _philox(u64(begin // 8 + k + 1), first_sample + u64(sample), step, key, words, 4 * k)
        for j in range(a.size):
            r[j] = a[j] * scale if halves[j] >= threshold else f32(0)


@parallel
def _split_drop(nt, pieces, threshold, scale, key, step, first_sample, x, y):
    for t in prange(nt):
        i, j = bounds(t, nt, len(x) * pieces, 1)
        _drop(i, j, pieces, threshold, scale, key, step, first_sample, x, y)
