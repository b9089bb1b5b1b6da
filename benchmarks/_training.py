"""What the training programs share: turns of timed steps."""

from __future__ import annotations

import resource
import time
from typing import Any

from _data import batches
from _shapes import Shape
from _worker import peak_memory


class Training:
    """A program that trains; ``build`` makes a model and ``step`` trains it once and returns the loss."""

    def build(self, shape: Shape) -> None:
        raise NotImplementedError

    def step(self, tokens: Any, targets: Any) -> float:
        raise NotImplementedError

    def prepare(self, shape: dict[str, Any]) -> None:
        """Make the model, in place of an earlier one."""
        self.shape = Shape(**shape)
        self.batches, self.done = batches(self.shape), 0
        self.build(self.shape)

    def steps(self, count: int, settle: int = 0) -> dict[str, Any]:
        """Train for ``settle`` steps, then for ``count``: return their times in ms, losses, and page faults each."""
        times, losses, faults = [], [], _faults()
        for i in range(settle + count):
            batch = self.batches[self.done % len(self.batches)]
            self.done += 1
            start = time.perf_counter()
            loss = self.step(*batch)
            took = time.perf_counter() - start
            if i == settle - 1:
                faults = _faults()
            if i >= settle:
                times.append(took * 1e3)
                losses.append(loss)
        return {"times": times, "losses": losses, "faults": (_faults() - faults) / count}

    def memory(self) -> int:
        """Return the most bytes that were resident at any time."""
        return peak_memory()


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
