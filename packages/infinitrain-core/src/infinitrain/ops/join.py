"""Cutting a tensor in pieces and joining tensors: split, concat, stack."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import reduce
from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Tensor, Tensors, axis_of, int_of, op, require_axis
from ..dtype import promote
from ..errors import DtypeError, ShapeError
from .base import cast, clone, rank, shape_of
from .shape import unsqueeze

Shape = tuple[int, ...]


@op(profile="training", results="*pieces", dtypes="all", gradient="ConcatForward")
def SplitForward(x: Tensor, sizes: tuple, axis: int) -> Results:
    """x cut along axis into two or more pieces of the given sizes, copied."""
    require_axis("axis", axis, len(x.shape))
    if len(sizes) < 2 or any(n < 0 for n in sizes) or builtins.sum(sizes) != x.shape[axis]:
        raise ShapeError(
            f"sizes {sizes} are not two or more that add up to {x.shape[axis]}, the size of axis {axis}"
        )
    return [((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes]


@op(profile="training", dtypes="all", autocast="widest", gradient="SplitForward")
def ConcatForward(tensors: Tensors, axis: int) -> Results:
    """Tensors of one dtype, joined along axis; their other axes are equal."""
    first = tensors[0]
    require_axis("axis", axis, len(first.shape))
    for i, t in enumerate(tensors):
        if t.dtype is not first.dtype:
            raise DtypeError(f"tensors[{i}] has dtype {t.dtype}, tensors[0] {first.dtype}")
        if len(t.shape) != len(first.shape) or _without(t.shape, axis) != _without(first.shape, axis):
            raise ShapeError(
                f"tensors[{i}] has shape {t.shape}, tensors[0] {first.shape}: they differ beside axis {axis}"
            )
    total = builtins.sum(t.shape[axis] for t in tensors)
    return [((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)]


def _without(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


class Split(Function, op=SplitForward):
    @staticmethod
    def forward(ctx: Any, x: Any, sizes: Shape, axis: int) -> Any:
        pieces = SplitForward(x, sizes, axis)
        ctx.shapes, ctx.axis = tuple(p.shape for p in pieces), axis
        return pieces

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        some = next(g for g in grads if g is not None)
        whole = [some.new_full(s, 0) if g is None else g for g, s in zip(grads, ctx.shapes, strict=True)]
        return ConcatForward(whole, ctx.axis), None, None


class Concat(Function, op=ConcatForward):
    @staticmethod
    def forward(ctx: Any, axis: int, *tensors: Any) -> Any:
        ctx.sizes, ctx.axis = tuple(t.shape[axis] for t in tensors), axis
        return ConcatForward(tensors, axis)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if len(ctx.sizes) == 1:
            return None, grad
        return (None, *SplitForward(grad, ctx.sizes, ctx.axis))


def split(x: Any, size: int | Sequence[int], axis: int = 0) -> tuple[Any, ...]:
    """Return x cut along ``axis`` into pieces of ``size`` (the last may be shorter) or of given sizes."""
    axis = axis_of(axis, rank("split: x", x), "split: axis")
    n = x.shape[axis]
    if isinstance(size, Sequence):
        sizes = shape_of("split: size", size)
        if any(s < 0 for s in sizes) or builtins.sum(sizes) != n:
            raise ShapeError(
                f"split: sizes {sizes} do not add up to {n}, the size of axis {axis} of {list(x.shape)}"
            )
    elif (size := int_of(size, "split: size")) < 1:
        raise ShapeError(f"split: size {size}; pieces have at least one element")
    else:
        sizes = tuple(min(size, n - start) for start in range(0, n, size)) or (0,)
    return Split.apply(x, sizes, axis) if len(sizes) > 1 else (clone(x),)


def concat(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Return tensors joined along ``axis``; other axes are equal, dtypes promote."""
    _require_tensors("concat", tensors)
    axis = axis_of(axis, tensors[0].ndim, "concat: axis")
    dtype = reduce(promote, [t.dtype for t in tensors])
    return Concat.apply(axis, *[t if t.dtype is dtype else cast(t, dtype) for t in tensors])


def stack(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Return tensors of one shape joined along a new ``axis``; dtypes promote."""
    _require_tensors("stack", tensors)
    for i, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise ShapeError(
                f"stack: tensors[{i}] has shape {list(t.shape)}, tensors[0] {list(tensors[0].shape)}"
            )
    axis = axis_of(axis, tensors[0].ndim + 1, "stack: axis")
    return concat([unsqueeze(t, axis) for t in tensors], axis)


def _require_tensors(name: str, tensors: Any) -> None:
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}: tensors is a list or tuple of tensors, got {type(tensors).__name__} {tensors!r:.60}"
        )
    if not tensors:
        raise ShapeError(f"{name}: tensors={tensors!r} needs at least one tensor")
    for i, t in enumerate(tensors):
        rank(f"{name}: tensors[{i}]", t)
