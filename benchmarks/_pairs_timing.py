"""What the programs that time single ops share: inputs, the comparison of results, the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

import numpy as np
from _pairs import PAIRS
from _shapes import Shape

LEAST = 5  # repetitions in a turn
LINKS = 8  # of a chain


class Timing:
    """A program that times ``functions``, by the names of pairs, with tensors of one framework."""

    functions: Mapping[str, Callable[..., Any]]

    def tensor(self, array: np.ndarray, gradient: bool) -> Any:
        """Return a leaf with these values."""
        raise NotImplementedError

    def array(self, tensor: Any) -> np.ndarray:
        raise NotImplementedError

    def no_grad(self) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def prepare(self, name: str, shape: dict[str, Any], digests: bool = True) -> list[list[float]]:
        """Make the inputs of a pair; return digests of its result and of the gradients.

        Without ``digests`` nothing is computed for them.
        """
        pair, rng = PAIRS[name], np.random.default_rng(0)
        self.function = self.functions[name]
        self.arguments, self.leaves = [], []
        for value in pair.make(rng, Shape(**shape)):
            if isinstance(value, np.ndarray):
                floating = value.dtype.kind == "f"
                value = self.tensor(value, gradient=floating and pair.gradient)
                if floating and pair.gradient:
                    self.leaves.append(value)
            self.arguments.append(value)
        result = self.function(*self.arguments)
        self.seed = None
        if self.leaves:
            self.seed = self.tensor(rng.standard_normal(tuple(result.shape), np.float32), gradient=False)
            result.backward(self.seed)
        self.chains = (
            bool(self.leaves) and self.arguments[0] is self.leaves[0] and result.shape == self.leaves[0].shape
        )
        found = [self.array(result)] + [self.array(leaf.grad) for leaf in self.leaves]
        return [_digest(values) for values in found] if digests else []

    def time(self, seconds: float, chain: bool = False) -> dict[str, float]:
        """Return the median us of calls that record nothing, of calls that do, and of their backward.

        With ``chain`` also what one more node costs, forward and backward, where the op can be applied to its own
        result: without what every backward pass costs once.
        """
        found: dict[str, float] = {}
        with self.no_grad():
            found["forward"] = median(self._forward(seconds / 3))
        if self.leaves:
            once = self._pass(seconds, 1)
            found |= {"recorded": median(t[0] for t in once), "backward": median(t[1] for t in once)}
            if chain and self.chains:
                long, short = (median(map(sum, times)) for times in (self._pass(seconds, LINKS), once))
                found["node"] = (long - short) / (LINKS - 1)
        return {name: value * 1e6 for name, value in found.items()}

    def _forward(self, seconds: float) -> list[float]:
        clock, function, arguments = time.perf_counter, self.function, self.arguments
        times: list[float] = []
        stop = clock() + seconds
        while len(times) < LEAST or clock() < stop:
            start = clock()
            function(*arguments)
            times.append(clock() - start)
        return times

    def _pass(self, seconds: float, links: int) -> list[tuple[float, float]]:
        """Return the times of recorded calls and of backward, of ``links`` calls one after the other."""
        clock, function, seed = time.perf_counter, self.function, self.seed
        times: list[tuple[float, float]] = []
        first, *others = self.arguments
        stop = clock() + seconds
        while len(times) < LEAST or clock() < stop:
            for leaf in self.leaves:
                leaf.grad = None
            start = clock()
            result = function(first, *others)
            for _ in range(links - 1):
                result = function(result, *others)
            middle = clock()
            result.backward(seed)
            times.append((middle - start, clock() - middle))
            del result
        return times


def _digest(values: np.ndarray) -> list[float]:
    """Return the size of an array and two numbers that other values, or the same in other places, would change."""
    flat = values.reshape(-1).astype(np.float64)
    weights = np.cos(np.arange(flat.size, dtype=np.float64))
    return [float(flat.size), float(np.sqrt(flat @ flat)), float(flat @ weights)]


def differ(ours: list[list[float]], theirs: list[list[float]], tolerance: float = 1e-4) -> bool:
    """Tell whether digests are of different values: by more than ``tolerance`` of the values' norm."""
    if len(ours) != len(theirs):
        return True
    return any(
        a[0] != b[0]
        or not all(abs(x - y) <= tolerance * max(1e-30, b[1]) for x, y in zip(a[1:], b[1:], strict=True))
        for a, b in zip(ours, theirs, strict=True)
    )
