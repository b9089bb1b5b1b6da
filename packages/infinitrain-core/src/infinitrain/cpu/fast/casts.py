"""Casts between float32 and half precision, whose arrays are taken as their bits: Numba knows no bfloat16."""

from __future__ import annotations

from typing import Any

import numpy as np

from .gemm import bounds
from .jit import inline, parallel, parts, prange, run, serial

f32, u32, u16 = np.float32, np.uint32, np.uint16
GRAIN = 1 << 16
"""Elements worth a thread: about 10 us."""
_INFINITY, _ALL_BUT_SIGN, _SIGN = u32(0x7F800000), u32(0x7FFFFFFF), u32(0x80000000)
_TOO_LARGE, _NORMAL = (
    u32((127 + 16) << 23),
    u32((127 - 14) << 23),
)  # 2¹⁶ and 2⁻¹⁴, the ends of float16's normals
_DENORMAL, _DENORMAL_BITS = (
    f32(0.5),
    f32(0.5).view(u32),
)  # float16's last place below 2⁻¹⁴ is float32's at 1/2


def Cast(x: Any, dtype: Any, *, out: Any) -> None:
    a, y = x.array.reshape(-1), out.array.reshape(-1)
    nt = parts(a.size, GRAIN)
    if a.dtype == f32:
        brain = dtype.name == "bfloat16"
        run(_narrow, _split_narrow, a.size, nt, brain, a.view(u32), y.view(u16))
    else:
        brain = x.dtype.name == "bfloat16"
        run(_widen, _split_widen, a.size, nt, brain, a.view(u16), y.view(u32))


@inline
def _bfloat16(bits):
    rounded = u32(u32(bits + u32(0x7FFF) + (u32(bits >> u32(16)) & u32(1))) >> u32(16))
    if u32(bits & _ALL_BUT_SIGN) > _INFINITY:
        rounded = u32(u32(u32(bits & _SIGN) >> u32(16)) | u32(0x7FC0))
    return u16(rounded)


@inline
def _float16(bits):
    size = u32(bits & _ALL_BUT_SIGN)
    rounded = u32(u32(size - u32((127 - 15) << 23) + u32(0xFFF) + (u32(size >> u32(13)) & u32(1))) >> u32(13))
    if size < _NORMAL:
        rounded = u32(f32(size.view(f32) + _DENORMAL).view(u32) - _DENORMAL_BITS)
    if size >= _TOO_LARGE:
        rounded = u32(0x7C00)
    if size > _INFINITY:
        rounded = u32(0x7E00)
    return u16(u32(rounded | u32(u32(bits & _SIGN) >> u32(16))))


@serial
def _narrow(start, stop, brain, x, y):
    x, y = x[start:stop], y[start:stop]
    if brain:
        for j in range(x.size):
            y[j] = _bfloat16(x[j])
    else:
        for j in range(x.size):
            y[j] = _float16(x[j])


@parallel
def _split_narrow(nt, brain, x, y):
    for t in prange(nt):
        i, j = bounds(t, nt, x.size, 32)
        _narrow(i, j, brain, x, y)


@inline
def _float32(half):
    size = u32(u32(half & u16(0x7FFF)) << u32(13))
    wide = f32(size.view(f32) * f32(2.0**112)).view(u32)
    if size >= u32(0x7C00 << 13):
        wide = u32(size | _INFINITY)
    return u32(wide | u32(u32(half & u16(0x8000)) << u32(16)))


@serial
def _widen(start, stop, brain, x, y):
    x, y = x[start:stop], y[start:stop]
    if brain:
        for j in range(x.size):
            y[j] = u32(u32(x[j]) << u32(16))
    else:
        for j in range(x.size):
            y[j] = _float32(x[j])


@parallel
def _split_widen(nt, brain, x, y):
    for t in prange(nt):
        i, j = bounds(t, nt, x.size, 32)
        _widen(i, j, brain, x, y)
