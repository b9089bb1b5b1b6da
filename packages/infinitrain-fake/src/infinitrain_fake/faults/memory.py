"""Faults of devices, memory and arrays (L1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitrain.device import Device
from infinitrain.errors import OutOfMemoryError

from ..memory import FakeBuffer
from .catalogue import runtime_fault


@runtime_fault("1.8")
def device_count_lies(runtime: Any) -> None:
    """device_count() is one more than there are devices; the last one is the first one again."""
    count, right = runtime.device_count, runtime.set_device
    runtime.device_count = lambda: count() + 1

    def set_device(device: Device) -> None:
        right(device if device.index < count() else Device(device.type, 0))

    runtime.set_device = set_device
    pool, stream = runtime._pool, runtime.current_stream
    runtime._pool = lambda device: pool(device if device.index < count() else Device(device.type, 0))
    runtime.current_stream = lambda device: stream(
        device if device.index < count() else Device(device.type, 0)
    )


@runtime_fault("3.5")
def device_shared_by_threads(runtime: Any) -> None:
    """The current device is one for all threads instead of one per thread."""

    class Shared:
        device = 0
        window = None

        def __init__(self) -> None:
            self.streams: dict[int, Any] = {}

    runtime.local = Shared()


@runtime_fault("3.5")
def get_device_always_first(runtime: Any) -> None:
    """get_device() answers device 0 whatever is current."""
    runtime.get_device = lambda: runtime.pools[0].device


@runtime_fault("3.5")
def malloc_changes_device(runtime: Any) -> None:
    """malloc leaves the next device current."""
    right = runtime._malloc

    def malloc(nbytes: int, stream: Any, op: str) -> FakeBuffer:
        buffer: FakeBuffer = right(nbytes, stream, op)
        runtime.local.device = (runtime.local.device + 1) % len(runtime.pools)
        return buffer

    runtime._malloc = malloc


@runtime_fault("3.3")
def malloc_ignores_current_device(runtime: Any) -> None:
    """malloc always allocates on device 0."""
    right = runtime._malloc

    def malloc(nbytes: int, stream: Any, op: str) -> FakeBuffer:
        local = runtime.local
        current, local.device = local.device, 0
        try:
            buffer: FakeBuffer = right(nbytes, None, op)
            return buffer
        finally:
            local.device = current

    runtime._malloc = malloc


@runtime_fault("3.3")
def ptr_misaligned(runtime: Any) -> None:
    """Buffers begin 4 bytes behind a multiple of 64."""
    for pool in runtime.pools:
        pool._next += 4


@runtime_fault("3.3")
def malloc_zero_refused(runtime: Any) -> None:
    """malloc(0) is an error."""
    right = runtime._malloc

    def malloc(nbytes: int, stream: Any, op: str) -> FakeBuffer:
        if nbytes == 0:
            raise ValueError("cannot allocate 0 bytes")
        buffer: FakeBuffer = right(nbytes, stream, op)
        return buffer

    runtime._malloc = malloc


@runtime_fault("3.3")
def malloc_overlaps(runtime: Any) -> None:
    """Every fourth allocation of a size returns the memory of the one before it, which is still in use."""
    right = runtime._malloc
    last: dict[tuple[Any, int], FakeBuffer] = {}
    calls: dict[tuple[Any, int], int] = {}

    def malloc(nbytes: int, stream: Any, op: str) -> FakeBuffer:
        key = (runtime.get_device(), nbytes)
        calls[key] = calls.get(key, 0) + 1
        if calls[key] % 4 == 0 and key in last and nbytes:
            twin = FakeBuffer(last[key]._block, nbytes)  # type: ignore[arg-type]
            return twin
        last[key] = right(nbytes, stream, op)
        return last[key]

    runtime._malloc = malloc


@runtime_fault("3.3")
def buffer_nbytes_rounded(runtime: Any) -> None:
    """A buffer says the rounded size of its block instead of what was asked for."""
    right = runtime._malloc

    def malloc(nbytes: int, stream: Any, op: str) -> FakeBuffer:
        buffer: FakeBuffer = right(nbytes, stream, op)
        buffer.nbytes = buffer.block("malloc").size
        return buffer

    runtime._malloc = malloc


@runtime_fault("3.3")
def out_of_memory_unnamed(runtime: Any) -> None:
    """An exhausted device raises Python's MemoryError, without device and sizes."""
    right = runtime._malloc

    def malloc(nbytes: int, stream: Any, op: str) -> FakeBuffer:
        try:
            buffer: FakeBuffer = right(nbytes, stream, op)
            return buffer
        except OutOfMemoryError:
            raise MemoryError from None

    runtime._malloc = malloc


@runtime_fault("3.3")
def released_memory_is_kept(runtime: Any) -> None:
    """Memory is never given back: a dropped buffer stays allocated."""
    right, kept = runtime._malloc, []

    def malloc(nbytes: int, stream: Any, op: str) -> FakeBuffer:
        kept.append(right(nbytes, stream, op))
        buffer: FakeBuffer = kept[-1]
        return buffer

    runtime._malloc = malloc


@runtime_fault("3.7")
def memory_stats_zero(runtime: Any) -> None:
    """memory_stats answers 0 for everything instead of what it knows."""
    runtime.memory_stats = lambda device: dict.fromkeys(("used", "reserved", "peak_used", "peak_reserved"), 0)


@runtime_fault("3.1")
def peak_never_reset(runtime: Any) -> None:
    """reset_peak does nothing."""
    runtime.reset_peak = lambda device: None


@runtime_fault("3.2")
def options_ignored(runtime: Any) -> None:
    """The options given at launch have no effect."""
    runtime.start(2, 4096)


@runtime_fault("3.9")
def adopt_reuses_memory(runtime: Any) -> None:
    """adopt aliases: a result lands in the memory of the result of that size two calls before."""
    right = runtime._malloc
    ring: dict[tuple[Any, int], list[FakeBuffer]] = {}

    def adopt(array: Any) -> tuple[FakeBuffer, int]:
        array = np.asarray(array)
        window = runtime.local.window
        held = ring.setdefault((runtime.get_device(), array.nbytes), [])
        buffer = held.pop(0) if len(held) >= 2 else right(array.nbytes, None, window.op)
        held.append(buffer)
        block = buffer.block("adopt")
        window.made(block, filled=True)
        np.ndarray(array.shape, array.dtype, block.take(0, array.nbytes))[...] = array
        return buffer, 0

    runtime.adopt = adopt


@runtime_fault("3.9")
def native_array_offset_ignored(runtime: Any) -> None:
    """native_array starts at the beginning of the buffer whatever the offset."""
    from ..window import Window

    class Careless(Window):
        def array(self, buffer: Any, offset: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            self.ranges[buffer.block(self.op), 0, buffer.nbytes] = True
            return super().array(buffer, 0, shape, dtype)

    runtime.kernel_window = lambda op_name, reads, writes: Careless(runtime, op_name, reads, writes)
