"""Array kernels of the base profile."""

from __future__ import annotations

from typing import Any

from ..dtype import DType
from .registry import array_kernel


@array_kernel(exact=True)
def Cast(xp: Any, x: Any, dtype: DType) -> Any:
    return xp.astype(x, xp.native(dtype))


@array_kernel()
def Fill(xp: Any, x: Any, value: Any) -> None:
    name = str(x.dtype)  # isdtype would not take a dtype from outside the library, such as bfloat16
    kind = bool if "bool" in name else int if "int" in name else float
    x[...] = kind(value)


@array_kernel(exact=True)
def Copy(xp: Any, dst: Any, src: Any) -> None:
    dst[...] = src


@array_kernel()
def AccumulateGrad(xp: Any, grad: Any, rate: Any, tensor: Any) -> None:
    wide = xp.float64 if xp.float64 in (grad.dtype, tensor.dtype) else xp.float32
    if grad.dtype == tensor.dtype and "int" in str(tensor.dtype):
        tensor[...] = tensor + grad * rate
        return
    total = xp.astype(tensor, wide) + xp.astype(grad, wide) * rate
    tensor[...] = xp.astype(total, tensor.dtype)
