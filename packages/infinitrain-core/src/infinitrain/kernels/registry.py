"""Array kernels: ``kernel(xp, *arguments)`` on arrays, and ``register_array_kernels`` [contract 4.8].

    @array_kernel()
    def LinearForward(xp, x, weight, bias):
        y = xp.matmul(x, xp.matrix_transpose(weight))
        return y if bias is None else y + bias

Half-precision arguments arrive as float32 and the result is rounded once, so that every kernel accumulates in float32
[contract 4.7]. ``exact`` kernels only move data and see their arguments as they are. Kernels of ops that write in place
assign to ``argument[...]`` and round themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..backend import storage
from ..backend.kernels import Kernel, import_path
from ..backend.noop import NO_OP_KERNELS
from ..backend.optable import OPS, Op
from ..backend.registration import building
from ..backend.spec import TensorSpec
from ..backend.storage import DeviceTensor, from_buffer, require_arrays
from ..device import DeviceType
from ..dtype import HALF, float32
from ..errors import KernelError, UnsupportedDtypeError
from .namespace import Namespace


@dataclass(frozen=True)
class ArrayFunction:
    """An array kernel and what it needs of the library beyond the standard."""

    fn: Callable[..., Any]
    exact: bool
    needs: tuple[str, ...]


ARRAY_KERNELS: dict[str, ArrayFunction] = {}


def array_kernel(
    *, exact: bool = False, needs: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the array kernel of the op of the same name."""

    def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
        name = fn.__name__
        if name not in OPS or name in ARRAY_KERNELS:
            raise ValueError(f"array kernel {name}: no such op, or declared twice [contract 4.3]")
        ARRAY_KERNELS[name] = ArrayFunction(fn, exact, tuple(needs.split()))
        return fn

    return declare


FAMILIES = (
    "base", "activation", "elementwise", "unary", "compare", "linear", "norm", "attention", "softmax", "loss",
    "indexing", "shape", "reduction", "optimizer",
)  # fmt: skip


def load_families() -> dict[str, ArrayFunction]:
    """Import every family file and return all array kernels."""
    for family in FAMILIES:
        importlib.import_module(f"{__package__}.{family}")
    return ARRAY_KERNELS


class ArrayKernel(Kernel):
    """A kernel of the array layer: resolved together with its library, adapted to each plan."""

    library: _Library

    def adapt(self, row: Op, results: tuple[TensorSpec, ...], impl: Any) -> Callable[..., Any]:
        """Return the value-style kernel for a plan: arrays in, results rounded to the inferred dtype and wrapped."""
        require_arrays(impl, f"array kernel {row.name}")
        xp = self.library.namespace()
        function = ARRAY_KERNELS[row.name]
        return _writer(xp, function) if not row.results else _maker(xp, function, row, results, impl)


class _Library:
    """An array library given as a module or as an import path, imported at first use."""

    def __init__(self, xp: Any, extras: dict[str, Callable[..., Any]] | None) -> None:
        self._xp, self._extras = xp, extras
        self._namespace: Namespace | None = None

    def namespace(self) -> Namespace:
        if self._namespace is None:
            load_families()
            self._namespace = Namespace(
                import_path(self._xp) if isinstance(self._xp, str) else self._xp, self._extras
            )
        return self._namespace


def register_array_kernels(
    type: DeviceType, xp: Any, *, extras: dict[str, Callable[..., Any]] | None = None
) -> tuple[str, ...]:
    """Give every op of the table its array kernel on library ``xp`` (a module, or its import path).

    ``xp`` follows the Python array API standard 2024.12 and the provider's ``native_array`` returns its arrays;
    ``extras`` may replace slow defaults of what the standard lacks. Call inside ``register_kernels``. Returns the ops
    that the library cannot carry (none can be told for a path, which is imported at first dispatch).
    """
    record = building("register_array_kernels", type)
    library = _Library(xp, extras)
    missing: list[str] = []
    for name, function in load_families().items():
        if not isinstance(xp, str) and library.namespace().missing(function.needs):
            missing.append(name)
            continue
        kernel = ArrayKernel(name, "array", function.fn)
        object.__setattr__(kernel, "library", library)
        layers = record.kernels.setdefault(name, {})
        if "array" in layers:
            record.problems.append("register_array_kernels was called twice [contract 4.3]")
            return ()
        layers["array"] = kernel
    for name, view in NO_OP_KERNELS.items():
        record.kernels.setdefault(name, {})["array"] = Kernel(name, "array", view)
    record.missing_array_kernels = tuple(missing)
    return record.missing_array_kernels


def _unwrap(value: Any) -> Any:
    if isinstance(value, DeviceTensor):
        return value.array
    if isinstance(value, tuple) and value and isinstance(value[0], DeviceTensor):
        return tuple([t.array for t in value])
    return value


def _writer(xp: Namespace, function: ArrayFunction) -> Callable[..., Any]:
    fn = function.fn

    def write(*args: Any) -> None:
        with xp.quiet():
            fn(xp, *[_unwrap(a) for a in args])

    return write


def _maker(
    xp: Namespace, function: ArrayFunction, row: Op, results: tuple[TensorSpec, ...], impl: Any
) -> Callable[..., Any]:
    fn, natives, count = function.fn, [xp.native(s.dtype) for s in results], len(results)
    halves = () if function.exact else tuple(xp.native(d) for d in HALF if _has(xp, d))
    wide = xp.native(float32)
    visible = impl.host_visible

    def upcast(array: Any) -> Any:
        return xp.astype(array, wide) if any(array.dtype == half for half in halves) else array

    def unwrap(value: Any) -> Any:
        if isinstance(value, DeviceTensor):
            array = value.array
            return upcast(array) if halves else array
        if isinstance(value, tuple) and value and isinstance(value[0], DeviceTensor):
            return tuple([upcast(t.array) if halves else t.array for t in value])
        return value

    def finish(array: Any, spec: TensorSpec, native: Any) -> Any:
        if array.dtype != native:
            array = xp.astype(array, native)
        if tuple(array.shape) != spec.shape:
            raise KernelError(
                f"array kernel {row.name}: result {tuple(array.shape)}, inferred {spec} [contract 4.4]"
            )
        if visible:
            return storage.wrap(spec, dense(xp, array), impl)
        buffer, offset = impl.adopt(dense(xp, array))
        return from_buffer(spec, buffer, offset)

    def make(*args: Any) -> Any:
        with xp.quiet():
            got = fn(xp, *[unwrap(a) for a in args])
            if count == 1:
                return finish(got, results[0], natives[0])
            return tuple([finish(a, s, n) for a, s, n in zip(got, results, natives, strict=True)])

    return make


def _has(xp: Namespace, dtype: Any) -> bool:
    try:
        xp.native(dtype)
    except UnsupportedDtypeError:
        return False
    return True


def dense(xp: Namespace, array: Any) -> Any:
    """Return ``array`` as a dense row-major array of its own: views and scalars of the library are copied."""
    flags = getattr(array, "flags", None)
    if (
        flags is None
    ):  # a library that does not tell its strides: copy, and let reshape put the elements in order
        return xp.reshape(xp.reshape(xp.asarray(array, copy=True), (-1,)), array.shape)
    if not hasattr(array, "__setitem__"):
        return xp.asarray(array)
    return array if flags["C_CONTIGUOUS"] and array.base is None else array.copy()
