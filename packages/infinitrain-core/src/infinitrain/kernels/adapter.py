"""From an array kernel to a kernel for one plan: what depends on specs alone is decided here, once.

Half-precision arguments become float32 and results are rounded once to the inferred dtype [contract 4.7].
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from ..backend import storage
from ..backend.optable import Op
from ..backend.spec import TensorSpec
from ..backend.storage import DeviceTensor, from_buffer
from ..dtype import HALF, float32
from ..errors import KernelError
from .namespace import Namespace

Fn = Callable[..., Any]
_array: Callable[[Any], Any] = attrgetter("array")


def writer(xp: Namespace, fn: Fn, args: tuple[Any, ...]) -> Fn:
    """Return the kernel of a row that writes arguments in place: it sees them as they are, and rounds itself."""
    readers = [_reader(a, None) for a in args]

    def write(*args: Any) -> None:
        with xp.quiet():
            fn(xp, *[a if read is None else read(a) for a, read in zip(args, readers)])  # noqa: B905 - one each

    return write


def maker(
    xp: Namespace,
    fn: Fn,
    exact: bool,
    row: Op,
    results: tuple[TensorSpec, ...],
    impl: Any,
    args: tuple[Any, ...],
) -> Fn:
    """Return the value-style kernel for arguments of these specs: arrays in, tensors of ``results`` out."""
    wide = None if exact else xp.native(float32)
    readers = [_reader(a, lambda array: xp.astype(array, wide) if wide is not None else array) for a in args]
    finish = [_finisher(xp, row, spec, impl) for spec in results]
    (finish_one, *others) = finish

    def make(*args: Any) -> Any:
        with xp.quiet():
            got = fn(xp, *[a if read is None else read(a) for a, read in zip(args, readers)])  # noqa: B905 - one each
            if others:
                return tuple([f(array) for f, array in zip(finish, got, strict=True)])
            return finish_one(got)

    return make


def _reader(value: Any, upcast: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Return what makes arrays of an argument like ``value``: None where it is passed on as it is."""
    if isinstance(value, DeviceTensor):
        if upcast is None or value.dtype not in HALF:
            return _array
        return lambda tensor: upcast(tensor.array)
    if isinstance(value, tuple) and value and isinstance(value[0], DeviceTensor):
        each = [_reader(t, upcast) or _array for t in value]
        return lambda tensors: tuple([read(t) for read, t in zip(each, tensors)])  # noqa: B905 - one each
    return None


def _finisher(xp: Namespace, row: Op, spec: TensorSpec, impl: Any) -> Callable[[Any], Any]:
    """Return what makes a tensor of a kernel's result: rounded, checked, dense, wrapped."""
    native, shape, visible, cls = xp.native(spec.dtype), spec.shape, impl.host_visible, storage.tensor_class

    def finish(array: Any) -> Any:
        if array.dtype != native:
            array = xp.astype(array, native)
        if array.shape != shape and tuple(array.shape) != shape:
            raise KernelError(
                f"array kernel {row.name}: result {tuple(array.shape)}, inferred {spec} [contract 4.4]"
            )
        array = dense(xp, array)
        if not visible:
            return from_buffer(spec, *impl.adopt(array))
        tensor = object.__new__(cls)
        tensor.spec = spec
        tensor.array = array
        return tensor

    return finish


def dense(xp: Namespace, array: Any) -> Any:
    """Return ``array`` as a dense row-major array of its own: views and scalars of the library are copied."""
    flags = getattr(array, "flags", None)
    if (
        flags is None
    ):  # a library that does not tell its strides: copy, and let reshape put the elements in order
        return xp.reshape(xp.reshape(xp.asarray(array, copy=True), (-1,)), array.shape)
    if not array.shape and not hasattr(array, "__setitem__"):
        return xp.asarray(array)
    return array if array.base is None and flags["C_CONTIGUOUS"] else array.copy()
