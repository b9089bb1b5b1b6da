"""Every fault of the runtime fails a probe that the sound device passes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import D2D, D2H, H2D, OPS, DeviceGuard, TensorSpec, stream_scope
from infinitrain.device import Device
from infinitrain.errors import OutOfMemoryError
from infinitrain_fake.faults import FAULTS

fill = OPS["Fill"].call
values = np.random.default_rng(5).normal(0, 1, 37).astype(np.float32)
PROBES = {}


def probe(*faults):
    def declare(fn):
        PROBES.update(dict.fromkeys(faults, fn))
        return fn

    return declare


def others_read(runtime, order):
    """Write on the default stream, order, and tell whether another stream reads what was written."""
    device = Device.parse("fake")
    x = it.tensor(values, device="fake")
    runtime.synchronize_event(_recorded(runtime, device))
    fill(x, 3.0)
    other = runtime.create_stream()
    order(device, other)
    with stream_scope(other, device):
        return bool((x.numpy() == 3.0).all())


def _recorded(runtime, device):
    event = runtime.create_event()
    runtime.record(event, runtime.current_stream(device))
    return event


@probe("wait_no_effect", "record_no_effect")
def waits(runtime):
    return others_read(runtime, lambda d, other: runtime.wait(other, _recorded(runtime, d)))


@probe("synchronize_no_effect")
def synchronizes(runtime):
    return others_read(runtime, lambda d, other: runtime.synchronize(d))


@probe("synchronize_event_no_effect")
def synchronizes_event(runtime):
    return others_read(runtime, lambda d, other: runtime.synchronize_event(_recorded(runtime, d)))


@probe("query_always_true")
def queries(runtime):
    def poll(device, other):
        event = _recorded(runtime, device)
        while not runtime.query(event):
            pass

    return others_read(runtime, poll)


@probe("synchronize_default_stream_only")
def synchronizes_created_streams(runtime):
    device = Device.parse("fake")
    x = it.tensor(values, device="fake")
    side = runtime.create_stream()
    runtime.wait(side, _recorded(runtime, device))
    with stream_scope(side, device):
        fill(x, 3.0)
    runtime.synchronize(device)
    return bool((x.numpy() == 3.0).all())


@probe("stream_forgotten")
def current_stream_is_the_one_set(runtime):
    device, stream = Device.parse("fake"), runtime.create_stream()
    with stream_scope(stream, device):
        return runtime.current_stream(device) is stream


@probe("stream_identity_lost")
def consecutive_kernels_share_a_stream(runtime):
    x = it.tensor(values, device="fake")
    fill(x, 2.0)
    return bool((it.ops.add(x, x).numpy() == 4.0).all())


@probe("streams_shared_by_threads")
def threads_have_streams_of_their_own(runtime):
    device, seen = Device.parse("fake"), []
    with stream_scope(runtime.create_stream(), device):
        thread = threading.Thread(target=lambda: seen.append(runtime.current_stream(device)))
        thread.start()
        thread.join()
        return seen[0] is not runtime.current_stream(device)


@probe("elapsed_in_seconds")
def elapsed_is_in_milliseconds(runtime):
    import time

    start, end = runtime.create_event(timing=True), runtime.create_event(timing=True)
    runtime.record(start, runtime.current_stream(Device.parse("fake")))
    time.sleep(0.01)
    runtime.record(end, runtime.current_stream(Device.parse("fake")))
    return runtime.elapsed_ms(start, end) >= 9


@probe("h2d_reads_source_late")
def source_may_be_overwritten(runtime):
    host = bytearray(values.tobytes())
    buffer = runtime.malloc(len(host))
    runtime.memcpy(buffer, 0, memoryview(host), 0, len(host), H2D)
    host[:] = bytes(len(host))
    return download(runtime, buffer) == values.tobytes()


@probe("h2d_truncated")
def uploads_are_whole(runtime):
    return bool((it.tensor(values, device="fake").numpy() == values).all())


@probe("d2h_offset_ignored")
def downloads_start_at_the_offset(runtime):
    x = it.tensor(values, device="fake")
    return bool((x.view_as(TensorSpec.of((3,), x.dtype, x.device), 8).numpy() == values[2:5]).all())


@probe("d2d_offset_ignored")
def device_copies_go_to_the_offset(runtime):
    buffer = upload(runtime, values.tobytes())
    runtime.memcpy(buffer, 40, buffer, 0, 8, D2D)
    return download(runtime, buffer)[40:48] == values.tobytes()[:8]


@probe("d2h_before_kernel")
def downloads_come_after_kernels(runtime):
    x = it.tensor(values, device="fake")
    return bool((it.ops.add(x, x).numpy() == values + values).all())


@probe("peer_copy_stays")
def copies_reach_the_other_device(runtime):
    return bool((it.tensor(values, device="fake").to("fake:1").numpy() == values).all())


@probe("device_count_lies")
def devices_are_as_many_as_counted(runtime):
    last = Device.parse(f"fake:{runtime.device_count() - 1}")
    with DeviceGuard(last):
        return runtime.get_device() is last and runtime.malloc(8).device is last


@probe("device_shared_by_threads", "get_device_always_first")
def devices_are_current_per_thread(runtime):
    seen = []
    runtime.set_device(Device.parse("fake:1"))
    thread = threading.Thread(target=lambda: (runtime.set_device(Device.parse("fake:0")), seen.append(1)))
    thread.start()
    thread.join()
    got = runtime.get_device()
    runtime.set_device(Device.parse("fake:0"))
    return got is Device.parse("fake:1") and seen == [1]


@probe("malloc_changes_device")
def malloc_leaves_the_device(runtime):
    return [runtime.malloc(8).device.index for _ in range(3)] == [0, 0, 0]


@probe("malloc_ignores_current_device")
def malloc_follows_the_device(runtime):
    with DeviceGuard("fake:1"):
        return runtime.malloc(8).device is Device.parse("fake:1")


@probe("ptr_misaligned")
def buffers_are_aligned(runtime):
    return runtime.malloc(8).ptr % 64 == 0


@probe("malloc_zero_refused")
def empty_buffers_exist(runtime):
    return runtime.malloc(0).nbytes == 0


@probe("malloc_overlaps")
def buffers_are_disjoint(runtime):
    held = [it.full((5,), float(i), device="fake") for i in range(9)]
    return [x.tolist()[0] for x in held] == list(range(9))


@probe("buffer_nbytes_rounded")
def buffers_are_as_large_as_asked_for(runtime):
    return runtime.malloc(100).nbytes == 100


@probe("out_of_memory_unnamed")
def exhaustion_is_named(runtime):
    try:
        runtime.malloc(1 << 50)
    except OutOfMemoryError as error:
        return error.requested == 1 << 50


@probe("released_memory_is_kept")
def memory_comes_back(runtime):
    device = Device.parse("fake")
    before = runtime.memory_stats(device)["used"]
    buffer = runtime.malloc(1000)
    del buffer
    return runtime.memory_stats(device)["used"] == before


@probe("memory_stats_zero", "peak_never_reset")
def statistics_follow_memory(runtime):
    device = Device.parse("fake")
    buffer = runtime.malloc(1000)
    peak = runtime.memory_stats(device)["peak_used"]
    del buffer
    runtime.reset_peak(device)
    return peak == 1000 and runtime.memory_stats(device)["peak_used"] == 0


@probe("options_ignored")
def options_count(runtime):
    return runtime.device_count() == 3


@probe("adopt_reuses_memory")
def results_do_not_alias(runtime):
    x = it.tensor(values, device="fake")
    held = [it.ops.add(x, it.full((37,), float(i), device="fake")) for i in range(4)]
    return all(np.allclose(h.numpy(), values + np.float32(i)) for i, h in enumerate(held))


@probe("native_array_offset_ignored")
def kernels_see_views(runtime):
    x = it.tensor(values, device="fake")
    fill(x.view_as(TensorSpec.of((3,), x.dtype, x.device), 8), 9.0)
    want = values.copy()
    want[2:5] = 9.0
    return bool((x.numpy() == want).all())


def upload(runtime, data):
    buffer = runtime.malloc(len(data))
    runtime.memcpy(buffer, 0, memoryview(data), 0, len(data), H2D)
    return buffer


def download(runtime, buffer):
    host = bytearray(buffer.nbytes)
    runtime.memcpy(memoryview(host), 0, buffer, 0, buffer.nbytes, D2H)
    return bytes(host)


@pytest.mark.parametrize("name", sorted(n for n, f in FAULTS.items() if f.kind == "runtime"))
def test_the_fault_fails_its_probe(fake, name):
    runtime = fake(name, devices=3)
    try:
        passed = PROBES[name](runtime)
    except (ValueError, MemoryError):  # what the faulty device answers, not a check of the fake
        passed = False
    assert not passed


@pytest.mark.parametrize(
    "check", sorted(set(PROBES.values()), key=lambda f: f.__name__), ids=lambda f: f.__name__
)
def test_the_sound_device_passes(fake, check):
    assert check(fake(devices=3)) is True
