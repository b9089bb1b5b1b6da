"""Array kernel of top-k: a stable sort. The standard leaves the place of NaN open; NumPy, CuPy and torch sort it last,
which is what a library here is expected to do.
"""

from __future__ import annotations

from typing import Any

from .registry import array_kernel


@array_kernel()
def TopKForward(xp: Any, x: Any, k: int, axis: int, largest: bool) -> Any:
    if (
        largest
    ):  # sorted backwards, so that of equal elements the first comes last, and first once turned round
        order = xp.flip(xp.argsort(xp.flip(x, axis=axis), axis=axis, stable=True), axis=axis)
        order = x.shape[axis] - 1 - order
    else:
        order = xp.argsort(x, axis=axis, stable=True)
    best = order[(slice(None),) * axis + (slice(k), ...)]
    return xp.take_along_axis(x, best, axis=axis), best
