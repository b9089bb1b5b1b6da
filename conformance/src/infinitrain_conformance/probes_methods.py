"""Probes of the optional methods of a runtime: offered, they work; not offered, they say so [contract 3.1].

A probe gets the backend and the heading of failures.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .check import expect, fail, same_bytes
from .target import Target

Probe = Callable[[Target, str], None]
MIB: Final = 1 << 20


def filled(target: Target, count: int = 1024) -> tuple[np.ndarray, Any]:
    """Return values and a tensor on the device that holds them."""
    import infinitrain as it

    values = np.arange(count, dtype=np.float32) * 0.5 - 3
    return values, it.from_numpy(values, target.device)


def stream_of(target: Target) -> Any:
    return target.runtime.current_stream(target.device) if target.runtime.has_streams else None


def still_works(target: Target, heading: str, what: str) -> None:
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
    still_works(target, heading, "native_array and adopt")


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
    values, x = filled(target)
    same_bytes(heading, "what was copied", x.numpy(), values)


def _streams(target: Target, heading: str) -> None:
    """Work on one stream, an event, a wait on another: the order holds, and the host can wait for it."""
    from infinitrain import backend

    runtime = target.runtime
    backend.set_current_device(target.device)
    one, two, event = runtime.create_stream(), runtime.create_stream(), runtime.create_event()
    expect(heading, isinstance(one.handle, int) and one.handle != two.handle, "two streams share a handle")
    _, x = filled(target)
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
    still_works(target, heading, "asking for streams")


def _capture(target: Target, heading: str) -> None:
    """What was captured did not run, and runs at each replay."""
    import infinitrain as it
    from infinitrain import backend

    runtime = target.runtime
    x = it.full((100,), 1.0, device=target.device)
    backend.synchronize(target.device)
    stream = stream_of(target)
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
    still_works(target, heading, "asking for capture")


def _host_alloc(target: Target, heading: str) -> None:
    """Pinned memory is writable, of the size asked for, and both sides of a copy."""
    runtime, values = target.runtime, np.arange(256, dtype=np.float32)
    host = runtime.host_alloc(1024)
    expect(heading, isinstance(host, memoryview), f"host_alloc returned {type(host).__name__}")
    expect(
        heading, host.nbytes == 1024 and not host.readonly, f"{host.nbytes} bytes, readonly {host.readonly}"
    )
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
    stream = stream_of(target)
    for dst, src, kind in ((buffer, values, "H2D"), (back, buffer, "D2H")):
        sides = [s.data.cast("B") if isinstance(s, np.ndarray) else s for s in (dst, src)]
        event = runtime.memcpy_async(sides[0], 0, sides[1], 0, values.nbytes, kind, stream)
        if runtime.has_streams:
            runtime.synchronize_event(event)
            expect(
                heading, runtime.query(event) is True, "the copy's event is not done after synchronize_event"
            )
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
    still_works(target, heading, "empty_cache")


def _no_memory_stats(target: Target, heading: str) -> None:
    stats = target.runtime.memory_stats(target.device)
    wrong = {name: value for name, value in stats.items() if value is not None}
    expect(heading, not wrong and len(stats) == 4, f"unknown statistics are None, not {stats} [contract 3.7]")
    target.runtime.reset_peak(target.device)
    target.runtime.empty_cache()


def _kernel_window(target: Target, heading: str) -> None:
    """The window that the dispatcher opens around a kernel lets it at the arrays of its tensors."""
    values, x = filled(target)
    with target.runtime.kernel_window("Copy", [x], []):
        expect(heading, tuple(x.array.shape) == values.shape, f"inside its window the array is {x.array!r}")
    same_bytes(heading, "a tensor after its window", x.numpy(), values)


def _no_kernel_window(target: Target, heading: str) -> None:
    expect(
        heading, target.runtime.kernel_window is None, f"kernel_window is {target.runtime.kernel_window!r}"
    )
    values, x = filled(target)
    same_bytes(heading, "a tensor", x.numpy(), values)


METHOD_PROBES: Final[dict[str, tuple[Probe, Probe]]] = {
    "arrays": (_arrays, _no_arrays),
    "streams": (_streams, _no_streams),
    "capture": (_capture, _no_capture),
    "host_alloc": (_host_alloc, lambda t, h: refuses(t, h, "host_alloc", 64)),
    "memcpy_async": (_memcpy_async, lambda t, h: refuses(t, h, "memcpy_async", None, 0, None, 0, 0, "H2D")),
    "memory_stats": (_memory_stats, _no_memory_stats),
    "kernel_window": (_kernel_window, _no_kernel_window),
}
"""(offered, not offered) by name."""
