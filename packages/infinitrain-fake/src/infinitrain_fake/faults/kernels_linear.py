"""Faults of Linear, Matmul, Embedding and GELU kernels (L2 forward, L3 backward)."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitrain.dtype import HALF

from .catalogue import Call, explicit_fault, kernel_fault


def _rows(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, array.shape[-1])


@kernel_fault("LinearForward", "4.1", "L2")
def linear_bias_lost_in_3d(call: Call) -> Any:
    """LinearForward leaves the bias out when x has three axes."""
    return call.good(bias=None) if len(call["x"].shape) == 3 else call.good()


@kernel_fault("LinearForward", "4.1", "L2")
def linear_square_weight_not_transposed(call: Call) -> Any:
    """LinearForward multiplies by the weight as it lies when it is square."""
    y = call.good()
    weight = call.wide("weight")
    if weight.shape[0] == weight.shape[1]:
        bias = 0.0 if call["bias"] is None else call.wide("bias")
        y.array[...] = call.wide("x") @ weight + bias
    return y


@kernel_fault("LinearForward", "4.7", "L2")
def linear_accumulates_in_half(call: Call) -> Any:
    """LinearForward adds products in the inputs' half precision instead of float32."""
    y = call.good()
    if y.dtype in HALF:
        dtype = y.dtype.numpy
        x, weight = call["x"].array, call["weight"].array
        total = np.zeros(y.shape, dtype)
        for k in range(x.shape[-1]):
            total = (total + (x[..., k, None] * weight[:, k]).astype(dtype)).astype(dtype)
        y.array[...] = total if call["bias"] is None else (total + call["bias"].array).astype(dtype)
    return y


@kernel_fault("LinearForward", "4.4", "L2")
def linear_reads_uninitialised(call: Call) -> Any:
    """LinearForward leaves the last row of its result uninitialised when their number is odd."""
    y = call.good()
    rows = _rows(y.array)
    if rows.shape[0] % 2 and rows.shape[0] > 1:
        rows.view(np.uint8)[-1] = np.resize(np.array([0xFF, 0x7F], np.uint8), rows.view(np.uint8).shape[1])
    return y


@kernel_fault("LinearBackwardInput", "4.1", "L3")
def linear_dx_square_transposed(call: Call) -> Any:
    """LinearBackwardInput multiplies by the transposed weight when it is square."""
    dx = call.good()
    weight = call.wide("weight")
    if weight.shape[0] == weight.shape[1]:
        dx.array[...] = call.wide("grad") @ weight.T
    return dx


@kernel_fault("LinearBackwardWeight", "4.1", "L3")
def linear_dweight_drops_last_row(call: Call) -> Any:
    """LinearBackwardWeight sums over all rows but the last one."""
    dw = call.good()
    dw.array[...] = _rows(call.wide("grad"))[:-1].T @ _rows(call.wide("x"))[:-1]
    return dw


@explicit_fault("LinearBackwardWeight", "4.4", "L3")
def linear_dweight_overwrites(x: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
    """LinearBackwardWeight says that it can add to its destination, and overwrites it."""
    out.array[...] = _rows(grad.array.astype(np.float32)).T @ _rows(x.array.astype(np.float32))


@kernel_fault("LinearBackwardBias", "4.1", "L3")
def linear_dbias_wrong_layout(call: Call) -> Any:
    """LinearBackwardBias reads the rows of grad as if they lay column by column."""
    db = call.good()
    db.array[...] = call.wide("grad").reshape(db.shape[0], -1).sum(axis=1)
    return db


@kernel_fault("LinearBackwardBias", "4.7", "L3")
def linear_dbias_adds_in_half(call: Call) -> Any:
    """LinearBackwardBias adds rows in half precision: right for few rows, far off for thousands."""
    db = call.good()
    if db.dtype in HALF:
        dtype, total = db.dtype.numpy, np.zeros(db.shape, db.dtype.numpy)
        for row in _rows(call["grad"].array):
            total = (total + row).astype(dtype)
        db.array[...] = total
    return db


@kernel_fault("MatmulForward", "4.1", "L2")
def matmul_batch_ignored(call: Call) -> Any:
    """MatmulForward multiplies every matrix of the batch by the first b."""
    y = call.good()
    b = call.wide("b")
    if b.ndim > 2:
        y.array[...] = call.wide("a") @ b.reshape(-1, *b.shape[-2:])[0]
    return y


@kernel_fault("MatmulBackwardOther", "4.1", "L3")
def matmul_broadcast_not_summed(call: Call) -> Any:
    """MatmulBackwardOther takes the first matrix of a broadcast batch instead of the sum over it."""
    db = call.good()
    full = np.swapaxes(call.wide("a"), -1, -2) @ call.wide("grad")
    if full.ndim > len(db.shape):
        db.array[...] = full.reshape(-1, *full.shape[-2:])[0].reshape(db.shape)
    return db


@kernel_fault("EmbeddingForward", "4.7", "L2")
def embedding_clips_index(call: Call) -> Any:
    """EmbeddingForward takes the nearest row for an index out of range: no IndexError."""
    (index,), (weight,) = call.tensors(floating=False), call.tensors(floating=True)
    count = weight.shape[0]
    array = index.array
    if array.size and (array.min() < 0 or array.max() >= count):
        from infinitrain.backend import from_array

        (name,) = [n for n, a in call.args.items() if a is index]
        return call.good(**{name: from_array(np.clip(array, 0, count - 1), index.device)})
    return call.good()


@kernel_fault("EmbeddingBackward", "4.1", "L3")
def embedding_last_token_wins(call: Call) -> Any:
    """EmbeddingBackward keeps the last gradient of a repeated token instead of the sum."""
    dw = call.good()
    (index,), (grad,) = call.tensors(floating=False), call.tensors(floating=True)
    array = np.zeros(dw.shape, np.float32)
    array[index.array.reshape(-1)] = _rows(grad.array.astype(np.float32))
    dw.array[...] = array
    return dw


@kernel_fault("GeluForward", "4.1", "L2")
def gelu_other_formula(call: Call) -> Any:
    """GeluForward computes the sigmoid approximation x sigmoid(1.702 x)."""
    y = call.good()
    x = call.wide("x")
    with np.errstate(over="ignore"):
        y.array[...] = x / (1.0 + np.exp(-1.702 * x))
    return y


@kernel_fault("GeluBackward", "4.1", "L3")
def gelu_derivative_without_chain(call: Call) -> Any:
    """GeluBackward forgets the incoming gradient's sign where x is negative."""
    dx = call.good()
    negative = call.wide("x") < 0
    array = dx.array
    array[negative] = np.abs(array[negative])
    return dx
