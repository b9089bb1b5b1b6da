"""Walking long arrays in blocks that stay in cache, so that a chain of NumPy calls costs one pass over memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BLOCK = 1 << 16
"""Elements per block. Measured: GELU, norms and AdamW are fastest from 2**15 to 2**16 with 1 MiB of L2."""


def blocks(*arrays: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield matching flat views of equally large dense arrays, at most BLOCK elements each."""
    flat = [a.reshape(-1) for a in arrays]
    size = flat[0].size
    if size <= BLOCK:
        yield tuple(flat)
        return
    for start in range(0, size, BLOCK):
        yield tuple([a[start : start + BLOCK] for a in flat])


def row_blocks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows with at most BLOCK elements in each, at least one row."""
    step = max(1, BLOCK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, start + step)
