"""Top-k, by sorting each row as Python sorts."""

from __future__ import annotations

import math

import numpy as np

from .want import Array, Want, plain


def topk(x: Array, k: int, axis: int, largest: bool) -> dict[str, Want]:
    rows = np.moveaxis(x, axis, -1)
    indices = np.zeros((*rows.shape[:-1], k))
    for at in np.ndindex(*rows.shape[:-1]):
        keys = [(1, 0.0) if math.isnan(v) else (0, v) for v in rows[at]]  # NaN is above every number
        if largest:
            keys = [(-a, -b) for a, b in keys]
        indices[at] = sorted(range(len(keys)), key=lambda i: (keys[i], i))[:k]
    values = np.take_along_axis(rows, indices.astype(np.int64), -1)
    return {"values": plain(np.moveaxis(values, -1, axis)), "indices": plain(np.moveaxis(indices, -1, axis))}
