"""Kernels that compute with too few digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ..call import Call
from ..tolerances import tolerance_of
from .mutant import NotHere, Plant, Samples, kind
from .planting import is_read, tensor_params, with_arguments

CHUNKS: Final = 64
"""Into how many partial sums a half-precision accumulator is split."""


def _takes(row: Any, dtype: str) -> bool:
    from infinitrain.backend.optable import DTYPES

    return any(d.name == dtype for d in DTYPES[row.dtypes])


def _rounded(call: Call, dtype: str, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    if call.data.dtype.name != dtype:
        raise NotHere(f"this is not {dtype}")
    replaced, floating = {}, False
    for index, _ in tensor_params(call.row):
        given = call.host[index]
        if not is_read(call, index):
            continue
        arrays = given if isinstance(given, tuple) else () if given is None else (given,)
        new = tuple(change(a) if a.dtype.name == dtype else a for a in arrays)
        floating |= any(a.dtype.name == dtype and a.size for a in arrays)
        if any(a.tobytes() != b.tobytes() for a, b in zip(new, arrays, strict=True)):
            replaced[index] = new if isinstance(given, tuple) else new[0]
    if not replaced:
        raise NotHere(
            "its values have few digits" if floating else "no floating argument", by_rule=not floating
        )
    return with_arguments(call, replaced)


def _tf32(x: np.ndarray) -> np.ndarray:
    """Round float32 to the ten fraction bits of TF32."""
    bits = x.view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


@kind("values")
def low_precision(row: Any, samples: Samples) -> Iterator[tuple[str, Plant]]:
    """TF32 or half-precision units where float32 was asked for: float32 arguments keep ten bits of fraction."""
    if _takes(row, "float32"):
        yield "", lambda call: _rounded(call, "float32", _tf32)


@kind("values")
def single_precision(row: Any, samples: Samples) -> Iterator[tuple[str, Plant]]:
    """A float64 kernel that computes in float32."""
    if _takes(row, "float64"):
        yield "", lambda call: _rounded(call, "float64", lambda x: x.astype(np.float32).astype(np.float64))


def _parts(array: np.ndarray) -> list[np.ndarray]:
    """Return arrays that add up to ``array``, each with the elements of one group."""
    groups = np.random.default_rng(7).integers(0, CHUNKS, array.shape)
    return [np.where(groups == group, array, 0.0) for group in range(CHUNKS)]


def _linear_parts(call: Call) -> list[dict[str, Any]]:
    """Return the results of parts of one argument in which the op is linear. Raises NotHere."""
    whole, args = call.want(), call.want.args
    for index, p in tensor_params(call.row):
        given = args[index]
        if p.is_index or not isinstance(given, np.ndarray) or not np.isfinite(given).all():
            continue
        halves = (np.where(np.arange(given.size).reshape(given.shape) % 2 == i, given, 0.0) for i in (0, 1))
        with np.errstate(all="ignore"):
            a, b = (call.want.of(*args[:index], half, *args[index + 1 :]) for half in halves)
            if all(
                np.allclose(
                    a[name].value + b[name].value,
                    want.value,
                    rtol=0,
                    atol=1e-9 * (1e-9 + want.magnitude.max()),
                )
                for name, want in whole.items()
                if want.terms > 1
            ):
                return [call.want.of(*args[:index], part, *args[index + 1 :]) for part in _parts(given)]
    raise NotHere("it is not linear in any argument", by_rule=True)


@kind("values")
def half_sum(row: Any, samples: Samples) -> Iterator[tuple[str, Plant]]:
    """A half-precision accumulator: of an op that sums and is linear in an argument, partial sums are rounded to the
    inputs' dtype as they are added up.
    """

    def plant(call: Call) -> Any:
        import infinitrain as it

        kept = call.data.dtype
        if kept.name not in ("bfloat16", "float16"):
            raise NotHere("this is not half precision")
        if tolerance_of(row.name).half:
            raise NotHere("the tolerance table lets it round to half precision inside", by_rule=True)
        summed = [name for name, want in call.want().items() if want.terms > 1 and want.value.size]
        if not summed:
            raise NotHere("it sums nothing", by_rule=True)
        parts = _linear_parts(call)
        sums = {}
        for name in summed:
            total = np.zeros(parts[0][name].value.shape, kept.numpy)
            for part in parts:
                with np.errstate(all="ignore"):
                    total = (total.astype(np.float64) + part[name].value).astype(kept.numpy)
            sums[name] = total
        if all(
            np.array_equal(call.want()[n].value.astype(kept.numpy), sums[n], equal_nan=True) for n in summed
        ):
            raise NotHere("no partial sum is rounded")
        right, specs = call.op, dict(zip(call.names(), call.specs(), strict=True))

        def op(*args: Any, out: Any = None, **options: Any) -> Any:
            got = right(*args, **({} if out is None else {"out": out}), **options)
            if out is not None:
                return got
            many = got if isinstance(got, tuple) else (got,)
            new = tuple(
                it.from_numpy(sums[name].astype(specs[name][1].numpy), call.device)
                if name in sums
                else tensor
                for name, tensor in zip(specs, many, strict=True)
            )
            return new if isinstance(got, tuple) else new[0]

        return op

    if row.results and _takes(row, "bfloat16"):
        yield "", plant
