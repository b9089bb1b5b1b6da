"""Selecting elements: embedding, gather, index_select, masked_fill, where; bad indices raise IndexError."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import (
    BoolMask,
    Index,
    Results,
    Scalar,
    Tensor,
    axis_of,
    broadcast_shapes,
    op,
    require_axis,
    require_index,
    require_shape,
)
from ..dtype import bool_, float32, int64, promote
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor as UserTensor
from .base import Cast, as_index, cast, rank
from .compare import NotForward
from .elementwise import in_dtype, number


@op(profile="training", gradient="EmbeddingBackward")
def EmbeddingForward(index: Index, weight: Tensor) -> Results:
    """Rows of weight (V, D) by index (...): y (..., D). An index outside 0..V-1 raises IndexError."""
    require_index("index", index)
    if len(weight.shape) != 2:
        raise ShapeError(f"weight has shape {weight.shape}, expected (V, D)")
    return [((*index.shape, weight.shape[1]), weight.dtype)]


@op(profile="training", results="dweight", accumulates="dweight")
def EmbeddingBackward(index: Index, grad: Tensor, rows: int) -> Results:
    """dweight (rows, D) = the sum of grad (..., D) over the places where index (...) names that row."""
    require_index("index", index)
    if not grad.shape or grad.shape[:-1] != index.shape:
        raise ShapeError(f"grad has shape {grad.shape}, expected index's {index.shape} and one more axis")
    return [((rows, grad.shape[-1]), grad.dtype)]


def require_gather(shape: tuple[int, ...], index: Any, axis: int) -> None:
    """Raise ShapeError unless index names elements of ``shape`` along axis."""
    require_axis("axis", axis, len(shape))
    require_index("index", index)
    if len(index.shape) != len(shape) or any(
        i != axis and m > n for i, (m, n) in enumerate(zip(index.shape, shape, strict=False))
    ):
        raise ShapeError(
            f"index has shape {index.shape}: as many axes as {shape}, none but axis {axis} larger, are needed"
        )


@op(profile="training", dtypes="all", gradient="GatherBackward")
def GatherForward(x: Tensor, index: Index, axis: int) -> Results:
    """y[i, j, ...] = x there, but for the coordinate along axis, which is index[i, j, ...], in 0..n-1."""
    require_gather(x.shape, index, axis)
    return [(index.shape, x.dtype)]


@op(profile="training", results="dx")
def GatherBackward(grad: Tensor, index: Index, shape: tuple, axis: int) -> Results:
    """dx of shape ``shape``: grad added where GatherForward took its elements."""
    require_gather(shape, index, axis)
    require_shape("grad", grad.shape, index.shape)
    return [(shape, grad.dtype)]


@op(profile="moe", dtypes="all", gradient="IndexSelectBackward")
def IndexSelectForward(x: Tensor, index: Index, axis: int) -> Results:
    """Slices of x along axis by index (any shape), in 0..n-1: y has index's axes in the place of axis."""
    return [(_selected(x.shape, index, axis), x.dtype)]


@op(profile="moe", results="dx")
def IndexSelectBackward(grad: Tensor, index: Index, shape: tuple, axis: int) -> Results:
    """dx of shape ``shape``: the slices of grad added where IndexSelectForward took them."""
    require_shape("grad", grad.shape, _selected(shape, index, axis))
    return [(shape, grad.dtype)]


def _selected(shape: tuple[int, ...], index: Any, axis: int) -> tuple[int, ...]:
    require_axis("axis", axis, len(shape))
    require_index("index", index)
    return (*shape[:axis], *index.shape, *shape[axis + 1 :])


def _require_bool(name: str, mask: Any) -> None:
    if mask.dtype is not bool_:
        raise DtypeError(f"{name} has dtype {mask.dtype}, expected bool; compare it, such as {name} != 0")


@op(profile="training", dtypes="all", gradient="MaskBackward")
def MaskForward(x: Tensor, mask: BoolMask, value: Scalar) -> Results:
    """value where mask, x elsewhere; x and mask (bool) broadcast."""
    _require_bool("mask", mask)
    if isinstance(value, float) and not x.dtype.is_floating:
        raise DtypeError(f"value is a float, and x {x.dtype}; cast x first")
    return [(broadcast_shapes(x.shape, mask.shape), x.dtype)]


@op(profile="training", results="dx")
def MaskBackward(grad: Tensor, mask: BoolMask, shape: tuple) -> Results:
    """dx = 0 where mask, grad elsewhere, summed to x's shape."""
    _require_bool("mask", mask)
    require_shape("grad", grad.shape, broadcast_shapes(shape, mask.shape))
    return [(shape, grad.dtype)]


@op(profile="training", dtypes="all", autocast="widest", gradient="WhereBackward")
def WhereForward(condition: BoolMask, a: Tensor, b: Tensor) -> Results:
    """a where condition (bool), b elsewhere; all three broadcast, the dtypes of a and b promote."""
    _require_bool("condition", condition)
    shape = broadcast_shapes(condition.shape, broadcast_shapes(a.shape, b.shape))
    return [(shape, promote(a.dtype, b.dtype))]


@op(profile="training", results="da db")
def WhereBackward(condition: BoolMask, grad: Tensor, a_shape: tuple, b_shape: tuple) -> Results:
    """da = grad where condition, db = grad elsewhere, each summed to its operand's shape."""
    _require_bool("condition", condition)
    require_shape("grad", grad.shape, broadcast_shapes(condition.shape, broadcast_shapes(a_shape, b_shape)))
    return [(a_shape, grad.dtype), (b_shape, grad.dtype)]


class Embedding(Function, op=EmbeddingForward):
    @staticmethod
    def forward(ctx: Any, index: Any, weight: Any) -> Any:
        y = EmbeddingForward(index, weight)
        ctx.save(index)
        ctx.rows = weight.shape[0]
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, ctx.into(1, EmbeddingBackward, *ctx.saved, grad, ctx.rows)


class Gather(Function, op=GatherForward):
    @staticmethod
    def forward(ctx: Any, x: Any, index: Any, axis: int) -> Any:
        ctx.save(index)
        ctx.where = x.shape, axis
        return GatherForward(x, index, axis)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return GatherBackward(grad, *ctx.saved, *ctx.where), None, None


class IndexSelect(Function, op=IndexSelectForward):
    @staticmethod
    def forward(ctx: Any, x: Any, index: Any, axis: int) -> Any:
        ctx.save(index)
        ctx.where = x.shape, axis
        return IndexSelectForward(x, index, axis)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ctx.into(0, IndexSelectBackward, grad, *ctx.saved, *ctx.where), None, None


class Mask(Function, op=MaskForward):
    @staticmethod
    def forward(ctx: Any, x: Any, mask: Any, value: Any) -> Any:
        ctx.save(mask)
        ctx.shape = x.shape
        return MaskForward(x, mask, value)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return MaskBackward(grad, *ctx.saved, ctx.shape), None, None


class Where(Function, op=WhereForward):
    @staticmethod
    def forward(ctx: Any, condition: Any, a: Any, b: Any) -> Any:
        ctx.save(condition)
        ctx.specs = a.spec, b.spec
        return WhereForward(condition, a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.specs
        da, db = WhereBackward(*ctx.saved, grad, a.shape, b.shape)
        return None, in_dtype(da, a.dtype), in_dtype(db, b.dtype)


def embedding(index: Any, weight: Any) -> Any:
    """Return rows of weight (V, D) by integer index (...): (..., D). Raises IndexError outside 0..V-1."""
    return Embedding.apply(as_index("embedding: index", index), weight)


def gather(x: Any, axis: int, index: Any) -> Any:
    """Return elements of x by their coordinate along ``axis``: for axis 1 y[i, j] = x[i, index[i, j]].

    index has as many axes as x, none but ``axis`` larger than x's. An index outside 0..n-1, negative ones included,
    raises IndexError.
    """
    return Gather.apply(
        x, as_index("gather: index", index), axis_of(axis, rank("gather: x", x), "gather: axis")
    )


def index_select(x: Any, axis: int, index: Any) -> Any:
    """Return slices of x along ``axis`` by integer index of any shape, whose axes come in the place of ``axis``.

    ``index_select(x, 0, i)`` is ``x[i]``. An index outside 0..n-1, negative ones included, raises IndexError.
    """
    index = as_index("index_select: index", index)
    return IndexSelect.apply(x, index, axis_of(axis, rank("index_select: x", x), "index_select: axis"))


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """Return x with ``value`` where mask is true (nonzero); x and mask broadcast."""
    rank("masked_fill: x", x)
    return Mask.apply(x, _as_bool("masked_fill: mask", mask), number("masked_fill", value, x))


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return a where condition is true (nonzero), b elsewhere; all broadcast, a and b may be numbers."""
    condition = _as_bool("where: condition", condition)
    if isinstance(a, UserTensor) and isinstance(b, UserTensor):
        return Where.apply(condition, a, b)
    if not isinstance(a, UserTensor) and not isinstance(b, UserTensor):
        wide = float32 if isinstance(a, float) or isinstance(b, float) else int64
        b = Cast(condition, wide).fill_(b)
    if isinstance(b, UserTensor):
        return Mask.apply(*_fitting(b, condition, a))
    return Mask.apply(*_fitting(a, NotForward(condition), b))


def _fitting(x: Any, mask: Any, value: Any) -> tuple[Any, Any, Any]:
    """Return the arguments of Mask, x cast where the number asks for it as in arithmetic."""
    value = number("where", value, x)
    if not x.dtype.is_floating and isinstance(value, float):
        x = cast(x, float32)
    elif x.dtype is bool_ and value not in (0, 1):
        x = cast(x, int64)
    return x, mask, value


def _as_bool(name: str, mask: Any) -> Any:
    if not isinstance(mask, UserTensor):
        raise TypeError(f"{name} is a Tensor, got {type(mask).__name__}")
    return mask if mask.dtype is bool_ else Cast(mask, bool_)
