"""The k largest or smallest elements along an axis."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, axis_of, int_of, op, require_axis
from ..dtype import int64
from ..errors import ShapeError
from .base import flag, rank
from .scatter import ScatterForward


@op(profile="moe", results="values indices", dtypes="numeric", gradient="ScatterForward")
def TopKForward(x: Tensor, k: int, axis: int, largest: bool) -> Results:
    """The k largest (or smallest) elements along axis, best first, and where they were (int64). Of equal ones the
    lowest index comes first; NaN counts as larger than any number.
    """
    require_axis("axis", axis, len(x.shape))
    if not 0 <= k <= x.shape[axis]:
        raise ShapeError(f"k {k} is not in 0..{x.shape[axis]}, the size of axis {axis}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [(shape, x.dtype), (shape, int64)]


class TopK(Function, op=TopKForward):
    @staticmethod
    def forward(ctx: Any, x: Any, k: int, axis: int, largest: bool) -> Any:
        values, indices = TopKForward(x, k, axis, largest)
        ctx.save(indices)
        ctx.where = x.shape, axis
        return values, indices

    @staticmethod
    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        return ScatterForward(grad, *ctx.saved, *ctx.where), None, None, None


def topk(x: Any, k: int, axis: int = -1, largest: bool = True) -> tuple[Any, Any]:
    """Return (values, indices) of the k largest elements along ``axis``, or the smallest; best first, indices int64.

    Of equal elements the one with the lowest index comes first. NaN counts as larger than any number: first among the
    largest, last among the smallest.
    """
    found: tuple[Any, Any] = TopK.apply(
        x,
        int_of(k, "topk: k"),
        axis_of(axis, rank("topk: x", x), "topk: axis"),
        flag("topk: largest", largest),
    )
    return found
