"""Blocks of queries: attention takes one at a time, so that scores need memory for a block of rows, not for all."""

from __future__ import annotations

from collections.abc import Iterator

TILE = 128
"""Queries in a block."""


def query_tiles(queries: int, keys: int, causal: bool, tile: int = TILE) -> Iterator[tuple[int, int, int]]:
    """Yield (start, stop, seen) from the last block to the first: queries start .. stop - 1 see keys 0 .. seen - 1.

    The queries are the last positions of the keys. The first block yielded is the one that sees every key, so that
    what is summed over blocks may start with it.
    """
    for start in reversed(range(0, queries, tile)):
        stop = min(start + tile, queries)
        yield start, stop, keys - queries + stop if causal else keys
