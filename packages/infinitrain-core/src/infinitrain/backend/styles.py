"""How a kernel runs: guarded or bare, destination or value style, into given or new tensors [contract 4.4]."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..device import Device
from ..dtype import HALF, float32
from ..errors import BackendError, KernelError, OutOfMemoryError, UnsupportedDtypeError, UnsupportedShapeError
from . import runtime, storage
from .kernels import Kernel
from .optable import OPS, Op
from .spec import TensorSpec
from .storage import DeviceTensor


def guard(
    row: Op, fn: Callable[..., Any], kernel: Kernel, device: Device, impl: Any, blocking: bool
) -> Callable[..., Any]:
    """Wrap a kernel for a device that needs more than a call: current device, window, stream use, blocking."""
    window = impl.kernel_window if kernel.layer != "composite" else None
    streams = impl.has_streams

    def guarded(*args: Any, **kwargs: Any) -> Any:
        before = runtime.current_device(device.type)
        if before is device:
            return on_device(*args, **kwargs)
        runtime.set_current_device(device)
        try:
            return on_device(*args, **kwargs)
        finally:
            runtime.restore_current_device(before)

    def on_device(*args: Any, **kwargs: Any) -> Any:
        if streams:
            stream = impl.current_stream(device)
            for t in _tensors_of(args, kwargs):
                impl.record_use(t.buffer, stream)
        try:
            if window is None:
                result = fn(*args, **kwargs)
            else:
                reads, writes = _reads_and_writes(row, args, kwargs)
                with window(row.name, reads, writes):
                    result = fn(*args, **kwargs)
        except (UnsupportedDtypeError, UnsupportedShapeError) as error:
            error.__dict__.setdefault("op", row.name)  # a helper shared by kernels does not know
            error.__dict__.setdefault("device", device)
            raise
        if blocking:
            try:
                impl.synchronize(device)
            except BackendError as error:
                error.op = row.name
                error.add_note(f"raised by {row.name}, which INFINITRAIN_LAUNCH_BLOCKING=1 waited for")
                raise
        return result

    return guarded


def _tensors_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[DeviceTensor]:
    found: list[DeviceTensor] = []
    for a in (*args, kwargs.get("out")):
        if isinstance(a, DeviceTensor):
            found.append(a)
        elif isinstance(a, tuple):
            found += [t for t in a if isinstance(t, DeviceTensor)]
    return found


def _reads_and_writes(
    row: Op, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[DeviceTensor], list[DeviceTensor]]:
    written = set(row.write_index)
    reads = _tensors_of(tuple(a for i, a in enumerate(args) if i not in written), {})
    writes = _tensors_of(tuple(args[i] for i in row.write_index), kwargs)
    return reads, writes


# Running a plan -----------------------------------------------------------------------------------------------------


def pack(results: Any) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


Makers = list[Callable[[], Any]]


def makers(results: tuple[TensorSpec, ...], impl: Any, bare: bool) -> Makers:
    """Return one function per result that makes a tensor for it; ``bare`` devices need no more than an array."""
    if bare and impl.has_arrays:
        return [_maker(spec, impl.array_maker(spec.shape, spec.dtype)) for spec in results]
    return [partial(storage.empty_like_spec, spec) for spec in results]


def _maker(spec: TensorSpec, make_array: Callable[[], Any]) -> Callable[[], Any]:
    new, cls = object.__new__, storage.tensor_class

    def make() -> Any:
        tensor = new(cls)
        tensor.spec = spec
        try:
            tensor.array = make_array()
        except MemoryError:
            raise OutOfMemoryError(spec.device, spec.nbytes) from None
        return tensor

    return make


def destination(fn: Callable[..., Any], make: Makers) -> Callable[..., Any]:
    """Return the function that allocates the results and lets the kernel fill them."""
    if len(make) == 1:
        (make_one,) = make

        def run_one(*args: Any) -> Any:
            out = make_one()
            fn(*args, out=out)
            return out

        return run_one

    if len(make) == 2:
        first, second = make

        def run_two(*args: Any) -> Any:
            out = first(), second()
            fn(*args, out=out)
            return out

        return run_two

    def run(*args: Any) -> Any:
        out = tuple([make_one() for make_one in make])
        fn(*args, out=out)
        return out

    return run


def value(row: Op, fn: Callable[..., Any], results: tuple[TensorSpec, ...]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        got = fn(*args)
        _check_values(row, got if len(results) > 1 else (got,), results, args)
        return got

    return run


def _check_values(row: Op, got: Any, results: tuple[TensorSpec, ...], args: tuple[Any, ...]) -> None:
    """Check what a value-style kernel returned: number, specs, no aliasing of inputs [contract 4.4]."""
    if not isinstance(got, tuple) or len(got) != len(results):
        raise KernelError(
            f"kernel {row.name} returned {got!r}, expected {len(results)} tensors [contract 4.4]"
        )
    for i, (tensor, spec) in enumerate(zip(got, results, strict=True)):
        if not isinstance(tensor, DeviceTensor) or tensor.spec is not spec:
            same = isinstance(tensor, DeviceTensor) and (
                (tensor.shape, tensor.dtype, tensor.device) == (spec.shape, spec.dtype, spec.device)
            )
            if not same:
                what = tensor.spec if isinstance(tensor, DeviceTensor) else repr(tensor)
                raise KernelError(
                    f"kernel {row.name}: result {row.result_name(i)} is {what}, inferred {spec} [contract 4.4]"
                )
        if not row.view and any(tensor is a for a in args):
            raise KernelError(
                f"kernel {row.name}: result {row.result_name(i)} is one of its arguments [contract 4.4]"
            )


def empties(results: tuple[TensorSpec, ...]) -> Callable[..., Any]:
    """Return the function that makes results without elements: core calls no kernel for them."""
    return lambda *args: pack([storage.empty_like_spec(s) for s in results])


def writing(row: Op, fn: Callable[..., Any]) -> Callable[..., Any]:
    index, name = row.write_index, row.name
    if len(index) == 1 and row.params[index[0]].kind == "tensor":
        (place,) = index

        def run_one(*args: Any) -> None:
            t = args[place]
            if t.spec.numel:
                fn(*args)
                t.bump_version(name)

        return run_one

    def run(*args: Any) -> None:
        written = [t for i in index for t in (args[i] if isinstance(args[i], tuple) else (args[i],))]
        if any(t.spec.numel for t in written):
            fn(*args)
            for t in written:
                t.bump_version(name)

    return run


def into_empty(row: Op, results: tuple[TensorSpec, ...]) -> Callable[..., Any]:
    def run(out: Any, accumulate: Any, *args: Any) -> Any:
        outs = out if isinstance(out, tuple) else (out,)
        _check_outs(row, outs, results)
        return pack(
            [storage.empty_like_spec(s) if o is None else o for o, s in zip(outs, results, strict=True)]
        )

    return run


def into(
    row: Op,
    fn: Callable[..., Any],
    style: str,
    can_accumulate: bool,
    results: tuple[TensorSpec, ...],
    make: Makers,
    run: Callable[..., Any],
    widen: Callable[..., Callable[..., Any]] | None,
) -> Callable[..., Any]:
    """Return the function that fills given destinations.

    ``widen`` makes a value-style kernel round to the destinations' dtypes, so that what is added to a float32
    destination was never rounded to the inputs' half precision.

    ``out`` is a tensor, or a tuple that may hold None for results to be allocated; ``accumulate`` is a bool, or a tuple
    of one bool per result. What is allocated is never added to, whatever ``accumulate`` says.
    """
    count, marked = len(results), row.accumulates_index
    nothing, everything = (False,) * count, tuple([i in marked for i in range(count)])
    places, name = range(count), row.name
    widened: dict[tuple[TensorSpec, ...], Callable[..., Any]] = {}

    def run_into(out: Any, accumulate: Any, *args: Any) -> Any:
        outs = out if out.__class__ is tuple else (out,)
        flags = accumulate
        if flags.__class__ is not tuple:
            if flags and not marked:
                raise KernelError(f"{name} has no result that accumulates [contract 4.4]")
            flags = everything if flags else nothing
        _check_outs(row, outs, results)
        if flags != nothing:
            if len(flags) != count:
                raise TypeError(
                    f"{name}: accumulate has {len(flags)} flags, the op {count} results [contract 4.4]"
                )
            flags = tuple([bool(f) and o is not None for f, o in zip(flags, outs, strict=True)])
        if style != "destination":
            whole = False
        elif can_accumulate:
            whole = flags in (nothing, everything)
        else:
            whole = flags == nothing and (not marked or _as_inferred(outs, results))
        if whole:
            target = pack([make[i]() if outs[i] is None else outs[i] for i in places])
            if flags == nothing:
                fn(*args, out=target)
            else:
                fn(*args, out=target, accumulate=True)
        else:  # value style, or what one call cannot express: a mix of adding and overwriting, a wider dtype
            for i, add in enumerate(flags):
                if add and i not in marked:
                    raise KernelError(f"{name} does not accumulate into {row.result_name(i)} [contract 4.4]")
            produce = run
            if widen is not None:
                wide = tuple([s if o is None else o.spec for o, s in zip(outs, results, strict=True)])
                if any(w.dtype is not s.dtype for w, s in zip(wide, results, strict=True)):
                    produce = widened.get(wide) or widened.setdefault(wide, widen(wide, *args))
            target = pack(_fill_from_values(produce(*args), outs, flags))
        for o in outs:
            if o is not None:
                o.bump_version(name)
        return target

    return run_into


def _as_inferred(outs: tuple[Any, ...], results: tuple[TensorSpec, ...]) -> bool:
    """Tell whether destinations have the inferred dtypes; only kernels that accumulate know wider ones."""
    return all(o is None or o.spec.dtype is s.dtype for o, s in zip(outs, results, strict=True))


def _fill_from_values(got: Any, outs: tuple[Any, ...], flags: tuple[bool, ...]) -> tuple[Any, ...]:
    values = got if isinstance(got, tuple) else (got,)
    filled = []
    for value, out, add in zip(values, outs, flags, strict=True):
        if out is None:
            filled.append(value)
            continue
        if add:
            OPS["AccumulateGrad"].call(value, 1.0, out)
        elif value.spec.dtype is out.spec.dtype:
            storage.copy_between(out, value)
        else:
            storage.copy_between(out, OPS["Cast"].call(value, out.dtype))
        filled.append(out)
    return tuple(filled)


def _check_outs(row: Op, outs: tuple[Any, ...], results: tuple[TensorSpec, ...]) -> None:
    """Raise unless destinations, None for those to be made, are what was inferred; half-precision results that
    accumulate may be wider: float32.
    """
    if len(outs) != len(results):
        raise TypeError(
            f"{row.name}: out has {len(outs)} tensors, the op {len(results)} results [contract 4.4]"
        )
    for index, (out, spec) in enumerate(zip(outs, results, strict=True)):
        if out is None or getattr(out, "spec", None) is spec:
            continue
        if not isinstance(out, DeviceTensor):
            raise TypeError(
                f"{row.name}: out {row.result_name(index)} is a tensor, got {type(out).__name__} {out!r:.60}"
            )
        wider = index in row.accumulates_index and spec.dtype in HALF and out.dtype is float32
        if (
            out.shape != spec.shape
            or out.device is not spec.device
            or (out.dtype is not spec.dtype and not wider)
        ):
            raise KernelError(
                f"{row.name}: out {row.result_name(index)} is {out.spec}, inferred {spec} [contract 4.4]",
                op=row.name,
            )
