"""Buffers, poison, guards, release, exhaustion, statistics and leaks of device memory."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

import infinitrain as it
import infinitrain_fake
from infinitrain.backend import D2H, H2D, DeviceGuard, get_device_guard_impl
from infinitrain.device import Device, DeviceType
from infinitrain.errors import OutOfMemoryError
from infinitrain_fake.errors import DeviceMemoryError
from infinitrain_fake.memory import GUARD


def read(runtime, buffer, nbytes, offset=0):
    host = bytearray(nbytes)
    runtime.memcpy(memoryview(host), 0, buffer, offset, nbytes, D2H)
    return bytes(host)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_fresh_memory_is_nan_in_every_floating_dtype(fake, dtype):
    fake()
    assert np.isnan(it.empty(5, 3, dtype=dtype, device="fake").numpy().astype(np.float64)).all()


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_fresh_memory_is_huge_in_every_wide_integer_dtype(fake, dtype):
    fake()
    values = it.empty(5, 3, dtype=dtype, device="fake").numpy()
    assert (values >= np.iinfo(dtype).max // 4).all()


def test_released_memory_is_poisoned_before_it_is_used_again(fake):
    fake()
    x = it.full((33,), 7.0, device="fake")
    address = x.ptr
    del x
    y = it.empty(33, device="fake")
    assert y.ptr == address
    assert np.isnan(y.numpy()).all()


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000])
def test_buffers_are_aligned_disjoint_and_not_the_hosts(fake, nbytes):
    runtime = fake()
    a, b = runtime.malloc(nbytes), runtime.malloc(nbytes)
    assert a.nbytes == nbytes
    assert a.ptr % 64 == b.ptr % 64 == 0
    assert abs(a.ptr - b.ptr) >= max(nbytes, 1)
    assert a.ptr >> 47 not in (0, (1 << 17) - 1)  # no address of a user or kernel process on x86-64


@pytest.mark.parametrize("nbytes", [-1, 1.5])
def test_malloc_refuses_what_is_no_size(fake, nbytes):
    runtime = fake()
    with pytest.raises(DeviceMemoryError, match="a number of bytes"):
        runtime.malloc(nbytes)


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 4), (0, 101), (100, 1), (97, 4)])
def test_copies_out_of_bounds_are_refused(fake, offset, nbytes):
    runtime = fake()
    buffer = runtime.malloc(100)
    with pytest.raises(
        DeviceMemoryError, match=r"out of bounds: bytes .* of buffer #\d+ \(100 bytes on fake:0"
    ):
        runtime.memcpy(buffer, offset, memoryview(bytes(200)), 0, nbytes, H2D)
    with pytest.raises(DeviceMemoryError, match="out of bounds"):
        runtime.memcpy(memoryview(bytearray(3)), 0, buffer, 0, 4, D2H)
    runtime.memcpy(buffer, 96, memoryview(bytes(range(4))), 0, 4, H2D)
    assert read(runtime, buffer, 4, 96) == bytes(range(4))


def test_a_write_next_to_a_buffer_is_found_when_it_is_released(fake):
    runtime = fake()
    buffer = runtime.malloc(40)
    block = buffer.block("test")
    block.memory[len(GUARD) + 40] = 0  # the first byte behind it, as a kernel with a wrong bound would
    del buffer
    with pytest.raises(DeviceMemoryError, match=r"wrote outside buffer #\d+ \(40 bytes on fake:0"):
        runtime.synchronize(Device.parse("fake"))
    runtime.synchronize(Device.parse("fake"))


def test_use_after_release_and_double_release(fake):
    runtime = fake()
    buffer = runtime.malloc(24)
    read(runtime, buffer, 24)
    buffer.release()
    with pytest.raises(
        DeviceMemoryError, match=r"memcpy D2H uses a buffer of 24 bytes on fake:0 after its release"
    ):
        read(runtime, buffer, 24)
    with pytest.raises(DeviceMemoryError, match=r"release\(\) uses a buffer of 24 bytes"):
        buffer.release()
    with pytest.raises(DeviceMemoryError, match="ptr uses"):
        _ = buffer.ptr


def test_exhaustion_empties_the_cache_once_and_names_sizes(fake):
    runtime = fake(memory_mb=2)
    a = runtime.malloc(1 << 20)
    del a
    b = runtime.malloc((1 << 20) + (1 << 19))  # fits only without the cached block
    with pytest.raises(
        OutOfMemoryError, match=r"fake:0: asked for 1.0 MiB, free 0.5 MiB, held by this process 1.5"
    ) as e:
        runtime.malloc(1 << 20)
    assert (e.value.requested, e.value.free, e.value.held) == (1 << 20, 1 << 19, 3 << 19)
    del b
    runtime.malloc(1 << 20)


def test_statistics_count_what_is_used_and_reserved(fake):
    runtime, device = fake(), Device.parse("fake")
    a, b = runtime.malloc(1000), runtime.malloc(1)
    assert runtime.memory_stats(device) == {
        "used": 1001,
        "reserved": 1088,
        "peak_used": 1001,
        "peak_reserved": 1088,
    }
    del a
    assert runtime.memory_stats(device) == {
        "used": 1,
        "reserved": 1088,
        "peak_used": 1001,
        "peak_reserved": 1088,
    }
    runtime.empty_cache()
    runtime.reset_peak(device)
    assert runtime.memory_stats(device) == {"used": 1, "reserved": 64, "peak_used": 1, "peak_reserved": 64}
    assert runtime.memory_stats(Device.parse("fake:1"))["used"] == 0
    del b


def test_buffers_may_be_dropped_by_any_thread_and_after_shutdown(fake):
    runtime = fake()
    box = [runtime.malloc(10), runtime.malloc(10)]
    with DeviceGuard("fake:1"):
        thread = threading.Thread(target=box.pop)
        thread.start()
        thread.join()
    assert runtime.memory_stats(Device.parse("fake"))["used"] == 10
    runtime.shutdown()
    with pytest.raises(DeviceMemoryError, match="after shutdown"):
        _ = box[0].ptr
    box.clear()


def test_leaks_name_op_size_and_device(fake):
    fake()
    x = it.ones(3, 4, device="fake:1")
    y = it.ops.linear(x, x)
    lines = infinitrain_fake.leak_report().splitlines()
    assert len(lines) == 2
    assert "(48 bytes on fake:1, allocated by malloc)" in lines[0]
    assert "(36 bytes on fake:1, allocated by LinearForward)" in lines[1]
    del x, y
    gc.collect()
    assert infinitrain_fake.leak_report() == ""


@pytest.mark.parametrize("leak", [True, False])
def test_leaks_at_exit_are_an_error_when_asked_for(leak):
    code = (
        "import infinitrain as it, infinitrain_fake\n"
        "infinitrain_fake.register_backend()\n"
        "x = it.ones(3, device='fake')\n" + ("" if leak else "del x\n")
    )
    env = {**__import__("os").environ, "INFINITRAIN_FAKE_LEAKS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert ("leaked device memory" in done.stderr and "(12 bytes on fake:0" in done.stderr) is leak
    assert (done.stderr == "") is not leak


def test_a_forked_child_is_refused_and_may_drop_buffers(fake):
    import os

    runtime = fake()
    box = [runtime.malloc(8)]
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            box.clear()
            runtime.malloc(8)
            os.write(write_end, b"no error")
        except Exception as error:
            os.write(write_end, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"process that has forked" in os.read(read_end, 1000)
    assert get_device_guard_impl(DeviceType.PRIVATEUSE1).malloc(8).nbytes == 8
