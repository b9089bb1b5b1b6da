"""What tensors do by operators, indexing and named methods: each calls one of ``infinitrain.ops``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from .backend.optable import int_of

if TYPE_CHECKING:
    from .tensor import Tensor

# infinitrain.ops, which is above this module and installs itself here when it is imported.
ops: Any = None

Scalar = int | float | bool


class TensorMethods:
    """Operators and named forms, with NumPy's meaning: full broadcasting, several axes."""

    __hash__ = object.__hash__

    # Operators ----------------------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Tensor:
        return ops.add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tensor:
        return ops.sub(self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return ops.sub(other, self)

    def __mul__(self, other: Any) -> Tensor:
        return ops.mul(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Tensor:
        return ops.div(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return ops.div(other, self)

    def __pow__(self, other: Any) -> Tensor:
        return ops.pow(self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return ops.pow(other, self)

    def __neg__(self) -> Tensor:
        return ops.neg(self)

    def __abs__(self) -> Tensor:
        return ops.abs(self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return ops.matmul(self, other)

    def __eq__(self, other: Any) -> Any:
        return ops.equals(self, other)

    def __ne__(self, other: Any) -> Any:
        return ops.not_equals(self, other)

    def __lt__(self, other: Any) -> Any:
        return ops.lt(self, other)

    def __le__(self, other: Any) -> Any:
        return ops.le(self, other)

    def __gt__(self, other: Any) -> Any:
        return ops.gt(self, other)

    def __ge__(self, other: Any) -> Any:
        return ops.ge(self, other)

    def __and__(self, other: Any) -> Tensor:
        return ops.logical_and(self, other)

    def __or__(self, other: Any) -> Tensor:
        return ops.logical_or(self, other)

    def __invert__(self) -> Tensor:
        return ops.logical_not(self)

    def __getitem__(self, index: Any) -> Tensor:
        return ops.getitem(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        ops.setitem(self, index, value)

    # Named forms --------------------------------------------------------------------------------------------
    def exp(self) -> Tensor:
        return ops.exp(self)

    def log(self) -> Tensor:
        return ops.log(self)

    def sqrt(self) -> Tensor:
        return ops.sqrt(self)

    def rsqrt(self) -> Tensor:
        return ops.rsqrt(self)

    def reciprocal(self) -> Tensor:
        return ops.reciprocal(self)

    def sin(self) -> Tensor:
        return ops.sin(self)

    def cos(self) -> Tensor:
        return ops.cos(self)

    def tanh(self) -> Tensor:
        return ops.tanh(self)

    def sigmoid(self) -> Tensor:
        return ops.sigmoid(self)

    def abs(self) -> Tensor:
        return ops.abs(self)

    def clamp(self, low: Any = None, high: Any = None) -> Tensor:
        return ops.clamp(self, low, high)

    def isfinite(self) -> Tensor:
        return ops.isfinite(self)

    def isnan(self) -> Tensor:
        return ops.isnan(self)

    def pow(self, exponent: Any) -> Tensor:
        return ops.pow(self, exponent)

    def matmul(self, other: Tensor) -> Tensor:
        return ops.matmul(self, other)

    def outer(self, other: Tensor) -> Tensor:
        return ops.outer(self, other)

    def masked_fill(self, mask: Tensor, value: Scalar) -> Tensor:
        return ops.masked_fill(self, mask, value)

    def softmax(self, axis: int = -1) -> Tensor:
        return ops.softmax(self, axis)

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return ops.sum(self, axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return ops.mean(self, axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return ops.max(self, axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return ops.min(self, axis, keepdims)

    def norm(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return ops.norm(self, axis, keepdims)

    def var(
        self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, correction: float = 0
    ) -> Tensor:
        return ops.var(self, axis, keepdims, correction=correction)

    def std(
        self, axis: int | Sequence[int] | None = None, keepdims: bool = False, *, correction: float = 0
    ) -> Tensor:
        return ops.std(self, axis, keepdims, correction=correction)

    def argmax(self, axis: int | None = -1, keepdims: bool = False) -> Tensor:
        return ops.argmax(self, axis, keepdims)

    def argmin(self, axis: int | None = -1, keepdims: bool = False) -> Tensor:
        return ops.argmin(self, axis, keepdims)

    def cumsum(self, axis: int = -1) -> Tensor:
        return ops.cumsum(self, axis)

    def topk(self, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
        return ops.topk(self, k, axis, largest)

    def gather(self, axis: int, index: Tensor) -> Tensor:
        return ops.gather(self, axis, index)

    def index_select(self, axis: int, index: Tensor) -> Tensor:
        return ops.index_select(self, axis, index)

    def scatter_add(self, axis: int, index: Tensor, values: Tensor) -> Tensor:
        return ops.scatter_add(self, axis, index, values)

    def view(self, *shape: SupportsIndex | Sequence[int]) -> Tensor:
        """Return the same memory in another shape; one size may be -1."""
        return ops.view(self, shape_of(shape, "view"))

    reshape = view

    def flatten(self, start: int = 0, end: int = -1) -> Tensor:
        return ops.flatten(self, start, end)

    def squeeze(self, axis: int) -> Tensor:
        return ops.squeeze(self, axis)

    def unsqueeze(self, axis: int) -> Tensor:
        return ops.unsqueeze(self, axis)

    def transpose(self, axis0: int = -2, axis1: int = -1) -> Tensor:
        return ops.transpose(self, axis0, axis1)

    @property
    def T(self) -> Tensor:
        """The last two axes exchanged (a copy)."""
        return ops.transpose(self, -2, -1)

    def split(self, size: int, axis: int = 0) -> tuple[Tensor, ...]:
        return ops.split(self, size, axis)

    def repeat_interleave(self, repeats: int, axis: int) -> Tensor:
        return ops.repeat_interleave(self, repeats, axis)


_ELSEWHERE: Final = {
    "dim": "axis",
    "dim0": "axis0",
    "dim1": "axis1",
    "keepdim": "keepdims",
    "start_dim": "start",
    "end_dim": "end",
}
"""What other libraries call arguments, and what they are called here."""


def _checked(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method that says of a keyword that it does not take which one is meant."""
    code = method.__code__
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]

    @wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        for key in named:
            if key not in known:
                ours = _ELSEWHERE.get(key)
                hint = f"; it is called {ours}" if ours in known else ""
                raise TypeError(f"Tensor.{name}: no argument {key!r}{hint}; arguments: {', '.join(known)}")
        return method(self, *args, **named)

    return checked


for _name, _method in list(vars(TensorMethods).items()):
    if not _name.startswith("_") and isinstance(_method, FunctionType):
        _method.__qualname__ = f"Tensor.{_name}"
        if {*_ELSEWHERE.values()} & {*_method.__code__.co_varnames}:
            setattr(TensorMethods, _name, _checked(_method, _name))


def shape_of(args: tuple[Any, ...], what: str) -> tuple[int, ...]:
    """Return the shape given as ``f(2, 3)`` or ``f((2, 3))``. Raises DtypeError; ``what`` names the function."""
    sizes = args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args
    return tuple([int_of(n, f"{what}: a size in a shape") for n in sizes])
