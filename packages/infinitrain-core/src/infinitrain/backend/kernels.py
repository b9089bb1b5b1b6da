"""Kernels as a provider registers them: three layers per op, two styles, signatures checked [contract 4.3, 4.4]."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from ..device import DeviceType
from ..errors import BackendRegistrationError
from .optable import OPS, Op

LAYERS: Final = ("explicit", "array", "composite")  # highest first


@dataclass(frozen=True)
class Kernel:
    """A registered kernel. ``fn`` is a callable or an import path resolved at first dispatch [contract 2.9]."""

    op: str
    layer: str
    fn: Callable[..., Any] | str
    params: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None

    def resolve(self) -> Callable[..., Any]:
        """Return the callable, importing it when it was given as a path."""
        return import_path(self.fn) if isinstance(self.fn, str) else self.fn

    def adapt(self, row: Op, results: Any, impl: Any) -> Callable[..., Any]:
        """Return the kernel for one plan; kernels of the array layer override this."""
        return self.resolve()


def import_path(path: str) -> Any:
    """Return what ``pkg.mod`` or ``pkg.mod:name`` names. Raises ImportError with the path."""
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found
    except AttributeError:
        raise ImportError(f"{path!r}: module {module!r} has no {name!r} [contract 2.9]") from None


def register_kernel(
    type: DeviceType,
    name: str,
    fn: Callable[..., Any] | str,
    *,
    params: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
) -> None:
    """Register an explicit kernel for op ``name``, inside ``register_kernels``.

    ``fn``'s parameters are the op's, by the table's names; with a keyword ``out`` it is destination style, without it
    value style; ``accumulate`` says that it can add to its destination. ``params`` gives the names where a signature
    cannot be read (ctypes functions). An import path ``"pkg.mod:function"`` is resolved at first dispatch. ``dtypes``
    limits the kernel to calls whose floating tensors all have one of these dtypes; others go to the layer below.
    """
    add_kernel(type, name, "explicit", fn, params, dtypes)


def add_kernel(
    type: DeviceType,
    name: str,
    layer: str,
    fn: Callable[..., Any] | str,
    params: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
) -> None:
    """Register a kernel in one layer. Raises BackendRegistrationError for an unknown op or a second one."""
    from .registration import building

    record = building("register_kernel", type)
    if name not in OPS:
        near = get_close_matches(name, OPS, 3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise BackendRegistrationError(record.name, [f"kernel {name!r} is no op of the table{hint} [contract 2.3]"])
    layers = record.kernels.setdefault(name, {})
    if layer in layers:
        raise BackendRegistrationError(
            record.name, [f"kernel {name} is registered twice in the {layer} layer [contract 4.3]"]
        )
    layers[layer] = Kernel(
        name, layer, fn, tuple(params) if params is not None else None, tuple(dtypes) if dtypes is not None else None
    )


def parameters(kernel: Kernel) -> tuple[str, ...] | None:
    """Return the kernel's parameter names, or None when they cannot be known yet (an import path)."""
    if kernel.params is not None:
        return kernel.params
    if isinstance(kernel.fn, str):
        return None
    return read_parameters(kernel.fn)


def read_parameters(fn: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the parameter names of a callable, or None where its signature cannot be read."""
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    return tuple(p.name for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def signature_problem(op: Op, kernel: Kernel, contract: tuple[int, int]) -> str | None:
    """Return what is wrong with a kernel's parameters, measured at the provider's contract version, or None."""
    if kernel.layer == "array":
        return None  # written against arrays; checked by the kernels package itself
    if not callable(kernel.fn) and not isinstance(kernel.fn, str):
        return f"kernel {op.name} is {kernel.fn!r}, neither a callable nor an import path [contract 2.3]"
    names = parameters(kernel)
    if names is None:
        if isinstance(kernel.fn, str):
            return None
        return f"kernel {op.name}: its signature cannot be read; give register_kernel(..., params=(...)) [contract 2.3]"
    positional = tuple(n for n in names if n not in ("out", "accumulate"))
    wanted = tuple(p.name for p in op.params_at(contract))
    if positional != wanted:
        return (
            f"kernel {op.name}: parameters ({', '.join(positional)}) do not match the table's "
            f"({', '.join(wanted)}) at contract {contract[0]}.{contract[1]} [contract 2.3]"
        )
    if "out" in names and not op.results:
        return f"kernel {op.name}: writes {', '.join(op.writes)} in place and takes no out [contract 4.4]"
    if "accumulate" in names and (not op.accumulates or "out" not in names):
        return f"kernel {op.name}: accumulate is for destination kernels of rows marked accumulates [contract 4.4]"
    return None


def describe_kernel(fn: Any) -> str | None:
    """Return module and qualified name of a callback, by which two registrations are compared."""
    if fn is None or isinstance(fn, str):
        return fn
    return f"{getattr(fn, '__module__', '?')}:{getattr(fn, '__qualname__', repr(fn))}"
