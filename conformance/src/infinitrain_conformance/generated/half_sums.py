"""An accumulator of half precision: the oracle's own formula, each of whose sums is rounded as it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from ..call import Call
from .fault import NotHere, OtherTest, Samples, Swap, kind
from .places import takes

STEPS: Final = 256
"""The most partial sums that one sum is made of; what goes into one of them is added exactly."""


class _HalfSums(np.ndarray):
    """A float64 array of which every sum, product of matrices and addition into a place is rounded on the way."""

    kept: ClassVar[Any]
    sums: ClassVar[int] = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        bare = [_bare(x) for x in inputs]
        if ufunc is np.add and method == "at":
            return self._add_at(*bare)
        if ufunc is np.add and method == "reduce" and _is_floating(bare[0]) and out is None:
            found = self._sum(bare[0], options.get("axis", 0), options.get("keepdims", False))
        elif ufunc is np.add and method == "accumulate" and _is_floating(bare[0]):
            found = self._running(bare[0], options.get("axis", 0))
        elif ufunc is np.matmul and method == "__call__" and min(b.ndim for b in bare) > 1:
            found = self._einsum("...ij,...jk->...ik", *bare)
        else:
            if out is not None:
                options["out"] = tuple(map(_bare, out))
            found = getattr(ufunc, method)(*bare, **options)
        return out[0] if out is not None else self._wrap(found)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function is np.einsum and len(args) == 3:
            return self._wrap(self._einsum(args[0], *map(_bare, args[1:])))
        return self._wrap(super().__array_function__(function, types, args, options))

    def _wrap(self, found: Any) -> Any:
        if isinstance(found, tuple | list):
            return type(found)(map(self._wrap, found))
        return np.asarray(found).view(type(self)) if _is_floating(found) else found

    def _round(self, x: np.ndarray) -> np.ndarray:
        rounded: np.ndarray = x.astype(np.float64).astype(self.kept).astype(np.float64)
        return rounded

    def _grown(self, parts: Sequence[np.ndarray] | Iterator[np.ndarray]) -> np.ndarray:
        total = np.zeros(())
        for part in parts:
            total = self._round(np.asarray(total + part))
        return np.asarray(total)

    def _sum(self, x: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
        axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        axes = tuple(a % x.ndim for a in axes)
        kept = [i for i in range(x.ndim) if i not in axes]
        rows = x.transpose(*axes, *kept).reshape(-1, *(x.shape[i] for i in kept))
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        if len(rows) < 2:
            return np.asarray(x.sum(axes, keepdims=keepdims))
        type(self).sums += 1
        total = self._grown([part.sum(0) for part in np.array_split(rows, min(STEPS, len(rows)))])
        return total.reshape(shape) if keepdims else total

    def _running(self, x: np.ndarray, axis: int) -> np.ndarray:
        type(self).sums += 1
        y = np.moveaxis(x.copy(), axis, 0)
        for i in range(1, len(y)):
            y[i] = self._round(y[i - 1] + y[i])
        return np.moveaxis(y, 0, axis)

    def _einsum(self, formula: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        given, _, wanted = formula.partition("->")
        left, right = given.split(",")
        summed = next((label for label in left if label.isalpha() and label not in wanted), None)
        if summed is None or summed not in right:
            return np.asarray(np.einsum(formula, a, b))
        axes = [labels.index(summed) if "..." not in labels else labels.index(summed) - len(labels)
                for labels in (left, right)]  # fmt: skip
        length = a.shape[axes[0]]
        if length < 2:
            return np.asarray(np.einsum(formula, a, b))
        type(self).sums += 1
        steps = min(STEPS, length)
        pairs = zip(np.array_split(a, steps, axes[0]), np.array_split(b, steps, axes[1]), strict=True)
        return self._grown(np.asarray(np.einsum(formula, *pair)) for pair in pairs)

    def _add_at(self, into: np.ndarray, at: Any, values: np.ndarray) -> None:
        """Add to each place one value after the other: the first of all places, then their second ones."""
        where = np.arange(into.size).reshape(into.shape)[at]
        values = np.broadcast_to(values, where.shape).reshape(-1)
        order = np.argsort(where.reshape(-1), kind="stable")
        places, starts, counts = np.unique(where.reshape(-1)[order], return_index=True, return_counts=True)
        flat, left = into.reshape(-1), values[order]
        if not _is_floating(into):
            return np.add.at(into, at, values.reshape(where.shape))
        type(self).sums += bool(counts.max(initial=0) > 0)
        for turn in range(int(counts.max(initial=0))):
            there = counts > turn
            flat[places[there]] = self._round(flat[places[there]] + left[starts[there] + turn])
        into[...] = flat.reshape(into.shape)
        return None


def _bare(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, np.ndarray) else x


def _is_floating(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.floating) and x.dtype in (np.float64, np.longdouble)


def with_half_sums(oracle: Callable[..., Any], args: Sequence[Any], kept: Any) -> tuple[dict[str, Any], int]:
    """Return what an oracle wants when its sums are kept in half precision, and how many there were."""
    kind_of: Any = type("HalfSums", (_HalfSums,), {"kept": kept, "sums": 0})

    def wrapped(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(wrapped, x))
        return x.view(kind_of) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x

    with np.errstate(all="ignore"):
        found = oracle(*map(wrapped, args))
    return {name: _bare(np.asarray(want.value)) for name, want in found.items()}, kind_of.sums


@kind("values")
def half_sum(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A half-precision accumulator: every sum of the oracle's formula is rounded to the inputs' dtype as it grows."""

    def swap(call: Call) -> Any:
        import infinitrain as it

        kept = call.data.dtype
        if kept.name not in ("bfloat16", "float16"):
            raise OtherTest("this is not half precision")
        made, sums = with_half_sums(call.want.of, call.want.args, kept.numpy)
        if not sums:
            raise NotHere("its formula sums nothing", by_rule=True)
        right, specs = call.op, dict(zip(call.names(), call.specs(), strict=True))
        with np.errstate(all="ignore"):
            arrays = {name: made[name].astype(dtype.numpy) for name, (_, dtype) in specs.items()}
            wanted = {name: want.value.astype(arrays[name].dtype) for name, want in call.want().items()}
        if all(np.array_equal(wanted[name], arrays[name], equal_nan=True) for name in arrays):
            raise NotHere("no partial sum is rounded")

        def op(*args: Any, out: Any = None, **options: Any) -> Any:
            got = right(*args, **({} if out is None else {"out": out}), **options)
            if out is not None:
                return got
            new = tuple(it.from_numpy(np.ascontiguousarray(array), call.device) for array in arrays.values())
            return new if isinstance(got, tuple) else new[0]

        return op

    if row.results and takes(row, "bfloat16"):
        yield "", swap
