"""Kernels that compute with too few digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..call import Call
from .fault import NotHere, OtherTest, Samples, Swap, kind
from .places import is_read, takes, tensor_params, with_arguments


def _rounded(call: Call, dtype: str, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    if call.data.dtype.name != dtype:
        raise OtherTest(f"this is not {dtype}")
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
def low_precision(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """TF32 or half-precision units where float32 was asked for: float32 arguments keep ten bits of fraction."""
    if takes(row, "float32"):
        yield "", lambda call: _rounded(call, "float32", _tf32)


@kind("values")
def single_precision(row: Any, samples: Samples) -> Iterator[tuple[str, Swap]]:
    """A float64 kernel that computes in float32."""
    if takes(row, "float64"):
        yield "", lambda call: _rounded(call, "float64", lambda x: x.astype(np.float32).astype(np.float64))
