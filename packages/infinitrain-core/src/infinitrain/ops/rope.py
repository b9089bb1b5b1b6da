"""Rotary position embedding (Su et al., 2021) of the heads of a packed tensor, in the place where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, int_of, op, require_shape
from ..device import CPU, Device
from ..dtype import DType, as_dtype, float32, float64
from ..errors import DtypeError, ShapeError
from .base import flag, real
from .norm import statistics_dtype


def _require_rotation(
    name: str, x: Any, cos: Any, sin: Any, heads: int, rotated: int, interleaved: bool, position: int
) -> None:
    for label, value in (("heads", heads), ("rotated", rotated), ("position", position)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise DtypeError(f"{label} is an int, got {value!r}")
    if not isinstance(interleaved, bool):
        raise DtypeError(f"interleaved is a bool, got {interleaved!r}")
    if len(x.shape) != 3 or heads < 1 or x.shape[2] % (2 * heads):
        raise ShapeError(f"{name} {x.shape} is not (B, T, heads d) for {heads} heads of an even size d")
    if not 0 <= rotated <= heads:
        raise ShapeError(f"rotated={rotated} is not in 0..{heads}, the number of heads")
    for label, table in (("cos", cos), ("sin", sin)):
        if table.dtype not in (float32, statistics_dtype(x.dtype)):
            raise DtypeError(f"{label} has dtype {table.dtype}, expected float32")
        if len(table.shape) != 2 or table.shape[1] != x.shape[2] // heads // 2:
            raise ShapeError(
                f"{label} has shape {table.shape}, expected (positions, {x.shape[2] // heads // 2})"
            )
    require_shape("sin", sin.shape, cos.shape)
    if position < 0 or position + x.shape[1] > cos.shape[0]:
        raise ShapeError(
            f"position={position} and {x.shape[1]} steps leave the table of {cos.shape[0]} positions"
        )


@op(profile="fused", gradient="RopeBackward")
def RopeForward(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    heads: int,
    rotated: int,
    interleaved: bool = True,
    position: int = 0,
) -> Results:
    """In x (B, T, heads d) step t of the first ``rotated`` heads turns by row position + t of cos and sin (T', d/2):
    (a, b) becomes (a cos - b sin, a sin + b cos); the other heads are copied. Pair j is elements 2 j and 2 j + 1 of a
    head, or, not interleaved, j and j + d/2.
    """
    _require_rotation("x", x, cos, sin, heads, rotated, interleaved, position)
    return [(x.shape, x.dtype)]


@op(profile="fused", results="dx")
def RopeBackward(
    grad: Tensor,
    cos: Tensor,
    sin: Tensor,
    heads: int,
    rotated: int,
    interleaved: bool = True,
    position: int = 0,
) -> Results:
    """dx = RopeForward of grad by -sin: turning back."""
    _require_rotation("grad", grad, cos, sin, heads, rotated, interleaved, position)
    return [(grad.shape, grad.dtype)]


class Rope(Function, op=RopeForward):
    @staticmethod
    def forward(ctx: Any, x: Any, cos: Any, sin: Any, *how: Any) -> Any:
        ctx.save(cos, sin)
        ctx.how = how
        return RopeForward(x, cos, sin, *how)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return RopeBackward(grad, *ctx.saved, *ctx.how), None, None, None, None, None, None


def rope(
    x: Any,
    cos: Any,
    sin: Any,
    heads: int,
    rotated: int | None = None,
    *,
    interleaved: bool = True,
    position: int = 0,
) -> Any:
    """Return packed x (B, T, heads d) with its first ``rotated`` heads (all of them by default) rotated by position.

    Of packed queries, keys and values ``rotated`` is the number of query and key heads. ``cos`` and ``sin`` (T', d/2)
    are constants, see ``rope_table``; step t uses row ``position`` + t, where ``position`` is the number of steps
    before, such as those in a cache. ``interleaved`` pairs are neighbours, as in Llama's own weights; the others are
    d/2 apart, as in the weights that transformers reads. Raises ShapeError, also where the table is too short, and
    DtypeError.
    """
    heads = int_of(heads, "rope: heads")
    rotated = heads if rotated is None else int_of(rotated, "rope: rotated")
    how = (heads, rotated, flag("rope: interleaved", interleaved), int_of(position, "rope: position"))
    return Rope.apply(x, cos, sin, *how)


def rope_table(
    size: int,
    length: int,
    theta: float = 10000.0,
    *,
    device: Device | str = CPU,
    dtype: DType | str = float32,
) -> tuple[Any, Any]:
    """Return cos and sin (length, size / 2) of the angles t theta^(-2 j / size): row t, column j.

    ``size`` is that of a head. Computed in float64 and rounded once: in float32 the angles of late positions would be
    off by thousandths. Raises ShapeError, DtypeError.
    """
    from ..creation import from_numpy

    size, length = int_of(size, "rope_table: size"), int_of(length, "rope_table: length")
    theta = real("rope_table: theta", theta)
    if size < 2 or size % 2 or length < 0:
        raise ShapeError(f"rope_table: size={size} is an even number >= 2, length={length} one >= 0")
    if not 0 < theta < np.inf:
        raise ShapeError(f"rope_table: theta={theta} is no positive finite number")
    kept = as_dtype(dtype)
    if kept not in (float32, float64):
        raise DtypeError(f"rope_table: dtype={kept}: float32, or float64 for float64 tensors")
    angles = np.arange(length)[:, None] * theta ** (-2.0 * np.arange(size // 2) / size)
    cos, sin = (from_numpy(f(angles).astype(kept.numpy), device) for f in (np.cos, np.sin))
    return cos, sin
