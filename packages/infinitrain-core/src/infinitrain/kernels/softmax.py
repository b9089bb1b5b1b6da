"""Array kernels of softmax."""

from __future__ import annotations

from typing import Any

from .registry import array_kernel


@array_kernel()
def SoftmaxForward(xp: Any, x: Any, axis: int) -> Any:
    e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    return e / xp.sum(e, axis=axis, keepdims=True)


@array_kernel()
def SoftmaxBackward(xp: Any, grad: Any, y: Any, axis: int) -> Any:
    return y * (grad - xp.sum(grad * y, axis=axis, keepdims=True))


@array_kernel()
def LogSoftmaxForward(xp: Any, x: Any, axis: int) -> Any:
    centred = x - xp.max(x, axis=axis, keepdims=True)
    return centred - xp.log(xp.sum(xp.exp(centred), axis=axis, keepdims=True))


@array_kernel()
def LogSoftmaxBackward(xp: Any, grad: Any, y: Any, axis: int) -> Any:
    return grad - xp.exp(y) * xp.sum(grad, axis=axis, keepdims=True)
