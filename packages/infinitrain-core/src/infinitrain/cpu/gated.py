"""CPU kernels of Linear with GELU and of SwiGLU, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.linear import rows
from .activation import gelu, sigmoid, silu_slope
from .blocks import row_blocks


def LinearGeluForward(x: Any, weight: Any, bias: Any, approximate: str, *, out: Any) -> None:
    y, pre = (rows(np, t.array) for t in out)
    np.matmul(rows(np, x.array), weight.array.T, out=pre)
    for i in row_blocks(*pre.shape):
        if bias is not None:
            pre[i] += bias.array
        gelu(pre[i], approximate, y[i])


def SwigluForward(gate_up: Any, *, out: Any) -> None:
    packed, y = rows(np, gate_up.array), rows(np, out.array)
    f = y.shape[1]
    for i in row_blocks(*packed.shape):
        gate, t = packed[i, :f], y[i]
        sigmoid(gate, t)
        t *= gate
        t *= packed[i, f:]


def SwigluBackward(gate_up: Any, grad: Any, *, out: Any) -> None:
    packed, g, d = rows(np, gate_up.array), rows(np, grad.array), rows(np, out.array)
    f = g.shape[1]
    for i in row_blocks(*packed.shape):
        gate, up, dgate, dup = packed[i, :f], packed[i, f:], d[i, :f], d[i, f:]
        s = np.empty_like(g[i])
        sigmoid(gate, s)
        silu_slope(gate, s, dgate)
        dgate *= up
        dgate *= g[i]
        np.multiply(gate, s, out=dup)
        dup *= g[i]
