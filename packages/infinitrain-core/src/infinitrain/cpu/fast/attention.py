"""Attention: products of blocks by BLAS, scores with keys as rows, so that softmax goes down columns of 16 lanes.

With queries in the columns nothing is summed across a vector, and hidden scores are the start of a row. Work is cut
into parts at blocks of queries (forward) or keys (backward) of equal cost, wherever that is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import attention as slow
from .gemm import gemm
from .jit import parallel, parts, prange, serial
from .math import exp_low
from .transpose import transpose

f32 = np.float32
BLOCK = 32
"""Queries in a block of the forward pass, keys in one of the backward pass."""
CHUNK = 128
"""Rows or columns in one product with a block. Up to 100³ multiplications BLAS copies nothing."""
GRAIN = 1 << 18
"""Scores times the head size worth a thread."""
_INF = f32(np.inf)
_NOTHING = np.empty((0, 0, 0, 0), f32)


def AttentionForward(qkv: Any, n_head: int, n_kv_head: int, causal: bool, *, out: Any) -> None:
    b, t, width = qkv.shape
    d = width // (n_head + 2 * n_kv_head)
    packed, y = qkv.array.reshape(b, t, -1, d), out[0].array.reshape(b, t, n_head, d)
    nt = parts(y.size * t, GRAIN)
    args = packed, causal, y, out[1].array
    if not (_forward_part(*args, 0, 1) if nt == 1 else _forward(*args, nt)):
        # NumPy's kernel knows what hides NaN and infinities.
        slow.AttentionForward(qkv, n_head, n_kv_head, causal, out=out)


@serial
def _cost(block, blocks, causal, backward):
    """What the blocks before ``block`` of a head cost, in products of two blocks."""
    if not causal:
        return block * blocks
    return block * (2 * blocks - block + 1) // 2 if backward else block * (block + 1) // 2


@serial
def _cut(part, nt, heads, blocks, causal, backward):
    """Where part ``part`` of nt starts, in blocks of all heads, so that all parts cost the same."""
    each = _cost(blocks, blocks, causal, backward)
    goal = part * heads * each // nt
    head, block = goal // each, 0
    while head < heads and _cost(block + 1, blocks, causal, backward) <= goal - head * each:
        block += 1
    return head * blocks + block


@serial
def _softmax(s, n, first, peak, total):
    """s[:n] = exp(s - maximum of the column), 0 where row ``first`` + c is hidden from the columns before c.

    Rows are taken by twos and fours, or each would wait for the sum of the one before; s has them to spare.
    """
    for k in range(0, s.shape[1], 16):
        m, z = peak[k : k + 16], total[k : k + 16]
        seen, some = min(n, first + k) // 4 * 4, (min(n, first + k + 16) + 1) // 2 * 2
        for i in range(16):
            m[i], z[i] = -_INF, f32(0)
        for j in range(0, seen, 4):
            a, b = s[j, k : k + 16], s[j + 1, k : k + 16]
            c, d = s[j + 2, k : k + 16], s[j + 3, k : k + 16]
            for i in range(16):
                x = a[i] if a[i] > b[i] else b[i]
                y = c[i] if c[i] > d[i] else d[i]
                x = x if x > y else y
                m[i] = x if x > m[i] else m[i]
        for j in range(seen, some):
            a, hidden = s[j, k : k + 16], j - first - k if j < n else 16
            for i in range(16):
                x = a[i] if i >= hidden else -_INF
                a[i] = x
                m[i] = x if x > m[i] else m[i]
        for j in range(0, some, 2):
            a, b = s[j, k : k + 16], s[j + 1, k : k + 16]
            for i in range(16):
                x, y = exp_low(a[i] - m[i]), exp_low(b[i] - m[i])
                a[i], b[i] = x, y
                z[i] += x + y
        for j in range(some, n):
            a = s[j, k : k + 16]
            for i in range(16):
                a[i] = 0


@serial
def _forward_part(qkv, causal, y, lse, part, nt):
    batch, length, n_head, d = y.shape
    n_kv = (qkv.shape[2] - n_head) // 2
    blocks, lanes = (length + BLOCK - 1) // BLOCK, min(BLOCK, (length + 15) // 16 * 16)
    q, s = np.empty((d, lanes), f32), np.empty((length + 1, lanes), f32)
    peak, total = np.empty(lanes, f32), np.empty(lanes, f32)
    scale, unknown = f32(1 / math.sqrt(d)), f32(0)
    start = _cut(part, nt, batch * n_head, blocks, causal, False)
    for item in range(start, _cut(part + 1, nt, batch * n_head, blocks, causal, False)):
        head, block = item // blocks, item % blocks
        b, h = head // n_head, head % n_head
        kv = n_head + h // (n_head // n_kv)
        first = block * BLOCK
        end = min(first + BLOCK, length)
        n, hidden = (end, first) if causal else (length, length)
        transpose(qkv[b, first:end, h], scale, q)
        for i in range(0, n, CHUNK):
            gemm(False, False, qkv[b, i : min(i + CHUNK, n), kv], q, 0, s[i : min(i + CHUNK, n)])
        _softmax(s, n, hidden, peak, total)
        o = y[b, first:end, h]
        for i in range(0, n, CHUNK):
            j = min(i + CHUNK, n)
            gemm(True, False, s[i:j, : end - first], qkv[b, i:j, kv + n_kv], 0 if i == 0 else 1, o)
        for j in range(d):  # the first row has what is no number from all values: 0 times it
            unknown += y[b, first, h, j] - y[b, first, h, j]
        for i in range(end - first):
            lse[b, h, first + i] = peak[i] + np.log(total[i])
            row, inverse = y[b, first + i, h], f32(1) / total[i]
            for j in range(d):
                row[j] *= inverse
    return unknown == 0


@parallel
def _forward(qkv, causal, y, lse, nt):
    known = np.empty(nt, np.bool_)
    for t in prange(nt):
        known[t] = _forward_part(qkv, causal, y, lse, np.int64(t), nt)
    return known.all()


def AttentionBackward(
    qkv: Any, y: Any, lse: Any, grad: Any, n_head: int, n_kv_head: int, causal: bool, *, out: Any
) -> None:
    b, t, width = qkv.shape
    d = width // (n_head + 2 * n_kv_head)
    packed, heads = (b, t, n_head + 2 * n_kv_head, d), (b, t, n_head, d)
    args = (
        qkv.array.reshape(packed), y.array.reshape(heads), lse.array, grad.array.reshape(heads), causal,
        out.array.reshape(packed),
    )  # fmt: skip
    nt = parts(2 * y.array.size * t, GRAIN)
    if nt == 1:
        _backward_part(*args, _NOTHING, 0, 1)
    else:
        _backward(*args, nt)


@serial
def _gradient(s, ds, n, first, lse, mean):
    """s = exp(s - lse), ds = s (ds - mean), 0 where row ``first`` + c is hidden from the columns before c."""
    for k in range(0, s.shape[1], 16):
        z, m = lse[k : k + 16], mean[k : k + 16]
        seen, some = min(n, first + k), min(n, first + k + 16)
        for j in range(seen):
            a, b = s[j, k : k + 16], ds[j, k : k + 16]
            for i in range(16):
                p = exp_low(a[i] - z[i])
                a[i], b[i] = p, p * (b[i] - m[i])
        for j in range(seen, some):
            a, b, hidden = s[j, k : k + 16], ds[j, k : k + 16], j - first - k
            for i in range(16):
                p = exp_low(a[i] - z[i])
                a[i], b[i] = p if i >= hidden else f32(0), p * (b[i] - m[i]) if i >= hidden else f32(0)
        for j in range(some, n):
            a, b = s[j, k : k + 16], ds[j, k : k + 16]
            for i in range(16):
                a[i], b[i] = f32(0), f32(0)


@serial
def _prepare(qkv, y, lse, grad, b, h, start, q, g, total, mean):
    """Transpose queries and gradients of a head from ``start`` on, chunk by chunk, times the scale of the scores."""
    length, d = y.shape[1], y.shape[3]
    scale = f32(1 / math.sqrt(d))
    for i in range(start // CHUNK * CHUNK, length, CHUNK):
        j = min(i + CHUNK, length)
        transpose(qkv[b, i:j, h], scale, q[i // CHUNK])
        transpose(grad[b, i:j, h], scale, g[i // CHUNK])
    for i in range(start, length):
        row, other, x = y[b, i, h], grad[b, i, h], f32(0)
        for j in range(d):
            x += row[j] * other[j]
        mean[i], total[i] = x * scale, lse[b, h, i]


@serial
def _backward_part(qkv, y, lse, grad, causal, dqkv, partial, part, nt):
    batch, length, n_head, d = y.shape
    n_kv = (qkv.shape[2] - n_head) // 2
    group, blocks = n_head // n_kv, (length + BLOCK - 1) // BLOCK
    lanes = min(CHUNK, (length + 15) // 16 * 16)
    chunks = (length + CHUNK - 1) // CHUNK
    q, g = np.empty((chunks, d, lanes), f32), np.empty((chunks, d, lanes), f32)
    s, ds = np.empty(BLOCK * lanes, f32), np.empty(BLOCK * lanes, f32)
    total, mean = np.zeros(chunks * lanes, f32), np.zeros(chunks * lanes, f32)
    item = _cut(part, nt, batch * n_kv, blocks, causal, True)
    stop = _cut(part + 1, nt, batch * n_kv, blocks, causal, True)
    while item < stop:
        unit, start = item // blocks, item % blocks
        end = min(blocks, start + stop - item)
        item += end - start
        b, kv = unit // n_kv, n_head + unit % n_kv
        for member in range(group):
            h = (kv - n_head) * group + member
            _prepare(qkv, y, lse, grad, b, h, start * BLOCK if causal else 0, q, g, total, mean)
            dq = partial[part, member] if start else dqkv[b, :, h]
            for block in range(start, end):
                first = block * BLOCK
                last = min(first + BLOCK, length)
                keys = qkv[b, first:last, kv]
                dk, dv = dqkv[b, first:last, kv], dqkv[b, first:last, kv + n_kv]
                i, beta = first if causal else 0, 0 if member == 0 else 1
                while i < length:
                    c, k = i // CHUNK, i % CHUNK
                    j = min(length, (c + 1) * CHUNK)
                    w = (j - i + 15) // 16 * 16
                    p = s[: (last - first) * w].reshape(last - first, w)
                    dp = ds[: (last - first) * w].reshape(last - first, w)
                    gemm(False, False, keys, q[c, :, k : k + w], 0, p)
                    gemm(False, False, qkv[b, first:last, kv + n_kv], g[c, :, k : k + w], 0, dp)
                    hidden = i - first if causal else BLOCK
                    _gradient(p, dp, last - first, hidden, total[i : i + w], mean[i : i + w])
                    gemm(False, False, p[:, : j - i], grad[b, i:j, h], beta, dv)
                    gemm(False, False, dp[:, : j - i], qkv[b, i:j, h], beta, dk)
                    gemm(True, False, dp[:, : j - i], keys, 0 if block == start else 1, dq[i:j])
                    i, beta = j, 1


@parallel
def _backward(qkv, y, lse, grad, causal, dqkv, nt):
    batch, length, n_head, d = y.shape
    n_kv = (qkv.shape[2] - n_head) // 2
    group, blocks = n_head // n_kv, (length + BLOCK - 1) // BLOCK
    shared = False
    for t in range(1, nt):
        shared |= _cut(t, nt, batch * n_kv, blocks, causal, True) % blocks > 0
    partial = np.empty((nt if shared else 0, group, length, d), f32)
    for t in prange(nt):
        _backward_part(qkv, y, lse, grad, causal, dqkv, partial, np.int64(t), nt)
    for t in range(1, nt):
        item = _cut(t, nt, batch * n_kv, blocks, causal, True)
        unit, start = item // blocks, item % blocks
        if start and item < _cut(t + 1, nt, batch * n_kv, blocks, causal, True):
            for member in range(group):
                for i in range(start * BLOCK if causal else 0, length):
                    row = dqkv[unit // n_kv, i, unit % n_kv * group + member]
                    other = partial[t, member, i]
                    for j in range(d):
                        row[j] += other[j]
