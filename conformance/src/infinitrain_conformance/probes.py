"""A probe for each entry of ``manifest.NAMES``: declared, it works; not declared, asking fails in the contract's way.

A probe gets the backend and the heading of failures; ``PROBES`` holds them by name, as (declared, undeclared).
"""

from __future__ import annotations

import gc
import inspect
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from .check import expect, fail, same_bytes
from .fresh import fresh
from .target import Target

Probe = Callable[[Target, str], None]
MIB: Final = 1 << 20


def _values(target: Target, count: int = 1024) -> tuple[np.ndarray, Any]:
    """Return values and a tensor on the device that holds them."""
    import infinitrain as it

    values = np.arange(count, dtype=np.float32) * 0.5 - 3
    return values, it.from_numpy(values, target.device)


def _stream(target: Target) -> Any:
    return target.runtime.current_stream(target.device) if target.runtime.has_streams else None


def _works(target: Target, heading: str, what: str) -> None:
    """The device still computes."""
    import infinitrain as it

    expect(heading, float(it.full((8,), 2.5, device=target.device).numpy().sum()) == 20.0, f"after {what}")


# Methods of the runtime -------------------------------------------------------------------------------------


def refuses(target: Target, heading: str, name: str, *args: Any, of: Any = None) -> None:
    """A method that is not offered raises NotSupportedError with method and provider [contract 3.1]."""
    from infinitrain.errors import NotSupportedError

    try:
        got = getattr(of or target.runtime, name)(*args)
    except NotSupportedError as error:
        text = str(error)
        expect(heading, name in text and repr(target.name) in text, f"{name}: the error says {text!r}")
        expect(heading, "privateuse1" not in text.lower(), f"{name}: the error says privateuse1: {text}")
    else:
        fail(heading, [f"{name} is not offered, but calling it returned {got!r}"])


def _no_arrays(target: Target, heading: str) -> None:
    from infinitrain.dtype import float32

    buffer = target.runtime.malloc(64)
    refuses(target, heading, "native_array", buffer, 0, (16,), float32)
    refuses(target, heading, "adopt", np.zeros(16, np.float32))
    _works(target, heading, "native_array and adopt")


def _arrays(target: Target, heading: str) -> None:
    """A kernel that is an array kernel gets arrays: what empty_array returns has the shape asked for."""
    from infinitrain import backend
    from infinitrain.dtype import float32

    backend.set_current_device(target.device)
    for make in (
        lambda: target.runtime.empty_array((3, 4), float32),
        target.runtime.array_maker((3, 4), float32),
    ):
        if target.runtime.kernel_window is None or target.runtime.host_visible:
            array = make()
            expect(heading, tuple(array.shape) == (3, 4), f"an array of (3, 4) has shape {array.shape}")
    values, x = _values(target)
    same_bytes(heading, "what was copied", x.numpy(), values)


def _streams(target: Target, heading: str) -> None:
    """Work on one stream, an event, a wait on another: the order holds, and the host can wait for it."""
    from infinitrain import backend

    runtime = target.runtime
    backend.set_current_device(target.device)
    one, two, event = runtime.create_stream(), runtime.create_stream(), runtime.create_event()
    expect(heading, isinstance(one.handle, int) and one.handle != two.handle, "two streams share a handle")
    _, x = _values(target)
    copied = _mark(target)
    with backend.stream_scope(one, target.device):
        runtime.wait(one, copied)
        x.fill_(4.0)
        runtime.record(event, one)
    with backend.stream_scope(two, target.device):
        runtime.wait(two, event)
        x.fill_(5.0)
        runtime.synchronize(two)
    expect(heading, runtime.query(event) is True, "an event is not done, though a stream waited for it")
    backend.synchronize(target.device)
    expect(heading, (x.numpy() == 5.0).all(), f"x is {np.unique(x.numpy())[:4]}, the last stream wrote 5")


def _mark(target: Target) -> Any:
    """Return an event behind all that the current stream was given."""
    runtime = target.runtime
    event = runtime.create_event()
    runtime.record(event, runtime.current_stream(target.device))
    return event


def _no_streams(target: Target, heading: str) -> None:
    from infinitrain import backend

    calls: dict[str, tuple[Any, ...]] = {
        "current_stream": (target.device,), "set_current_stream": (None,), "create_stream": (), "create_event": (),
        "record": (None, None), "wait": (None, None), "query": (None,), "synchronize_event": (None,),
        "elapsed_ms": (None, None),
    }  # fmt: skip
    for name, args in calls.items():
        refuses(target, heading, name, *args)
    backend.synchronize(target.device)  # there is nothing to wait for
    _works(target, heading, "asking for streams")


def _capture(target: Target, heading: str) -> None:
    """What was captured did not run, and runs at each replay."""
    import infinitrain as it
    from infinitrain import backend

    runtime = target.runtime
    x = it.full((100,), 1.0, device=target.device)
    backend.synchronize(target.device)
    stream = _stream(target)
    runtime.begin_capture(stream)
    x.fill_(7.0)
    graph = runtime.end_capture(stream)
    backend.synchronize(target.device)
    expect(heading, (x.numpy() == 1.0).all(), "what was captured ran already")
    for value in (7.0, 7.0):
        runtime.replay(graph, stream)
        backend.synchronize(target.device)
        expect(heading, (x.numpy() == value).all(), f"after replay x is {np.unique(x.numpy())[:4]}")
        x.fill_(2.0)


def _no_capture(target: Target, heading: str) -> None:
    for name, args in (("begin_capture", (None,)), ("end_capture", (None,)), ("replay", (None, None))):
        refuses(target, heading, name, *args)
    _works(target, heading, "asking for capture")


def _host_alloc(target: Target, heading: str) -> None:
    """Pinned memory is writable, of the size asked for, and both sides of a copy."""
    runtime, values = target.runtime, np.arange(256, dtype=np.float32)
    host = runtime.host_alloc(1024)
    expect(heading, isinstance(host, memoryview), f"host_alloc returned {type(host).__name__}")
    expect(heading, host.nbytes == 1024 and not host.readonly, f"{host.nbytes} bytes, readonly {host.readonly}")
    array = np.frombuffer(host, np.float32)
    array[...] = values
    buffer = runtime.malloc(1024)
    runtime.memcpy(buffer, 0, host, 0, 1024, "H2D")
    array[...] = -1
    runtime.memcpy(host, 0, buffer, 0, 1024, "D2H")
    same_bytes(heading, "what came back into pinned memory", array, values)


def _memcpy_async(target: Target, heading: str) -> None:
    """The copy is there once its event is."""
    from infinitrain import backend

    runtime, values = target.runtime, np.arange(MIB, dtype=np.float32)
    backend.set_current_device(target.device)
    buffer, back = runtime.malloc(values.nbytes), np.zeros_like(values)
    stream = _stream(target)
    for dst, src, kind in ((buffer, values, "H2D"), (back, buffer, "D2H")):
        sides = [memoryview(s).cast("B") if isinstance(s, np.ndarray) else s for s in (dst, src)]
        event = runtime.memcpy_async(sides[0], 0, sides[1], 0, values.nbytes, kind, stream)
        if runtime.has_streams:
            runtime.synchronize_event(event)
            expect(heading, runtime.query(event) is True, "the copy's event is not done after synchronize_event")
        else:
            backend.synchronize(target.device)
    same_bytes(heading, "what was copied there and back", back, values)


def _memory_stats(target: Target, heading: str) -> None:
    """Bytes follow what is held; None where they are not known, never 0 [contract 3.7]."""
    from infinitrain import backend

    runtime = target.runtime
    backend.set_current_device(target.device)
    runtime.reset_peak(target.device)
    held = runtime.malloc(32 * MIB)
    runtime.memcpy(held, 0, memoryview(bytes(32 * MIB)), 0, 32 * MIB, "H2D")
    now = runtime.memory_stats(target.device)
    known = {name: value for name, value in now.items() if value is not None}
    expect(heading, known, f"memory_stats knows nothing: {now}; leave it out, and n/a is printed")
    low = [f"{name} = {value:,}" for name, value in known.items() if value < 32 * MIB]
    expect(heading, not low, f"with 32 MiB held {', '.join(low)}")
    del held
    gc.collect()
    runtime.empty_cache()
    _works(target, heading, "empty_cache")


def _no_memory_stats(target: Target, heading: str) -> None:
    stats = target.runtime.memory_stats(target.device)
    wrong = {name: value for name, value in stats.items() if value is not None}
    expect(heading, not wrong and len(stats) == 4, f"unknown statistics are None, not {stats} [contract 3.7]")
    target.runtime.reset_peak(target.device)
    target.runtime.empty_cache()


def _kernel_window(target: Target, heading: str) -> None:
    """The window that the dispatcher opens around a kernel lets it at the arrays of its tensors."""
    values, x = _values(target)
    with target.runtime.kernel_window("Copy", [x], []):
        expect(heading, tuple(x.array.shape) == values.shape, f"inside its window the array is {x.array!r}")
    same_bytes(heading, "a tensor after its window", x.numpy(), values)


def _no_kernel_window(target: Target, heading: str) -> None:
    expect(heading, target.runtime.kernel_window is None, f"kernel_window is {target.runtime.kernel_window!r}")
    values, x = _values(target)
    same_bytes(heading, "a tensor", x.numpy(), values)


# Fields of Capabilities -------------------------------------------------------------------------------------


def _host_visible(target: Target, heading: str) -> None:
    """The array is the memory: what is written to one is read from the other."""
    _, x = _values(target)
    expect(heading, target.runtime.host_visible is True, "the runtime does not know that it is host visible")
    array = np.asarray(x.array)
    array[3] = 99.0
    expect(heading, x.numpy()[3] == 99.0, "writing to the array did not change the tensor's memory")


def _not_host_visible(target: Target, heading: str) -> None:
    """Outside its window an array is refused, or is a handle that NumPy's copy does not write through."""
    from infinitrain.errors import InfiniTrainError

    values, x = _values(target)
    expect(heading, not target.runtime.host_visible, "the runtime says host_visible, the capabilities do not")
    host = x.numpy()
    host[...] = -1
    same_bytes(heading, "a tensor after its copy was written to", x.numpy(), values)
    if target.runtime.kernel_window is None:
        return
    try:
        found = x.array
    except InfiniTrainError:
        return
    fail(heading, [f"tensor.array outside a kernel gave {found!r} [contract 3.9]"])


def _two_devices(target: Target) -> Any:
    from infinitrain.device import Device

    if target.runtime.device_count() < 2:
        pytest.skip("needs two devices")
    return Device(target.device.type, 1 - min(target.device.index, 1))


def _peer_copy(target: Target, heading: str) -> None:
    """memcpy D2D goes from one device to another."""
    from infinitrain import backend

    other = _two_devices(target)
    values, x = _values(target)
    backend.synchronize(target.device)
    back = np.zeros_like(values)
    with backend.DeviceGuard(other):
        there = target.runtime.malloc(values.nbytes)
        target.runtime.memcpy(there, 0, x.buffer, x.offset, values.nbytes, "D2D")
        target.runtime.memcpy(memoryview(back).cast("B"), 0, there, 0, values.nbytes, "D2H")
    same_bytes(heading, f"D2D from {target.device} to {other}", back, values)


def _no_peer_copy(target: Target, heading: str) -> None:
    """Core goes through the host instead, and nobody notices."""
    other = _two_devices(target)
    values, x = _values(target)
    same_bytes(heading, f"a copy from {target.device} to {other}", x.to(other).numpy(), values)


def _threads(target: Target, heading: str, count: int) -> None:
    from infinitrain import backend

    errors: list[str] = []

    def use(index: int) -> None:
        try:
            backend.set_current_device(target.device)
            _, x = _values(target, 4096 + index)
            for i in range(20):
                x.fill_(float(i + index))
            if not (x.numpy() == 19.0 + index).all():
                errors.append(f"thread {index} read {np.unique(x.numpy())[:4]}, it wrote {19.0 + index}")
        except Exception as error:
            errors.append(f"thread {index}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=use, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(heading, not errors, "; ".join(errors))


def _thread_ranks(target: Target, heading: str) -> None:
    """Threads have a current device and memory of their own."""
    _threads(target, heading, 4)


def _no_thread_ranks(target: Target, heading: str) -> None:
    """Ranks are processes then; a second thread of one rank, such as a data loader's, works all the same."""
    _threads(target, heading, 1)


def _options(target: Target, heading: str) -> None:
    """Each option is a flag with a help text, its default reads back, and what is given reaches ``initialize``."""
    from infinitrain.errors import BackendInitError

    given = dict(target.spec.options)
    for option in target.record.capabilities.options:
        expect(heading, option.help, f"option {option.name} has no help text")
        if option.default is not None:
            value = option.parse(str(option.default))
            expect(heading, value == option.default, f"option {option.name}: its default reads back as {value!r}")
            given.setdefault(option.name, str(option.default))
        if option.type in (int, float):
            with pytest.raises(BackendInitError, match=option.name):
                option.parse("no number")
    got = fresh(heading, replace(target.spec, options=tuple(given.items())), "launch_options")
    for name, text in given.items():
        expect(heading, got["options"].get(name) == text, f"option {name}={text!r} arrived as {got['options']}")
    _unknown_option(target, heading)


def _unknown_option(target: Target, heading: str) -> None:
    """An option that nobody declares is refused by name, before the device is touched [contract 3.2]."""
    from infinitrain.device import DeviceType

    if target.device.type is DeviceType.CPU:  # whose options may be another device's
        return
    got = fresh(heading, target.spec, "unknown_option")
    said = "conformance_no_such_option" in got["message"] and repr(target.name) in got["message"]
    expect(heading, said, f"not refused by name: {got['message']!r}")
    expect(heading, "initialize" not in got["calls"], "the device was initialised all the same")


def _nondeterministic(target: Target, heading: str) -> None:
    """The list names ops of the table, each once. Their values are checked like all others."""
    from infinitrain.backend import OPS

    names = target.record.capabilities.nondeterministic
    unknown = [name for name in names if name not in OPS]
    expect(heading, not unknown, f"capabilities.nondeterministic names no op: {', '.join(unknown)}")
    expect(heading, len(set(names)) == len(names), f"capabilities.nondeterministic names one twice: {names}")


def _deterministic(target: Target, heading: str) -> None:
    """No op is excused: a cast twice gives the same bits; ops::test_repeats asks the others."""
    import infinitrain as it
    from infinitrain.dtype import int64

    x = it.from_numpy(np.random.default_rng(0).normal(0, 1e6, (64, 4096)).astype(np.float32), target.device)
    cast = it.backend.OPS["Cast"].call
    same_bytes(heading, "Cast of the same values", cast(x, int64).numpy(), cast(x, int64).numpy())


def _peak_flops(target: Target, heading: str) -> None:
    """FLOP/s of one device: a number for at least one dtype, None for those that are not known."""
    found = _peaks(target, heading)
    expect(heading, found, "peak_flops is declared, and None for every dtype: leave it out")


def _no_peak_flops(target: Target, heading: str) -> None:
    expect(heading, not _peaks(target, heading), "peak_flops is not declared, but answers")


def _peaks(target: Target, heading: str) -> dict[str, float]:
    from infinitrain.dtype import ALL

    found = {}
    for dtype in ALL:
        value = target.record.capabilities.peak_flops(dtype)
        if value is None:
            continue
        number = isinstance(value, int | float) and math.isfinite(value) and 1e6 <= value < 1e19
        expect(heading, number, f"peak_flops({dtype.name}) is {value!r}: FLOP/s of one device, or None")
        found[dtype.name] = value
    return found


# Collectives ------------------------------------------------------------------------------------------------


def _ccl(target: Target, heading: str) -> None:
    """A group of one rank: every collective gives back what was sent, and what is not offered says so [contract 6.1]."""
    import infinitrain as it
    from infinitrain import backend
    from infinitrain.dtype import float32

    ccl, stream = target.record.ccl, _stream(target)
    backend.set_current_device(target.device)
    name = ccl.get_unique_id()
    expect(heading, isinstance(name, bytes) and name, f"get_unique_id() is {name!r}, not bytes")
    comm = ccl.comm_init_rank(1, name, 0)
    values, x = _values(target)
    count = len(values)
    calls: dict[str, Callable[[int], None]] = {
        "all_reduce": lambda to: ccl.all_reduce(x.ptr, to, count, float32, "SUM", comm, stream),
        "broadcast": lambda to: ccl.broadcast(x.ptr, to, count, float32, 0, comm, stream),
        "all_gather": lambda to: ccl.all_gather(x.ptr, to, count, float32, comm, stream),
        "reduce_scatter": lambda to: ccl.reduce_scatter(x.ptr, to, count, float32, "SUM", comm, stream),
    }
    for what, call in calls.items():
        y = it.full((count,), -1.0, device=target.device)
        call(y.ptr)
        backend.synchronize(target.device)
        same_bytes(heading, f"{what} among one rank", y.numpy(), values)
    ccl.comm_destroy(comm)
    for method in ("reduce", "send", "recv", "comm_abort"):
        if getattr(type(ccl), method) is getattr(backend.CclImpl, method):
            arguments = len(inspect.signature(getattr(ccl, method)).parameters)
            refuses(target, heading, method, *[None] * arguments, of=ccl)


def _no_ccl(target: Target, heading: str) -> None:
    """Nothing of core asks for collectives yet: a device without them works alone."""
    expect(heading, target.record.registration.register_ccl is None, "register_ccl was given, but there is no ccl")
    _works(target, heading, "no collectives")


PROBES: Final[dict[str, tuple[Probe, Probe]]] = {
    "host_visible": (_host_visible, _not_host_visible),
    "peer_copy": (_peer_copy, _no_peer_copy),
    "thread_ranks": (_thread_ranks, _no_thread_ranks),
    "options": (_options, _unknown_option),
    "nondeterministic": (_nondeterministic, _deterministic),
    "peak_flops": (_peak_flops, _no_peak_flops),
    "arrays": (_arrays, _no_arrays),
    "streams": (_streams, _no_streams),
    "capture": (_capture, _no_capture),
    "host_alloc": (_host_alloc, lambda t, h: refuses(t, h, "host_alloc", 64)),
    "memcpy_async": (_memcpy_async, lambda t, h: refuses(t, h, "memcpy_async", None, 0, None, 0, 0, "H2D")),
    "memory_stats": (_memory_stats, _no_memory_stats),
    "kernel_window": (_kernel_window, _no_kernel_window),
    "ccl": (_ccl, _no_ccl),
}
"""(declared, undeclared) by name."""
