"""Kernels as a provider registers them: layers, styles, signatures [contract 4.3, 4.4]."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any, ClassVar, Final

from ..device import DeviceType
from ..dtype import ALL
from ..errors import KernelError
from .optable import OPS, Op

LAYERS: Final = ("explicit", "array", "composite")  # highest first
_EXTRA: Final = ("out", "accumulate")  # given by keyword


@dataclass(frozen=True)
class Kernel:
    """A registered kernel: a callable, or an import path resolved at first dispatch [contract 2.9]."""

    op: str
    layer: str
    fn: Callable[..., Any] | str
    params: tuple[str, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    supports: Callable[..., bool] | None = None
    as_inferred: ClassVar[bool] = False  # results are made from the inferred specs: nothing is left to check

    def resolve(self) -> Callable[..., Any]:
        """Return the callable, importing it when it was given as a path."""
        fn: Callable[..., Any] = import_path(self.fn) if isinstance(self.fn, str) else self.fn
        return fn

    def takes(self, dtypes: Set[str], args: tuple[Any, ...] | None = None) -> bool:
        """Tell whether the kernel is for a call with these dtypes and, where they are given, these arguments."""
        if self.dtypes is not None and not dtypes <= set(self.dtypes):
            return False
        if self.supports is None or args is None:
            return True
        try:
            answer = self.supports(*args)
        except Exception as error:
            raise KernelError(f"kernel {self.op}: supports= failed: {error!r} [contract 4.3]") from error
        if answer is not True and answer is not False:
            raise KernelError(f"kernel {self.op}: supports= returned {answer!r:.60}, no bool [contract 4.3]")
        return answer

    def adapt(self, row: Op, results: Any, impl: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the kernel for one plan, made for arguments like ``args``; the array layer overrides this."""
        return self.resolve()


def import_path(path: str) -> Any:
    """Return what ``pkg.mod`` or ``pkg.mod:name`` names. Raises ImportError with the path."""
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    if not name:
        return found
    try:
        return getattr(found, name)
    except AttributeError:
        raise ImportError(f"{path!r}: module {module!r} has no {name!r} [contract 2.9]") from None


def register_kernel(
    type: DeviceType,
    name: str,
    fn: Callable[..., Any] | str,
    *,
    params: Sequence[str] | None = None,
    dtypes: Sequence[str] | None = None,
    supports: Callable[..., bool] | None = None,
) -> None:
    """Register an explicit kernel for op ``name``, inside ``register_kernels``.

    ``fn``'s parameters are the op's, by the table's names; with a keyword ``out`` it is destination style,
    without it value style; ``accumulate`` says that it can add to its destination. ``params`` gives the names,
    ``out`` and ``accumulate`` among them, where a signature cannot be read: a ctypes function is then called
    with everything in that order. An import path ``"pkg.mod:function"`` is resolved at first dispatch.
    ``dtypes`` limits the kernel to calls whose tensors, indices and masks aside, all have one of these dtypes;
    others go to the layer below. ``supports`` limits it further: called with the op's arguments once per combination of
    shapes, dtypes and attributes, which is all that it may look at, it tells whether the kernel is for them. An op may
    have several explicit kernels, asked in the order in which they were registered; all but the last are limited.

    What is wrong with it is reported at the end of the registration, together with everything else.
    """
    from .registration import building

    record = building("register_kernel", type)
    if name not in OPS:
        near = get_close_matches(name, OPS, 3)
        hint = f"; near: {', '.join(near)}" if near else ""
        record.problems.append(f"kernel {name!r} is no op of the table{hint} [contract 2.3]")
        return
    known = {d.name for d in ALL}
    strange = [d for d in dtypes or () if d not in known]
    if strange:
        record.problems.append(
            f"kernel {name}: unknown dtypes {strange}; known: {', '.join(sorted(known))} [contract 4.4]"
        )
    if supports is not None and not callable(supports):
        record.problems.append(f"kernel {name}: supports is {supports!r:.60}, no function [contract 4.3]")
        return
    layers = record.kernels.setdefault(name, {})
    before = layers.get("explicit", ())
    if before and before[-1].dtypes is None and before[-1].supports is None:
        record.problems.append(
            f"kernel {name} is registered twice in the explicit layer, and the first, which has neither dtypes= nor "
            "supports=, leaves nothing to the second [contract 4.3]"
        )
        return
    layers["explicit"] = (*before, Kernel(name, "explicit", fn, _tuple(params), _tuple(dtypes), supports))


def _tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def parameters(kernel: Kernel) -> tuple[str, ...] | None:
    """Return the kernel's parameter names, or None when they cannot be known (yet)."""
    if kernel.params is not None:
        return kernel.params
    if isinstance(kernel.fn, str):
        return None
    return read_parameters(kernel.fn)


def read_parameters(fn: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return a callable's parameter names; None where they cannot be read or ``*args`` hides some."""
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        return None
    return tuple(p.name for p in found)


def signature_problem(op: Op, kernel: Kernel, contract: tuple[int, int]) -> str | None:
    """Return what is wrong with a kernel's parameters at the provider's contract version, or None."""
    if kernel.layer == "array":
        return None  # written against arrays; checked by the kernels package itself
    if op.since > contract:
        return f"kernel {op.name}: since {_dotted(op.since)}, not in {_dotted(contract)} [contract 9.2]"
    if not callable(kernel.fn) and not isinstance(kernel.fn, str):
        return f"kernel {op.name} is {kernel.fn!r}, neither a callable nor an import path [contract 2.3]"
    names = parameters(kernel)
    if names is None:
        if isinstance(kernel.fn, str):
            return None
        return f"kernel {op.name}: unreadable signature; give register_kernel(..., params=...) [contract 2.3]"
    positional = tuple(n for n in names if n not in _EXTRA)
    wanted = tuple(p.name for p in op.params_at(contract))
    if positional != wanted:
        return (
            f"kernel {op.name}: parameters ({', '.join(positional)}) do not match the table's "
            f"({', '.join(wanted)}) at contract {_dotted(contract)} [contract 2.3]"
        )
    if kernel.params is not None and callable(kernel.fn) and not _accepts(kernel.fn, names):
        return f"kernel {op.name}: {kernel.fn!r} cannot be called with params {names} [contract 2.3]"
    if kernel.params is None and callable(kernel.fn):
        wrong = _wrong_kinds(kernel.fn)
        if wrong:
            return f"kernel {op.name}: {', '.join(wrong)} cannot be given as core gives it [contract 4.4]"
    if "out" in names and not op.results:
        return f"kernel {op.name}: writes {', '.join(op.writes)} in place and takes no out [contract 4.4]"
    if "accumulate" in names and (not op.accumulates or "out" not in names):
        return f"kernel {op.name}: accumulate needs out, and a row marked accumulates [contract 4.4]"
    return None


def _accepts(fn: Callable[..., Any], names: tuple[str, ...]) -> bool:
    """Tell whether a callable with a readable signature takes the arguments that ``params`` announces."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[n for n in names if n not in _EXTRA], **{n: None for n in names if n in _EXTRA})
    except TypeError:
        return False
    return True


def _wrong_kinds(fn: Callable[..., Any]) -> list[str]:
    """Return what core cannot reach: it calls positionally, and gives ``out`` and ``accumulate`` by name."""
    found = inspect.signature(fn).parameters.values()
    wrong = [
        f"{p.name} ({p.kind.description})"
        for p in found
        if p.kind is (p.POSITIONAL_ONLY if p.name in _EXTRA else p.KEYWORD_ONLY)
    ]
    # Given only when it is True.
    return wrong + [
        "accumulate without a default" for p in found if p.name == "accumulate" and p.default is p.empty
    ]


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def check_kernels(type: DeviceType) -> list[str]:
    """Resolve every kernel and array library of a registered backend; return what is wrong [contract 2.9].

    For ``infinitrain doctor`` and the conformance suite: this imports what registration left for later.
    """
    from .registration import require_record

    record, problems = require_record(type), []
    failed: set[str] = set()
    for name, layers in record.kernels.items():
        for kernel in chain.from_iterable(layers.values()):
            try:
                fn = kernel.resolve()
                if hasattr(kernel, "library"):
                    kernel.library.namespace()
            except Exception as error:
                cause = f"{error.__class__.__name__}: {error}"
                if cause not in failed:  # an array library that is missing would be told once per op
                    failed.add(cause)
                    problems.append(f"kernel {name}: {cause} [contract 2.9]")
                continue
            problem = signature_problem(
                OPS[name], Kernel(name, kernel.layer, fn, kernel.params), record.contract
            )
            if problem:
                problems.append(problem)
    return problems


def describe_callable(fn: Any) -> str | None:
    """Return module and qualified name, by which two registrations' callbacks compare [contract 2.5]."""
    if fn is None or isinstance(fn, str):
        return fn
    return f"{getattr(fn, '__module__', '?')}:{getattr(fn, '__qualname__', repr(fn))}"
