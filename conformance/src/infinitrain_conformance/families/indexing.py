"""Embedding: ids by Zipf's law, so that one row of the gradient gathers hundreds of contributions."""

from __future__ import annotations

import numpy as np

from ..cases import Built, Data, OpCase, case
from ..oracles import indexing as oracles

CASES: list[OpCase] = []


def zipf(d: Data, shape: tuple[int, ...], rows: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, rows + 1)
    ids = d.rng.choice(rows, size=shape, p=weights / weights.sum())
    return np.asarray(d.rng.permutation(rows)[ids], np.int64)


def forward(d: Data, shape: tuple[int, ...], rows: int, width: int) -> Built:
    return Built((zipf(d, shape, rows), d.normal(rows, width, mean=1.0)), oracles.embedding)


def backward(d: Data, shape: tuple[int, ...], rows: int, width: int, mean: float = 0.2) -> Built:
    return Built((zipf(d, shape, rows), d.normal(*shape, width, mean=mean), rows), oracles.embedding_backward)


case(CASES, "EmbeddingForward", "zipf", forward, (4, 33), 53, 24)
case(CASES, "EmbeddingForward", "one", forward, (1,), 3, 1, dtypes=("float32",))
case(CASES, "EmbeddingForward", "no_ids", forward, (0,), 3, 2, dtypes=("float32",), clause="4.4")
case(CASES, "EmbeddingBackward", "zipf", backward, (4, 33), 53, 24)
case(CASES, "EmbeddingBackward", "hot", backward, (2048,), 7, 9, clause="4.7")
case(CASES, "EmbeddingBackward", "no_ids", backward, (0,), 3, 2, dtypes=("float32",), clause="4.4")
