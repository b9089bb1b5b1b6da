"""Rotary position embedding from other ops of the table: what a backend without this kernel runs [contract 4.3]."""

from __future__ import annotations

from typing import Any

from ..backend.dispatch import composite
from .base import NoOpForward
from .elementwise import AddForward, MulForward, SubForward
from .join import ConcatForward, SplitForward
from .norm_composite import narrow
from .shape import SliceForward


@composite("SliceForward SplitForward ConcatForward AddForward SubForward MulForward")
def RopeForward(
    x: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int
) -> Any:
    return _rotate(x, cos, sin, heads, rotated, interleaved, position, back=False)


@composite("SliceForward SplitForward ConcatForward AddForward SubForward MulForward")
def RopeBackward(
    grad: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int
) -> Any:
    return _rotate(grad, cos, sin, heads, rotated, interleaved, position, back=True)


def _rotate(
    x: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int, *, back: bool
) -> Any:
    steps, width = x.shape[1], x.shape[2]
    half = width // heads // 2
    cut = 2 * half * rotated
    turning, rest = SplitForward(x, (cut, width - cut), 2)
    # Halves lie side by side, or one after the other: the axis of size 2 is the last, or the one before.
    pairs, axis = ((half, 2), 4) if interleaved else ((2, half), 3)
    a, b = SplitForward(NoOpForward(turning, (x.shape[0], steps, rotated, *pairs)), (1, 1), axis)
    shape = (steps, 1, half, 1) if interleaved else (steps, 1, 1, half)
    c, s = (
        NoOpForward(SliceForward(table, (position, 0), (position + steps, half), (1, 1)), shape)
        for table in (cos, sin)
    )
    first, second = (AddForward, SubForward) if back else (SubForward, AddForward)
    turned = ConcatForward(
        (
            first(MulForward(a, c), MulForward(b, s)),
            second(MulForward(b, c), MulForward(a, s)),
        ),
        axis,
    )
    return ConcatForward((narrow(NoOpForward(turned, turning.shape), x.dtype), rest), 2)
