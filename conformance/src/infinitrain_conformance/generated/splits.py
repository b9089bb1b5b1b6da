"""Kernels that are right for few elements and wrong for many: what goes wrong when work is cut into parts, or done by
several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np

from ..call import Call, poison
from ..check import EXACT_ZEROS
from ..special import LONG
from .fault import NotHere, Samples, Swap, kind
from .places import (
    changed,
    dtypes_of,
    flip_bit,
    last_target,
    sizes,
    tensor_params,
    with_arguments,
    with_result,
)
from .results import has_destinations

MANY: Final = 1 << 16
"""Elements above which these kernels go wrong."""
ROWS: Final = 128
CHUNK: Final = 1024
Change = Callable[[np.ndarray, np.ndarray], None]
"""Gets a result, and what stands in memory that nobody wrote; changes the result."""


def _require_many(call: Call) -> None:
    given = [a for host in call.host for a in (host if isinstance(host, tuple) else (host,))]
    most = max(a.size for a in given if isinstance(a, np.ndarray))
    if max(most, *sizes(call).values()) <= MANY:
        raise NotHere("there are few elements")


def _results(row: Any) -> Iterator[str]:
    yield from (name.removeprefix("*") for name in row.results or row.writes)


def _spoilt(row: Any, change: Change) -> Iterator[tuple[str, Swap]]:
    """Yield a fault for each result: what ``change`` makes of it where there are many elements."""

    def spoil(name: str, got: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        from infinitrain.dtype import as_dtype

        new, unwritten = got.copy(), before
        if unwritten is None:
            unwritten = ~got if got.dtype == bool else poison(as_dtype(got.dtype), got.shape)
        change(new.reshape(-1, new.shape[-1] if new.ndim > 1 else 1), unwritten.reshape(-1))
        return new

    def swap(result: str, call: Call) -> Any:
        _require_many(call)
        return with_result(call, last_target(call, result), spoil)

    for result in _results(row):
        yield result, partial(swap, result)


@kind("large")
def tail_lost(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A loop over whole chunks of 1,024: the rest at a result's end is not written, where there are many elements."""

    def change(rows: np.ndarray, unwritten: np.ndarray) -> None:
        rest = rows.size % CHUNK or 1
        rows.reshape(-1)[-rest:] = unwritten[-rest:]

    return _spoilt(row, change)


@kind("large")
def edge_twice(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """Two threads' parts that overlap: what lies where they meet is added twice, where there are many elements."""

    def change(rows: np.ndarray, unwritten: np.ndarray) -> None:
        flat = rows.reshape(-1)
        part = flat[flat.size // 2 : flat.size // 2 + 16]
        part[...] = ~part if part.dtype == bool else np.where(part == 0, part + 1, part + part)

    return _spoilt(row, change)


@kind("large")
def later_rows(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A second tile that lands on the first's data: from row 128 on, rows are those of 128 rows before."""

    def change(rows: np.ndarray, unwritten: np.ndarray) -> None:
        if len(rows) > ROWS:
            rows[ROWS:] = rows[: len(rows) - ROWS].copy()
        else:
            rows.reshape(-1)[-1:] = unwritten[-1:]

    return _spoilt(row, change)


@kind("large")
def uneven_width(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """Vector instructions without a loop for the rest: the last columns, of a width that is no multiple of 16, are not
    written, where there are many elements.
    """

    def change(rows: np.ndarray, unwritten: np.ndarray) -> None:
        rest = rows.shape[1] % 16
        rows[:, rows.shape[1] - rest :] = unwritten.reshape(rows.shape)[:, rows.shape[1] - rest :]

    return _spoilt(row, change)


@kind("large")
def first_part(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A second thread that reads the first's part: the second half of an argument is its first half again, where there
    are many elements.
    """

    def again(x: np.ndarray) -> np.ndarray:
        if x.size < 2:
            raise NotHere("it has one element at most", by_rule=True)
        new, half = x.copy().reshape(-1), x.size // 2
        new[half : 2 * half] = new[:half]
        return new.reshape(x.shape)

    def swap(index: int, call: Call) -> Any:
        new = changed(call, index, again, every=True)  # first: its rules hold for few elements too
        _require_many(call)
        return with_arguments(call, {index: new})

    for index, p in tensor_params(row):
        yield p.name, partial(swap, index)


@kind("large")
def reads_destination(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A destination that is multiplied by 0 instead of overwritten: NaN that was there stays, where there are many
    elements.
    """

    def spoil(name: str, got: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        return got if before is None else np.where(np.isnan(before), before, got)

    def swap(result: str, call: Call) -> Any:
        if not any(dtype.is_floating for dtype in dtypes_of(call, result)):
            raise NotHere("the result is not floating", by_rule=True)
        _require_many(call)
        return with_result(call, last_target(call, result), spoil)

    if has_destinations(row):
        for result in _results(row):
            yield result, partial(swap, result)


@kind("large_accumulates")
def overwrites_large(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A kernel of its own for many elements that does not know ``accumulate``: the destination is overwritten."""

    def swap(result: str, call: Call) -> Any:
        _require_many(call)
        right, at = call.op, call.names().index(result)

        def op(*args: Any, accumulate: Any = False, **options: Any) -> Any:
            flags = accumulate if isinstance(accumulate, tuple) else (accumulate,) * len(call.names())
            flags = tuple(flag and i != at for i, flag in enumerate(flags))
            if not any(flags):
                return right(*args, **options)
            return right(*args, accumulate=flags, **options)

        return op

    for result in row.accumulates:
        yield result, partial(swap, result)


@kind("large_repeats")
def races(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """Threads' sums that are added as the threads end: the last bit differs every second call, where there are many
    elements.
    """
    calls = count()

    def spoil(name: str, got: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        return flip_bit(got, got.size // 3) if next(calls) % 2 else got

    def swap(result: str, call: Call) -> Any:
        _require_many(call)
        return with_result(call, last_target(call, result), spoil)

    for result in _results(row):
        yield result, partial(swap, result)


def _long_rows(call: Call) -> None:
    arrays = [a for host in call.host for a in (host if isinstance(host, tuple) else (host,))]
    if not any(isinstance(a, np.ndarray) and a.ndim and a.shape[-1] >= LONG for a in arrays):
        raise NotHere("no row is long")


@kind("nan")
def swallows_nan(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """Vector instructions whose maximum of NaN and a number is the number: no result of long rows is NaN, but 0."""

    def swap(result: str, call: Call) -> Any:
        if not any(dtype.is_floating for dtype in dtypes_of(call, result)):
            raise NotHere("the result is not floating", by_rule=True)
        _long_rows(call)
        return with_result(
            call,
            last_target(call, result),
            lambda name, got, before: np.where(np.isnan(got), got.dtype.type(0), got),
        )

    if not row.view:
        for result in _results(row):
            yield result, partial(swap, result)


@kind("ends")
def loses_sign(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A zero of its own added to what only moves or is rounded once: -0.0 becomes 0.0."""

    def swap(result: str, call: Call) -> Any:
        return with_result(
            call, last_target(call, result), lambda name, got, before: np.where(got == 0, np.abs(got), got)
        )

    if row.name in EXACT_ZEROS and not row.view:
        for result in _results(row):
            yield result, partial(swap, result)
