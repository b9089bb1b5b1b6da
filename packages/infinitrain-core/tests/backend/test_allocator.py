"""The caching allocator: reuse, order, statistics, exhaustion, finalisers, fork [contract 3.3]."""

import gc
import random
import threading
from typing import Any

import pytest

from infinitrain.backend import Buffer, CachingAllocator
from infinitrain.backend.allocator import size_class
from infinitrain.backend.guard_impl import GROUPS
from infinitrain.device import CPU, Device, DeviceType
from infinitrain.errors import BackendError, OutOfMemoryError
from infinitrain.testing import HostRuntime, run_python

ZERO, ONE = (Device(DeviceType.PRIVATEUSE1, i) for i in range(2))


class Memory:
    """Raw memory of a limited size: addresses only, handed out once each."""

    def __init__(self, limit: int = 1 << 40) -> None:
        self.limit = limit
        self.live: dict[int, int] = {}
        self.next = 1 << 20
        self.mallocs = 0
        self.log: list[Any] = []
        self.lock = threading.Lock()

    def malloc(self, nbytes: int) -> int:
        with self.lock:
            if self.used + nbytes > self.limit:
                self.log.append("exhausted")
                return 0
            self.mallocs += 1
            ptr, self.next = self.next, self.next + nbytes + 64
            self.live[ptr] = nbytes
            return ptr

    def free(self, ptr: int) -> None:
        with self.lock:
            self.log.append(("free", ptr))
            del self.live[ptr]  # a second free of the same is an error

    @property
    def used(self) -> int:
        return sum(self.live.values())

    def info(self, device: Device) -> tuple[int, int]:
        return self.limit - self.used, self.limit

    def allocator(self, runtime: HostRuntime | None = None) -> CachingAllocator:
        return CachingAllocator(self.malloc, self.free, self.info, runtime)


def test_size_classes() -> None:
    """Large enough, aligned, at most an eighth too large, few."""
    sizes = [*range(1, 5000), *(random.Random(3).randrange(5000, 1 << 34) for _ in range(5000))]
    for n in sizes:
        size = size_class(n)
        assert n <= size <= max(512, n + n // 8 + 64)
        assert size % 64 == 0
        assert size_class(size) == size
    assert len({size_class(n) for n in range(1, 1 << 20, 64)}) < 100


def test_buffers_are_buffers() -> None:
    """[contract 3.3]"""
    buffer = Memory().allocator().malloc(100, ONE)
    assert isinstance(buffer, Buffer)
    assert (buffer.device, buffer.nbytes, buffer.ptr % 64) == (ONE, 100, 0)


def test_nothing_is_legal() -> None:
    """[contract 3.3] malloc(0) works"""
    memory = Memory()
    allocator = memory.allocator()
    empty = allocator.malloc(0, CPU)
    assert (empty.nbytes, empty.ptr % 64, memory.mallocs) == (0, 0, 0)
    allocator.record_use(empty, None)
    del empty
    assert allocator.memory_stats(CPU)["used"] == 0


def test_a_dropped_block_serves_its_size_class_again() -> None:
    """[contract 3.3]"""
    memory = Memory()
    allocator = memory.allocator()
    first, second = allocator.malloc(10_000, CPU), allocator.malloc(10_000, CPU)
    ptr = first.ptr
    assert second.ptr != ptr
    del first
    assert allocator.malloc(9_900, CPU).ptr == ptr
    assert allocator.malloc(20_000, CPU).ptr != ptr  # another class
    assert allocator.malloc(10_000, ZERO).ptr not in (ptr, second.ptr)  # another device
    assert memory.mallocs == 4


def test_a_block_is_not_reused_while_something_refers_to_its_buffer() -> None:
    """[contract 3.3] As arrays over the memory do."""
    allocator = Memory().allocator()
    buffer = allocator.malloc(1000, CPU)
    ptr, array = buffer.ptr, [buffer]
    del buffer
    assert allocator.malloc(1000, CPU).ptr != ptr
    array.clear()
    assert ptr in {allocator.malloc(1000, CPU).ptr for _ in range(2)} | {ptr}


def test_statistics() -> None:
    """[contract 3.3]"""
    allocator = Memory().allocator()
    size = size_class(10_000)
    a, b = allocator.malloc(10_000, CPU), allocator.malloc(10_000, CPU)
    full = {"used": 2 * size, "reserved": 2 * size, "peak_used": 2 * size, "peak_reserved": 2 * size}
    assert allocator.memory_stats(CPU) == full
    del a
    assert allocator.memory_stats(CPU) == full | {"used": size}
    allocator.reset_peak(CPU)
    assert allocator.memory_stats(CPU) == full | {"used": size, "peak_used": size}
    allocator.empty_cache()
    assert allocator.memory_stats(CPU)["reserved"] == size
    assert allocator.memory_stats(ZERO) == dict.fromkeys(full, 0)
    assert b.nbytes == 10_000


def test_exhaustion_empties_the_cache_once_and_tries_again() -> None:
    """[contract 3.3]"""
    memory = Memory(limit=100_000)
    allocator = memory.allocator()
    cached = [allocator.malloc(20_000, CPU) for _ in range(4)]
    del cached
    gc.collect()
    large = allocator.malloc(90_000, CPU)  # fits only without the cached blocks
    assert memory.log[0] == "exhausted"
    assert [what for what, _ in memory.log[1:]] == ["free"] * 4
    assert large.nbytes == 90_000


def test_exhaustion_says_what_is_there() -> None:
    """[contract 3.3]"""
    memory = Memory(limit=100_000)
    allocator = memory.allocator()
    held = allocator.malloc(60_000, CPU)
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.malloc(60_000, CPU)
    error = caught.value
    assert (error.device, error.requested, error.held) == (CPU, 60_000, size_class(held.nbytes))
    assert error.free == 100_000 - size_class(60_000)
    assert memory.log == ["exhausted", "exhausted"]
    assert allocator.malloc(1000, CPU).nbytes == 1000  # and it goes on


def test_a_memory_error_counts_as_exhaustion() -> None:
    """[contract 3.3]"""

    def malloc(nbytes: int) -> int:
        raise MemoryError

    with pytest.raises(OutOfMemoryError, match="free n/a"):
        CachingAllocator(malloc, print, lambda device: None).malloc(100, CPU)


def test_a_misaligned_address_is_refused() -> None:
    """[contract 3.3]"""
    freed: list[int] = []
    allocator = CachingAllocator(lambda n: 1 << 20 | 8, freed.append, lambda device: None)
    with pytest.raises(BackendError, match="0x100008, not a multiple of 64"):
        allocator.malloc(100, CPU)
    assert freed == [0x100008]


def test_many_threads() -> None:
    """[contract 3.10] No block is held twice at one time, and the books balance."""
    memory = Memory()
    allocator = memory.allocator()
    held: set[int] = set()
    clashes: list[int] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        mine: list[Any] = []
        for _ in range(400):
            buffer = allocator.malloc(rng.choice((100, 3000, 50_000)), CPU)
            if buffer.ptr in held:
                clashes.append(buffer.ptr)
            held.add(buffer.ptr)
            mine.append(buffer)
            if len(mine) > 3:
                gone = mine.pop(rng.randrange(3))
                held.discard(gone.ptr)
                del gone
            del buffer
        held.difference_update([b.ptr for b in mine])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not any(t.is_alive() for t in threads)
    assert clashes == []
    stats = allocator.memory_stats(CPU)
    assert stats["used"] == 0
    assert stats["reserved"] == memory.used > 0
    assert memory.mallocs < 60
    allocator.empty_cache()
    assert memory.used == 0


def test_a_finaliser_never_waits_for_the_lock() -> None:
    """[contract 3.3] As when the garbage collector runs inside the allocator."""
    allocator = Memory().allocator()
    buffer = allocator.malloc(1000, CPU)
    ptr = buffer.ptr
    done = threading.Event()

    def drop() -> None:
        nonlocal buffer
        del buffer
        done.set()

    with allocator._lock:
        threading.Thread(target=drop).start()
        assert done.wait(10)
    assert allocator.malloc(1000, CPU).ptr == ptr


def test_a_finaliser_may_run_in_any_thread_and_in_a_cycle() -> None:
    """[contract 3.3]"""
    allocator = Memory().allocator()
    node: dict[str, Any] = {"buffer": allocator.malloc(1000, CPU)}
    node["self"] = node
    del node
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join(10)
    assert allocator.memory_stats(CPU)["used"] == 0


def test_after_close_nothing_is_freed_any_more() -> None:
    """[contract 3.3, 3.11]"""
    memory = Memory()
    allocator = memory.allocator()
    cached, living = allocator.malloc(1000, CPU), allocator.malloc(1000, CPU)
    ptr = living.ptr
    del cached
    allocator.close()
    assert list(memory.live) == [ptr]
    del living
    allocator.empty_cache()
    assert list(memory.live) == [ptr]


FORK = """
import os
from infinitrain.backend import CachingAllocator
from infinitrain.device import CPU
live = {}
def malloc(n):
    live[len(live) * 4096 + 4096] = n
    return len(live) * 4096
allocator = CachingAllocator(malloc, live.pop, lambda device: None)
living, cached = allocator.malloc(1000, CPU), allocator.malloc(1000, CPU)
ptr = cached.ptr
del cached
allocator._lock.acquire()  # a thread that the child does not have
pid = os.fork()
if pid == 0:
    del living
    allocator.empty_cache()
    os._exit(len(live))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
allocator._lock.release()
print(allocator.malloc(1000, CPU).ptr == ptr, len(live))
"""


def test_a_forked_child_frees_nothing() -> None:
    """[contract 3.3]"""
    assert run_python(FORK).split() == ["2", "True", "2"]


# Streams ----------------------------------------------------------------------------------------------------


class Stream:
    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.pending = 0  # work that is not done


class Event:
    stream: Stream | None = None


class Streams(HostRuntime):
    """A device whose streams are done when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.default = Stream(1)

    def current_stream(self, device: Device) -> Stream:
        return self.default

    def create_event(self, timing: bool = False) -> Event:
        return Event()

    def record(self, event: Any, stream: Any) -> None:
        self.log.append(("record", stream.handle))
        event.stream = stream

    def query(self, event: Any) -> bool:
        return bool(event.stream.pending == 0)

    def synchronize(self, target: Any) -> None:
        self.log.append(("synchronize", target))


for name in set(GROUPS["streams"]) - set(vars(Streams)):
    setattr(Streams, name, lambda self, *args: None)


def test_a_stream_reuses_its_own_memory_at_once() -> None:
    """[contract 3.3] In the stream's order the old work comes first."""
    runtime, memory = Streams(), Memory()
    allocator = memory.allocator(runtime)
    stream, other = Stream(7), Stream(8)
    stream.pending = 1
    buffer = allocator.malloc(1000, ZERO, stream)
    allocator.record_use(buffer, stream)
    ptr = buffer.ptr
    del buffer
    assert allocator.malloc(1000, ZERO, other).ptr != ptr
    assert allocator.malloc(1000, ZERO, stream).ptr == ptr
    assert runtime.calls("record") == 0


def test_memory_that_another_stream_used_waits_for_it() -> None:
    """[contract 3.3]"""
    runtime, memory = Streams(), Memory()
    allocator = memory.allocator(runtime)
    stream, other = Stream(7), Stream(8)
    buffer = allocator.malloc(1000, ZERO, stream)
    ptr = buffer.ptr
    other.pending = 1
    allocator.record_use(buffer, other)
    allocator.record_use(buffer, other)
    del buffer
    assert allocator.memory_stats(ZERO)["used"] == 0
    waiting = [allocator.malloc(1000, ZERO, stream) for _ in range(2)]
    assert ptr not in [b.ptr for b in waiting]
    other.pending = 0
    assert allocator.malloc(1000, ZERO, stream).ptr == ptr
    assert [h for name, h in runtime.log if name == "record"] == [8]


def test_without_a_stream_the_current_one_counts() -> None:
    """[contract 3.5]"""
    runtime = Streams()
    allocator = Memory().allocator(runtime)
    ptr = allocator.malloc(1000, ZERO).ptr
    assert allocator.malloc(1000, ZERO, runtime.default).ptr == ptr
    assert allocator.malloc(1000, ZERO, Stream(9)).ptr != ptr


def test_freed_memory_is_out_of_use_and_its_device_current() -> None:
    """[contract 3.3] Blocks are cached while work is under way."""
    runtime, memory = Streams(), Memory()
    allocator = CachingAllocator(
        memory.malloc, lambda ptr: runtime.log.append(("free", runtime.get_device())), memory.info, runtime
    )
    stream, other = Stream(7), Stream(8)
    other.pending = 1
    used = allocator.malloc(1000, ONE, stream)
    allocator.record_use(used, other)
    del used
    runtime.log.clear()
    allocator.empty_cache()
    assert runtime.log == [
        ("set_device", ONE),
        ("synchronize", ONE),
        ("free", ONE),
        ("set_device", ZERO),
    ]
    assert allocator.memory_stats(ONE)["reserved"] == 0
