"""L1: buffers, copies, statistics, out of memory, and an allocator under stress."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from infinitrain_conformance.check import expect, fail, same_bytes
from infinitrain_conformance.marks import decline
from infinitrain_conformance.target import Target

SIZES = (1, 2, 3, 63, 64, 65, 255, 1000, 4096, 65537, (1 << 20) + 13, 40 << 20)


def pattern(seed: int, nbytes: int) -> bytearray:
    """Return random bytes: a constant would hide a shifted copy."""
    return bytearray(np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8).tobytes())


class Memory:
    """The runtime's malloc and memcpy on the device under test, and its current stream."""

    def __init__(self, target: Target) -> None:
        from infinitrain import backend

        self.runtime, self.device, self._backend = target.runtime, target.device, backend

    @property
    def stream(self) -> Any:
        return self.runtime.current_stream(self.device) if self.runtime.has_streams else None

    def malloc(self, nbytes: int, device: Any = None) -> Any:
        self._backend.set_current_device(device or self.device)
        return self.runtime.malloc(nbytes)

    def write(self, buffer: Any, data: Any, offset: int = 0) -> None:
        view = memoryview(data if isinstance(data, bytearray) else bytearray(data))  # core's are writable
        self._backend.set_current_device(buffer.device)
        self.runtime.memcpy(buffer, offset, view, 0, len(view), "H2D")

    def read(self, buffer: Any, nbytes: int, offset: int = 0) -> np.ndarray:
        host = bytearray(b"\xa5" * nbytes)
        self._backend.set_current_device(buffer.device)
        self.runtime.memcpy(memoryview(host), 0, buffer, offset, nbytes, "D2H")
        return np.frombuffer(host, np.uint8)


@pytest.fixture
def memory(target: Target) -> Memory:
    return Memory(target)


def bytes_of(data: Any) -> np.ndarray:
    return np.frombuffer(bytes(data), np.uint8)


@pytest.mark.parametrize("nbytes", [0, *SIZES])
@pytest.mark.contract("3.3", level="L1")
def test_malloc(nbytes: int, memory: Memory, heading: str) -> None:
    buffer = memory.malloc(nbytes)
    expect(heading, buffer.nbytes == nbytes, f"asked for {nbytes} bytes, nbytes is {buffer.nbytes}")
    expect(heading, buffer.device == memory.device, f"the buffer's device is {buffer.device}")
    expect(heading, isinstance(buffer.ptr, int), f"ptr is {buffer.ptr!r}")
    expect(heading, buffer.ptr % 64 == 0, f"ptr {buffer.ptr:#x} is no multiple of 64")


@pytest.mark.contract("3.3", level="L1")
def test_buffers_do_not_overlap(memory: Memory, seed: int, heading: str) -> None:
    """Forty buffers alive at once, half of them of one size, hold forty different patterns."""
    sizes = [1 + 97 * i for i in range(20)] + [4096] * 20
    buffers = [memory.malloc(n) for n in sizes]
    for i, (buffer, n) in enumerate(zip(buffers, sizes, strict=True)):
        memory.write(buffer, pattern(seed + i, n))
    for i, (buffer, n) in enumerate(zip(buffers, sizes, strict=True)):
        same_bytes(heading, f"buffer {i} of 40", memory.read(buffer, n), bytes_of(pattern(seed + i, n)))


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.contract("3.4", level="L1")
def test_round_trip(nbytes: int, memory: Memory, seed: int, heading: str) -> None:
    data = pattern(seed, nbytes)
    buffer = memory.malloc(nbytes)
    memory.write(buffer, data)
    same_bytes(heading, "H2D then D2H", memory.read(buffer, nbytes), bytes_of(data))


@pytest.mark.parametrize("offset", [0, 1, 3, 64, 1000])
@pytest.mark.contract("3.4", level="L1")
def test_offsets(offset: int, memory: Memory, seed: int, heading: str) -> None:
    """Copies at byte offsets on either side change what they should and nothing else."""
    before, data = pattern(seed, 5000), pattern(seed + 1, 777)
    buffer = memory.malloc(5000)
    memory.write(buffer, before)
    source = memoryview(bytearray(b"\x11" * 13) + data)
    memory.runtime.memcpy(buffer, offset, source, 13, 777, "H2D")
    want = bytearray(before)
    want[offset : offset + 777] = data
    same_bytes(
        heading, f"H2D to offset {offset} from host offset 13", memory.read(buffer, 5000), bytes_of(want)
    )
    host = bytearray(b"\x22" * 900)
    memory.runtime.memcpy(memoryview(host), 50, buffer, offset, 777, "D2H")
    expected = b"\x22" * 50 + bytes(data) + b"\x22" * 73
    same_bytes(heading, f"D2H from offset {offset} to host offset 50", bytes_of(host), bytes_of(expected))


@pytest.mark.contract("3.4", level="L1")
def test_d2d(memory: Memory, seed: int, heading: str) -> None:
    data, before = pattern(seed, 10_000), pattern(seed + 1, 10_000)
    source, target = memory.malloc(10_000), memory.malloc(10_000)
    memory.write(source, data)
    memory.write(target, before)
    memory.runtime.memcpy(target, 100, source, 7, 5001, "D2D")
    want = bytearray(before)
    want[100:5101] = data[7:5008]
    same_bytes(heading, "D2D, offsets 100 and 7", memory.read(target, 10_000), bytes_of(want))
    same_bytes(heading, "the source of D2D", memory.read(source, 10_000), bytes_of(data))


@pytest.mark.contract("3.4", level="L1")
def test_empty_copy(memory: Memory, seed: int, heading: str) -> None:
    data = pattern(seed, 64)
    buffer = memory.malloc(64)
    memory.write(buffer, data)
    memory.runtime.memcpy(buffer, 64, memoryview(bytearray()), 0, 0, "H2D")
    same_bytes(heading, "after a copy of no bytes", memory.read(buffer, 64), bytes_of(data))


@pytest.mark.contract("3.4", level="L1")
def test_h2d_source_may_be_overwritten(memory: Memory, seed: int, heading: str) -> None:
    """The host's bytes change right after memcpy returned: the device has the old ones."""
    for i in range(8):
        data = pattern(seed + i, 8 << 20)
        want = bytes_of(data)
        buffer = memory.malloc(len(data))
        memory.write(buffer, data)
        data[:] = b"\xee" * len(data)
        same_bytes(
            heading, f"copy {i} of 8, source overwritten at once", memory.read(buffer, len(want)), want
        )


@pytest.mark.contract("3.4", level="L1")
def test_d2h_is_done_on_return(memory: Memory, target: Target, heading: str) -> None:
    """A copy to the host comes after the stream's earlier kernels, and the host may read it at once."""
    import infinitrain as it

    x = it.zeros(4 << 20, device=target.device)
    for i in range(20):
        x.fill_(i + 1)
        got = x.numpy()
        expect(
            heading,
            (got == i + 1).all(),
            f"after fill {i + 1}: {int((got != i + 1).sum()):,} elements are older",
        )


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int64", "bfloat16", "float16", "float32", "float64"]
)
@pytest.mark.contract("3.4", level="L1")
def test_tensor_round_trip(dtype: str, target: Target, seed: int, heading: str) -> None:
    import infinitrain as it
    from infinitrain.dtype import as_dtype

    kind = as_dtype(dtype)
    rng = np.random.default_rng(seed)
    for shape in ((), (1,), (0, 3), (5, 7), (2, 1, 3, 4)):
        array = (rng.standard_normal(shape) * 100).astype(kind.numpy)
        got = it.from_numpy(array, target.device).numpy()
        same_bytes(heading, f"{dtype}{list(shape)}", got, np.asarray(array))


@pytest.mark.contract("3.9", level="L1")
def test_numpy_is_a_copy(target: Target, heading: str) -> None:
    import infinitrain as it

    x = it.from_numpy(np.arange(10, dtype=np.float32), target.device)
    host = x.numpy()
    host[:] = -1
    expect(heading, x.numpy().tolist() == list(range(10)), "writing to what numpy() gave changed the tensor")


@pytest.mark.contract("3.9", level="L1")
def test_host_window(target: Target, heading: str) -> None:
    """Arrays of a device that is not host visible are refused outside kernels; of a visible one they are its
    memory.
    """
    import infinitrain as it
    from infinitrain.errors import InfiniTrainError

    x = it.from_numpy(np.arange(6, dtype=np.float32), target.device)
    if target.runtime.host_visible:
        expect(heading, np.asarray(x.array).tolist() == list(range(6)), f"array is {x.array!r}")
        return
    if target.runtime.kernel_window is None:
        return  # such as CuPy's: an array is a handle, valid at any time
    try:
        found = x.array
    except InfiniTrainError:
        return
    fail(heading, [f"tensor.array outside a kernel gave {found!r}, though the device is not host_visible"])


@pytest.mark.contract("3.9", level="L1", optional=True)
def test_native_array_and_adopt_are_inverse(target: Target, memory: Memory, heading: str) -> None:
    """What adopt returns holds the array's elements; of a host visible device it is the array's memory."""
    import infinitrain as it
    from infinitrain.dtype import float32
    from infinitrain.errors import NotSupportedError

    runtime = target.runtime
    if not runtime.has_arrays:
        raise NotSupportedError("native_array and adopt")
    if runtime.kernel_window is not None and not runtime.host_visible:
        decline("arrays live inside kernels only")
    x = it.from_numpy(np.arange(12, dtype=np.float32), target.device)
    buffer, offset = runtime.adopt(runtime.native_array(x.buffer, x.offset, (3, 4), float32))
    expect(heading, buffer.device == target.device, f"the adopted buffer's device is {buffer.device}")
    expect(heading, buffer.ptr % 64 == 0, f"ptr {buffer.ptr:#x} is no multiple of 64")
    expect(heading, buffer.nbytes >= offset + 48, f"48 bytes from {offset} on, nbytes is {buffer.nbytes}")
    want = np.arange(12, dtype=np.float32)
    same_bytes(heading, "the adopted array", memory.read(buffer, 48, offset).view(np.float32), want)
    if runtime.host_visible:  # elsewhere a copy is right too, because core keeps no array
        expect(
            heading,
            buffer.ptr + offset == x.ptr,
            f"adopt found {buffer.ptr + offset:#x}, the tensor is at {x.ptr:#x}",
        )


@pytest.mark.contract("3.7", level="L1")
def test_statistics(memory: Memory, heading: str) -> None:
    """None or plausible, and following what is allocated: 0 for unknown is a lie."""
    runtime, names = memory.runtime, ("used", "reserved", "peak_used", "peak_reserved")
    before = runtime.memory_stats(memory.device)
    expect(heading, set(names) <= set(before), f"memory_stats has {sorted(before)}")
    runtime.reset_peak(memory.device)
    kept = [memory.malloc(16 << 20) for _ in range(4)]
    for buffer in kept:
        memory.write(buffer, bytearray(b"\x01" * (16 << 20)))
    now = runtime.memory_stats(memory.device)
    for name in names:
        value = now[name]
        expect(
            heading,
            value is None or (isinstance(value, int) and value >= 64 << 20),
            f"{name} is {value} with 64 MiB held",
        )
    if now["used"] is not None and now["peak_used"] is not None:
        expect(
            heading,
            now["peak_used"] >= now["used"],
            f"peak_used {now['peak_used']} is below used {now['used']}",
        )
    if now["used"] is not None and now["reserved"] is not None:
        expect(
            heading, now["reserved"] >= now["used"], f"reserved {now['reserved']} is below used {now['used']}"
        )
    # A provider that cannot tell used from reserved counts what it keeps for reuse.
    if before["used"] is not None and now["used"] is not None and now["used"] != now["reserved"]:
        grown = now["used"] - before["used"]
        expect(heading, 48 << 20 <= grown <= 160 << 20, f"used grew by {grown >> 20} MiB for 64 MiB")
    del kept, buffer
    gc.collect()
    runtime.empty_cache()
    runtime.reset_peak(memory.device)
    after = runtime.memory_stats(memory.device)
    followed = None not in (now["used"], after["used"]) and now["used"] - after["used"] >= 48 << 20
    if followed and after["peak_used"] is not None:
        over = after["peak_used"] - after["used"]
        expect(heading, over < 32 << 20, f"after reset_peak, peak_used is still {over >> 20} MiB above used")


@pytest.mark.contract("3.3", level="L1")
def test_memory_comes_back(memory: Memory, heading: str) -> None:
    """Memory is asked for again and again, one buffer at a time: what is dropped is released."""
    gc.collect()
    before = memory.runtime.memory_stats(memory.device)["used"]
    for i in range(200 if before is None else 24):
        buffer = memory.malloc(64 << 20)
        if i % 8 == 0:
            memory.write(buffer, b"\x07" * 100)
        del buffer
    used = memory.runtime.memory_stats(memory.device)["used"]
    if before is not None and used is not None:
        grown = (used - before) >> 20
        expect(heading, grown < 512, f"{grown} MiB more are in use after all was dropped")


@pytest.mark.contract("3.3", level="L1")
def test_out_of_memory(memory: Memory, seed: int, heading: str) -> None:
    from infinitrain.errors import OutOfMemoryError

    with pytest.raises(OutOfMemoryError) as caught:
        memory.malloc(1 << 50)
    error = caught.value
    expect(heading, error.requested == 1 << 50, f"requested is {error.requested}")
    expect(heading, str(memory.device) in str(error), f"the error does not name the device: {error}")
    data = pattern(seed, 1000)
    buffer = memory.malloc(1000)
    memory.write(buffer, data)
    same_bytes(heading, "after out of memory", memory.read(buffer, 1000), bytes_of(data))


def in_thread(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns in another thread; raise what it raises."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


@pytest.mark.contract("3.3", level="L1")
def test_release_on_another_thread(memory: Memory, seed: int, heading: str) -> None:
    """Memory from one thread is used and dropped on another, and allocated again here."""
    for i in range(32):
        data = pattern(seed + i, 100_000)
        holder = [memory.malloc(100_000)]
        memory.write(holder[0], data)

        def use(holder: list[Any] = holder) -> np.ndarray:
            got = memory.read(holder[0], 100_000)
            holder.clear()
            return got

        same_bytes(heading, f"round {i}, read on another thread", in_thread(use), bytes_of(data))


@pytest.mark.contract("3.10", level="L1")
def test_stress(memory: Memory, seed: int, heading: str) -> None:
    """Eight threads, 64 rounds each of allocate, copy in, copy out, release."""
    wrong: list[str] = []
    gate = threading.Barrier(8)

    def work(worker: int) -> None:
        try:
            rng = np.random.default_rng(seed + worker)
            gate.wait()
            kept: list[tuple[Any, bytearray]] = []
            for i in range(64):
                data = pattern(int(rng.integers(1 << 30)), int(rng.integers(1, 200_000)))
                buffer = memory.malloc(len(data))
                memory.write(buffer, data)
                kept.append((buffer, data))
                if len(kept) > 5:
                    kept.pop(int(rng.integers(len(kept))))
                for held, expected in kept[-2:]:
                    if memory.read(held, len(expected)).tobytes() != bytes(expected):
                        wrong.append(f"thread {worker}, round {i}: {len(expected):,} bytes came back changed")
        except BaseException as error:
            wrong.append(f"thread {worker}: {type(error).__name__}: {error}")
            gate.abort()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        fail(heading, wrong[:8])
