"""Faults of mixed precision: gradients that were rounded, norms and checks that miss what half precision makes (L3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .catalogue import Call, explicit_fault, kernel_fault


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1]).astype(np.float32)


def _put(out: Any, value: np.ndarray, accumulate: bool) -> None:
    out.array[...] = out.array + value if accumulate else value


@explicit_fault("LinearBackwardWeight", "4.4", "L3")
def linear_dweight_rounds_first(x: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    """LinearBackwardWeight rounds to the inputs' half precision before it adds to a float32 destination."""
    _put(out, (_rows(grad.array).T @ _rows(x.array)).astype(x.dtype.numpy), accumulate)


@kernel_fault("Cast", "5.3", "L3")
def cast_saturates_float16(call: Call) -> Any:
    """Too large for float16 becomes its largest number instead of infinity: a GradScaler never learns of it."""
    y = call.good()
    if y.dtype.name == "float16" and call["x"].dtype.is_floating:
        y.array[np.isinf(y.array)] = np.float16(65504)
    return y


@kernel_fault("GlobalNorm", "4.1", "L3")
def global_norm_overflows(call: Call) -> Any:
    """GlobalNorm is infinite when the squares are."""
    norm = call.good()
    with np.errstate(over="ignore"):
        if any(np.isinf(t.array * t.array).any() for t in call["tensors"]):
            norm.array[...] = np.inf
    return norm


@kernel_fault("GlobalNorm", "4.1", "L3")
def global_norm_loses_small_squares(call: Call) -> Any:
    """GlobalNorm is 0 when all squares are below the smallest number."""
    norm = call.good()
    if not any((t.array.astype(norm.dtype.numpy) ** 2).any() for t in call["tensors"]):
        norm.array[...] = 0.0
    return norm


@kernel_fault("AllFinite", "4.1", "L3")
def all_finite_ignores_infinity(call: Call) -> Any:
    """AllFinite looks for NaN only."""
    finite = call.good()
    finite.array[...] = not any(np.isnan(t.array).any() for t in call["tensors"])
    return finite


@kernel_fault("AllFinite", "4.1", "L3")
def all_finite_forgets_last_tensor(call: Call) -> Any:
    """AllFinite leaves out the last tensor with elements."""
    tensors = [t for t in call["tensors"] if t.numel]
    return call.good(tensors=tuple(tensors[:-1])) if len(tensors) > 1 else call.good()
