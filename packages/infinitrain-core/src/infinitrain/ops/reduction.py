"""Reductions over one, several or all axes: sum, mean, max, min, norm, argmax, argmin; and the running sum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.function import Function
from ..backend.optable import (
    Results,
    Tensor,
    axes_of,
    axis_of,
    op,
    require_axis,
    require_dtype,
    require_shape,
)
from ..dtype import float32, int64
from ..errors import ShapeError
from .base import flag, rank
from .functions import OfInputs


def reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return ``shape`` without ``axes`` (counted from the front), or with 1 in their place."""
    for axis in axes:
        require_axis("axis", axis, len(shape))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axes {axes} name one axis twice")
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


@op(profile="training", dtypes="all", gradient="SumBackward")
def SumForward(x: Tensor, axes: tuple, keepdims: bool) -> Results:
    """The sum over axes; integers and bools give int64."""
    return [(reduced(x.shape, axes, keepdims), x.dtype if x.dtype.is_floating else int64)]


@op(profile="training", results="dx")
def SumBackward(grad: Tensor, shape: tuple, axes: tuple, keepdims: bool) -> Results:
    """dx = grad, repeated over axes."""
    require_shape("grad", grad.shape, reduced(shape, axes, keepdims))
    return [(shape, grad.dtype)]


@op(profile="training", dtypes="all", gradient="MeanBackward")
def MeanForward(x: Tensor, axes: tuple, keepdims: bool) -> Results:
    """The mean over axes; integers and bools give float32; NaN where there is nothing to average."""
    return [(reduced(x.shape, axes, keepdims), x.dtype if x.dtype.is_floating else float32)]


@op(profile="training", results="dx")
def MeanBackward(grad: Tensor, shape: tuple, axes: tuple, keepdims: bool) -> Results:
    """dx = grad / n, repeated over axes, which have n elements."""
    require_shape("grad", grad.shape, reduced(shape, axes, keepdims))
    return [(shape, grad.dtype)]


@op(profile="training", dtypes="numeric", gradient="MaxBackward")
def MaxForward(x: Tensor, axes: tuple, keepdims: bool) -> Results:
    """The largest element over axes; NaN if one is NaN."""
    return _extreme(x, axes, keepdims)


@op(profile="training", results="dx")
def MaxBackward(grad: Tensor, x: Tensor, y: Tensor, axes: tuple, keepdims: bool) -> Results:
    """dx = grad where x equals the maximum y, divided equally among tied elements; 0 elsewhere."""
    return _extreme_gradient(grad, x, y, axes, keepdims)


@op(profile="training", dtypes="numeric", gradient="MinBackward")
def MinForward(x: Tensor, axes: tuple, keepdims: bool) -> Results:
    """The smallest element over axes; NaN if one is NaN."""
    return _extreme(x, axes, keepdims)


@op(profile="training", results="dx")
def MinBackward(grad: Tensor, x: Tensor, y: Tensor, axes: tuple, keepdims: bool) -> Results:
    """dx = grad where x equals the minimum y, divided equally among tied elements; 0 elsewhere."""
    return _extreme_gradient(grad, x, y, axes, keepdims)


@op(profile="training", dtypes="numeric")
def ArgMax(x: Tensor, axis: int, keepdims: bool) -> Results:
    """The index (int64) of the largest element along axis: the first of equal ones, the first NaN if there is one."""
    return _place(x, axis, keepdims)


@op(profile="extra", dtypes="numeric")
def ArgMin(x: Tensor, axis: int, keepdims: bool) -> Results:
    """The index (int64) of the smallest element along axis: the first of equal ones, the first NaN if there is one."""
    return _place(x, axis, keepdims)


@op(profile="extra", gradient="NormBackward")
def NormForward(x: Tensor, axes: tuple, keepdims: bool) -> Results:
    """The root of the sum of x² over axes, also where x² is out of range."""
    return [(reduced(x.shape, axes, keepdims), x.dtype)]


@op(profile="extra", results="dx")
def NormBackward(grad: Tensor, x: Tensor, y: Tensor, axes: tuple, keepdims: bool) -> Results:
    """dx = grad x / y, y being the norm; 0 where y is 0."""
    return _extreme_gradient(grad, x, y, axes, keepdims)


@op(profile="extra", dtypes="all", gradient="CumSumBackward")
def CumSumForward(x: Tensor, axis: int) -> Results:
    """y[i] = x[0] + ... + x[i] along axis; integers and bools give int64."""
    require_axis("axis", axis, len(x.shape))
    return [(x.shape, x.dtype if x.dtype.is_floating else int64)]


@op(profile="extra", results="dx")
def CumSumBackward(grad: Tensor, axis: int) -> Results:
    """dx[i] = grad[i] + grad[i + 1] + ... along axis."""
    require_axis("axis", axis, len(grad.shape))
    return [(grad.shape, grad.dtype)]


def _place(x: Any, axis: int, keepdims: bool) -> Results:
    shape = reduced(x.shape, (axis,), keepdims)
    _require_elements(x.shape, (axis,))
    return [(shape, int64)]


def _extreme(x: Any, axes: tuple[int, ...], keepdims: bool) -> Results:
    shape = reduced(x.shape, axes, keepdims)
    _require_elements(x.shape, axes)
    return [(shape, x.dtype)]


def _require_elements(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    for axis in axes:
        if not shape[axis]:
            raise ShapeError(f"axis {axis} has no elements, and nothing is the largest or smallest of none")


def _extreme_gradient(grad: Any, x: Any, y: Any, axes: tuple[int, ...], keepdims: bool) -> Results:
    shape = reduced(x.shape, axes, keepdims)
    require_shape("grad", grad.shape, shape)
    require_shape("y", y.shape, shape)
    require_dtype("y", y.dtype, x.dtype)
    return [(x.shape, grad.dtype)]


class _Spread(OfInputs):
    """A reduction whose gradient needs no more than the input's shape."""

    @classmethod
    def forward(cls, ctx: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        ctx.how = x.shape, axes, keepdims
        return cls.forward_op(x, axes, keepdims)

    @classmethod
    def backward(cls, ctx: Any, grad: Any) -> Any:
        return cls.backward_op(grad, *ctx.how), None, None


class _OfBoth(OfInputs):
    """A reduction whose gradient needs its input and its result."""

    @classmethod
    def forward(cls, ctx: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
        y = cls.forward_op(x, axes, keepdims)
        ctx.save(x, y)
        ctx.how = axes, keepdims
        return y

    @classmethod
    def backward(cls, ctx: Any, grad: Any) -> Any:
        return cls.backward_op(grad, *ctx.saved, *ctx.how), None, None


class Sum(_Spread, op=SumForward): ...


class Mean(_Spread, op=MeanForward): ...


class Max(_OfBoth, op=MaxForward): ...


class Min(_OfBoth, op=MinForward): ...


class Norm(_OfBoth, op=NormForward): ...


class CumSum(Function, op=CumSumForward):
    @staticmethod
    def forward(ctx: Any, x: Any, axis: int) -> Any:
        ctx.axis = axis
        return CumSumForward(x, axis)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return CumSumBackward(grad, ctx.axis), None


Axes = int | Sequence[int] | None


def sum(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return the sum over ``axis`` (one, several, or None for all). Integers and bools give int64."""
    return Sum.apply(x, axes_of(axis, rank("sum: x", x), "sum: axis"), flag("sum: keepdims", keepdims))


def mean(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return the mean over ``axis`` (one, several, or None for all). Integers and bools give float32."""
    return Mean.apply(x, axes_of(axis, rank("mean: x", x), "mean: axis"), flag("mean: keepdims", keepdims))


def max(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return the largest element over ``axis`` (one, several, None: all); NaN if there is one.

    Elements that tie share the gradient equally.
    """
    return Max.apply(x, axes_of(axis, rank("max: x", x), "max: axis"), flag("max: keepdims", keepdims))


def min(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return the smallest element over ``axis`` (one, several, None: all); NaN if there is one.

    Elements that tie share the gradient equally.
    """
    return Min.apply(x, axes_of(axis, rank("min: x", x), "min: axis"), flag("min: keepdims", keepdims))


def argmax(x: Any, axis: int | None = -1, keepdims: bool = False) -> Any:
    """Return the index (int64) of the largest element along ``axis``, the first of equals; None: of all.

    NaN counts as the largest.
    """
    return _argument(ArgMax, "argmax", x, axis, keepdims)


def argmin(x: Any, axis: int | None = -1, keepdims: bool = False) -> Any:
    """Return the index (int64) of the smallest element along ``axis``, the first of equals; None: of all.

    NaN counts as the smallest.
    """
    return _argument(ArgMin, "argmin", x, axis, keepdims)


def _argument(op: Any, name: str, x: Any, axis: int | None, keepdims: bool) -> Any:
    ndim, keep = rank(f"{name}: x", x), flag(f"{name}: keepdims", keepdims)
    if axis is None:
        found = op(x.view((x.numel,)), 0, False)
        return found.view((1,) * ndim) if keep else found
    return op(x, axis_of(axis, ndim, f"{name}: axis"), keep)


def norm(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return the 2-norm over ``axis`` (one, several, or None for all): the root of the sum of squares.

    Squares that overflow or vanish do no harm. The gradient x / norm is 0 where the norm is 0.
    """
    return Norm.apply(x, axes_of(axis, rank("norm: x", x), "norm: axis"), flag("norm: keepdims", keepdims))


def cumsum(x: Any, axis: int = -1) -> Any:
    """Return the sums of x up to each element along ``axis``. Integers and bools give int64."""
    return CumSum.apply(x, axis_of(axis, rank("cumsum: x", x), "cumsum: axis"))
