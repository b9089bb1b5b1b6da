"""The program that measures how fast the BLAS of our matmuls does the matrix products of a shape."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _shapes import Product, Shape

LEAST, REPEATS = 2e-3, 3  # seconds of work in one timing, of which the best counts


class Program:
    """``threads`` are set by the environment."""

    def __init__(self, threads: int) -> None:
        pass

    def prepare(self, shape: dict[str, Any]) -> None:
        self.products = [Product(*sizes) for sizes in Shape(**shape).products()]

    def seconds(self) -> float:
        """Return what the products of a training step take: forward, and both of backward."""
        return sum(p.times * _seconds(p) for p in self.products)


def _seconds(product: Product) -> float:
    rng = np.random.default_rng(0)
    _, rows, inputs, outputs = product
    x, w, y = (
        rng.standard_normal(dims, np.float32) for dims in ((rows, inputs), (outputs, inputs), (rows, outputs))
    )
    dx, dw = np.empty_like(x), np.empty_like(w)
    return (
        _best(lambda: np.matmul(x, w.T, out=y))
        + _best(lambda: np.matmul(y, w, out=dx))
        + _best(lambda: np.matmul(y.T, x, out=dw))
    )


def _best(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    count = max(1, int(LEAST / (time.perf_counter() - start)))
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(count):
            run()
        best = min(best, (time.perf_counter() - start) / count)
    return best
