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

from ..backend.kernels import Kernel, import_path
from ..backend.noop import NO_OP_KERNELS
from ..backend.optable import OPS, Op
from ..backend.registration import building
from ..backend.spec import TensorSpec
from ..backend.storage import require_arrays
from ..device import DeviceType
from .adapter import maker, writer
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
    "base", "activation", "elementwise", "unary", "compare", "linear", "norm", "rms_norm", "residual_norm", "rope",
    "attention", "softmax", "loss", "linear_loss", "vocab_parallel",
    "indexing", "scatter", "topk", "shape", "reduction", "optimizer", "clamp", "finite", "gated", "dropout",
)  # fmt: skip


def load_families() -> dict[str, ArrayFunction]:
    """Import every family file and return all array kernels."""
    for family in FAMILIES:
        importlib.import_module(f"{__package__}.{family}")
    return ARRAY_KERNELS


class ArrayKernel(Kernel):
    """A kernel of the array layer: resolved together with its library, adapted to each plan."""

    library: _Library
    as_inferred = True

    def adapt(
        self, row: Op, results: tuple[TensorSpec, ...], impl: Any, args: tuple[Any, ...]
    ) -> Callable[..., Any]:
        """Return the value-style kernel for a plan: arrays in, results rounded to the inferred dtype and wrapped."""
        require_arrays(impl, f"array kernel {row.name}")
        xp, function = self.library.namespace(), ARRAY_KERNELS[row.name]
        if not row.results:
            return writer(xp, function.fn, args)
        return maker(xp, function.fn, function.exact, row, results, impl, args)


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
    ``extras`` may replace slow defaults of what the standard lacks, and functions of ``xp``. Call inside
    ``register_kernels``. Returns the ops that the library cannot carry (none can be told for a path, which is imported
    at first dispatch).
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
        layers["array"] = (kernel,)
    for name, view in NO_OP_KERNELS.items():
        record.kernels.setdefault(name, {})["array"] = (Kernel(name, "array", view),)
    record.missing_array_kernels = tuple(missing)
    return record.missing_array_kernels
