"""Top-k, by sorting each row: what is equal keeps its order."""

from __future__ import annotations

import numpy as np

from .want import Array, Want, plain


def topk(x: Array, k: int, axis: int, largest: bool) -> dict[str, Want]:
    rows, sign = np.moveaxis(x, axis, -1), -1 if largest else 1
    nan = np.isnan(rows)  # above every number
    order = np.lexsort((sign * np.where(nan, 0.0, rows), sign * nan.astype(int)), axis=-1)[..., :k]
    values = np.take_along_axis(rows, order, -1)
    return {
        "values": plain(np.moveaxis(values, -1, axis)),
        "indices": plain(np.moveaxis(order.astype(np.float64), -1, axis)),
    }
