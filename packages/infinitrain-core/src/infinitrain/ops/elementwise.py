"""Arithmetic: +, -, *, /, ** of two tensors (shapes broadcast, dtypes promote) or a tensor and a number."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..backend.optable import Results, Scalar, Tensor, broadcast_shapes, op, require_dtype, require_shape
from ..dtype import DType, bool_, float32, int64, promote
from ..errors import DtypeError
from ..tensor import Tensor as UserTensor
from .base import Cast
from .functions import OfInputs
from .shape import ExpandBackward
from .unary import NegForward, neg


def _promoted(a: Any, b: Any) -> tuple[tuple[int, ...], DType]:
    return broadcast_shapes(a.shape, b.shape), promote(a.dtype, b.dtype)


def _no_bools(a: Any, b: Any) -> None:
    if a.dtype is bool_ and b.dtype is bool_:
        raise DtypeError("two bool tensors have no difference or quotient; cast one, or compare them with !=")


@op(profile="training", dtypes="all", autocast="widest", gradient="AddBackward")
def AddForward(a: Tensor, b: Tensor) -> Results:
    """a + b; shapes broadcast, dtypes promote; of two bools: or."""
    return [_promoted(a, b)]


@op(profile="training", results="da db")
def AddBackward(grad: Tensor, a_shape: tuple, b_shape: tuple) -> Results:
    """da, db = grad, each summed over the axes along which the operand of that shape was broadcast."""
    require_shape("grad", grad.shape, broadcast_shapes(a_shape, b_shape))
    return [(a_shape, grad.dtype), (b_shape, grad.dtype)]


@op(profile="training", dtypes="all", autocast="widest", gradient="SubBackward")
def SubForward(a: Tensor, b: Tensor) -> Results:
    """a - b; shapes broadcast, dtypes promote; not two bools."""
    _no_bools(a, b)
    return [_promoted(a, b)]


@op(profile="training", results="da db")
def SubBackward(grad: Tensor, a_shape: tuple, b_shape: tuple) -> Results:
    """da, db = grad, -grad, each summed over the axes along which the operand of that shape was broadcast."""
    require_shape("grad", grad.shape, broadcast_shapes(a_shape, b_shape))
    return [(a_shape, grad.dtype), (b_shape, grad.dtype)]


@op(profile="training", dtypes="all", autocast="widest", gradient="MulBackward")
def MulForward(a: Tensor, b: Tensor) -> Results:
    """a b; shapes broadcast, dtypes promote; of two bools: and."""
    return [_promoted(a, b)]


@op(profile="training", results="da db")
def MulBackward(grad: Tensor, a: Tensor, b: Tensor) -> Results:
    """da = grad b, db = grad a, each summed to its operand's shape."""
    return operand_gradients(grad, a, b)


@op(profile="training", dtypes="all", autocast="widest", gradient="DivBackward")
def DivForward(a: Tensor, b: Tensor) -> Results:
    """a / b; shapes broadcast, dtypes promote, integers give float32; not two bools."""
    _no_bools(a, b)
    shape, dtype = _promoted(a, b)
    return [(shape, dtype if dtype.is_floating else float32)]


@op(profile="training", results="da db")
def DivBackward(grad: Tensor, a: Tensor, b: Tensor) -> Results:
    """da = grad / b, db = -grad a / b², each summed to its operand's shape."""
    return operand_gradients(grad, a, b)


@op(profile="extra", dtypes="numeric", autocast="float32", gradient="PowTensorBackward")
def PowTensorForward(a: Tensor, b: Tensor) -> Results:
    """a to the power b; shapes broadcast, dtypes promote; integers take no negative exponent."""
    if b.dtype is bool_:
        raise DtypeError("b is bool; an exponent is a number")
    return [_promoted(a, b)]


@op(profile="extra", results="da db")
def PowTensorBackward(grad: Tensor, a: Tensor, b: Tensor) -> Results:
    """da = grad b a^(b-1) (0 where b = 0), db = grad a^b ln a (0 where a = 0 <= b), each summed to shape."""
    return operand_gradients(grad, a, b)


def operand_gradients(grad: Any, a: Any, b: Any) -> Results:
    """Return what is inferred for the gradients of two operands that were broadcast and promoted."""
    require_shape("grad", grad.shape, broadcast_shapes(a.shape, b.shape))
    # An integer operand has no gradient; its slot is computed in grad's dtype and dropped.
    return [(x.shape, x.dtype if x.dtype.is_floating else grad.dtype) for x in (a, b)]


# A number on one side -------------------------------------------------------------------------------------


def _with_scalar(x: Any, value: Any) -> DType:
    """Return the dtype of x with a Python number: floating x keeps its own, integers follow floats."""
    if x.dtype.is_floating:
        return x.dtype
    if isinstance(value, float):
        return float32
    return int64 if x.dtype is bool_ else x.dtype


@op(profile="training", dtypes="all")
def AddScalarForward(x: Tensor, value: Scalar) -> Results:
    """x + value; an integer x with a float gives float32, a bool x with an int int64; dx = grad."""
    return [(x.shape, _with_scalar(x, value))]


@op(profile="training", dtypes="all", gradient="MulScalarForward")
def MulScalarForward(x: Tensor, value: Scalar) -> Results:
    """x value; an integer x with a float gives float32, a bool x with an int int64."""
    return [(x.shape, _with_scalar(x, value))]


@op(profile="training", dtypes="all", gradient="DivScalarBackward")
def DivScalarForward(x: Tensor, scalar: Scalar, scalar_is_dividend: bool) -> Results:
    """x / scalar, or scalar / x; an integer x gives float32."""
    return [(x.shape, x.dtype if x.dtype.is_floating else float32)]


@op(profile="training", results="dx")
def DivScalarBackward(grad: Tensor, x: Tensor, scalar: Scalar) -> Results:
    """dx = -grad scalar / x², the gradient of scalar / x (that of x / scalar is DivScalarForward of grad)."""
    require_shape("grad", grad.shape, x.shape)
    require_dtype("x", x.dtype, grad.dtype)
    return [(x.shape, x.dtype)]


@op(profile="training", dtypes="numeric", autocast="float32", gradient="PowBackward")
def PowForward(x: Tensor, scalar: Scalar, scalar_is_base: bool) -> Results:
    """x to the power scalar, or scalar to the power x; an integer x with a float gives float32."""
    return [(x.shape, _with_scalar(x, scalar))]


@op(profile="training", results="dx")
def PowBackward(grad: Tensor, x: Tensor, scalar: Scalar, scalar_is_base: bool) -> Results:
    """dx = grad s x^(s-1) (0 for s = 0), or grad s^x ln s (0 for s = 0) when the scalar s is the base."""
    require_shape("grad", grad.shape, x.shape)
    require_dtype("x", x.dtype, grad.dtype)
    return [(x.shape, x.dtype)]


# Functions ------------------------------------------------------------------------------------------------


def _whole(ctx: Any, grad: Any) -> bool:
    """Tell whether no operand that wants a gradient was broadcast."""
    return all(
        edge is None or spec.shape == grad.shape for edge, spec in zip(ctx._edges, ctx.specs, strict=True)
    )


def in_dtype(grad: Any, dtype: DType) -> Any:
    """Return a gradient in its operand's dtype; that of an integer operand is dropped anyway."""
    return grad if grad.dtype is dtype or not dtype.is_floating else Cast(grad, dtype)


def _one_gradient(grad: Any, spec: Any) -> Any:
    return in_dtype(ExpandBackward(grad, spec.shape) if grad.shape != spec.shape else grad, spec.dtype)


class Add(Function, op=AddForward):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.specs = a.spec, b.spec
        return AddForward(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.specs
        if a is b:  # equal shapes and dtypes: nothing to sum, nothing to round
            return grad, grad
        da, db = (grad, grad) if _whole(ctx, grad) else AddBackward(grad, a.shape, b.shape)
        return in_dtype(da, a.dtype), in_dtype(db, b.dtype)


class Sub(Function, op=SubForward):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.specs = a.spec, b.spec
        return SubForward(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.specs
        if not _whole(ctx, grad):
            da, db = SubBackward(grad, a.shape, b.shape)
        else:
            da, db = grad, NegForward(grad) if ctx.needs(1) else grad
        return in_dtype(da, a.dtype), in_dtype(db, b.dtype)


class Mul(Function, op=MulForward):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.specs = a.spec, b.spec
        ctx.save(a if ctx.needs(1) else None, b if ctx.needs(0) else None)
        return MulForward(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved
        if a is None:
            return _one_gradient(MulForward(grad, b), ctx.specs[0]), None
        if b is None:
            return None, _one_gradient(MulForward(grad, a), ctx.specs[1])
        return MulBackward(grad, a, b)


class Div(Function, op=DivForward):
    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.specs = a.spec, b.spec
        ctx.save(a if ctx.needs(1) else None, b)
        return DivForward(a, b)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        a, b = ctx.saved
        if a is None:
            return _one_gradient(DivForward(grad, b), ctx.specs[0]), None
        return DivBackward(grad, a, b)


class PowTensor(OfInputs, op=PowTensorForward): ...


class AddScalar(Function, op=AddScalarForward):
    @staticmethod
    def forward(ctx: Any, x: Any, value: Any) -> Any:
        return AddScalarForward(x, value)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


class MulScalar(Function, op=MulScalarForward):
    @staticmethod
    def forward(ctx: Any, x: Any, value: Any) -> Any:
        ctx.value = value
        return MulScalarForward(x, value)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return MulScalarForward(grad, ctx.value), None


class DivScalar(Function, op=DivScalarForward):
    @staticmethod
    def forward(ctx: Any, x: Any, scalar: Any, scalar_is_dividend: bool) -> Any:
        ctx.scalar = scalar
        ctx.save(x if scalar_is_dividend else None)
        return DivScalarForward(x, scalar, scalar_is_dividend)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved
        dx = (
            DivScalarForward(grad, ctx.scalar, False) if x is None else DivScalarBackward(grad, x, ctx.scalar)
        )
        return dx, None, None


class Pow(Function, op=PowForward):
    @staticmethod
    def forward(ctx: Any, x: Any, scalar: Any, scalar_is_base: bool) -> Any:
        ctx.save(x)
        ctx.how = scalar, scalar_is_base
        return PowForward(x, scalar, scalar_is_base)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return PowBackward(grad, *ctx.saved, *ctx.how), None, None


# What users call ------------------------------------------------------------------------------------------


def add(a: Any, b: Any) -> Any:
    """Return a + b for tensors (shapes broadcast, dtypes promote; of bools: or) or a tensor and a number."""
    if isinstance(a, UserTensor):
        return Add.apply(a, b) if isinstance(b, UserTensor) else AddScalar.apply(a, number("add", b, a))
    return AddScalar.apply(b, number("add", a, b))


def sub(a: Any, b: Any) -> Any:
    """Return a - b for tensors (shapes broadcast, dtypes promote) or a tensor and a number."""
    if isinstance(a, UserTensor):
        if isinstance(b, UserTensor):
            return Sub.apply(a, b)
        return AddScalar.apply(a, _negated(number("sub", b, a), a.dtype))
    value = number("sub", a, b)
    if b.dtype is bool_ or (isinstance(value, float) and not b.dtype.is_floating):
        # Unsigned integers, and the least signed one, have no negative among them.
        return AddScalar.apply(MulScalar.apply(b, -1.0 if isinstance(value, float) else -1), value)
    return AddScalar.apply(neg(b), value)


def mul(a: Any, b: Any) -> Any:
    """Return a b for tensors (shapes broadcast, dtypes promote; of bools: and) or a tensor and a number."""
    if isinstance(a, UserTensor):
        return Mul.apply(a, b) if isinstance(b, UserTensor) else MulScalar.apply(a, number("mul", b, a))
    return MulScalar.apply(b, number("mul", a, b))


def div(a: Any, b: Any) -> Any:
    """Return a / b for tensors (shapes broadcast, dtypes promote) or a tensor and a number; floating."""
    if isinstance(a, UserTensor):
        return (
            Div.apply(a, b) if isinstance(b, UserTensor) else DivScalar.apply(a, number("div", b, a), False)
        )
    return DivScalar.apply(b, number("div", a, b), True)


def pow(a: Any, b: Any) -> Any:
    """Return a to the power b for tensors (shapes broadcast, dtypes promote) or a tensor and a number.

    Integers stay integers; a negative exponent of an integer is a ValueError, as in NumPy.
    """
    if not isinstance(a, UserTensor):
        return Pow.apply(b, number("pow", a, b), True)
    if isinstance(b, UserTensor):
        return PowTensor.apply(a, b)
    exponent = number("pow", b, a)
    if exponent < 0 and not isinstance(exponent, float):
        raise ValueError(
            f"pow: exponent {exponent} of a tensor of {a.dtype}; cast the tensor or give {float(exponent)}"
        )
    return Pow.apply(a, exponent, False)


def number(name: str, value: Any, x: Any) -> Any:
    """Return the operand ``value`` of tensor ``x`` as a plain int or float that fits x's dtype.

    Raises TypeError for what is neither tensor nor number, DtypeError for an int out of range.
    """
    if not isinstance(x, UserTensor):
        raise TypeError(f"{name}: one operand is a Tensor, got {type(value).__name__} and {type(x).__name__}")
    if not isinstance(value, int | float):
        item = getattr(value, "item", None)  # NumPy's scalars and 0-d arrays
        if item is None or getattr(value, "ndim", 0) != 0 or not isinstance(item(), int | float):
            raise TypeError(
                f"{name}: an operand is a Tensor or a number, got {type(value).__name__}; "
                "make it a tensor with infinitrain.tensor()"
            )
        value = item()
    if x.dtype.is_floating or isinstance(value, float):
        return float(value)
    value = int(value)
    low, high = bounds(int64 if x.dtype is bool_ else x.dtype)
    if not low <= value <= high:
        raise DtypeError(f"{name}: {value} does not fit {x.dtype} ({low}..{high}); cast the tensor first")
    return value


def element(name: str, value: Any, x: Any) -> Any:
    """Return ``value`` as what an element of tensor x can be. Raises as ``number``, and for a float in integers."""
    found = number(name, value, x)
    if isinstance(found, float) and not x.dtype.is_floating:
        raise DtypeError(f"{name}: value {value} is a float, and the tensor {x.dtype}; cast one of them")
    return found


def bounds(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer dtype."""
    bits = 8 * dtype.itemsize
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.kind == "i" else (0, 2**bits - 1)


def _wrapped(value: int, dtype: DType) -> int:
    """Return value modulo 2**bits as a value of ``dtype``: subtraction in integers is addition of this."""
    low, _ = bounds(int64 if dtype is bool_ else dtype)
    return (value - low) % 2 ** (64 if dtype is bool_ else 8 * dtype.itemsize) + low


def _negated(value: Any, dtype: DType) -> Any:
    return -value if isinstance(value, float) else _wrapped(-value, dtype)
