"""Linear and Matmul."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import OPS, Results, Scalar, Tensor, broadcast_shapes, op, require_dtype, require_shape
from ..dtype import float32
from ..errors import DtypeError, ShapeError
from .base import rank


@op(
    profile="training",
    autocast="lower",
    gradient="LinearBackwardInput LinearBackwardWeight LinearBackwardBias",
)
def LinearForward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Results:
    """y = x weightᵀ + bias; x (..., in), weight (out, in), bias (out,), y (..., out)."""
    if len(x.shape) < 1 or len(weight.shape) != 2 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(f"x {x.shape} needs a last axis equal to weight's {weight.shape} second")
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype is not x.dtype:
            raise DtypeError(f"x is {x.dtype} and {name} {other.dtype}; cast one, or use autocast")
    if bias is not None:
        require_shape("bias", bias.shape, (weight.shape[0],))
    return [((*x.shape[:-1], weight.shape[0]), x.dtype)]


@op(profile="training", results="dx")
def LinearBackwardInput(weight: Tensor, grad: Tensor) -> Results:
    """dx = grad weight; grad (..., out), weight (out, in), dx (..., in)."""
    if len(weight.shape) != 2 or not grad.shape or grad.shape[-1] != weight.shape[0]:
        raise ShapeError(f"grad {grad.shape} needs a last axis equal to weight's {weight.shape} first")
    require_dtype("grad", grad.dtype, weight.dtype)
    return [((*grad.shape[:-1], weight.shape[1]), grad.dtype)]


@op(profile="training", results="dweight", accumulates="dweight")
def LinearBackwardWeight(x: Tensor, grad: Tensor) -> Results:
    """dweight = gradᵀ x summed over all leading axes; x (..., in), grad (..., out), dweight (out, in)."""
    if not x.shape or not grad.shape or x.shape[:-1] != grad.shape[:-1]:
        raise ShapeError(f"x {x.shape} and grad {grad.shape} need equal leading axes")
    require_dtype("grad", grad.dtype, x.dtype)
    return [((grad.shape[-1], x.shape[-1]), x.dtype)]


@op(profile="training", results="dbias", accumulates="dbias")
def LinearBackwardBias(grad: Tensor) -> Results:
    """dbias = grad summed over all leading axes; grad (..., out), dbias (out,)."""
    if not grad.shape:
        raise ShapeError("grad has no last axis")
    return [(grad.shape[-1:], grad.dtype)]


@op(profile="fused", results="dx dweight dbias", accumulates="dweight dbias")
def LinearBackward(x: Tensor, weight: Tensor, grad: Tensor) -> Results:
    """The three gradients of a Linear with a bias at once: those of LinearBackwardInput, Weight and Bias."""
    if weight.shape != grad.shape[-1:] + x.shape[-1:]:
        raise ShapeError(f"weight {weight.shape} does not lie between x {x.shape} and grad {grad.shape}")
    require_dtype("weight", weight.dtype, grad.dtype)
    inputs = (OPS["LinearBackwardInput"].infer(weight, grad), OPS["LinearBackwardWeight"].infer(x, grad))
    return [*inputs[0], *inputs[1], *OPS["LinearBackwardBias"].infer(grad)]


@op(profile="training", autocast="lower", gradient="MatmulBackwardInput MatmulBackwardOther")
def MatmulForward(a: Tensor, b: Tensor) -> Results:
    """y = a b; a (..., m, k), b (..., k, n); leading axes broadcast."""
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"a {a.shape} and b {b.shape} do not multiply: a's last axis against b's second to last"
        )
    if a.dtype is not b.dtype:
        raise DtypeError(f"a is {a.dtype} and b {b.dtype}; cast one, or use autocast")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return [((*batch, a.shape[-2], b.shape[-1]), a.dtype)]


@op(profile="training", results="da")
def MatmulBackwardInput(b: Tensor, grad: Tensor, shape: tuple) -> Results:
    """da = grad bᵀ, summed over the axes along which a (of shape ``shape``) was broadcast."""
    _require_product(grad, "b", b, -1, shape, grad.shape[-2:-1] + b.shape[-2:-1])
    require_dtype("grad", grad.dtype, b.dtype)
    return [(shape, grad.dtype)]


@op(profile="training", results="db")
def MatmulBackwardOther(a: Tensor, grad: Tensor, shape: tuple) -> Results:
    """db = aᵀ grad, summed over the axes along which b (of shape ``shape``) was broadcast."""
    _require_product(grad, "a", a, -2, shape, a.shape[-1:] + grad.shape[-1:])
    require_dtype("grad", grad.dtype, a.dtype)
    return [(shape, grad.dtype)]


def _require_product(
    grad: Any, name: str, other: Any, axis: int, shape: tuple[int, ...], matrix: tuple[int, ...]
) -> None:
    """Raise ShapeError unless grad is that of a product of an operand of ``shape`` with ``other``, which share ``axis``
    of grad; ``matrix`` is what the operand's last two axes then are.
    """
    if len(grad.shape) < 2 or len(other.shape) < 2 or grad.shape[axis] != other.shape[axis]:
        raise ShapeError(f"grad {grad.shape} and {name} {other.shape} need equal axes {axis}")
    if shape[-2:] != matrix or broadcast_shapes(shape[:-2], other.shape[:-2]) != grad.shape[:-2]:
        raise ShapeError(
            f"an operand of shape {shape} with {name} {other.shape} makes no product of grad's shape {grad.shape}"
        )


@op(profile="extra", results="", writes="c")
def Gemm(
    a: Tensor, b: Tensor, c: Tensor, alpha: Scalar, beta: Scalar, transpose_a: bool, transpose_b: bool
) -> Results:
    """c = alpha a b + beta c; a (..., m, k) and b (..., k, n) after their last two axes were swapped where transpose is
    set; c (..., m, n) in a's dtype, or float32. With beta = 0 what c held does not matter, NaN included.
    """
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ShapeError(f"a {a.shape} and b {b.shape} are no matrices")
    m, k = a.shape[:-3:-1] if transpose_a else a.shape[-2:]
    inner, n = b.shape[:-3:-1] if transpose_b else b.shape[-2:]
    if k != inner:
        raise ShapeError(
            f"a {a.shape} and b {b.shape} do not multiply with transpose_a={transpose_a}, "
            f"transpose_b={transpose_b}: {k} against {inner}"
        )
    require_dtype("b", b.dtype, a.dtype)
    require_shape("c", c.shape, (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), m, n))
    if c.dtype is not float32:
        require_dtype("c", c.dtype, a.dtype)
    return []


class Linear(Function, op=LinearForward):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        ctx.save(x if ctx.needs(1) else None, weight if ctx.needs(0) else None)
        return LinearForward(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, weight = ctx.saved
        return linear_backward(ctx, x, weight, grad)


def linear_backward(ctx: Any, x: Any, weight: Any, grad: Any) -> Any:
    """Return the gradients of a Linear whose x, weight and bias are the first arguments of ``ctx``'s call."""
    if ctx.needs(0) and ctx.needs(1) and ctx.needs(2):
        return ctx.into_all((0, 1, 2), LinearBackward, x, weight, grad)
    return (
        ctx.into(0, LinearBackwardInput, weight, grad),
        ctx.into(1, LinearBackwardWeight, x, grad),
        ctx.into(2, LinearBackwardBias, grad),
    )


class Matmul(Function, op=MatmulForward):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save(a if ctx.needs(1) else None, b if ctx.needs(0) else None)
        ctx.shapes = a.shape, b.shape
        return MatmulForward(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved
        return (
            ctx.into(0, MatmulBackwardInput, b, grad, ctx.shapes[0]),
            ctx.into(1, MatmulBackwardOther, a, grad, ctx.shapes[1]),
        )


def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """Return ``x weightᵀ + bias``: x (..., in), weight (out, in), bias (out,) or None; result (..., out)."""
    return Linear.apply(x, weight, bias)


def matmul(a: Any, b: Any) -> Any:
    """Return ``a b`` for a (..., m, k), b (..., k, n), leading axes broadcast; a vector counts as one row or column."""
    m, n = rank("matmul: a", a), rank("matmul: b", b)
    if m == n == 1:
        return matmul(a.unsqueeze(0), b.unsqueeze(1)).view(())
    if m == 1:
        return matmul(a.unsqueeze(0), b).squeeze(-2)
    if n == 1:
        return matmul(a, b.unsqueeze(1)).squeeze(-1)
    return Matmul.apply(a, b)


def outer(a: Any, b: Any) -> Any:
    """Return the outer product (M, N) of vectors a (M,) and b (N,)."""
    if rank("outer: a", a) != 1 or rank("outer: b", b) != 1:
        raise ShapeError(f"outer: two vectors, got shapes {list(a.shape)} and {list(b.shape)}")
    return matmul(a.unsqueeze(1), b.unsqueeze(0))
