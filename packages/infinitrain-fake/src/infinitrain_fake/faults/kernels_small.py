"""Faults of Cast, Fill, NoOp, Add, AccumulateGrad and AdamW kernels (L2)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from infinitrain.backend import from_array
from infinitrain.dtype import HALF, bfloat16

from .catalogue import Call, explicit_fault, kernel_fault


@kernel_fault("Cast", "4.1", "L2")
def cast_truncates_bfloat16(call: Call) -> Any:
    """float32 to bfloat16 drops the low bits instead of rounding to nearest even."""
    y = call.good()
    if call["dtype"] is bfloat16 and call["x"].dtype.name == "float32":
        y.array.view(np.uint16)[...] = call.wide("x").view(np.uint32) >> 16
    return y


@kernel_fault("Cast", "4.1", "L2")
def cast_rounds_to_integer(call: Call) -> Any:
    """Floats become the nearest integer instead of being cut towards zero."""
    y = call.good()
    if call["dtype"].is_integer and call["x"].dtype.is_floating:
        y.array[...] = np.rint(call.wide("x"))
    return y


@kernel_fault("Fill", "4.1", "L2")
def fill_skips_last(call: Call) -> None:
    """Fill leaves the last element uninitialised when their number is odd."""
    array = call["x"].array.reshape(-1)
    kept = array[-1:].copy()
    call.good()
    if array.size % 2:
        array[-1:] = kept


@kernel_fault("Fill", "4.4", "L2")
def fill_truncates_value(call: Call) -> None:
    """Fill takes its value as an integer."""
    value = call["value"]
    call.good(value=int(value) if math.isfinite(value) else value)


@kernel_fault("NoOpForward", "4.4", "L2")
def view_is_a_copy(call: Call) -> Any:
    """NoOpForward copies instead of viewing: a write through the view does not reach the tensor."""
    x = call["x"]
    return from_array(np.array(x.array).reshape(call["shape"]), x.device)


@kernel_fault("AddForward", "4.1", "L2")
def add_half_of_broadcast(call: Call) -> Any:
    """AddForward ignores a broadcast operand behind the first half of the rows."""
    y = call.good()
    a, b = call["a"], call["b"]
    if a.shape != b.shape and len(y.shape) > 1:
        wide = call.wide("a") if a.numel > b.numel else call.wide("b")
        half = y.shape[0] // 2
        y.array[half:] = np.broadcast_to(wide, y.shape)[half:]
    return y


@kernel_fault("AddForward", "4.7", "L2")
def add_off_by_ten_tolerances(call: Call) -> Any:
    """AddForward is 1e-4 of the value too large in one element of a thousand."""
    y = call.good()
    if y.dtype.is_floating:
        flat = y.array.reshape(-1)
        step = 1.0 + (1e-1 if y.dtype in HALF else 1e-4)
        flat[:: max(1, min(1000, flat.size - 1))] *= flat.dtype.type(step)
    return y


@kernel_fault("AccumulateGrad", "4.5", "L3")
def accumulate_overwrites(call: Call) -> None:
    """AccumulateGrad sets the gradient instead of adding to it."""
    call["tensor"].array[...] = call.wide("grad") * call["rate"]


@kernel_fault("AccumulateGrad", "4.1", "L2")
def accumulate_ignores_rate(call: Call) -> None:
    """AccumulateGrad adds the gradient without its rate."""
    call.good(rate=1.0)


@kernel_fault("AdamW", "4.1", "L2")
def adamw_decay_in_gradient(call: Call) -> None:
    """AdamW adds the weight decay to the gradient (L2 regularisation) instead of shrinking the parameter."""
    decayed = []
    for p, g in zip(call["params"], call["grads"], strict=True):
        array = (g.array.astype(np.float32) + call["weight_decay"] * p.array.astype(np.float32)).astype(
            g.array.dtype
        )
        decayed.append(from_array(array, g.device))
    call.good(grads=tuple(decayed), weight_decay=0.0)


@kernel_fault("AdamW", "4.1", "L2")
def adamw_without_bias_correction(call: Call) -> None:
    """AdamW does not correct the moments for their start at zero."""
    call.good(step=100_000)


@kernel_fault("AdamW", "4.1", "L2")
def adamw_step_from_zero(call: Call) -> None:
    """AdamW corrects for one step more than there were."""
    call.good(step=call["step"] + 1)


@kernel_fault("AdamW", "4.1", "L2")
def adamw_skips_last_parameter(call: Call) -> None:
    """AdamW forgets the last tensor of its list when there are several."""
    lists = {n: call[n][:-1] if len(call["params"]) > 1 else call[n] for n in ("params", "grads", "ms", "vs")}
    call.good(**lists)


@explicit_fault("AdamW", "4.4", "L2")
def adamw_moment_not_kept(
    params: Any, grads: Any, ms: Any, vs: Any,
    lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int,
) -> None:  # fmt: skip
    """AdamW computes with the new second moment but does not store it."""
    for p, g, m, v in zip(params, grads, ms, vs, strict=True):
        grad = g.array.astype(np.float32)
        first = m.array * beta1 + grad * (1 - beta1)
        second = v.array * beta2 + grad * grad * (1 - beta2)
        update = first / (1 - beta1**step) / (np.sqrt(second / (1 - beta2**step)) + eps)
        p.array[...] = p.array.astype(np.float32) * (1 - lr * weight_decay) - lr * update
        m.array[...] = first
