"""Transposing small float32 matrices: 8 x 8 values at a time in vector registers, which LLVM does not think of."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .jit import serial

_VECTOR = ir.VectorType(ir.FloatType(), 8)
_PLACES = ir.VectorType(ir.IntType(32), 8)


def _tile_8x8(typing: Any, source: Any, width: Any, target: Any, height: Any, scale: Any) -> Any:
    """Write 8 x 8 values from ``source``, rows ``width`` apart, times scale to ``target``, rows ``height`` apart."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, width, target, height, scale = args

        def row(start: Any, stride: Any, i: int) -> Any:
            place = builder.gep(start, [builder.mul(stride, ir.Constant(stride.type, 4 * i))])
            return builder.bitcast(place, _VECTOR.as_pointer())

        def shuffle(a: Any, b: Any, places: list[int]) -> Any:
            return builder.shuffle_vector(a, b, ir.Constant(_PLACES, places))

        empty = ir.Constant(_VECTOR, ir.Undefined)
        factor = shuffle(
            builder.insert_element(empty, scale, ir.Constant(_PLACES.element, 0)), empty, [0] * 8
        )
        rows = [builder.fmul(builder.load(row(source, width, i), align=4), factor) for i in range(8)]
        for step in (4, 2, 1):  # swap blocks of this size that mirror each other in the diagonal
            for i in (i for i in range(8) if not i & step):
                a, b = rows[i], rows[i + step]
                rows[i] = shuffle(a, b, [8 + k - step if k & step else k for k in range(8)])
                rows[i + step] = shuffle(a, b, [8 + k if k & step else k + step for k in range(8)])
        for i, value in enumerate(rows):
            builder.store(value, row(target, height, i), align=4)
        return context.get_dummy_value()

    return types.void(types.voidptr, types.int64, types.voidptr, types.int64, types.float32), make


_tile: Any = intrinsic(_tile_8x8)


@serial
def transpose(x, scale, y):
    """y[:, :n] = scale xᵀ for x (n, d), rows of both contiguous; further columns of y become 0."""
    n, d = x.shape
    whole, across = n // 8 * 8, d // 8 * 8
    for i in range(0, whole, 8):
        for j in range(0, across, 8):
            _tile(x[i:, j:].ctypes, x.strides[0] // 4, y[j:, i:].ctypes, y.strides[0] // 4, scale)
    for i in range(n):
        for j in range(across if i < whole else 0, d):
            y[j, i] = x[i, j] * scale
    for j in range(d):
        y[j, n:] = np.float32(0)
