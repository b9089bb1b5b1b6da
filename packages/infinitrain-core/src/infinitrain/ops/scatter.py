"""Putting elements where indices say: scatter, scatter_add, one_hot; bad indices raise IndexError."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import (
    Index,
    Results,
    Tensor,
    axis_of,
    int_of,
    op,
    require_dtype,
    require_index,
    require_shape,
)
from ..dtype import DType, as_dtype, int64, promote
from ..errors import DtypeError, ShapeError
from .base import as_index, cast, rank, shape_of
from .indexing import GatherForward, require_gather


@op(profile="moe", dtypes="all", gradient="ScatterBackward")
def ScatterForward(values: Tensor, index: Index, shape: tuple, axis: int) -> Results:
    """y of shape ``shape``: 0, but y[.., index[i, j, ..], ..] = values[i, j, ..] along axis. Where several values have
    one place, the last in row-major order stays.
    """
    require_gather(shape, index, axis)
    require_shape("values", values.shape, index.shape)
    return [(shape, values.dtype)]


@op(profile="moe", results="dvalues")
def ScatterBackward(grad: Tensor, index: Index, axis: int) -> Results:
    """dvalues = grad where ScatterForward put its values; 0 for a value that a later one replaced."""
    require_gather(grad.shape, index, axis)
    return [(index.shape, grad.dtype)]


@op(profile="moe", dtypes="numeric", gradient="GatherForward")
def ScatterAddForward(x: Tensor, index: Index, values: Tensor, axis: int) -> Results:
    """y = x, with each value added at its place along axis: y[.., index[i, j, ..], ..] += values[i, j, ..]."""
    require_gather(x.shape, index, axis)
    require_shape("values", values.shape, index.shape)
    require_dtype("values", values.dtype, x.dtype)
    return [(x.shape, x.dtype)]


@op(profile="moe", dtypes="all")
def OneHot(index: Index, classes: int, dtype: DType) -> Results:
    """y (..., classes) = 1 where the last coordinate is index (...), else 0."""
    require_index("index", index)
    if classes < 0:
        raise ShapeError(f"classes {classes} is negative")
    if not isinstance(dtype, DType):
        raise DtypeError(f"dtype is a DType, got {dtype!r}")
    return [((*index.shape, classes), dtype)]


class Scatter(Function, op=ScatterForward):
    @staticmethod
    def forward(ctx: Any, values: Any, index: Any, shape: tuple[int, ...], axis: int) -> Any:
        ctx.save(index)
        ctx.axis = axis
        return ScatterForward(values, index, shape, axis)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ScatterBackward(grad, *ctx.saved, ctx.axis), None, None, None


class ScatterAdd(Function, op=ScatterAddForward):
    @staticmethod
    def forward(ctx: Any, x: Any, index: Any, values: Any, axis: int) -> Any:
        ctx.save(index)
        ctx.axis = axis
        return ScatterAddForward(x, index, values, axis)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        dvalues = GatherForward(grad, *ctx.saved, ctx.axis) if ctx.needs(2) else None
        return grad, None, dvalues, None


def scatter(values: Any, axis: int, index: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of ``shape`` with values put along ``axis``: for axis 1 y[i, index[i, j]] = values[i, j].

    index has the shape of values, no axis but ``axis`` larger than in ``shape``. Where several values have one place,
    the last in row-major order stays and the others get no gradient. An index outside 0..n-1, negative ones included,
    raises IndexError.
    """
    rank("scatter: values", values)
    shape = shape_of("scatter: shape", shape)
    index = as_index("scatter: index", index)
    return Scatter.apply(values, index, shape, axis_of(axis, len(shape), "scatter: axis"))


def scatter_add(x: Any, axis: int, index: Any, values: Any) -> Any:
    """Return x with values added along ``axis``: for axis 1 y[i, index[i, j]] += values[i, j].

    index has the shape of values, no axis but ``axis`` larger than x's; the dtypes of x and values promote. Half floats
    are summed in float32. An index outside 0..n-1, negative ones included, raises IndexError.
    """
    rank("scatter_add: x", x)
    rank("scatter_add: values", values)
    index, dtype = as_index("scatter_add: index", index), promote(x.dtype, values.dtype)
    x, values = (t if t.dtype is dtype else cast(t, dtype) for t in (x, values))
    return ScatterAdd.apply(x, index, values, axis_of(axis, x.ndim, "scatter_add: axis"))


def one_hot(index: Any, classes: int, dtype: DType | str = int64) -> Any:
    """Return (..., classes): 1 where the last coordinate is integer index (...), else 0, as int64 or ``dtype``.

    An index outside 0..classes-1 raises IndexError.
    """
    return OneHot(as_index("one_hot: index", index), int_of(classes, "one_hot: classes"), as_dtype(dtype))
