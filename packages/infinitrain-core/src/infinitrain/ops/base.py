"""The base profile, and moving bytes: Cast, Fill, NoOp, Copy, AccumulateGrad; casting, cloning and device transfer."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import Any

import numpy as np

from ..autograd.function import Function
from ..backend import storage
from ..backend.optable import Results, Scalar, Tensor, int_of, op, require_shape
from ..backend.spec import TensorSpec
from ..device import Device
from ..dtype import DType, bool_, int64
from ..errors import DtypeError, ShapeError
from ..tensor import Tensor as UserTensor


@op(profile="base", dtypes="all", gradient="Cast")
def Cast(x: Tensor, dtype: DType) -> Results:
    """x in another dtype: floats round to nearest even, to integers towards zero, to bool nonzero is True."""
    if not isinstance(dtype, DType):
        raise DtypeError(f"dtype is a DType, got {dtype!r}")
    return [(x.shape, dtype)]


@op(profile="base", results="", writes="x", dtypes="all")
def Fill(x: Tensor, value: Scalar) -> Results:
    """Set every element of x to value."""
    return []


@op(profile="base", dtypes="all", gradient="NoOpBackward", view=True)
def NoOpForward(x: Tensor, shape: tuple) -> Results:
    """x's memory in another shape (a view)."""
    _same_size(x.shape, shape)
    return [(shape, x.dtype)]


@op(profile="base", results="dx", dtypes="all", view=True)
def NoOpBackward(shape: tuple, grad: Tensor) -> Results:
    """grad's memory in the input's shape (a view)."""
    _same_size(grad.shape, shape)
    return [(shape, grad.dtype)]


def _same_size(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    if prod(old) != prod(new) or any(n < 0 for n in new):
        raise ShapeError(f"a tensor of shape {old} cannot be seen as {new}")


@op(profile="training", results="", writes="dst", dtypes="all")
def Copy(dst: Tensor, src: Tensor) -> Results:
    """Copy src's elements to dst: equal shape and dtype."""
    require_shape("src", src.shape, dst.shape)
    if src.dtype is not dst.dtype:
        raise DtypeError(f"src is {src.dtype}, dst {dst.dtype}")
    return []


@op(profile="training", results="", writes="tensor", dtypes="numeric")
def AccumulateGrad(grad: Tensor, rate: Scalar, tensor: Tensor) -> Results:
    """tensor += rate * grad; equal shape, dtypes may differ (computed in the wider, rounded to tensor's). A floating
    grad needs a floating tensor.
    """
    require_shape("grad", grad.shape, tensor.shape)
    if tensor.dtype is bool_ or (grad.dtype.is_floating and not tensor.dtype.is_floating):
        raise DtypeError(f"tensor has dtype {tensor.dtype}, to which {grad.dtype} cannot be added in place")
    return []


class CastTo(Function, op=Cast):
    @staticmethod
    def forward(ctx: Any, x: Any, dtype: DType) -> Any:
        ctx.dtype = x.dtype
        return Cast(x, dtype)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return Cast(grad, ctx.dtype), None


class ToDevice(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, device: Device) -> Any:
        ctx.device = x.device
        moved = storage.empty_like_spec(TensorSpec.of(x.shape, x.dtype, device))
        storage.copy_between(moved, x)
        moved._version = None  # its first content, not a change
        return moved

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.to(ctx.device), None


class Clone(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        copy = storage.empty_like_spec(x.spec)
        storage.copy_between(copy, x)
        copy._version = None
        return copy

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


class View(Function, op=NoOpForward):
    @staticmethod
    def forward(ctx: Any, x: Any, shape: tuple[int, ...]) -> Any:
        ctx.shape = x.shape
        return NoOpForward(x, shape)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return NoOpBackward(ctx.shape, grad), None


# What user functions ask of their arguments ------------------------------------------------------------------------


def rank(what: str, x: Any) -> int:
    """Return the number of axes of tensor x. Raises TypeError for anything else; ``what`` is function and argument."""
    if not isinstance(x, UserTensor):
        raise TypeError(
            f"{what} is a Tensor, got {type(x).__name__} {x!r:.60}; make one with infinitrain.tensor()"
        )
    ndim: int = x.spec.ndim
    return ndim


def flag(what: str, value: Any) -> bool:
    """Return a bool. Raises DtypeError for anything else: most objects are true."""
    if not isinstance(value, bool | np.bool_):
        raise DtypeError(f"{what} is a bool, got {value!r:.60}")
    return bool(value)


def real(what: str, value: Any) -> float:
    """Return a number (Python's, NumPy's, or in a 0-d tensor) as a float. Raises TypeError for anything else."""
    if not isinstance(value, int | float):
        item = getattr(value, "item", None)
        value = item() if item is not None and getattr(value, "ndim", 1) == 0 else value
        if not isinstance(value, int | float):
            raise TypeError(f"{what} is a number, got {type(value).__name__} {value!r:.60}")
    return float(value)


def epsilon(name: str, eps: Any) -> float:
    """Return the eps of normalisation ``name``. Raises ValueError unless it is finite and not negative."""
    value = real(f"{name}: eps", eps)
    if not 0 <= value < inf:
        raise ValueError(f"{name}: eps={eps} is not a finite number >= 0")
    return value


def shape_of(what: str, shape: Any) -> tuple[int, ...]:
    """Return a sequence of ints as a tuple. Raises DtypeError."""
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes):
        raise DtypeError(f"{what} is a sequence of ints, got {shape!r:.60}")
    return tuple([int_of(n, what) for n in shape])


def cast(x: Any, dtype: DType) -> Any:
    """Return x in ``dtype``. Differentiable between floating types."""
    rank("cast: x", x)
    return CastTo.apply(x, dtype)


def to_device(x: Any, device: Device) -> Any:
    """Return a copy of x on ``device``. Differentiable."""
    rank("to_device: x", x)
    if not isinstance(device, Device):
        raise TypeError(
            f"to_device: device is a Device, got {type(device).__name__} {device!r:.60}; x.to() takes texts"
        )
    return ToDevice.apply(x, device)


def clone(x: Any) -> Any:
    """Return a copy of x. Differentiable."""
    rank("clone: x", x)
    return Clone.apply(x)


def view(x: Any, shape: tuple[int, ...]) -> Any:
    """Return x's memory in another shape; one size may be -1. Differentiable."""
    rank("view: x", x)
    if shape.__class__ is not tuple or -1 in shape:
        shape = shape_of("view: shape", shape)
    if -1 in shape:
        known = -prod(shape)
        if shape.count(-1) > 1 or known <= 0 or x.numel % known:
            raise ShapeError(
                f"view: {list(shape)} does not fit a tensor of shape {list(x.shape)} ({x.numel} elements)"
            )
        shape = tuple(x.numel // known if n == -1 else n for n in shape)
    return View.apply(x, shape)


def as_index(what: str, x: Any) -> Any:
    """Return integer tensor x as int64, which is what ops take as indices. Raises TypeError, DtypeError."""
    if not isinstance(x, UserTensor):
        raise TypeError(
            f"{what} is a tensor of integers, got {type(x).__name__}; make one with infinitrain.tensor"
        )
    if not x.dtype.is_integer:
        raise DtypeError(f"{what} has dtype {x.dtype}, expected integers")
    return x if x.dtype is int64 else Cast(x, int64)
