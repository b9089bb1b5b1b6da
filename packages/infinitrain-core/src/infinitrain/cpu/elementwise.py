"""CPU kernels of elementwise ops whose array form costs a temporary."""

from __future__ import annotations

from typing import Any

import numpy as np


def AccumulateGrad(grad: Any, rate: float, tensor: Any) -> None:
    target = tensor.array
    if rate == 1.0:
        np.add(target, grad.array, out=target)
    else:
        target += grad.array * target.dtype.type(rate)


def Copy(dst: Any, src: Any) -> None:
    np.copyto(dst.array, src.array)


def Fill(x: Any, value: float) -> None:
    x.array.fill(value)


def AddBackward(grad: Any, a_shape: tuple[int, ...], b_shape: tuple[int, ...], *, out: Any) -> None:
    g = grad.array
    for shape, target in zip((a_shape, b_shape), out, strict=True):
        extra = g.ndim - len(shape)
        axes = tuple([i for i, n in enumerate(g.shape) if i < extra or (shape[i - extra] == 1 and n != 1)])
        if axes:
            np.add.reduce(g, axes, out=target.array.reshape((1,) * extra + shape), keepdims=True)
        else:
            np.copyto(target.array, g.reshape(shape))
