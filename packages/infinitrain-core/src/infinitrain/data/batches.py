"""From a row of tokens to batches: which sequences there are, and in which order they come.

The order is one endless stream of sample numbers: epoch 0, epoch 1, ... each in its own order. A batch takes
the next `batch_size` samples of each rank from that stream, across the end of an epoch too. Therefore the
stream does not depend on the number of ranks or on the batch size, no sample is ever left out, and a position
in it (one number) is all that resuming needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DataError

Batch = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
_CHUNK = 1 << 22


class TokenDataset:
    """A row of tokens as samples of `sequence_length` tokens.

    Sample i is x = tokens[i*T : (i+1)*T] with the targets y, the same shifted by one. Samples do not share
    targets; a last piece shorter than T + 1 tokens is not used.

    Args:
        tokens: shape (n,), any integer type; a memory map is fine, it is never copied as a whole.
        sequence_length: T, in tokens.
        vocab_size: if given, all tokens are checked to be below it (one pass over them, now, rather than a
            failure in the middle of a training run).
        name: what error messages call the tokens.

    Raises:
        DataError: T <= 0, fewer than T + 1 tokens, or a token outside 0 .. vocab_size - 1.
    """

    def __init__(
        self,
        tokens: npt.NDArray[Any],
        sequence_length: int,
        *,
        vocab_size: int | None = None,
        name: str = "text",
    ) -> None:
        if tokens.ndim != 1 or tokens.dtype.kind not in "iu":
            raise DataError(f"the {name} must be a row of integers, got shape {tokens.shape}, {tokens.dtype}")
        if sequence_length <= 0:
            raise DataError(f"sequence_length must be at least 1 token, got {sequence_length}")
        if len(tokens) < sequence_length + 1:
            longest = len(tokens) - 1
            shorter = f"use sequence_length {longest} or less, or " if longest > 0 else "use "
            raise DataError(
                f"the {name} has {len(tokens)} token{'s' * (len(tokens) != 1)}, one sample takes {sequence_length + 1} "
                f"(sequence_length {sequence_length} and the last target); {shorter}a longer text"
            )
        if vocab_size is not None:
            _check_vocabulary(tokens, vocab_size, name)
        self.tokens = tokens
        self.sequence_length = sequence_length
        self.name = name

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // self.sequence_length

    def batch(self, samples: npt.NDArray[np.integer[Any]]) -> Batch:
        """Return (x, y), each int64 of shape (len(samples), T), for sample numbers of shape (b,)."""
        length = self.sequence_length
        x = np.empty((len(samples), length), dtype=np.int64)
        y = np.empty_like(x)
        for row, sample in enumerate(samples):
            start = int(sample) * length
            x[row] = self.tokens[start : start + length]
            y[row] = self.tokens[start + 1 : start + length + 1]
        return x, y


def split_tokens(
    tokens: npt.NDArray[Any], validation_fraction: float
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Cut `tokens`, shape (n,), into (training, validation) views: the last fraction is for validation.

    The cut is contiguous and nothing is shared, so no validation target is ever seen in training.

    Raises:
        DataError: the fraction is not between 0 and 1 (both excluded).
    """
    if not 0 < validation_fraction < 1:
        raise DataError(f"validation_fraction must lie between 0 and 1, got {validation_fraction}")
    cut = len(tokens) - round(len(tokens) * validation_fraction)
    return tokens[:cut], tokens[cut:]


class BatchLoader:
    """An endless iterator over (x, y) batches, int64 arrays of shape (batch_size, T).

    With `world_size` ranks, each call of `next` on all ranks consumes batch_size * world_size samples of the
    stream, rank 0 the first batch_size of them, and so on. The stream itself is the same for any number of
    ranks: one rank with batch size 8 and two ranks with batch size 4 train on the same samples in each step.

    Args:
        dataset: the samples.
        batch_size: samples in each batch of this rank.
        shuffle: a new order in each epoch; otherwise samples come in the order of the text.
        seed: 0 .. 2**64 - 1; seed and epoch alone decide the order.
        rank, world_size: this process among those that share the data.

    Raises:
        DataError: a size <= 0, a rank outside 0 .. world_size - 1, or fewer samples than one batch of all
            ranks.
    """

    def __init__(
        self,
        dataset: TokenDataset,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        _check_loader(dataset, batch_size, seed, rank, world_size)
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.position = 0
        """Samples of the stream that all ranks together have consumed."""
        self._order_epoch = -1
        self._order: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @property
    def epoch(self) -> int:
        """Number of whole passes over the data that are done."""
        return self.position // len(self.dataset)

    @property
    def batches_per_epoch(self) -> int:
        """Calls of `next` that stay within the first epoch."""
        return len(self.dataset) // (self.batch_size * self.world_size)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        first = self.position + self.rank * self.batch_size
        samples = self._stream(first, first + self.batch_size)
        self.position += self.batch_size * self.world_size
        return self.dataset.batch(samples)

    def rewind(self) -> None:
        """Start again at the first batch: for validation, or to train on one batch again and again."""
        self.position = 0

    def state_dict(self) -> dict[str, int | bool]:
        """Return the position, and what must be equal for it to mean the same samples."""
        return {
            "position": self.position,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "samples": len(self.dataset),
            "sequence_length": self.dataset.sequence_length,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken; batch size and number of ranks may differ.

        Raises:
            DataError: the state belongs to other data or to another order; nothing is changed then.
        """
        mine = self.state_dict()
        if missing := sorted(mine.keys() - state.keys()):
            raise DataError(f"this is not the state of a batch loader: {', '.join(missing)} missing")
        differences = [
            f"{k} was {state[k]}, is {v}" for k, v in mine.items() if k != "position" and state[k] != v
        ]
        if differences:
            raise DataError(f"the saved data position does not fit this run: {'; '.join(differences)}")
        position = state["position"]
        if not isinstance(position, int) or isinstance(position, bool) or position < 0:
            raise DataError(f"the saved data position must be a number of samples, got {position!r}")
        self.position = position

    def _stream(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Return entries start .. stop - 1 of the endless stream of sample numbers."""
        n = len(self.dataset)
        pieces = []
        while start < stop:
            epoch, offset = divmod(start, n)
            take = min(stop - start, n - offset)
            pieces.append(self._epoch_order(epoch)[offset : offset + take])
            start += take
        return np.concatenate(pieces)

    def _epoch_order(self, epoch: int) -> npt.NDArray[np.int64]:
        if epoch != self._order_epoch:
            n = len(self.dataset)
            self._order = permutation(n, self.seed, epoch) if self.shuffle else np.arange(n, dtype=np.int64)
            self._order_epoch = epoch
        return self._order


def permutation(n: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Return a permutation of 0 .. n - 1, int64, that is the same on every platform and NumPy version.

    NumPy promises that the raw words of a bit generator never change, but not what `Generator.permutation`
    makes of them. So: n words of Philox4x64-10 under the key (seed, epoch), sorted; equal words, should they
    ever occur, keep their order.
    """
    key = np.array([seed, epoch], dtype=np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(n), kind="stable").astype(np.int64, copy=False)


def _check_vocabulary(tokens: npt.NDArray[Any], vocab_size: int, name: str) -> None:
    # In chunks, so that a mapped file larger than memory is read once and never held.
    for start in range(0, len(tokens), _CHUNK):
        chunk = np.asarray(tokens[start : start + _CHUNK])
        if chunk.max() >= vocab_size or chunk.min() < 0:
            offset = int(np.argmax((chunk >= vocab_size) | (chunk < 0)))
            raise DataError(
                f"token {int(chunk[offset])} at position {start + offset} of the {name} is outside the "
                f"vocabulary of {vocab_size} tokens (0 .. {vocab_size - 1}); "
                f"use a larger vocab_size or other data"
            )


def _check_loader(dataset: TokenDataset, batch_size: int, seed: int, rank: int, world_size: int) -> None:
    if batch_size <= 0:
        raise DataError(f"batch_size must be at least 1 sequence, got {batch_size}")
    if world_size <= 0 or not 0 <= rank < world_size:
        raise DataError(f"rank must lie in 0 .. world_size - 1, got rank {rank} of world_size {world_size}")
    if not 0 <= seed < 2**64:
        raise DataError(f"seed must lie in 0 .. 2**64 - 1, got {seed}")
    if len(dataset) < batch_size * world_size:
        samples, largest = len(dataset), len(dataset) // world_size
        ranks = f" on each of {world_size} ranks" if world_size > 1 else ""
        advice = f"use batch_size {largest} or less" if largest else f"use at most {samples} ranks"
        raise DataError(
            f"the {dataset.name} has {samples} samples of {dataset.sequence_length} tokens, fewer than one "
            f"batch of {batch_size}{ranks}; {advice}, or a longer text"
        )
