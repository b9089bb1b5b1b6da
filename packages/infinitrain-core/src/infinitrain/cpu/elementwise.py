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
