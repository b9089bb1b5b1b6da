"""Moving data: transpose, slice, repeat, expand, triangles; and views in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.function import Function
from ..backend.optable import (
    Results,
    Tensor,
    axes_of,
    axis_of,
    broadcast_shapes,
    int_of,
    op,
    require_axis,
    require_dtype,
    require_shape,
)
from ..errors import ShapeError
from .base import rank, shape_of, view

Shape = tuple[int, ...]


@op(profile="training", dtypes="all", gradient="TransposeForward")
def TransposeForward(x: Tensor, axis0: int, axis1: int) -> Results:
    """x with two axes exchanged, copied."""
    require_axis("axis0", axis0, len(x.shape))
    require_axis("axis1", axis1, len(x.shape))
    shape = list(x.shape)
    shape[axis0], shape[axis1] = shape[axis1], shape[axis0]
    return [(tuple(shape), x.dtype)]


@op(profile="training", dtypes="all", gradient="PermuteForward")
def PermuteForward(x: Tensor, axes: tuple) -> Results:
    """x with its axes in another order, copied: axis i of the result is axis axes[i] of x."""
    if sorted(axes) != list(range(len(x.shape))):
        raise ShapeError(f"axes {axes} are not each of 0..{len(x.shape) - 1} once")
    return [(tuple(x.shape[axis] for axis in axes), x.dtype)]


def _ranges(shape: Shape, starts: Shape, ends: Shape, steps: Shape) -> list[range]:
    """Return the indices that a slice takes of each axis. Raises ShapeError."""
    if not len(starts) == len(ends) == len(steps) == len(shape):
        raise ShapeError(f"starts {starts}, ends {ends} and steps {steps} need one entry per axis of {shape}")
    taken = []
    for axis, (start, end, step, n) in enumerate(zip(starts, ends, steps, shape, strict=True)):
        if not step:
            raise ShapeError(f"steps[{axis}] is 0")
        indices = range(start, end, step)
        if indices and not (0 <= indices[0] < n and 0 <= indices[-1] < n):
            raise ShapeError(f"{start}:{end}:{step} is outside axis {axis} of size {n}")
        taken.append(indices)
    return taken


@op(profile="training", dtypes="all", gradient="SliceBackward")
def SliceForward(x: Tensor, starts: tuple, ends: tuple, steps: tuple) -> Results:
    """Elements starts[i], starts[i] + steps[i], ... before ends[i] of axis i, copied; steps < 0 go back."""
    return [(tuple(len(r) for r in _ranges(x.shape, starts, ends, steps)), x.dtype)]


@op(profile="training", results="dx")
def SliceBackward(grad: Tensor, shape: tuple, starts: tuple, ends: tuple, steps: tuple) -> Results:
    """dx of shape ``shape``: grad at the elements that SliceForward took, 0 elsewhere."""
    require_shape("grad", grad.shape, tuple(len(r) for r in _ranges(shape, starts, ends, steps)))
    return [(shape, grad.dtype)]


@op(profile="extra", results="", writes="x", dtypes="all")
def SliceAssign(x: Tensor, value: Tensor, starts: tuple, ends: tuple, steps: tuple) -> Results:
    """Set the elements of x that SliceForward would take to value, of x's dtype, which broadcasts to their shape."""
    _require_broadcast(value.shape, tuple(len(r) for r in _ranges(x.shape, starts, ends, steps)))
    require_dtype("value", value.dtype, x.dtype)
    return []


@op(profile="training", dtypes="all", gradient="RepeatInterleaveBackward")
def RepeatInterleaveForward(x: Tensor, repeats: int, axis: int) -> Results:
    """Each element along axis ``repeats`` times in a row: a b gives a a b b."""
    require_axis("axis", axis, len(x.shape))
    if repeats < 0:
        raise ShapeError(f"repeats {repeats} is negative")
    return [((*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]), x.dtype)]


@op(profile="training", results="dx")
def RepeatInterleaveBackward(grad: Tensor, repeats: int, axis: int) -> Results:
    """dx = the sums of ``repeats`` (at least 1) neighbours of grad along axis."""
    require_axis("axis", axis, len(grad.shape))
    if repeats < 1 or grad.shape[axis] % repeats:
        raise ShapeError(f"axis {axis} of size {grad.shape[axis]} is not made of {repeats} repeats")
    return [((*grad.shape[:axis], grad.shape[axis] // repeats, *grad.shape[axis + 1 :]), grad.dtype)]


@op(profile="training", dtypes="all", gradient="ExpandBackward")
def ExpandForward(x: Tensor, shape: tuple) -> Results:
    """x broadcast to a shape, copied."""
    _require_broadcast(x.shape, shape)
    return [(shape, x.dtype)]


@op(profile="training", results="dx")
def ExpandBackward(grad: Tensor, shape: tuple) -> Results:
    """dx = grad summed over the axes along which ``shape`` was broadcast to grad's."""
    _require_broadcast(shape, grad.shape)
    return [(shape, grad.dtype)]


def _require_broadcast(small: Shape, large: Shape) -> None:
    if any(n < 0 for n in large) or broadcast_shapes(small, large) != large:
        raise ShapeError(f"shape {small} does not broadcast to {large}")


@op(profile="training", dtypes="all", gradient="TrilForward")
def TrilForward(x: Tensor, diagonal: int) -> Results:
    """x where column <= row + diagonal, 0 elsewhere; row and column are the last two axes."""
    return _matrix(x)


@op(profile="training", dtypes="all", gradient="TriuForward")
def TriuForward(x: Tensor, diagonal: int) -> Results:
    """x where column >= row + diagonal, 0 elsewhere; row and column are the last two axes."""
    return _matrix(x)


def _matrix(x: Any) -> Results:
    if len(x.shape) < 2:
        raise ShapeError(f"x has shape {x.shape}, and a triangle needs two axes")
    return [(x.shape, x.dtype)]


class Transpose(Function, op=TransposeForward):
    @staticmethod
    def forward(ctx: Any, x: Any, axis0: int, axis1: int) -> Any:
        ctx.axes = axis0, axis1
        return TransposeForward(x, axis0, axis1)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return TransposeForward(grad, *ctx.axes), None, None


class Permute(Function, op=PermuteForward):
    @staticmethod
    def forward(ctx: Any, x: Any, axes: Shape) -> Any:
        y = PermuteForward(x, axes)
        ctx.inverse = tuple(axes.index(i) for i in range(len(axes)))
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return PermuteForward(grad, ctx.inverse), None


class Slice(Function, op=SliceForward):
    @staticmethod
    def forward(ctx: Any, x: Any, starts: Shape, ends: Shape, steps: Shape) -> Any:
        ctx.where = x.shape, starts, ends, steps
        return SliceForward(x, starts, ends, steps)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return SliceBackward(grad, *ctx.where), None, None, None


class RepeatInterleave(Function, op=RepeatInterleaveForward):
    @staticmethod
    def forward(ctx: Any, x: Any, repeats: int, axis: int) -> Any:
        ctx.how = repeats, axis
        ctx.shape = x.shape
        return RepeatInterleaveForward(x, repeats, axis)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if not ctx.how[0]:
            return grad.new_full(ctx.shape, 0), None, None
        return RepeatInterleaveBackward(grad, *ctx.how), None, None


class Expand(Function, op=ExpandForward):
    @staticmethod
    def forward(ctx: Any, x: Any, shape: Shape) -> Any:
        ctx.shape = x.shape
        return ExpandForward(x, shape)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ExpandBackward(grad, ctx.shape), None


class Tril(Function, op=TrilForward):
    @staticmethod
    def forward(ctx: Any, x: Any, diagonal: int) -> Any:
        ctx.diagonal = diagonal
        return TrilForward(x, diagonal)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return TrilForward(grad, ctx.diagonal), None


class Triu(Function, op=TriuForward):
    @staticmethod
    def forward(ctx: Any, x: Any, diagonal: int) -> Any:
        ctx.diagonal = diagonal
        return TriuForward(x, diagonal)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return TriuForward(grad, ctx.diagonal), None


def transpose(x: Any, axis0: int = -2, axis1: int = -1) -> Any:
    """Return x with two axes exchanged (a copy)."""
    n = rank("transpose: x", x)
    return Transpose.apply(x, axis_of(axis0, n, "transpose: axis0"), axis_of(axis1, n, "transpose: axis1"))


def permute(x: Any, axes: Sequence[int]) -> Any:
    """Return x with its axes in another order (a copy): axis i of the result is axis axes[i] of x."""
    n = rank("permute: x", x)
    wanted = tuple([axis_of(axis, n, "permute: axes") for axis in shape_of("permute: axes", axes)])
    return Permute.apply(x, wanted)


def repeat_interleave(x: Any, repeats: int, axis: int) -> Any:
    """Return each element along ``axis`` ``repeats`` times in a row: a b gives a a b b."""
    return RepeatInterleave.apply(
        x,
        int_of(repeats, "repeat_interleave: repeats"),
        axis_of(axis, rank("repeat_interleave: x", x), "repeat_interleave: axis"),
    )


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """Return x repeated along axes of size 1 and new leading axes to ``shape`` (a copy); -1 keeps a size."""
    shape = shape_of("broadcast_to: shape", shape)
    offset = len(shape) - rank("broadcast_to: x", x)
    if offset < 0:
        raise ShapeError(
            f"broadcast_to: shape {list(x.shape)} does not broadcast to {list(shape)}, which has fewer axes"
        )
    sizes = tuple(x.shape[i - offset] if n == -1 and i >= offset else n for i, n in enumerate(shape))
    return Expand.apply(x, sizes)


expand = broadcast_to


def tril(x: Any, diagonal: int = 0) -> Any:
    """Return x (..., M, N) with zeros above the diagonal; ``diagonal`` > 0 moves it up."""
    return Tril.apply(x, int_of(diagonal, "tril: diagonal"))


def triu(x: Any, diagonal: int = 0) -> Any:
    """Return x (..., M, N) with zeros below the diagonal; ``diagonal`` > 0 moves it up."""
    return Triu.apply(x, int_of(diagonal, "triu: diagonal"))


def flatten(x: Any, start: int = 0, end: int = -1) -> Any:
    """Return x's memory with axes ``start`` to ``end`` (inclusive) as one; a 0-d tensor becomes (1,)."""
    n = rank("flatten: x", x)
    if not n:
        return view(x, (1,))
    start, end = axis_of(start, n, "flatten: start"), axis_of(end, n, "flatten: end")
    if start > end:
        raise ShapeError(f"flatten: start {start} comes after end {end}")
    merged = 1
    for n in x.shape[start : end + 1]:
        merged *= n
    return view(x, (*x.shape[:start], merged, *x.shape[end + 1 :]))


def squeeze(x: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Return x's memory without ``axis`` (one or several, of size 1), or without all axes of size 1."""
    ndim = rank("squeeze: x", x)
    if axis is None:
        return view(x, tuple(n for n in x.shape if n != 1))
    axes = axes_of(axis, ndim, "squeeze: axis")
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of {list(x.shape)} has size {x.shape[a]}, not 1")
    return view(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def unsqueeze(x: Any, axis: int) -> Any:
    """Return x's memory with a new axis of size 1 at ``axis`` of the result."""
    axis = axis_of(axis, rank("unsqueeze: x", x) + 1, "unsqueeze: axis")
    return view(x, (*x.shape[:axis], 1, *x.shape[axis:]))
