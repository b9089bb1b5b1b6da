"""The op table: every op declared once, by the function that infers its results [contract 4.1].

    @op(profile="training", gradient="LinearBackwardInput", autocast="lower")
    def LinearForward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Results:
        "y = x weightᵀ + bias. x (..., in), weight (out, in), bias (out,)."
        return [((*x.shape[:-1], weight.shape[0]), x.dtype)]

The signature is the parameter list (annotations say the kind), the first paragraph of the docstring the op's
documentation, the body decides shapes and result dtypes: pure, without a device, and the only place that does. The
decorated name becomes a function that dispatches to a kernel; the row itself is ``OPS[name]``.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..dtype import ALL, FLOATING, INTEGER, DType, int64
from ..errors import DtypeError, ShapeError

Results = Sequence[tuple[tuple[int, ...], DType]]

PROFILES: Final = ("base", "training", "moe", "parallel", "fused", "extra")
POLICIES: Final = ("lower", "float32", "widest", "keep")
DTYPES: Final = {"all": ALL, "floating": FLOATING, "integer": INTEGER, "numeric": INTEGER + FLOATING}
# Annotation of an infer function -> kind of parameter. A scalar is a run-time number that never decides a shape (its
# type may decide the dtype); everything else that is no tensor is an attribute, part of the cache key.
_KINDS: Final = {
    "Tensor": "tensor",
    "Tensor | None": "optional",
    "Index": "tensor",
    "BoolMask": "tensor",
    "Tensors": "list",
    "Scalar": "scalar",
}
_REQUIRED: Final = inspect.Parameter.empty


class Tensor:
    """Annotation: a tensor argument, of which an infer function sees what is known without memory."""

    shape: tuple[int, ...]
    dtype: DType


class Index(Tensor):
    """Annotation: a tensor of int64 indices. It says where, not what: limits on dtypes leave it out."""


class BoolMask(Tensor):
    """Annotation: a bool tensor that says where; limits on dtypes leave it out."""


class Tensors(tuple[Tensor, ...]):
    """Annotation: a tuple of tensors."""


class Scalar:
    """Annotation: a number that may change at every call."""


@dataclass(frozen=True)
class Param:
    """One parameter of an op: ``kind`` is tensor, optional, list, scalar or attribute."""

    name: str
    kind: str
    annotation: str
    default: Any = _REQUIRED
    since: tuple[int, int] = (1, 0)

    @property
    def is_index(self) -> bool:
        """True for indices and masks."""
        return self.annotation in ("Index", "BoolMask")

    @property
    def is_number(self) -> bool:
        """True for attributes that are numbers."""
        return self.annotation in ("int", "float", "bool")

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED


class Op:
    """A row of the op table. ``call`` runs the op: arguments as declared, with ``out=`` and ``accumulate=``."""

    def __init__(
        self,
        infer: Callable[..., Results],
        *,
        profile: str,
        results: tuple[str, ...],
        writes: tuple[str, ...],
        accumulates: tuple[str, ...],
        dtypes: str,
        gradient: tuple[str, ...],
        autocast: str,
        host_sync: bool,
        view: bool,
        since: tuple[int, int],
        param_since: dict[str, tuple[int, int]],
    ) -> None:
        self.name = infer.__name__
        self.doc = " ".join(inspect.cleandoc(infer.__doc__ or "").split("\n\n")[0].split())
        self.infer = infer
        self.profile, self.results, self.writes, self.accumulates = profile, results, writes, accumulates
        self.dtypes, self.gradient, self.autocast, self.host_sync = dtypes, gradient, autocast, host_sync
        self.view, self.since = view, since
        self.params = tuple(
            Param(
                p.name,
                _KINDS.get(str(p.annotation), "attribute"),
                str(p.annotation),
                p.default,
                param_since.get(p.name, (1, 0)),
            )
            for p in inspect.signature(infer).parameters.values()
        )
        self.accumulates_index = frozenset(results.index(name) for name in accumulates)
        self.write_index = tuple(self.param_names.index(name) for name in writes)
        self.call: Callable[..., Any] = infer  # replaced by the dispatching function, see dispatch.bind

    def result_name(self, index: int) -> str:
        """Return the name of result ``index``, for messages; of a list of results, with its place."""
        first = self.results[0]
        return f"{first[1:]}[{index}]" if first.startswith("*") else self.results[index]

    @property
    def param_names(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.params)

    def params_at(self, minor: tuple[int, int]) -> tuple[Param, ...]:
        """Return the parameters that a provider written for contract ``minor`` knows [contract 9.2]."""
        return tuple(p for p in self.params if p.since <= minor)

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join(self.param_names)})>"


class OpTable(dict[str, Op]):
    """All ops by name."""

    def add(self, row: Op) -> Op:
        if row.name in self:
            raise ValueError(f"op {row.name} is declared twice [contract 4.1]")
        if row.profile not in PROFILES:
            raise ValueError(
                f"op {row.name}: unknown profile {row.profile!r}; one of {PROFILES} [contract 4.2]"
            )
        if row.autocast not in POLICIES:
            raise ValueError(
                f"op {row.name}: unknown autocast policy {row.autocast!r}; one of {POLICIES} [contract 5.1]"
            )
        if not row.doc and sys.flags.optimize < 2:  # python -OO strips them all
            raise ValueError(f"op {row.name} has no documentation [contract 4.1]")
        self[row.name] = row
        return row


OPS: Final = OpTable()
BASE_OPS: Final = ("Cast", "Fill", "NoOpForward", "NoOpBackward")


def op(
    *,
    profile: str,
    results: str = "y",
    writes: str = "",
    accumulates: str = "",
    dtypes: str = "floating",
    gradient: str = "",
    autocast: str = "keep",
    host_sync: bool = False,
    view: bool = False,
    since: tuple[int, int] = (1, 0),
    param_since: dict[str, tuple[int, int]] | None = None,
) -> Callable[[Callable[..., Results]], Any]:
    """Declare an op; see the module's text. Name lists are space-separated.

    ``results`` names the results ("" for none; ``*pieces`` for a list of two or more, as many as infer
    returns), ``writes`` the parameters changed in place, ``accumulates`` the results that may be added to a
    destination; ``autocast`` is one of lower, float32, widest, keep [contract 5.1].
    """

    def declare(infer: Callable[..., Results]) -> Any:
        row = Op(
            infer,
            profile=profile,
            results=tuple(results.split()),
            writes=tuple(writes.split()),
            accumulates=tuple(accumulates.split()),
            dtypes=dtypes,
            gradient=tuple(gradient.split()),
            autocast=autocast,
            host_sync=host_sync,
            view=view,
            since=since,
            param_since=param_since or {},
        )
        from .dispatch import bind

        return bind(OPS.add(row))

    return declare


# Helpers for infer functions: each raises an error that names the arguments and their values.


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that ``a`` and ``b`` broadcast to (NumPy's rule). Raises ShapeError."""
    if a == b:
        return a
    rank = max(len(a), len(b))
    left = (1,) * (rank - len(a)) + a
    right = (1,) * (rank - len(b)) + b
    shape = []
    for m, n in zip(left, right, strict=True):
        if m != n and m != 1 and n != 1:
            raise ShapeError(f"shapes {a} and {b} do not broadcast: {m} against {n}")
        shape.append(n if m == 1 else m)
    return tuple(shape)


def int_of(value: Any, what: str) -> int:
    """Return ``value`` (an int, one of NumPy's, a 0-d integer tensor) as an int. Raises DtypeError for anything else,
    such as bools and floats, and for what int64 does not hold.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except (TypeError, ValueError):  # a tensor's __index__ raises either
        raise DtypeError(f"{what} is an int, got {value!r:.60}") from None
    if not -(2**63) <= number < 2**63:
        raise DtypeError(f"{what} {number} does not fit int64")
    return number


def axis_of(axis: int, ndim: int, what: str = "axis") -> int:
    """Return ``axis`` counted from the front. Raises ShapeError out of range, DtypeError for no int."""
    number = int_of(axis, what)
    if not -ndim <= number < ndim:
        raise ShapeError(f"{what} {number} is out of range for a tensor with {ndim} dimensions")
    return number % ndim


def axes_of(axes: int | Sequence[int] | None, ndim: int, what: str = "axis") -> tuple[int, ...]:
    """Return ``axes`` (one, several, None for all) counted from the front, sorted. Raises as ``axis_of``."""
    if axes is None:
        return tuple(range(ndim))
    wanted = tuple(axes) if isinstance(axes, Sequence) else (axes,)
    found = tuple(sorted(axis_of(a, ndim, what) for a in wanted))
    if len(set(found)) != len(found):
        raise ShapeError(f"{what} {wanted} names one axis twice")
    return found


def require_axis(name: str, axis: int, ndim: int) -> None:
    """Raise ShapeError unless ``axis`` counts from the front, which is how kernels get it."""
    if not 0 <= axis < ndim:
        raise ShapeError(f"{name} {axis} is not in 0..{ndim - 1}")


def require_shape(name: str, got: tuple[int, ...], want: tuple[int, ...]) -> None:
    """Raise ShapeError unless argument ``name`` has the wanted shape."""
    if got != want:
        raise ShapeError(f"{name} has shape {got}, expected {want}")


def require_dtype(name: str, got: DType, want: DType) -> None:
    """Raise DtypeError unless argument ``name`` has the wanted dtype."""
    if got is not want:
        raise DtypeError(f"{name} has dtype {got}, expected {want}")


def require_index(name: str, index: Tensor) -> None:
    """Raise DtypeError unless argument ``name`` holds int64, the one type of indices that kernels meet."""
    require_dtype(name, index.dtype, int64)
