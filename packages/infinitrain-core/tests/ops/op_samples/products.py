"""Samples of matrix products and what is made of them: linear, attention, gates, rotations."""

from __future__ import annotations

import numpy as np

from .draw import Draw, Sample, sample
from .pointwise import gelu


def _linear(d: Draw) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
    x = d.values((*d.shape(high=2, most=12), d.size()))
    weight = d.values((d.size(), x.shape[-1]))
    bias = d.values(weight.shape[:1]) if d.flag() else None
    return x, weight, bias, np.einsum("...i,oi->...o", x, weight) + (0 if bias is None else bias)


@sample("LinearForward")
def _plain(d: Draw) -> Sample:
    x, weight, bias, y = _linear(d)
    return Sample((x, weight, bias), (y,))


@sample("LinearGeluForward")
def _linear_gelu(d: Draw) -> Sample:
    (x, weight, bias, pre), form = _linear(d), d.one_of("tanh", "none")
    return Sample((x, weight, bias, form), (gelu(form)(pre), pre))


def _matrices(d: Draw) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    batch = d.shape(high=2, most=6)
    m, k, n = d.size(), d.size(), d.size()
    a, b = d.values((*d.partner(batch), m, k)), d.values((*d.partner(batch), k, n))
    return a, b, np.einsum("...mk,...kn->...mn", a, b)


@sample("MatmulForward")
def _matmul(d: Draw) -> Sample:
    a, b, y = _matrices(d)
    return Sample((a, b), (y,))


@sample("Gemm")
def _gemm(d: Draw) -> Sample:
    a, b, y = _matrices(d)
    c, alpha, beta = d.values(y.shape), d.one_of(0.0, 0.5), d.one_of(0.0, -0.75, 1.0)
    left, right = d.flag(), d.flag()
    args = (np.swapaxes(a, -1, -2) if left else a, np.swapaxes(b, -1, -2) if right else b)
    return Sample((*args, c, alpha, beta, left, right), (alpha * y + beta * c,))


@sample("SwigluForward")
def _swiglu(d: Draw) -> Sample:
    half = d.shape(1)
    gate, up = d.values(half), d.values(half)
    return Sample((np.concatenate([gate, up], -1),), (gate * up / (1 + np.exp(-gate)),))


@sample("AttentionForward")
def _attention(d: Draw) -> Sample:
    b, t, size, kv, r = d.size(), d.size(), d.int(1, 3), d.int(1, 2), d.int(1, 2)
    heads, causal = kv * r, d.flag()
    qkv = d.values((b, t, (heads + 2 * kv) * size)) / 2
    y, lse = np.zeros((b, t, heads * size)), np.zeros((b, heads, t))
    for i, h, row in np.ndindex(b, heads, t):
        parts = qkv[i].reshape(t, -1, size)
        q, k, v = parts[row, h], parts[:, heads + h // r], parts[:, heads + kv + h // r]
        seen = row + 1 if causal else t
        scores = np.exp(k[:seen] @ q / np.sqrt(size))
        lse[i, h, row] = np.log(scores.sum())
        y[i, row, h * size : (h + 1) * size] = scores @ v[:seen] / scores.sum()
    return Sample((qkv, heads, kv, causal), (y, lse))


@sample("RopeForward")
def _rope(d: Draw) -> Sample:
    b, t, heads, size, position = d.size(), d.size(), d.int(1, 3), d.one_of(2, 4), d.int(0, 2)
    rotated, interleaved = d.int(0, heads), d.flag()
    x = d.values((b, t, heads * size))
    angles = d.values((position + t + d.int(0, 1), size // 2))
    want = x.copy()
    for i, row, h, j in np.ndindex(b, t, rotated, size // 2):
        at = [h * size + (2 * j + e if interleaved else j + e * size // 2) for e in (0, 1)]
        turned = complex(*x[i, row, at]) * np.exp(1j * angles[position + row, j])
        want[i, row, at] = turned.real, turned.imag
    return Sample((x, np.cos(angles), np.sin(angles), heads, rotated, interleaved, position), (want,))
