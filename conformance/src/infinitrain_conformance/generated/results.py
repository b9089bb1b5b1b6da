"""Kernels whose results are off, or land where they should not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from ..call import Call, poison
from ..checks import FLOATS, applies
from ..tolerances import allowed, eps
from .fault import NotHere, OtherTest, Samples, Swap, kind
from .places import dtypes_of, flip_bit, host, last_target, takes, with_result, write


def has_destinations(row: Any) -> bool:
    """Tell whether the suite gives the op memory for its results."""
    return applies("destination", row)


def _results(row: Any) -> tuple[str, ...]:
    return tuple(name.removeprefix("*") for name in row.results or row.writes)


@kind("values")
def off(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A comparison that is too coarse to see it: one element in a thousand is off by ten times what the tolerance
    allows there (an integer by one, a bool turned).
    """

    def swap(result: str, call: Call) -> Any:
        from infinitrain.dtype import as_dtype

        name = last_target(call, result)
        want = call.want()[name]
        size = want.value.size
        chosen = (np.arange(size) % 1000 == min(size, 1000) * 2 // 3).reshape(want.value.shape)
        if not np.isfinite(want.value[chosen]).all():
            raise NotHere("what would be off is not finite")

        def spoil(name: str, got: np.ndarray, before: np.ndarray | None) -> np.ndarray:
            dtype = as_dtype(got.dtype)
            if dtype.name == "bool":
                turned: np.ndarray = got ^ chosen
                return turned
            if dtype.is_integer:
                less: np.ndarray = got - chosen.astype(got.dtype)
                return less
            wide = got.astype(np.float64)
            magnitude = np.broadcast_to(want.magnitude, want.value.shape)
            bound = 10 * allowed(row.name, dtype, want.value, magnitude, want.terms)
            moved = (wide - np.where(wide > 0, bound, -bound)).astype(got.dtype)
            return np.where(chosen, moved, got)

        return with_result(call, name, spoil)

    for result in _results(row):
        yield result, partial(swap, result)


@kind("values")
def scaled(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A factor that is wrong by a little everywhere, in one dtype: all of a floating result is 1 + 4 units of half
    precision times itself, 1.0001 times in the wider dtypes.
    """

    def spoil(name: str, got: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        dtype = as_dtype(got.dtype)
        factor = 1 + (4 * eps(dtype) if dtype.itemsize == 2 else 1e-4)
        with np.errstate(all="ignore"):
            more: np.ndarray = (got.astype(np.float64) * factor).astype(got.dtype)
        return more

    def swap(result: str, dtype: str, call: Call) -> Any:
        if call.data.dtype.name != dtype:
            raise OtherTest(f"this is not {dtype}")
        if not any(d.is_floating for d in dtypes_of(call, result)):
            raise NotHere("the result is not floating", by_rule=True)
        name = last_target(call, result)
        if not np.any(np.nan_to_num(call.want()[name].value, posinf=0.0, neginf=0.0)):
            raise NotHere("the result is zero, or not finite")
        return with_result(call, name, spoil)

    from infinitrain.dtype import as_dtype

    for result in _results(row):
        for dtype in FLOATS:
            if takes(row, dtype):
                yield f"{result}_in_{dtype}", partial(swap, result, dtype)


@kind("destination")
def half_written(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A grid that is one block short: the last row of a result keeps what was in its memory."""

    def spoil(name: str, got: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        from infinitrain.dtype import as_dtype

        kept = poison(as_dtype(got.dtype), got.shape) if before is None else before
        tail = got.size // got.shape[0] if got.ndim and got.shape[0] > 1 else 1
        new = got.copy().reshape(-1)
        new[-tail:] = ~new[-tail:] if before is None and got.dtype == bool else kept.reshape(-1)[-tail:]
        return new.reshape(got.shape)

    def swap(result: str, call: Call) -> Any:
        return with_result(call, last_target(call, result), spoil)

    for result in _results(row):
        yield result, partial(swap, result)


@kind("destination")
def beside(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A store without a bound: one element after a destination is written as well."""
    if row.results and not has_destinations(row):
        return

    def spill(tensor: Any) -> None:
        from infinitrain.backend import TensorSpec

        end = tensor.offset + tensor.nbytes
        if end + tensor.dtype.itemsize <= tensor.buffer.nbytes:
            after = tensor.view_as(TensorSpec.of((1,), tensor.dtype, tensor.device), tensor.nbytes)
            write(after, flip_bit(host(after), 0))

    def swap(call: Call) -> Any:
        right = call.op

        def op(*args: Any, out: Any = None, **options: Any) -> Any:
            got = right(*args, **({} if out is None else {"out": out}), **options)
            for tensor in (
                call.written().values() if not row.results else out if isinstance(out, tuple) else (out,)
            ):
                if tensor is not None:
                    spill(tensor)
            return got

        return op

    yield "", swap


@kind("destination")
def ignores_destination(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A kernel that makes its own result and leaves the destination that it was given as it is."""
    if has_destinations(row):

        def swap(call: Call) -> Any:
            right = call.op
            return lambda *args, **options: right(*args)

        yield "", swap


@kind("values")
def other_dtype(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A result that stays in the dtype that it was computed in: float32 for half precision, int32, bytes for bools."""
    wider = {"bfloat16": np.float32, "float16": np.float32, "int64": np.int32, "bool": np.uint8}

    def swap(result: str, call: Call) -> Any:
        name = last_target(call, result)
        dtype = dict(zip(call.names(), (d for _, d in call.specs()), strict=True))[name].name
        if dtype not in wider:
            raise NotHere(f"the result is {dtype}", by_rule=True)
        return with_result(call, name, lambda name, got, before: got.astype(wider[dtype]))

    for result in row.results:
        yield result.removeprefix("*"), partial(swap, result)


@kind("accumulates")
def overwrites(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A kernel that does not know ``accumulate``: the destination is overwritten where it should be added to."""

    def swap(result: str, call: Call) -> Any:
        right, at = call.op, call.names().index(result)

        def op(*args: Any, accumulate: Any = False, **options: Any) -> Any:
            if accumulate and isinstance(accumulate, tuple):
                accumulate = (*accumulate[:at], False, *accumulate[at + 1 :])
            else:
                accumulate = False
            return (
                right(*args, accumulate=accumulate, **options)
                if "out" in options
                else right(*args, **options)
            )

        return op

    for result in row.accumulates:
        yield result, partial(swap, result)


@kind("accumulates_alone")
def adds_to_nothing(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A kernel that adds to every result once one is to be added to: also to memory that was just allocated."""

    def swap(result: str, call: Call) -> Any:
        right, at = call.op, call.names().index(result)

        def op(*args: Any, out: Any = None, accumulate: Any = False) -> Any:
            if out is None:
                return right(*args)
            got = right(*args, out=out, accumulate=accumulate)
            if accumulate and isinstance(out, tuple) and out[at] is None:
                write(got[at], host(got[at]) + host(got[at]).dtype.type(1))
            return got

        return op

    if len(row.results) > 1:
        for result in row.accumulates:
            yield result, partial(swap, result)


@kind("accumulates_small_into_large")
def rounds_sum(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A float32 destination that is added to in half precision: the sum is rounded to the inputs' dtype."""

    def swap(result: str, call: Call) -> Any:
        kept = call.data.dtype.numpy
        if call.data.dtype.itemsize != 2:
            raise OtherTest("the inputs are not in half precision")
        return with_result(call, result, lambda name, got, before: got.astype(kept).astype(got.dtype))

    for result in row.accumulates:
        yield result, partial(swap, result)


@kind("repeats")
def not_repeatable(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """Atomics whose order decides the rounding: every second call, the last bit of one element is another one."""
    calls = count()

    def swap(result: str, call: Call) -> Any:
        def spoil(name: str, got: np.ndarray, before: np.ndarray | None) -> np.ndarray:
            return flip_bit(got, got.size // 2) if next(calls) % 2 else got

        return with_result(call, last_target(call, result), spoil)

    for result in _results(row):
        yield result, partial(swap, result)
