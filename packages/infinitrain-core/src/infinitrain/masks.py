"""Dropout's masks: what they depend on, and how they are made on the host [contract 8.3]."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from .errors import ShapeError
from .philox import MAX_SEED, checked_seed, is_count, stream_key, word


class StepScope:
    """What dropout's masks depend on, inside ``with``, for the calling thread: see ``step_scope``."""

    def __init__(self, seed: int, step: int, first_sample: int, samples: int | None) -> None:
        self.seed = checked_seed(seed)
        self.step, self.first_sample = word("step", step), word("first_sample", first_sample)
        if samples is not None and not is_count(samples):
            raise ValueError(f"step_scope: samples is an int >= 0, got {samples!r}")
        self.samples = samples
        self._met: dict[str, int] = {}

    def rows_of(self, shape: Sequence[int]) -> int | None:
        """Return how many samples a tensor's rows are to be divided among; None where each row is a sample.

        Raises ShapeError when the rows are no multiple of ``samples``.
        """
        rows = shape[0] if shape else 1
        if self.samples is None or rows == self.samples:
            return None
        if self.samples == 0 or rows % self.samples or not shape:
            raise ShapeError(
                f"dropout: x {list(shape)} has {rows} on axis 0, which is neither step_scope's samples={self.samples} "
                "nor a multiple of it; give x with one or k rows for each sample in turn, "
                "or leave out samples, and each row counts as one [contract 8.3]"
            )
        return self.samples

    def key(self, path: str) -> int:
        """Return the key of the next draw of ``path``: the first 64 bits of the digest of seed, path and number of
        draws that this path has had in the scope.
        """
        met = self._met.get(path, 0)
        self._met[path] = met + 1
        return stream_key("dropout", self.seed, f"{path}\0{met}") & MAX_SEED

    def copy(self) -> StepScope:
        """Return a scope that goes on as this one will: inside it a part of a step can be computed again."""
        made = StepScope(self.seed, self.step, self.first_sample, self.samples)
        made._met.update(self._met)
        return made

    def __enter__(self) -> StepScope:
        push(self)
        return self

    def __exit__(self, *exc: object) -> None:
        pop()


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.stack: list[StepScope | None] = []


_scopes = _Scopes()


def push(scope: StepScope | None) -> None:
    """Begin a scope on this thread; None hides those around it."""
    _scopes.stack.append(scope)


def pop() -> None:
    """End the innermost scope of this thread."""
    _scopes.stack.pop()


def step_scope(*, seed: int, step: int, first_sample: int = 0, samples: int | None = None) -> StepScope:
    """Return the context in which the calling thread computes on one batch, or micro-batch, of training step ``step``.

    ``first_sample`` is the number, in the whole batch of the step over all ranks and micro-batches, of what is first
    on axis 0. Dropout inside depends on nothing else, so that N ranks with b samples drop what one rank with N b
    samples would. ``samples`` says how many are in this batch: dropout then takes an axis 0 of k times as many rows for
    k rows of each sample in turn, as where (batch, time) are one axis, and drops what it would with the samples apart;
    any other size is an error. Without it each row counts as a sample.

    >>> from infinitrain import ones, ops, random
    >>> def dropped(first, count, *size):
    ...     with random.step_scope(seed=1, step=7, first_sample=first, samples=count):
    ...         return ops.dropout(ones((count * size[0], *size[1:])), 0.5).numpy().reshape(-1).tolist()
    >>> dropped(0, 4, 1, 3, 5) == dropped(0, 2, 1, 3, 5) + dropped(2, 2, 3, 5)
    True
    """
    return StepScope(seed, step, first_sample, samples)


def current_step() -> StepScope | None:
    """Return the innermost ``step_scope`` of the calling thread."""
    return _scopes.stack[-1] if _scopes.stack else None


def dropout_mask(
    shape: Sequence[int], p: float, key: int, step: int, first_sample: int
) -> npt.NDArray[np.bool_]:
    """Return which elements dropout keeps, by the formula of the op table's ``DropoutForward``, on the host."""
    samples, size = (shape[0], prod(shape[1:])) if shape else (1, 1)
    kept = np.empty((samples, size), np.bool_)
    n_words, threshold = (size + 1) // 2, round(p * 2**32)
    counter = np.array([0, word("first_sample", first_sample), word("step", step), 0], np.uint64)
    source = np.random.Philox(key=word("key", key), counter=counter)
    to_next_sample = 2**64 - (n_words + 3) // 4
    for row in kept:
        halves = source.random_raw(n_words).astype("<u8", copy=False).view("<u4")
        np.greater_equal(halves[:size], threshold, out=row)
        source.advance(to_next_sample)
    return kept.reshape(tuple(shape))
