"""What the dispatcher asks of an op's arguments before its ``infer`` sees them, and of what that infers.

Checked once per plan. Every error names the op, the argument and its value.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final

from ..device import Device
from ..dtype import DType
from ..errors import DeviceMismatchError, DtypeError, ShapeError, UnsupportedShapeError
from .optable import DTYPES, Op, Param, Results
from .storage import DeviceTensor

MAX_DIMS = 8
_LOW, _HIGH = -(2**63), 2**63
_ATTRIBUTES: Final[dict[str, tuple[type | tuple[type, ...], str]]] = {
    "int": (int, "an int"),
    "float": ((int, float), "a number"),
    "bool": (bool, "a bool"),
    "str": (str, "a str"),
    "tuple": (tuple, "a tuple of ints"),
    "DType": (DType, "a DType"),
}


def describe(row: Op, args: tuple[Any, ...]) -> str:
    """Return a call as text: shapes and dtypes of tensors, values of the rest."""
    return f"{row.name}({', '.join(_shown(p.name, a) for p, a in zip(row.params, args, strict=True))})"


def _shown(name: str, value: Any) -> str:
    if isinstance(value, DeviceTensor):
        return f"{name}: {value.dtype}{list(value.shape)}"
    if isinstance(value, tuple) and value and isinstance(value[0], DeviceTensor):
        return f"{name}: {len(value)} tensors"
    return f"{name}={value!r}"


def as_tuple(row: Op, value: Any, index: int) -> tuple[Any, ...]:
    """Return a list of tensors as a tuple. Raises TypeError: a tensor, say, would be taken for the list of its rows."""
    if not isinstance(value, list | tuple):
        name = row.params[index].name
        raise TypeError(
            f"{row.name}: {name} is a list or tuple of tensors, got {type(value).__name__} {value!r:.60}"
        )
    return tuple(value)


def check_arguments(row: Op, args: tuple[Any, ...]) -> tuple[list[DeviceTensor], set[str]]:
    """Return all tensors, and the names of the dtypes of those that are no index or mask."""
    tensors: list[DeviceTensor] = []
    dtypes: set[str] = set()
    for p, a in zip(row.params, args, strict=True):
        if p.kind == "list":
            found = list(a)
        elif p.kind == "tensor" or (p.kind == "optional" and a is not None):
            found = [a]
        else:
            if p.kind == "scalar" and not isinstance(a, int | float):
                raise TypeError(f"{row.name}: {p.name} is a number, got {type(a).__name__} {a!r:.60}")
            if p.kind == "attribute":
                _check_attribute(row, p, a)
            continue
        for t in found:
            if not isinstance(t, DeviceTensor):
                raise TypeError(f"{row.name}: {p.name} is a tensor, got {type(t).__name__} {t!r:.60}")
        if found and not p.is_index:
            # Other operands than the first may be of any dtype unless infer objects.
            for t in found if p.kind == "list" else found[: not dtypes]:
                if t.dtype not in DTYPES[row.dtypes]:
                    raise DtypeError(
                        f"{row.name}: {p.name} has dtype {t.dtype}; the op takes {row.dtypes} dtypes [contract 4.1]"
                    )
            dtypes.update(t.dtype.name for t in found)
        tensors += found
    return tensors, dtypes


def _check_attribute(row: Op, p: Param, value: Any) -> None:
    """Raise DtypeError unless an attribute is what its annotation says: kernels rely on that."""
    types, what = _ATTRIBUTES[p.annotation]
    parts = value if p.annotation == "tuple" and isinstance(value, tuple) else (value,)
    wanted = int if parts is value else types
    if (not isinstance(value, types)) or not all(
        isinstance(v, wanted) and (wanted is bool or not isinstance(v, bool)) for v in parts
    ):
        raise DtypeError(f"{row.name}: {p.name} is {what}, got {value!r:.60}")
    for v in parts:
        if isinstance(v, int) and not _LOW <= v < _HIGH:
            raise DtypeError(f"{row.name}: {p.name}={value!r} does not fit int64")


def common_device(row: Op, args: tuple[Any, ...], tensors: list[DeviceTensor]) -> Device:
    """Return the device of all tensors. Raises DeviceMismatchError."""
    if not tensors:
        raise ShapeError(f"{describe(row, args)}: needs at least one tensor")
    device = tensors[0].device
    for t in tensors:
        if t.device is not device:
            where = [f"{name} on {x.device}" for name, x in _named(row, args)]
            raise DeviceMismatchError(
                f"{row.name}: tensors on {device} and on {t.device} ({', '.join(where)}); move one with .to() "
                "[contract 3.5]",
                op=row.name,
                devices=(device, t.device),
            )
    return device


def _named(row: Op, args: tuple[Any, ...]) -> Iterator[tuple[str, DeviceTensor]]:
    """Yield all tensors with their names, those in lists with their places."""
    for p, a in zip(row.params, args, strict=True):
        if p.kind == "list":
            yield from ((f"{p.name}[{i}]", t) for i, t in enumerate(a))
        elif isinstance(a, DeviceTensor):
            yield p.name, a


def check_results(row: Op, args: tuple[Any, ...], results: Results, tensors: list[DeviceTensor]) -> None:
    """Raise unless what was inferred is a shape that memory can have, and nothing has too many axes."""
    for t in tensors:
        if t.ndim > MAX_DIMS:
            check_shape(describe(row, args), t.shape, t.dtype)
    for shape, dtype in results:
        check_shape(describe(row, args), shape, dtype)


def check_shape(what: str, shape: tuple[int, ...], dtype: DType) -> None:
    """Raise unless a tensor of this shape can be: at most 8 axes, no negative size, fewer than 2**63 bytes."""
    if len(shape) > MAX_DIMS:
        raise UnsupportedShapeError(
            f"{what}: {len(shape)} dimensions, shape {shape}; tensors have at most {MAX_DIMS} [contract 4.4]"
        )
    if any(n < 0 for n in shape):
        raise ShapeError(f"{what}: shape {shape} has a negative size")
    if prod([max(n, 1) for n in shape]) * dtype.itemsize >= _HIGH:
        raise ShapeError(f"{what}: a tensor of shape {shape} would have 2**63 bytes or more")
