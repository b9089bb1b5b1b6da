"""CPU kernels of rotary position embedding: neighbours as complex numbers, halves as they lie, in blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import row_blocks


def RopeForward(
    x: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int, *, out: Any
) -> None:
    _rotate(x, cos, sin, heads, rotated, interleaved, position, 1, out)


def RopeBackward(
    grad: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int, *, out: Any
) -> None:
    _rotate(grad, cos, sin, heads, rotated, interleaved, position, -1, out)


def _rotate(
    x: Any,
    cos: Any,
    sin: Any,
    heads: int,
    rotated: int,
    interleaved: bool,
    position: int,
    sign: int,
    out: Any,
) -> None:
    b, t, width = x.shape
    half = width // heads // 2
    c, s = (table.array[position : position + t] for table in (cos, sin))
    turn, shape = (_neighbours, (b, t, heads, 2 * half)) if interleaved else (_halves, (b, t, heads, 2, half))
    source, y = x.array.reshape(shape), out.array.reshape(shape)
    for j in row_blocks(t, width):
        rotation = _rotation(c[j], sign * s[j], rotated, interleaved, x.array.dtype)
        for i in range(b):
            turn(source[i, j, :rotated], rotation, y[i, j, :rotated])
            y[i, j, rotated:] = source[i, j, rotated:]


def _rotation(c: np.ndarray, s: np.ndarray, heads: int, interleaved: bool, dtype: np.dtype[Any]) -> Any:
    """Return what ``_neighbours`` or ``_halves`` multiplies a block of rows by."""
    if interleaved:
        z = np.empty((len(c), 1, c.shape[1]), np.result_type(dtype, np.complex64))
        z.real[:, 0], z.imag[:, 0] = c, s
        return z
    cosines, sines = np.empty((2, len(c), heads, 2, c.shape[1]), dtype)
    cosines[:] = c[:, None, None]
    sines[:, :, 0], sines[:, :, 1] = -s[:, None], s[:, None]
    return cosines, sines


def _neighbours(x: np.ndarray, z: np.ndarray, out: np.ndarray) -> None:
    """Turn (a, b) as the complex number a + b i."""
    np.multiply(x.view(z.dtype), z, out=out.view(z.dtype))


def _halves(x: np.ndarray, rotation: tuple[np.ndarray, np.ndarray], out: np.ndarray) -> None:
    cosines, sines = rotation
    np.multiply(x, cosines, out=out)
    out += x[..., ::-1, :] * sines
