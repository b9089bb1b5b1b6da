"""Indexing."""

from __future__ import annotations

import numpy as np

from .want import Array, Want, plain


def embedding(index: Array, weight: Array) -> dict[str, Want]:
    return {"y": plain(weight[index])}


def embedding_backward(index: Array, grad: Array, rows: int) -> dict[str, Want]:
    ids, flat = index.reshape(-1), grad.reshape(-1, grad.shape[-1])
    value, size = np.zeros((rows, flat.shape[-1])), np.zeros((rows, flat.shape[-1]))
    np.add.at(value, ids, flat)
    np.add.at(size, ids, np.abs(flat))
    most = int(np.bincount(ids, minlength=1).max()) if ids.size else 1
    return {"dweight": Want(value, size, most)}
