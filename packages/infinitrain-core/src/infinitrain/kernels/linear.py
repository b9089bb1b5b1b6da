"""Array kernels of Linear and Matmul."""

from __future__ import annotations

from typing import Any

from .registry import array_kernel


@array_kernel()
def LinearForward(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = xp.matmul(x, xp.matrix_transpose(weight))
    return y if bias is None else y + bias


@array_kernel()
def LinearBackwardInput(xp: Any, weight: Any, grad: Any) -> Any:
    return xp.matmul(grad, weight)


@array_kernel()
def LinearBackwardWeight(xp: Any, x: Any, grad: Any) -> Any:
    return xp.matmul(xp.matrix_transpose(rows(xp, grad)), rows(xp, x))


@array_kernel()
def LinearBackwardBias(xp: Any, grad: Any) -> Any:
    return xp.sum(rows(xp, grad), axis=0)


@array_kernel()
def MatmulForward(xp: Any, a: Any, b: Any) -> Any:
    return xp.matmul(a, b)


@array_kernel()
def MatmulBackwardInput(xp: Any, b: Any, grad: Any, shape: tuple[int, ...]) -> Any:
    return sum_to(xp, xp.matmul(grad, xp.matrix_transpose(b)), shape)


@array_kernel()
def MatmulBackwardOther(xp: Any, a: Any, grad: Any, shape: tuple[int, ...]) -> Any:
    return sum_to(xp, xp.matmul(xp.matrix_transpose(a), grad), shape)


@array_kernel()
def Gemm(
    xp: Any, a: Any, b: Any, c: Any, alpha: float, beta: float, transpose_a: bool, transpose_b: bool
) -> None:
    a, b, held = (widened(xp, t) for t in (a, b, c))
    a, b = xp.matrix_transpose(a) if transpose_a else a, xp.matrix_transpose(b) if transpose_b else b
    y = xp.matmul(a, b) * alpha
    c[...] = xp.astype(y + held * beta if beta else y, c.dtype)


def widened(xp: Any, array: Any) -> Any:
    """Return a floating array in the precision to compute in: float64 as it is, else float32."""
    return array if str(array.dtype).endswith("float64") else xp.astype(array, xp.float32, copy=False)


def rows(xp: Any, x: Any) -> Any:
    """Return x (..., C) as (N, C)."""
    count = 1
    for n in x.shape[:-1]:
        count *= n
    return xp.reshape(x, (count, x.shape[-1]))


def sum_to(xp: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """Return x summed over the axes along which ``shape`` was broadcast to x's."""
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1
    )
    if axes:
        x = xp.sum(x, axis=axes, keepdims=True)
    return xp.reshape(x, shape) if x.shape != shape else x
