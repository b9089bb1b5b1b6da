"""The catalogue of faults, and how one is declared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import numpy as np

from infinitrain.backend import Op
from infinitrain.backend.kernels import Kernel
from infinitrain.errors import BackendInitError


@dataclass(frozen=True)
class Fault:
    """One defect: the contract clause that it breaks, the level at which a suite should see it, its op."""

    name: str
    description: str
    clause: str
    level: str
    kind: str
    install: Callable[[Any], None]
    op: str | None = None


FAULTS: Final[dict[str, Fault]] = {}


def parse(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list. Raises BackendInitError, listing all names."""
    names = tuple(n.strip() for n in text.split(",") if n.strip())
    for name in names:
        if name not in FAULTS:
            near = get_close_matches(name, FAULTS, 2)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise BackendInitError(
                f"no planted fault {name!r}.{hint} Known: {', '.join(sorted(FAULTS))} [contract 3.2]"
            )
    return names


def _declare(
    fn: Callable[..., Any], clause: str, level: str, kind: str, install: Any, op: str | None = None
) -> None:
    name = fn.__name__
    if name in FAULTS:
        raise ValueError(f"fault {name} is declared twice")
    FAULTS[name] = Fault(name, " ".join((fn.__doc__ or "").split()), clause, level, kind, install, op)


def registration_fault(clause: str) -> Callable[[Callable[[dict[str, Any]], None]], Any]:
    """Declare a function that changes the fields of the registration."""

    def declare(fn: Callable[[dict[str, Any]], None]) -> Any:
        _declare(fn, clause, "L0", "registration", fn)
        return fn

    return declare


def runtime_fault(clause: str, level: str = "L1") -> Callable[[Callable[[Any], None]], Any]:
    """Declare a function that breaks a runtime, by replacing methods of the instance."""

    def declare(fn: Callable[[Any], None]) -> Any:
        _declare(fn, clause, level, "runtime", fn)
        return fn

    return declare


class Call:
    """One call of a kernel that a fault spoils; ``good`` runs the right one."""

    def __init__(self, row: Op, kernel: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.row, self._kernel, self.args = row, kernel, dict(zip(row.param_names, args, strict=True))

    def __getitem__(self, name: str) -> Any:
        """Return an argument as it came."""
        return self.args[name]

    def good(self, **changes: Any) -> Any:
        """Run the right kernel; ``changes`` replace arguments by name."""
        return self._kernel(*{**self.args, **changes}.values())

    def wide(self, name: str) -> np.ndarray:
        """Return a tensor argument as a float32 array (float64 stays), a copy."""
        array = self.args[name].array
        return np.array(array, np.float64 if array.dtype == np.float64 else np.float32)

    def tensors(self, floating: bool) -> list[Any]:
        """Return the tensor arguments that are floating, or those that are not."""
        return [a for a in self.args.values() if hasattr(a, "spec") and a.dtype.is_floating is floating]


class _Spoilt(Kernel):
    """An array kernel behind which a fault sits."""

    original: Kernel
    spoil: Callable[[Call], Any]

    def adapt(self, row: Op, results: Any, impl: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
        original, spoil = self.original, self.spoil

        def kernel(*args: Any) -> Any:
            return original.adapt(row, results, impl, args)(*args)  # a fault may change what arguments are

        return lambda *args: spoil(Call(row, kernel, args))


def kernel_fault(op: str, clause: str, level: str) -> Callable[[Callable[[Call], Any]], Any]:
    """Declare a function in the place of the array kernel of ``op``."""

    def declare(fn: Callable[[Call], Any]) -> Any:
        def install(kernels: dict[str, dict[str, tuple[Kernel, ...]]]) -> None:
            spoilt = _Spoilt(op, "array", fn)
            object.__setattr__(spoilt, "original", _array_layer(kernels, op, fn.__name__))
            object.__setattr__(spoilt, "spoil", fn)
            kernels[op]["array"] = (spoilt,)

        _declare(fn, clause, level, "kernels", install, op)
        return fn

    return declare


def explicit_fault(op: str, clause: str, level: str) -> Callable[[Callable[..., None]], Any]:
    """Declare an explicit, destination-style kernel of ``op`` that is wrong."""

    def declare(fn: Callable[..., None]) -> Any:
        def install(kernels: dict[str, dict[str, tuple[Kernel, ...]]]) -> None:
            _array_layer(kernels, op, fn.__name__)
            kernels[op]["explicit"] = (Kernel(op, "explicit", fn),)

        _declare(fn, clause, level, "kernels", install, op)
        return fn

    return declare


def _array_layer(kernels: dict[str, dict[str, tuple[Kernel, ...]]], op: str, fault: str) -> Kernel:
    try:
        return kernels[op]["array"][0]
    except KeyError:
        raise BackendInitError(
            f"fault {fault} needs a kernel of {op}, which this core does not have"
        ) from None
