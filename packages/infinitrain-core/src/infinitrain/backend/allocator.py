"""A caching allocator that any provider can put in front of its malloc and free [contract 3.3]."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

from ..device import Device
from ..errors import BackendError, OutOfMemoryError
from .guard_impl import DeviceGuardImpl

ALIGNMENT: Final = 64
SMALLEST: Final = 512


def size_class(nbytes: int) -> int:
    """Return the size of the block for ``nbytes``: 512 or more, eight classes per doubling (12.5% waste)."""
    if nbytes <= SMALLEST:
        return SMALLEST
    step: int = max(ALIGNMENT, 1 << ((nbytes - 1).bit_length() - 4))
    return -(-nbytes // step) * step


class Block:
    """Memory from ``raw_malloc``: its address, size, device, and the stream in whose order it is reused."""

    __slots__ = ("device", "events", "ptr", "size", "stream")

    def __init__(self, ptr: int, size: int, device: Device, stream: Any) -> None:
        self.ptr, self.size, self.device, self.stream = ptr, size, device, stream
        self.events: list[Any] = []  # work of other streams that must end before the block is reused


class CachedBuffer:
    """A Buffer [contract 3.3] on a block of a CachingAllocator. Arrays over its memory must refer to it."""

    __slots__ = ("__weakref__", "_allocator", "_block", "_uses", "device", "nbytes")

    def __init__(self, allocator: CachingAllocator, block: Block | None, device: Device, nbytes: int) -> None:
        self._allocator, self._block, self.device, self.nbytes = allocator, block, device, nbytes
        self._uses: dict[int, Any] | None = None  # handle -> stream, other than the block's own

    @property
    def ptr(self) -> int:
        """The address; 0 for a buffer without bytes."""
        return 0 if self._block is None else self._block.ptr

    def __del__(self) -> None:
        # Runs on any thread, with any current device, perhaps inside this allocator by way of the garbage
        # collector: so it takes no lock and asks the device nothing. deque.append is atomic.
        block = self._block
        if block is not None:
            self._allocator._returned.append((block, self._uses))


class CachingAllocator:
    """Reuse by size class, statistics, and one retry after ``empty_cache`` when memory is exhausted.

    ``raw_malloc(nbytes) -> int`` returns an address on the current device, a multiple of 64, and raises
    MemoryError (or OutOfMemoryError) or returns 0 when there is none; ``raw_free(ptr)`` returns it, with its
    device current; ``mem_info(device) -> (free, total)`` in bytes, or None where the system does not tell.
    ``runtime`` is the provider's own: with it, memory is reused in stream order, and a device is made current
    before its memory is freed.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        raw_malloc: Callable[[int], int],
        raw_free: Callable[[int], None],
        mem_info: Callable[[Device], tuple[int, int] | None],
        runtime: DeviceGuardImpl | None = None,
    ) -> None:
        self._raw_malloc, self._raw_free, self._mem_info, self._runtime = (
            raw_malloc,
            raw_free,
            mem_info,
            runtime,
        )
        self._streams = runtime is not None and runtime.has_streams
        self._lock = threading.Lock()
        self._returned: deque[tuple[Block, dict[int, Any] | None]] = deque()
        self._free: dict[tuple[Device, int | None, int], list[Block]] = {}  # (device, stream's handle, size)
        self._waiting: dict[
            Device, list[tuple[Block, dict[int, Any] | None]]
        ] = {}  # other streams may still use them
        self._stats: dict[Device, dict[str, int]] = {}
        self._dead = False
        _alive.add(self)

    def malloc(self, nbytes: int, device: Device, stream: Any = None) -> CachedBuffer:
        """Return a buffer on the current ``device`` for work on ``stream``. Raises OutOfMemoryError."""
        if nbytes == 0:
            return CachedBuffer(self, None, device, 0)
        if self._streams and stream is None and self._runtime is not None:
            stream = self._runtime.current_stream(device)
        size = size_class(nbytes)
        with self._lock:
            self._collect()
            self._poll(device)
            blocks = self._free.get((device, _handle(stream), size))
            block = blocks.pop() if blocks else None
        if block is None:
            block = self._grow(nbytes, size, device, stream)
        with self._lock:
            self._count(device, used=size)
        return CachedBuffer(self, block, device, nbytes)

    def record_use(self, buffer: Any, stream: Any) -> None:
        """Note that work on ``stream`` uses ``buffer``: its memory is not reused before that work is done."""
        block = buffer._block
        if block is None or _handle(stream) == _handle(block.stream):
            return
        with self._lock:
            if buffer._uses is None:
                buffer._uses = {}
            buffer._uses[stream.handle] = stream

    def memory_stats(self, device: Device) -> dict[str, int | None]:
        """Return ``used`` (bytes in blocks of living buffers), ``reserved`` (and cached), and both peaks."""
        with self._lock:
            self._collect()
            return dict(self._device_stats(device))

    def reset_peak(self, device: Device) -> None:
        """Start the peaks anew at the present values."""
        with self._lock:
            self._collect()
            stats = self._device_stats(device)
            stats["peak_used"], stats["peak_reserved"] = stats["used"], stats["reserved"]

    def empty_cache(self) -> None:
        """Return every block that no buffer holds, after the work that uses it is done."""
        with self._lock:
            self._collect()
            blocks = [b for held in self._free.values() for b in held]
            blocks += [b for held in self._waiting.values() for b, _ in held]
            self._free.clear()
            self._waiting.clear()
            for block in blocks:
                self._count(block.device, reserved=-block.size)
        for device in {b.device for b in blocks}:
            self._release([b for b in blocks if b.device is device], device)

    def close(self) -> None:
        """Return the cached blocks; buffers that are dropped later are not returned any more."""
        self.empty_cache()
        self._dead = True

    # Inside -------------------------------------------------------------------------------------------------
    def _grow(self, nbytes: int, size: int, device: Device, stream: Any) -> Block:
        ptr = self._try(size)
        if not ptr:
            self.empty_cache()
            ptr = self._try(size)
        if not ptr:
            info = self._mem_info(device)
            held = self.memory_stats(device)["reserved"]
            raise OutOfMemoryError(device, nbytes, None if info is None else info[0], held)
        if ptr % ALIGNMENT:
            self._raw_free(ptr)
            raise BackendError(f"raw_malloc returned {ptr:#x}, not a multiple of {ALIGNMENT} [contract 3.3]")
        with self._lock:
            self._count(device, reserved=size)
        return Block(ptr, size, device, stream)

    def _try(self, size: int) -> int:
        try:
            return self._raw_malloc(size)
        except MemoryError:
            return 0

    def _release(self, blocks: list[Block], device: Device) -> None:
        if self._runtime is None:
            for block in blocks:
                self._raw_free(block.ptr)
            return
        previous = self._runtime.get_device()
        if previous is not device:
            self._runtime.set_device(device)
        try:
            self._runtime.synchronize(
                device
            )  # blocks are cached while work in their own stream's order is under way
            for block in blocks:
                self._raw_free(block.ptr)
        finally:
            if previous is not device:
                self._runtime.set_device(previous)

    def _collect(self) -> None:
        """Take back what finalisers left. Called with the lock held."""
        while self._returned:
            block, uses = self._returned.popleft()
            if self._dead:
                continue
            self._count(block.device, used=-block.size)
            if uses:
                self._waiting.setdefault(block.device, []).append((block, uses))
            else:
                self._keep(block)

    def _poll(self, device: Device) -> None:
        """Cache the blocks of the current device whose other streams are done. Called with the lock held."""
        waiting = self._waiting.get(device)
        if not waiting or self._runtime is None:
            return
        runtime = self._runtime
        still: list[tuple[Block, dict[int, Any] | None]] = []
        for block, uses in waiting:
            for stream in (uses or {}).values():  # recorded late, which only waits for more
                event = runtime.create_event()
                runtime.record(event, stream)
                block.events.append(event)
            if all(runtime.query(event) for event in block.events):
                block.events = []
                self._keep(block)
            else:
                still.append((block, None))
        self._waiting[device] = still

    def _keep(self, block: Block) -> None:
        self._free.setdefault((block.device, _handle(block.stream), block.size), []).append(block)

    def _device_stats(self, device: Device) -> dict[str, int]:
        zero = {"used": 0, "reserved": 0, "peak_used": 0, "peak_reserved": 0}
        return self._stats.setdefault(device, zero)

    def _count(self, device: Device, used: int = 0, reserved: int = 0) -> None:
        stats = self._device_stats(device)
        stats["used"] += used
        stats["reserved"] += reserved
        stats["peak_used"] = max(stats["peak_used"], stats["used"])
        stats["peak_reserved"] = max(stats["peak_reserved"], stats["reserved"])

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # a thread that does not exist in the child may hold the old one
        self._dead = True
        self._returned = deque()  # the parent's memory: neither freed nor reused here
        self._free, self._waiting = {}, {}


def _handle(stream: Any) -> int | None:
    handle: int | None = None if stream is None else stream.handle
    return handle


_alive: WeakSet[CachingAllocator] = WeakSet()


def _after_fork_in_child() -> None:
    for allocator in list(_alive):
        allocator._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
