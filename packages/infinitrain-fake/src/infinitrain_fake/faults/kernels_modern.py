"""Faults of RMSNorm, residual norm, RoPE and tiled attention kernels (L2 forward, L3 backward)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infinitrain.backend import from_array

from .catalogue import Call, kernel_fault

TILE = 128  # rows of queries that the array kernels of attention take at once


@kernel_fault("RmsNormForward", "4.1", "L2")
def rmsnorm_without_eps(call: Call) -> Any:
    """RmsNormForward leaves eps out."""
    return call.good(eps=0.0)


@kernel_fault("RmsNormForward", "4.1", "L2")
def rmsnorm_subtracts_mean(call: Call) -> Any:
    """RmsNormForward normalises x - mean(x), as a layer norm does."""
    y, rstd = call.good()
    x = call.wide("x")
    h = x - x.mean(-1, keepdims=True)
    rstd.array[...] = 1.0 / np.sqrt((h * h).mean(-1) + call["eps"])
    y.array[...] = h * rstd.array[..., None] * call.wide("weight")
    return y, rstd


@kernel_fault("RmsNormForward", "4.1", "L2")
def rmsnorm_saves_mean_square(call: Call) -> Any:
    """RmsNormForward's second result is the mean square, not its reciprocal root."""
    y, rstd = call.good()
    rstd.array[...] = (call.wide("x") ** 2).mean(-1)
    return y, rstd


@kernel_fault("RmsNormBackward", "4.1", "L3")
def rmsnorm_dx_drops_mean_term(call: Call) -> Any:
    """RmsNormBackward's dx lacks the term h mean(g h)."""
    dx, dweight = call.good()
    dx.array[...] = call.wide("rstd")[..., None] * call.wide("grad") * call.wide("weight")
    return dx, dweight


@kernel_fault("RmsNormBackward", "4.1", "L3")
def rmsnorm_dweight_of_x(call: Call) -> Any:
    """RmsNormBackward's dweight sums grad x without rstd."""
    dx, dweight = call.good()
    grad, x = call.wide("grad"), call.wide("x")
    dweight.array[...] = (grad * x).reshape(-1, x.shape[-1]).sum(0)
    return dx, dweight


@kernel_fault("RmsNormBackward", "5.1", "L3")
def rmsnorm_dweight_rounded_to_x(call: Call) -> Any:
    """RmsNormBackward rounds dweight to x's dtype, although the weight has a wider one."""
    dx, dweight = call.good()
    dweight.array[...] = dweight.array.astype(call["x"].dtype.numpy)
    return dx, dweight


@kernel_fault("AddLayerNormForward", "4.1", "L2")
def add_norm_normalises_x(call: Call) -> Any:
    """AddLayerNormForward returns the right sum, and the mean of x alone."""
    total, y, mean, rstd = call.good()
    mean.array[...] = call.wide("x").mean(-1)
    return total, y, mean, rstd


@kernel_fault("AddLayerNormBackward", "4.1", "L3")
def add_norm_forgets_gradient_of_sum(call: Call) -> Any:
    """AddLayerNormBackward's dx is that of the norm alone: the residual path is cut."""
    return call.good(grad_sum=None)


@kernel_fault("AddRmsNormBackward", "4.1", "L3")
def add_norm_counts_gradient_of_sum_twice(call: Call) -> Any:
    """AddRmsNormBackward adds the sum's gradient twice: once for x and once for the residual."""
    dx, dweight = call.good()
    if call["grad_sum"] is not None:
        dx.array[...] = dx.array.astype(np.float32) + call.wide("grad_sum")
    return dx, dweight


@kernel_fault("RopeForward", "4.1", "L2")
def rope_turns_backwards(call: Call) -> Any:
    """RopeForward rotates by the opposite angle."""
    return call.good(sin=from_array(-call["sin"].array, call["sin"].device))


@kernel_fault("RopeBackward", "4.1", "L3")
def rope_backward_turns_forwards(call: Call) -> Any:
    """RopeBackward rotates by the angle itself instead of back."""
    return call.good(sin=from_array(-call["sin"].array, call["sin"].device))


@kernel_fault("RopeForward", "4.1", "L2")
def rope_pairs_of_other_layout(call: Call) -> Any:
    """RopeForward always pairs neighbours, also where pairs are half a head apart."""
    return call.good(interleaved=True)


@kernel_fault("RopeForward", "4.1", "L2")
def rope_ignores_position(call: Call) -> Any:
    """RopeForward starts at the table's first row whatever the position: right only without a cache."""
    return call.good(position=0)


@kernel_fault("RopeForward", "4.1", "L2")
def rope_rotates_values(call: Call) -> Any:
    """RopeForward rotates every head, values too."""
    return call.good(rotated=call["heads"])


@kernel_fault("AttentionForward", "4.1", "L2")
def attention_tile_boundary(call: Call) -> Any:
    """AttentionForward hides a block's last key from it: the last query of each but the last block misses itself."""
    y, lse = call.good()
    if call["causal"]:
        qkv, heads, groups = call.wide("qkv"), call["n_head"], call["n_kv_head"]
        b, t, width = qkv.shape
        d = width // (heads + 2 * groups)
        packed = qkv.reshape(b, t, -1, d)
        for row in range(TILE - 1, t - 1, TILE):
            for h in range(heads):
                g = heads + h * groups // heads
                scores = np.einsum("bd,bsd->bs", packed[:, row, h], packed[:, :row, g]) / math.sqrt(d)
                peak = scores.max(-1, keepdims=True)
                e = np.exp(scores - peak)
                total = e.sum(-1, keepdims=True)
                values = packed[:, :row, g + groups]
                y.array[:, row, h * d : (h + 1) * d] = np.einsum("bs,bsd->bd", e / total, values)
                lse.array[:, h, row] = (peak + np.log(total))[:, 0]
    return y, lse


@kernel_fault("AttentionBackward", "4.1", "L3")
def attention_tiles_not_summed(call: Call) -> Any:
    """AttentionBackward keeps the first block's gradient of keys and values where later blocks add to it."""
    d = call.good()
    heads, groups = call["n_head"], call["n_kv_head"]
    if call["qkv"].shape[1] > TILE:
        array = call["grad"].array.copy()
        array[:, :TILE] = 0
        late = call.good(grad=from_array(array, call["grad"].device))
        width = d.shape[-1] // (heads + 2 * groups) * heads
        d.array[..., width:] = late.array[..., width:]
    return d
