"""What every contender trains on: the same first weights, tokens and targets, made by NumPy from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import numpy as np
from _shapes import Shape

SEED = 1234
BATCHES = 2  # taken in turns: from the third step on losses show what was learned
LR, BETAS, EPS, DECAY = 3e-4, (0.9, 0.95), 1e-8, 0.1  # of AdamW; only matrices decay
NORM_EPS, THETA = 1e-5, 10000.0


def weights(shape: Shape) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each parameter's first value. No two are alike, so that a mix-up shows in the losses."""
    for name, dims in shape.parameters().items():
        values = np.random.default_rng([SEED, crc32(name.encode())]).standard_normal(dims, np.float32)
        values *= 0.02
        if len(dims) == 1 and name.endswith("weight"):  # of a norm
            values += 1
        yield name, values


def batches(shape: Shape) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (tokens, targets) of each batch."""
    rng = np.random.default_rng(SEED)
    return [
        (rng.integers(0, shape.vocab, dims), rng.integers(0, shape.vocab, dims))
        for dims in [(shape.batch, shape.time)] * BATCHES
    ]
