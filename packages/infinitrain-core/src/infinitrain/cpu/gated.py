"""CPU kernels of Linear with GELU and of SwiGLU, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .activation import gelu, sigmoid, silu, silu_slope
from .blas import matmul
from .blocks import row_blocks
from .linear import rows


def LinearGeluForward(x: Any, weight: Any, bias: Any, approximate: str, *, out: Any) -> None:
    y, pre = rows(out[0].array), rows(out[1].array)
    matmul(rows(x.array), weight.array.T, pre)
    for i in row_blocks(*pre.shape):
        if bias is not None:
            pre[i] += bias.array
        gelu(pre[i], approximate, y[i])


def SwigluForward(gate_up: Any, *, out: Any) -> None:
    packed, y = rows(gate_up.array), rows(out.array)
    f = y.shape[1]
    for i in row_blocks(*packed.shape):
        gate, t = packed[i, :f], y[i]
        silu(gate, t)
        np.multiply(t, packed[i, f:], t)


def SwigluBackward(gate_up: Any, grad: Any, *, out: Any) -> None:
    packed, g, d = rows(gate_up.array), rows(grad.array), rows(out.array)
    f = g.shape[1]
    for i in row_blocks(*packed.shape):
        gate, up, dgate, dup = packed[i, :f], packed[i, f:], d[i, :f], d[i, f:]
        s, t = np.empty((2, *up.shape), g.dtype)  # dense, where the halves are not
        sigmoid(gate, s)
        silu_slope(gate, s, t)
        t *= g[i]
        np.multiply(t, up, dgate)
        np.multiply(gate, s, t)
        np.multiply(t, g[i], dup)
