"""The gradients of a Linear in one parallel region: its threads meet once instead of three times."""

from __future__ import annotations

from typing import Any

from ..linear import rows
from .gemm import GRAIN, bounds, gemm
from .jit import parallel, parts, prange, serial
from .linear import column_sums


def LinearBackward(x: Any, weight: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    a, w, g = rows(x.array), weight.array, rows(grad.array)
    dx, dweight, dbias = out
    _backward(
        a, w, g, rows(dx.array), dweight.array, dbias.array, accumulate, parts(2 * len(a) * w.size, GRAIN)
    )


@serial
def _inputs(w, g, dx, i, j):
    """Rows i to j of dx."""
    gemm(False, False, g[i:j], w, 0, dx[i:j])


@serial
def _parameters(x, g, dw, db, accumulate, i, j):
    """Outputs i to j of dw and db."""
    gemm(True, False, g[:, i:j], x, 1 if accumulate else 0, dw[i:j])
    column_sums(g, accumulate, db, i, j)


@parallel
def _backward(x, w, g, dx, dw, db, accumulate, nt):
    m, n = g.shape
    if nt == 1:
        _inputs(w, g, dx, 0, m)
        _parameters(x, g, dw, db, accumulate, 0, n)
    elif nt == 2:  # whole products are faster than halves
        for t in prange(2):
            if t == 0:
                _inputs(w, g, dx, 0, m)
            else:
                _parameters(x, g, dw, db, accumulate, 0, n)
    else:
        for t in prange(nt):
            i, j = bounds(t, nt, m, 16)
            _inputs(w, g, dx, i, j)
            i, j = bounds(t, nt, n, 16)
            _parameters(x, g, dw, db, accumulate, i, j)
