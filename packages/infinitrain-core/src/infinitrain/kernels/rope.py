"""Array kernels of rotary position embedding."""

from __future__ import annotations

from typing import Any

from .registry import array_kernel


@array_kernel()
def RopeForward(
    xp: Any, x: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int
) -> Any:
    b, t, width = x.shape
    half = width // heads // 2
    x = xp.reshape(x, (b, t, heads, 2 * half))
    pairs = xp.reshape(x[:, :, :rotated, :], (b, t, rotated, *((half, 2) if interleaved else (2, half))))
    axis = -1 if interleaved else -2
    first, second = (pairs[..., 0], pairs[..., 1]) if interleaved else (pairs[..., 0, :], pairs[..., 1, :])
    c, s = (xp.expand_dims(table[position : position + t, :], axis=1) for table in (cos, sin))
    turned = xp.stack((first * c - second * s, second * c + first * s), axis=axis)
    turned = xp.reshape(turned, (b, t, rotated, 2 * half))
    if rotated < heads:
        turned = xp.concat((turned, xp.astype(x[:, :, rotated:, :], turned.dtype, copy=False)), axis=2)
    return xp.reshape(turned, (b, t, width))


@array_kernel()
def RopeBackward(
    xp: Any, grad: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int
) -> Any:
    return RopeForward(xp, grad, cos, -sin, heads, rotated, interleaved, position)
