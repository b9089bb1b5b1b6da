"""What a mask lets through, 0 elsewhere, whatever was there; and the kernels that are no more than that."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ufuncs import sum_into

FEW = 1 << 14
"""Elements below which one call more costs more than slow bools do."""
_BITS = {4: np.int32, 8: np.int64}


def keep(values: np.ndarray, mask: np.ndarray, out: np.ndarray) -> None:
    """Write ``values`` where ``mask`` holds, else 0, to ``out`` (float32 or float64; ``values`` itself is fine).

    The bits are multiplied by 0 or 1: NaN and infinities are dropped like any number, and a mask without pattern
    costs a tenth of what ``np.where`` takes. Bytes become wider integers faster than bools do.
    """
    kind = _BITS[out.dtype.itemsize]
    bits = out.view(kind)
    if values is out or values.size < FEW:
        np.multiply(values.view(kind), mask, bits)
    else:
        np.copyto(bits, mask.view(np.int8))
        np.multiply(bits, values.view(kind), bits)


def kept_into(values: np.ndarray, mask: np.ndarray, target: np.ndarray) -> None:
    """Write ``values`` where ``mask``, which broadcasts to it, holds, else 0, to ``target``, summed to its shape."""
    if target.shape == values.shape and target.dtype == values.dtype:
        keep(values, mask, target)
        return
    full = np.empty_like(values)
    keep(values, mask, full)
    sum_into(full, target)


def MaskBackward(grad: Any, mask: Any, shape: tuple[int, ...], *, out: Any) -> None:
    kept_into(grad.array, np.logical_not(mask.array), out.array)


def WhereBackward(
    condition: Any, grad: Any, a_shape: tuple[int, ...], b_shape: tuple[int, ...], *, out: Any
) -> None:
    mask, g = condition.array, grad.array
    kept_into(g, mask, out[0].array)
    kept_into(g, np.logical_not(mask), out[1].array)
