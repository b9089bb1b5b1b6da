"""Optimizer steps, the gradient norm and scaling, in one pass over memory each.

Every tensor of a list is cut into pieces, and the threads share the pieces: one launch, be it one long buffer or fifty
small tensors. What is computed does not depend on the number of threads, sums included: they are made by piece.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numba import carray

from ...kernels.optimizer import bias_corrections
from .gemm import bounds
from .jit import inline, parallel, parts, prange, serial
from .memory import pointer

PIECE = 1 << 14
GRAIN = 1 << 15
"""Elements worth a thread."""
f32 = np.float32


@lru_cache(maxsize=64)
def _pieces(sizes: tuple[int, ...]) -> np.ndarray:
    """Return the pieces of tensors of these sizes: rows (tensor, first element, elements)."""
    found = [np.empty((0, 3), np.int64)]
    for i, size in enumerate(sizes):
        starts = np.arange(0, size, PIECE)
        found.append(np.stack((np.full_like(starts, i), starts, np.minimum(PIECE, size - starts)), 1))
    return np.concatenate(found)


def _cut(*lists: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the addresses of lists of equally large tensors, one row for each list, their pieces and into how many
    parts to split them.
    """
    addresses = np.empty((len(lists), len(lists[0])), np.int64)
    for row, tensors in zip(addresses, lists, strict=True):
        for i, tensor in enumerate(tensors):
            _note(tensor.array.reshape(-1), row, i)
    sizes = tuple([t.numel for t in lists[0]])
    return addresses, _pieces(sizes), parts(sum(sizes), GRAIN)


@serial
def _note(array, addresses, i):
    addresses[i] = array.ctypes.data


@inline
def _piece(addresses, piece):
    """The elements of a piece, as an array."""
    return carray(pointer(addresses[piece[0]] + 4 * piece[1]), piece[2], np.float32)


def AdamW(
    params: Any, grads: Any, ms: Any, vs: Any,
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int,
) -> None:  # fmt: skip
    bias1, bias2 = bias_corrections(beta1, beta2, step)
    addresses, pieces, nt = _cut(params, grads, ms, vs)
    _adamw(
        addresses, pieces, f32(lr / bias1), f32(beta1), f32(1.0 - beta1), f32(beta2), f32(1.0 - beta2),
        f32(1.0 / math.sqrt(bias2)), f32(eps), f32(1.0 - lr * weight_decay), nt,
    )  # fmt: skip


@serial
def _adamw_step(p, g, m, v, rate, beta1, rest1, beta2, rest2, correction, eps, keep):
    for i in range(p.size):
        mean = m[i] * beta1 + g[i] * rest1
        square = v[i] * beta2 + g[i] * g[i] * rest2
        m[i] = mean
        v[i] = square
        p[i] = p[i] * keep - mean / (np.sqrt(square) * correction + eps) * rate


@parallel
def _adamw(addresses, pieces, rate, beta1, rest1, beta2, rest2, correction, eps, keep, nt):
    for t in prange(nt):
        i, j = bounds(t, nt, len(pieces), 1)
        for piece in pieces[i:j]:
            _adamw_step(
                _piece(addresses[0], piece), _piece(addresses[1], piece), _piece(addresses[2], piece),
                _piece(addresses[3], piece), rate, beta1, rest1, beta2, rest2, correction, eps, keep,
            )  # fmt: skip


def SGD(
    params: Any, grads: Any, momenta: Any,
    lr: float, momentum: float, dampening: float, weight_decay: float, nesterov: bool, first: bool,
) -> None:  # fmt: skip
    addresses, pieces, nt = _cut(params, grads, *([momenta] if momenta else []))
    _sgd(
        addresses,
        pieces,
        f32(lr),
        f32(momentum),
        f32(1.0 - dampening),
        f32(weight_decay),
        nesterov,
        first,
        nt,
    )


@serial
def _sgd_step(p, g, lr, decay):
    for i in range(p.size):
        step = g[i] + (decay * p[i] if decay != f32(0) else f32(0))
        p[i] -= lr * step


@serial
def _momentum_step(p, g, b, lr, momentum, rest, decay, nesterov, first):
    for i in range(p.size):
        step = g[i] + (decay * p[i] if decay != f32(0) else f32(0))
        held = step if first else momentum * b[i] + rest * step
        b[i] = held
        p[i] -= lr * (step + momentum * held if nesterov else held)


@parallel
def _sgd(addresses, pieces, lr, momentum, rest, decay, nesterov, first, nt):
    for t in prange(nt):
        i, j = bounds(t, nt, len(pieces), 1)
        for piece in pieces[i:j]:
            p, g = _piece(addresses[0], piece), _piece(addresses[1], piece)
            if len(addresses) == 3:
                b = _piece(addresses[2], piece)
                _momentum_step(p, g, b, lr, momentum, rest, decay, nesterov, first)
            else:
                _sgd_step(p, g, lr, decay)


def GlobalNorm(tensors: Any, *, out: Any) -> None:
    addresses, pieces, nt = _cut(tensors)
    out.array[...] = math.sqrt(_squares(addresses[0], pieces, np.empty(len(pieces)), nt))


def AllFinite(tensors: Any, *, out: Any) -> None:
    addresses, pieces, nt = _cut(tensors)
    out.array[...] = math.isfinite(_squares(addresses[0], pieces, np.empty(len(pieces)), nt))


@serial
def _sum_squares(x):
    """The sum of squares in float64, whose range they do not leave: finite where every element is."""
    total = 0.0
    for i in range(x.size):
        wide = np.float64(x[i])
        total += wide * wide
    return total


@parallel
def _squares(addresses, pieces, sums, nt):
    for t in prange(nt):
        i, j = bounds(t, nt, len(pieces), 1)
        for k in range(i, j):
            sums[k] = _sum_squares(_piece(addresses, pieces[k]))
    total = 0.0
    for k in range(len(sums)):
        total += sums[k]
    return total


def ScaleInPlace(tensors: Any, factor: float) -> None:
    addresses, pieces, nt = _cut(tensors)
    _scale(addresses[0], pieces, f32(factor), nt)


@serial
def _multiply(x, factor):
    for i in range(x.size):
        x[i] *= factor


@parallel
def _scale(addresses, pieces, factor, nt):
    for t in prange(nt):
        i, j = bounds(t, nt, len(pieces), 1)
        for piece in pieces[i:j]:
            _multiply(_piece(addresses, piece), factor)
