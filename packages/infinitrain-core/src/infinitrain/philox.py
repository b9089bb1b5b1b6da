"""Words of random streams: a pure function of a key and a position."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_SEED: Final = 2**64 - 1

Words = npt.NDArray[np.uint64]


def stream_key(kind: str, seed: int, name: str = "") -> int:
    """Return the 128-bit Philox key of a stream: BLAKE2b of ``kind``, ``seed`` and ``name``, joined by zero
    bytes.
    """
    text = f"{kind}\0{checked_seed(seed)}\0{name}".encode()
    return int.from_bytes(blake2b(text, digest_size=16).digest(), "little")


def words(key: int, start: int, stop: int) -> Words:
    """Return words start .. stop - 1 of the stream with this key."""
    block, skip = divmod(start, 4)
    return np.random.Philox(key=key, counter=block).random_raw(stop - start + skip)[skip:]


def is_count(value: Any) -> bool:
    """Tell whether a value is an int >= 0, bools aside."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


def word(name: str, value: Any) -> int:
    """Return an argument of dropout that is a word. Raises ValueError."""
    if not is_count(value) or value > MAX_SEED:
        raise ValueError(f"dropout: {name} is an int in 0 .. 2**64 - 1, got {value!r}")
    return int(value)


def checked_seed(seed: int) -> int:
    """Return a seed. Raises ValueError."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= MAX_SEED:
        raise ValueError(f"a seed is an int in 0 .. 2**64 - 1, got {seed!r}")
    return seed
