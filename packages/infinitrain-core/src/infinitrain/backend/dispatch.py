"""The dispatcher: from an op and its arguments to a kernel that fills a destination [contract 4].

Per op, a *plan* is made once per combination of specs and attributes: arguments checked, results inferred, kernel
resolved, device present. The generated function of an op looks its plan up and runs it, which is all that a step costs.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Set
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial, wraps
from typing import Any

from ..device import Device, type_name
from ..errors import (
    InfiniTrainError,
    KernelError,
    KernelNotFoundError,
    NotSupportedError,
    OutOfMemoryError,
    UnsupportedDtypeError,
    UnsupportedShapeError,
)
from . import registration, runtime, styles
from .arguments import as_tuple, check_arguments, check_results, common_device, describe
from .callgen import generate
from .kernels import LAYERS, Kernel, read_parameters, signature_problem
from .optable import Op
from .spec import TensorSpec

# (kernel or None, spec, make_array, run(*args), run_into(out, accumulate, *args)): a kernel is given when it can be
# called directly: one result, destination style, a host-visible device without streams or window.
Plan = tuple[Any, TensorSpec | None, Callable[[], Any], Callable[..., Any], Callable[..., Any]]
MAX_PLANS = 4096
NEAR = 0.85  # of difflib's ratio: "Forward" alone makes GeluForward and LinearForward 0.67 alike


def bind(row: Op) -> Callable[..., Any]:
    """Return the function that runs ``row`` and make it ``row.call``."""
    plans: dict[Any, Plan] = {}
    _all_plans.append(plans)
    helpers = {"_build": partial(_build, row, plans), "_listed": partial(as_tuple, row)}
    row.call = generate(row, {"_plans": plans, "_out_of_memory": _out_of_memory, **helpers})
    return row.call


def _out_of_memory(spec: TensorSpec) -> OutOfMemoryError:
    return OutOfMemoryError(spec.device, spec.nbytes)


_all_plans: list[dict[Any, Plan]] = []


def clear_plans() -> None:
    """Forget every plan: after a registration, in a forked child, and when an environment switch changed."""
    for plans in _all_plans:
        plans.clear()


registration.on_change.append(clear_plans)
runtime.on_fork.append(clear_plans)


# Building a plan ----------------------------------------------------------------------------------------------------


def _key(row: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    key: list[Any] = []
    for p, a in zip(row.params, args, strict=True):
        if p.kind in ("tensor", "optional"):
            key.append(None if a is None else a.spec)
        elif p.kind == "list":
            key.append(tuple([t.spec for t in a]))
        elif p.kind == "scalar":
            key.append(a.__class__)
        else:
            key += [a.__class__, a] if p.is_number else [a]
    return tuple(key)


def _build(row: Op, plans: dict[Any, Plan], args: tuple[Any, ...]) -> Plan:
    version = registration.version
    tensors, dtypes = check_arguments(row, args)
    device = common_device(row, args, tensors)
    try:
        inferred = [(tuple(shape), dtype) for shape, dtype in row.infer(*args)]
    except (InfiniTrainError, ValueError, IndexError) as error:
        raise type(error)(f"{describe(row, args)}: {error}") from None
    check_results(row, args, inferred, tensors)
    results = tuple(TensorSpec.of(shape, dtype, device) for shape, dtype in inferred)
    impl = runtime.check_device(device)
    record = registration.require_record(device.type)
    kernel = find_kernel(row, device.type, dtypes, args)
    plan = _make(row, results, device, impl, record, kernel, args)
    if len(plans) >= MAX_PLANS:
        plans.clear()
    if registration.version == version:  # else a backend came or went meanwhile: this plan is of the past
        # An unhashable attribute, such as a list, is not cached; the plan is right all the same.
        with contextlib.suppress(TypeError):
            plans[_key(row, args)] = plan
    return plan


def layer_cap() -> int:
    """Return the index of the highest layer allowed by INFINITRAIN_KERNELS [contract 4.3]."""
    text = os.environ.get("INFINITRAIN_KERNELS", LAYERS[0])
    if text not in LAYERS:
        raise InfiniTrainError(f"INFINITRAIN_KERNELS={text!r}: one of {', '.join(LAYERS)} [contract 4.3]")
    return LAYERS.index(text)


def find_kernel(
    row: Op, type: Any, dtypes: Set[str] = frozenset(), args: tuple[Any, ...] | None = None
) -> Kernel:
    """Return the first kernel, from the highest layer present down, that takes these dtypes (names) and arguments.

    Raises KernelNotFoundError, or UnsupportedDtypeError when there is one for other dtypes only
    [contract 4.3, 4.6, 4.7].
    """
    record = registration.require_record(type)
    layers = record.kernels.get(row.name, {})
    limited: Kernel | None = None
    cap = layer_cap()
    order = (*LAYERS[cap:], *reversed(LAYERS[:cap]))  # an op with nothing below the cap runs all the same
    for layer in order:
        own: tuple[Kernel, ...] = layers.get(layer, ())
        if layer == "composite" and row.name in COMPOSITES:
            own = (COMPOSITES[row.name],)
        for kernel in own:
            if kernel.takes(dtypes, args):
                return kernel
            limited = kernel
    if limited is not None and args is not None and limited.takes(dtypes):
        raise UnsupportedShapeError(
            f"backend {type_name(type)!r}: kernel {row.name} does not take {describe(row, args)} [contract 4.7]",
            op=row.name,
            device=type_name(type),
        )
    if limited is not None and limited.dtypes is not None:
        strange = ", ".join(sorted(dtypes - set(limited.dtypes)))
        raise UnsupportedDtypeError(
            f"backend {type_name(type)!r}: kernel {row.name} takes {', '.join(limited.dtypes)}, not {strange} "
            "[contract 4.7]",
            op=row.name,
            device=type_name(type),
        )
    near = get_close_matches(row.name, record.kernels, 3, NEAR)
    hint = f"; it has {', '.join(near)}" if near else ""
    arrays = ", or every op with register_array_kernels" if record.runtime.has_arrays else ""
    raise KernelNotFoundError(
        f"backend {type_name(type)!r} has no kernel {row.name} (profile {row.profile}){hint}. Register it with "
        f"register_kernel{arrays}; without it models that need the profile {row.profile} cannot run [contract 4.6]",
        op=row.name,
        provider=type_name(type),
        profile=row.profile,
    )


@dataclass(frozen=True)
class Composite(Kernel):
    """The composite of a fused op; ``calls`` are the ops that it may run, without those of the profile ``base``."""

    calls: tuple[str, ...] = ()


COMPOSITES: dict[str, Composite] = {}


def composite(calls: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the composite layer of the fused op of the same name: dispatcher calls only [contract 4.3].

    ``calls`` names the ops that it may run, but for those of the profile ``base``, which are always there.
    """

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        name = fn.__name__

        @wraps(fn)
        def run(*args: Any, **destinations: Any) -> Any:
            try:
                return fn(*args, **destinations)
            except KernelNotFoundError as error:
                needed = error.composites[-1] if error.composites else error.op
                raise KernelNotFoundError(
                    f"{name} runs as core's composite here, which needs {needed}; {error}",
                    op=error.op,
                    provider=error.provider,
                    profile=error.profile,
                    composites=(*error.composites, name),
                ) from None

        COMPOSITES[name] = Composite(name, "composite", run, calls=tuple(calls.split()))
        return run

    return register


def unmet(op: str, has: Set[str]) -> tuple[str, ...]:
    """Return the ops that are neither in ``has`` nor can be composed of what is, of those that ``op`` comes down to."""
    if op in has:
        return ()
    if op not in COMPOSITES:
        return (op,)
    return tuple(dict.fromkeys(missing for called in COMPOSITES[op].calls for missing in unmet(called, has)))


def _make(
    row: Op,
    results: tuple[TensorSpec, ...],
    device: Device,
    impl: Any,
    record: Any,
    kernel: Kernel,
    args: tuple[Any, ...],
) -> Plan:
    array_layer = kernel.layer == "array"
    if array_layer:
        fn, style, can_accumulate = kernel.adapt(row, results, impl, args), "value", False
    else:
        fn, style, can_accumulate = _callable(row, kernel, record)
    blocking = os.environ.get("INFINITRAIN_LAUNCH_BLOCKING") == "1"
    bare = (
        impl.host_visible and not impl.has_streams and impl.kernel_window is None and impl.device_count() == 1
    )
    if blocking or not bare:
        fn = styles.guard(row, fn, kernel, device, impl, blocking)
    if not row.results:
        return None, None, _no_array, styles.writing(row, fn), _no_array
    if all(spec.numel == 0 for spec in results):
        return None, None, _no_array, styles.empties(results), styles.into_empty(row, results)
    bare = bare and not blocking
    make = styles.makers(results, impl, bare)
    if style == "destination":
        run = styles.destination(fn, make)
    else:
        run = fn if kernel.as_inferred else styles.value(row, fn, results)
    widen = partial(_widened, row, device, impl, kernel, blocking) if array_layer else None
    into = styles.into(row, fn, style, can_accumulate, results, make, run, widen)
    if bare and style == "destination" and len(results) == 1 and impl.has_arrays:
        return fn, results[0], impl.array_maker(results[0].shape, results[0].dtype), run, into
    return None, None, _no_array, run, into


def _widened(
    row: Op,
    device: Device,
    impl: Any,
    kernel: Kernel,
    blocking: bool,
    results: tuple[TensorSpec, ...],
    *args: Any,
) -> Callable[..., Any]:
    """Return an array kernel whose results have the dtypes of ``results`` instead of the inferred ones."""
    return styles.guard(row, kernel.adapt(row, results, impl, args), kernel, device, impl, blocking)


def _no_array() -> Any:
    raise AssertionError("this plan makes no array")


def _callable(row: Op, kernel: Kernel, record: Any) -> tuple[Callable[..., Any], str, bool]:
    """Return (function, style, can accumulate), adapted to the provider's contract version [contract 9.2]."""
    fn = kernel.resolve()
    names = kernel.params if kernel.params is not None else read_parameters(fn)
    if names is None:
        raise KernelError(
            f"kernel {row.name}: signature of {fn!r} cannot be read; give params= [contract 2.3]"
        )
    if isinstance(kernel.fn, str):
        given = Kernel(row.name, kernel.layer, fn, kernel.params)
        problem = signature_problem(row, given, record.contract)
        if problem:
            raise KernelError(problem)
    if not _takes_keywords(fn):
        fn = _positional(fn, names)
    later = [p for p in row.params if p.since > record.contract]
    if later:
        fn = _without_later(row, fn, later, record)
    return fn, "destination" if "out" in names else "value", "accumulate" in names


def _takes_keywords(fn: Callable[..., Any]) -> bool:
    """Tell whether a callable can be given ``out`` by name: not where its signature cannot be read, and no ctypes
    function, which from Python 3.13 on claims ``(*args, **kwargs)`` and drops keywords all the same.
    """
    if any(base.__module__ == "_ctypes" for base in type(fn).__mro__):
        return False
    try:
        inspect.signature(fn)
    except (TypeError, ValueError):
        return False
    return True


def _positional(fn: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Return a kernel whose signature cannot be read (ctypes) as one that is given everything in order of ``names``.

    ctypes would drop keywords without a word.
    """

    def call(*args: Any, **extra: Any) -> Any:
        given = iter(args)
        return fn(*[extra.get(n, False) if n in ("out", "accumulate") else next(given) for n in names])

    return call


def _without_later(row: Op, fn: Callable[..., Any], later: list[Any], record: Any) -> Callable[..., Any]:
    keep = len(row.params) - len(later)

    def older(*args: Any, **kwargs: Any) -> Any:
        for p, value in zip(later, args[keep:], strict=True):
            if value != p.default:
                raise NotSupportedError(
                    f"{row.name}: {p.name}={value!r} needs contract {p.since}, backend {record.name!r} was written "
                    f"for {record.contract} [contract 9.2]"
                )
        return fn(*args[:keep], **kwargs)

    return older
