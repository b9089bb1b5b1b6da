"""The fake device's runtime: several devices in host memory, as strict as a device can be [contract 3]."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from infinitrain.backend import D2D, D2H, H2D, DeviceGuardImpl, LaunchInfo
from infinitrain.device import Device, DeviceType
from infinitrain.dtype import DType
from infinitrain.errors import BackendError, BackendInitError, KernelError, NoSuchDeviceError

from .clock import Access, Event, Stream, Unordered, merge
from .counters import Statistics
from .errors import DeviceMemoryError
from .memory import ALIGNMENT, Block, FakeBuffer, Pool, poisoned_array
from .window import Window, check_range

TYPE = DeviceType.PRIVATEUSE1


class _Local(threading.local):
    device = 0
    window: Window | None = None

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}


class FakeRuntime(DeviceGuardImpl):
    """See the contract for each method; what is said here is how the fake does it."""

    host_visible = False
    type = TYPE

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self.lock = threading.RLock()
        self.local = _Local()
        self.counts = Statistics()
        self.pools: list[Pool] = []
        self.defaults: list[Stream] = []
        self.streams: list[Stream] = []
        self.done: dict[Stream, int] = {}  # per stream, the tick that the host knows to be finished
        self.faults = faults
        self.races_show_poison = False  # only faults set it: then the device, not the program, is to blame
        self._state = "not initialised"

    # Identity
    def initialize(self, launch: LaunchInfo) -> None:
        options = launch.options
        count, memory = options.get("devices", 2), options.get("memory_mb", 4096)
        if not 1 <= count <= 128:
            raise BackendInitError(f"option devices={count}: the fake has 1 to 128 devices [contract 3.2]")
        if memory < 1:
            raise BackendInitError(f"option memory_mb={memory}: at least 1 [contract 3.2]")
        self.start(count, memory)
        self._state = ""
        os.register_at_fork(after_in_child=self._forked)
        if options.get("fault"):
            self._plant(options["fault"])

    def start(self, devices: int, memory_mb: int) -> None:
        """Make devices with empty memory."""
        self.pools = [Pool(Device(TYPE, i), memory_mb << 20) for i in range(devices)]
        self.defaults = [Stream(pool.device) for pool in self.pools]
        self.streams = list(self.defaults)
        self.done = {}

    def _plant(self, text: str) -> None:
        from . import faults

        names = faults.parse(text)
        for name in names:
            if faults.FAULTS[name].kind != "runtime" and name not in self.faults:
                raise BackendInitError(
                    f"fault {name} sits in the registration, which is over: set {faults.VARIABLE}={name} in "
                    "the environment before it [contract 3.2]"
                )
        self.faults = names
        faults.plant(names, "runtime", self)

    def device_count(self) -> int:
        return len(self.pools)

    def get_device(self) -> Device:
        return self.pools[self.local.device].device

    def set_device(self, device: Device) -> None:
        self._pool(device)
        self.local.device = device.index

    def describe(self, device: Device) -> str:
        faults = f", with planted faults {', '.join(self.faults)}" if self.faults else ""
        return f"fake accelerator in host memory, {self._pool(device).limit >> 20} MiB{faults}"

    def shutdown(self) -> None:
        """Refuse all further use. With INFINITRAIN_FAKE_LEAKS=1, live buffers are an error."""
        leaks = ""
        if os.environ.get("INFINITRAIN_FAKE_LEAKS") == "1":
            gc.collect()
            leaks = self.leak_report()
        for pool in self.pools:
            pool.close()
        self._state = "shut down"
        if leaks:
            raise DeviceMemoryError(f"leaked device memory at shutdown [contract 3.3]:\n{leaks}")

    # Memory
    def malloc(self, nbytes: int, stream: Any = None) -> FakeBuffer:
        window = self.local.window
        buffer = self._malloc(nbytes, stream, window.op if window is not None else "malloc")
        if window is not None:
            window.made(buffer.block("malloc"), filled=False)
        return buffer

    def _malloc(self, nbytes: int, stream: Any, op: str) -> FakeBuffer:
        self.check_alive("malloc")
        if not isinstance(nbytes, int) or nbytes < 0:
            raise DeviceMemoryError(
                f"malloc({nbytes!r}): a number of bytes, 0 or more [contract 3.3]", op="malloc"
            )
        pool = self.pools[self.local.device]
        with self.lock:
            stream = stream if stream is not None else self.current_stream(pool.device)
            block, new = pool.allocate(nbytes, op, stream, self.done)
            self.counts.mallocs += 1
            self.counts.blocks += new
            return FakeBuffer(block, nbytes)

    def memcpy(
        self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        self.check_alive("memcpy")
        what = f"memcpy {kind}"
        if kind not in (H2D, D2H, D2D):
            raise DeviceMemoryError(
                f"memcpy: kind {kind!r} is none of H2D, D2H, D2D [contract 3.4]", op="memcpy"
            )
        with self.lock:
            to, target = self._side(what, dst, dst_offset, nbytes, kind != D2H)
            of, source = self._side(what, src, src_offset, nbytes, kind != H2D)
            stream = stream if stream is not None else self.current_stream(self.get_device())
            at = [b.pool.device for b in (to, of) if b is not None]
            if stream.device not in at:
                raise DeviceMemoryError(
                    f"{what} on {stream} between {of or 'host'} and {to or 'host'}: give a stream of "
                    "their device [contract 3.4]",
                    op=what,
                )
            stream.tick += 1
            now = Access(stream, stream.tick, what)
            if of is not None and nbytes:
                race = of.history.read(src_offset, src_offset + nbytes, now, self.done)
                if race is not None:
                    source = self.raced(race, of, src_offset, src_offset + nbytes, None)
            if to is not None and nbytes:
                race = to.history.write(dst_offset, dst_offset + nbytes, now, self.done)
                if race is not None:
                    self.raced(race, to, dst_offset, dst_offset + nbytes, None)
            self.counts.copied(kind, nbytes, len(at) == 2 and at[0] is not at[1])
            target[:] = source
            if kind == D2H:  # the host has the bytes, so all that precedes them is finished
                merge(self.done, stream.knowledge())

    def _side(
        self, what: str, side: Any, offset: int, nbytes: int, on_device: bool
    ) -> tuple[Block | None, np.ndarray]:
        if on_device:
            if not isinstance(side, FakeBuffer):
                raise DeviceMemoryError(
                    f"{what}: {type(side).__name__} is no buffer of this device [contract 3.4]", op=what
                )
            block = side.block(what)
            check_range(what, block, offset, nbytes)
            return block, block.take(offset, nbytes)
        if isinstance(side, FakeBuffer):
            raise DeviceMemoryError(
                f"{what}: the host side is {side.block(what)}, device memory [contract 3.4]", op=what
            )
        host = np.frombuffer(side, np.uint8)
        if offset < 0 or offset + nbytes > host.nbytes:
            raise DeviceMemoryError(
                f"{what} is out of bounds: bytes {offset} to {offset + nbytes} of {host.nbytes} on the host "
                "[contract 3.4]",
                op=what,
            )
        return None, host[offset : offset + nbytes]

    def memory_stats(self, device: Device) -> dict[str, int | None]:
        with self.lock:
            return self._pool(device).statistics()

    def reset_peak(self, device: Device) -> None:
        with self.lock:
            pool = self._pool(device)
            pool.settle("reset_peak")
            pool.peak_used, pool.peak_reserved = pool.used, pool.reserved

    def empty_cache(self) -> None:
        with self.lock:
            for pool in self.pools:
                pool.settle("empty_cache")
                pool.empty_cache()

    def host_alloc(self, nbytes: int) -> memoryview:
        """Return host memory at a 64-byte boundary; the fake copies from any memory alike."""
        raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + nbytes].data

    def leak_report(self) -> str:
        """Return one line per live buffer: size, device, the op that allocated it; "" when there is none."""
        with self.lock:
            for pool in self.pools:
                pool.settle("leak_report")
            return "\n".join(str(block) for pool in self.pools for block in pool.live.values())

    # Arrays
    def kernel_window(self, op_name: str, reads: Sequence[Any], writes: Sequence[Any]) -> Window:
        return Window(self, op_name, reads, writes)

    def native_array(self, buffer: Any, byte_offset: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        window = self.local.window
        if window is None:
            raise KernelError(
                f"native_array of {buffer.block('native_array')} outside a kernel: device memory is "
                "reachable only in the window that the dispatcher opens around kernels; use .numpy(), a copy "
                "[contract 3.9]",
                op="native_array",
            )
        return window.array(buffer, byte_offset, shape, dtype)

    def adopt(self, array: Any) -> tuple[FakeBuffer, int]:
        """Copy a kernel's host array to new device memory; the array stays the kernel's."""
        window = self.local.window
        if window is None:
            raise KernelError(
                "adopt outside a kernel's window: use infinitrain.from_numpy [contract 3.9]", op="adopt"
            )
        array = np.asarray(array)
        buffer = self._malloc(array.nbytes, None, window.op)
        block = buffer.block("adopt")
        window.made(block, filled=True)
        np.ndarray(array.shape, array.dtype, block.take(0, array.nbytes))[...] = array
        return buffer, 0

    # Streams
    def current_stream(self, device: Device) -> Stream:
        found = self.local.streams.get(device.index)
        return found if found is not None else self.defaults[self._pool(device).device.index]

    def set_current_stream(self, stream: Stream) -> None:
        self.local.streams[stream.device.index] = stream

    def create_stream(self, priority: int = 0) -> Stream:
        self.check_alive("create_stream")
        with self.lock:
            stream = Stream(self.get_device(), priority)
            self.streams.append(stream)
            return stream

    def create_event(self, timing: bool = False) -> Event:
        self.check_alive("create_event")
        return Event(self.get_device(), timing)

    def record(self, event: Event, stream: Stream) -> None:
        with self.lock:
            event.record(stream)

    def wait(self, stream: Stream, event: Event) -> None:
        """Order the stream's later work after the event; an event that was never recorded orders nothing."""
        with self.lock:
            if event.seen is not None:
                merge(stream.seen, event.seen)

    def query(self, event: Event) -> bool:
        """Tell whether the event's work is done: a slow device says no once after each record, then yes."""
        with self.lock:
            if event.seen is None or self._finished(event.seen):
                return True
            if not event.polled:
                event.polled = True
                return False
            merge(self.done, event.seen)
            return True

    def _finished(self, seen: dict[Stream, int]) -> bool:
        return all(self.done.get(s, 0) >= tick for s, tick in seen.items())

    def synchronize_event(self, event: Event) -> None:
        with self.lock:
            if event.seen is not None:
                merge(self.done, event.seen)

    def elapsed_ms(self, start: Event, end: Event) -> float:
        for event in (start, end):
            if event.seen is None or not event.timing:
                raise BackendError(
                    "elapsed_ms needs two recorded events made with timing=True [contract 3.1]"
                )
        return (end.seconds - start.seconds) * 1e3

    def synchronize(self, target: Any) -> None:
        self.check_alive("synchronize")
        with self.lock:
            if isinstance(target, Device):
                self._pool(target).settle("synchronize")
            for stream in [s for s in self.streams if s is target or s.device is target]:
                merge(self.done, stream.knowledge())

    def record_use(self, buffer: Any, stream: Any) -> None:
        # Core calls this just before the work, which is then the stream's next tick.
        buffer.block("record_use").uses[stream] = stream.tick + 1

    # Checks
    def check_alive(self, op: str) -> None:
        if self._state:
            raise BackendError(f"{op}: the fake device is {self._state} [contract 3.2, 3.8, 3.11]", op=op)

    def raced(self, race: Unordered, block: Block, start: int, end: int, window: Window | None) -> np.ndarray:
        """Raise the race; or, where a fault is to blame, return the poison that the device shows instead."""
        if not self.races_show_poison:
            raise race.error(block)
        if window is not None:
            window.stale.append((block, start, end))
        return poisoned_array((end - start,), np.dtype(np.uint8))

    def _pool(self, device: Device) -> Pool:
        if device.type is not TYPE or device.index >= len(self.pools):
            raise NoSuchDeviceError(device.index, len(self.pools), "fake")
        return self.pools[device.index]

    def _forked(self) -> None:
        self._state = "of a process that has forked since it was initialised"
