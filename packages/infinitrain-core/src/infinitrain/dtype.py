"""The 13 data types, their ids on disk, and how two of them promote."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from .errors import DtypeError


class DType:
    """A data type. One object per type: compare with ``is`` or ``==``.

    ``name`` as in NumPy, ``id`` the number used in checkpoint files, ``itemsize`` in bytes, ``numpy`` the
    NumPy dtype (bfloat16 by ml_dtypes), ``kind`` one of ``b u i f``.
    """

    __slots__ = ("id", "is_floating", "is_integer", "itemsize", "kind", "name", "numpy")

    def __init__(self, id: int, name: str, kind: str, numpy: np.dtype[Any]) -> None:
        self.id, self.name, self.kind, self.numpy = id, name, kind, numpy
        self.itemsize = numpy.itemsize
        self.is_floating = kind == "f"
        self.is_integer = kind in "ui"

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.name,))


bool_: Final = DType(0, "bool", "b", np.dtype(np.bool_))
uint8: Final = DType(1, "uint8", "u", np.dtype(np.uint8))
int8: Final = DType(2, "int8", "i", np.dtype(np.int8))
uint16: Final = DType(3, "uint16", "u", np.dtype(np.uint16))
int16: Final = DType(4, "int16", "i", np.dtype(np.int16))
uint32: Final = DType(5, "uint32", "u", np.dtype(np.uint32))
int32: Final = DType(6, "int32", "i", np.dtype(np.int32))
uint64: Final = DType(7, "uint64", "u", np.dtype(np.uint64))
int64: Final = DType(8, "int64", "i", np.dtype(np.int64))
bfloat16: Final = DType(9, "bfloat16", "f", np.dtype(ml_dtypes.bfloat16))
float16: Final = DType(10, "float16", "f", np.dtype(np.float16))
float32: Final = DType(11, "float32", "f", np.dtype(np.float32))
float64: Final = DType(12, "float64", "f", np.dtype(np.float64))

ALL: Final = (
    bool_, uint8, int8, uint16, int16, uint32, int32, uint64, int64, bfloat16, float16, float32, float64,
)  # fmt: skip
FLOATING: Final = tuple(d for d in ALL if d.is_floating)
INTEGER: Final = tuple(d for d in ALL if d.is_integer)
HALF: Final = (bfloat16, float16)

_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL}


def as_dtype(value: object) -> DType:
    """Return the DType that ``value`` (a DType, its name, a NumPy dtype or scalar type) means.

    Raises DtypeError, listing the known names.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if value is bool:
        return bool_
    # NumPy would read None and float as float64, and int as its platform's integer.
    if not isinstance(value, str) and not any(
        value is ambiguous for ambiguous in (None, int, float, complex)
    ):
        try:
            return _BY_NUMPY[np.dtype(value)]  # type: ignore[call-overload]
        except (KeyError, TypeError, ValueError):
            pass
    raise DtypeError(f"unknown dtype {value!r:.60}; known: {', '.join(_BY_NAME)}")


def promote(a: DType, b: DType) -> DType:
    """Return the dtype of an op between ``a`` and ``b``.

    Equal types stay; float16 with bfloat16 gives float32; one floating type wins over any integer or bool;
    two floating types or two integers give the wider one; equal width signed and unsigned give the next wider
    signed integer (uint64 with a signed integer gives float64, as NumPy does).
    """
    if a is b:
        return a
    if a.is_floating and b.is_floating:
        if a in HALF and b in HALF:
            return float32
        return a if a.itemsize >= b.itemsize else b
    if a.is_floating:
        return a
    if b.is_floating:
        return b
    if a.kind == b.kind:
        return a if a.itemsize >= b.itemsize else b
    if a is bool_:
        return b
    if b is bool_:
        return a
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned is uint64:
        return float64
    return {1: int16, 2: int32, 4: int64}[unsigned.itemsize]
