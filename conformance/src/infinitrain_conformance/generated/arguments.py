"""Kernels that do not read an argument as they should, or write to it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..call import PAD, Call
from .fault import NotHere, OtherTest, Samples, Swap, kind
from .places import Change, changed, flip_bit, host, tensor_params, with_arguments, write


def _swap(index: int, change: Change, call: Call) -> Any:
    return with_arguments(call, {index: changed(call, index, change)})


def _each(row: Any, change: Change) -> Iterator[tuple[str, Swap]]:
    for index, p in tensor_params(row):
        yield p.name, partial(_swap, index, change)


@kind("values")
def ignores(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A kernel that does not read an argument: zeros stand in its place (a bias, a term, an incoming gradient; of a
    list, its last tensor).
    """
    return _each(row, np.zeros_like)


@kind("values")
def ones(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A kernel that leaves out a factor: ones stand in its place (a weight, a mask, a gradient taken as 1)."""
    indices = [p.name for p in row.params if p.annotation == "Index"]
    return ((name, swap) for name, swap in _each(row, np.ones_like) if name not in indices)


def _without_end(x: np.ndarray) -> np.ndarray:
    if x.size < 2:
        raise NotHere("it has one element at most", by_rule=True)
    new = x.copy()
    if x.shape[-1] > 1:
        new[..., -1] = 0
    else:
        new.reshape(-1)[-1] = 0
    return new


@kind("values")
def cuts(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A loop that ends one element early: the last element of each row of an argument is taken as zero."""
    return _each(row, _without_end)


def _transposed(x: np.ndarray) -> np.ndarray:
    if x.size < 2:
        raise NotHere("it has one element at most", by_rule=True)
    if x.ndim > 1 and min(x.shape[-2:]) > 1:
        return np.swapaxes(x, -1, -2).reshape(x.shape)
    return x.reshape(-1)[::-1].reshape(x.shape)


@kind("values")
def misplaces(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A wrong stride, or a sum over the wrong axis: an argument is read with its last two axes exchanged in memory (a
    vector from its end).
    """
    return _each(row, _transposed)


@kind("values")
def changes(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A kernel that uses an argument as scratch memory: one bit of it is another one afterwards."""

    def swap(index: int, call: Call) -> Any:
        right = call.op
        changed(
            call, index, lambda x: flip_bit(x, x.size - 1) if x.size else x
        )  # is there anything to change?

        def op(*args: Any, **options: Any) -> Any:
            got = right(*args, **options)
            given = args[index]
            for tensor in given if isinstance(given, tuple) else (given,):
                if tensor.numel:
                    write(tensor, flip_bit(host(tensor), tensor.numel - 1))
            return got

        return op

    for index, p in tensor_params(row):
        if index not in row.write_index:
            yield p.name, partial(swap, index)


@kind("offset_arguments")
def offset_lost(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A kernel that is given the buffer without the view's offset: it reads a few elements too early."""

    def early(x: np.ndarray) -> np.ndarray:
        shifted = np.zeros_like(x).reshape(-1)
        shifted[PAD:] = x.reshape(-1)[: max(0, x.size - PAD)]
        return shifted.reshape(x.shape)

    def swap(index: int, call: Call) -> Any:
        if not call.offset:
            raise OtherTest("arguments start where their buffers do")
        return with_arguments(call, {index: changed(call, index, early, every=True)})

    for index, p in tensor_params(row):
        yield p.name, partial(swap, index)
