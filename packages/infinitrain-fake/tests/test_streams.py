"""Streams, events and the order of accesses: a missing wait is an error every time."""

import threading

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import D2H, OPS, DeviceGuard, stream_scope
from infinitrain.device import Device
from infinitrain.errors import BackendError, DeviceMismatchError
from infinitrain_fake.errors import DeviceMemoryError, RaceError

fill = OPS["Fill"].call


@pytest.fixture
def two(fake):
    """A runtime, device 0, its default stream and another."""
    runtime, device = fake(), Device.parse("fake")
    return runtime, device, runtime.current_stream(device), runtime.create_stream()


def order(runtime, first, second):
    event = runtime.create_event()
    runtime.record(event, first)
    runtime.wait(second, event)


def test_streams_have_handles_and_are_current_per_thread(two):
    runtime, device, default, other = two
    assert isinstance(other.handle, int)
    assert other.handle != default.handle
    seen = []
    with stream_scope(other, device):
        assert runtime.current_stream(device) is other
        thread = threading.Thread(target=lambda: seen.append(runtime.current_stream(device)))
        thread.start()
        thread.join()
    assert seen == [default]
    assert runtime.current_stream(device) is default


def test_read_after_write_without_a_wait_names_ops_streams_and_remedy(two):
    runtime, device, default, other = two
    x = it.zeros(4, device="fake")
    runtime.synchronize(device)
    fill(x, 2.0)
    wanted = (
        rf"race on buffer #\d+ \(16 bytes on fake:0.*memcpy D2H on stream {other.handle} of fake:0 reads "
        rf"what Fill on stream {default.handle} of fake:0 wrote.*Missing: record an event on stream "
        rf"{default.handle} after Fill and wait\(stream {other.handle}, event\) before memcpy D2H.*3.6"
    )
    for _ in range(2):  # the same error each time
        with stream_scope(other, device), pytest.raises(RaceError, match=wanted):
            x.numpy()
    order(runtime, default, other)
    with stream_scope(other, device):
        assert x.tolist() == [2.0] * 4


def test_write_after_write_and_write_after_read_need_a_wait(two):
    runtime, device, _, other = two
    x, y = it.zeros(4, device="fake"), it.ones(4, device="fake")
    with (
        stream_scope(other, device),
        pytest.raises(RaceError, match=r"Fill .* overwrites what Fill .* wrote"),
    ):
        fill(x, 1.0)
    runtime.synchronize(device)
    OPS["AccumulateGrad"].call(y, 1.0, x)  # reads y on the default stream
    with (
        stream_scope(other, device),
        pytest.raises(RaceError, match=r"Fill .* overwrites what AccumulateGrad .* reads"),
    ):
        fill(y, 1.0)


@pytest.mark.parametrize(
    "how", ["wait", "synchronize stream", "synchronize device", "synchronize event", "query", "copy"]
)
def test_each_way_to_order_is_enough(two, how):
    runtime, device, default, other = two
    x = it.zeros(4, device="fake")
    event = runtime.create_event()
    runtime.record(event, default)
    if how == "wait":
        runtime.wait(other, event)
    elif how == "synchronize stream":
        runtime.synchronize(default)
    elif how == "synchronize device":
        runtime.synchronize(device)
    elif how == "synchronize event":
        runtime.synchronize_event(event)
    elif how == "query":
        assert [runtime.query(event), runtime.query(event)] == [False, True]
    else:
        x.numpy()
    with stream_scope(other, device):
        fill(x, 3.0)
        assert x.tolist() == [3.0] * 4


@pytest.mark.parametrize(
    "how", ["event recorded too early", "event never recorded", "wait the wrong way round"]
)
def test_what_does_not_order_is_not_enough(two, how):
    runtime, device, default, other = two
    event = runtime.create_event()
    if how == "event recorded too early":
        runtime.record(event, default)
    x = it.zeros(4, device="fake")
    if how == "wait the wrong way round":
        order(runtime, other, default)
    runtime.wait(other, event)
    with stream_scope(other, device), pytest.raises(RaceError):
        fill(x, 3.0)


def test_order_is_transitive_over_a_third_stream(two):
    runtime, device, default, other = two
    third = runtime.create_stream()
    x = it.zeros(4, device="fake")
    order(runtime, default, third)
    order(runtime, third, other)
    with stream_scope(other, device):
        fill(x, 1.0)


def test_disjoint_parts_of_one_buffer_do_not_race(two):
    from infinitrain.backend import TensorSpec

    runtime, device, _, other = two
    flat = it.zeros(8, device="fake")
    runtime.synchronize(device)
    halves = [flat.view_as(TensorSpec.of((4,), flat.dtype, device), o) for o in (0, 16)]
    fill(halves[0], 1.0)
    with stream_scope(other, device):
        fill(halves[1], 2.0)
        with pytest.raises(RaceError):
            fill(halves[0], 2.0)


def test_a_view_reads_nothing_and_its_use_does(two):
    runtime, device, default, other = two
    x = it.zeros(2, 4, device="fake")
    with stream_scope(other, device):
        view = OPS["NoOpForward"].call(x, (8,))
        with pytest.raises(RaceError, match=r"Fill .* overwrites what Fill"):
            fill(view, 2.0)
    order(runtime, default, other)
    with stream_scope(other, device):
        fill(view, 2.0)
        assert x.tolist() == [[2.0] * 4] * 2


def test_memory_is_reused_only_after_the_streams_that_used_it(two):
    runtime, device, default, other = two
    x = it.zeros(16, device="fake")
    address = x.ptr
    order(runtime, default, other)
    with stream_scope(other, device):
        OPS["Fill"].call(x, 5.0)
    del x
    assert it.empty(16, device="fake").ptr != address
    order(runtime, other, default)
    held = [it.empty(16, device="fake") for _ in range(3)]
    assert address in [h.ptr for h in held]
    fill(held[[h.ptr for h in held].index(address)], 1.0)


def test_a_use_that_nobody_recorded_is_a_race_after_reuse(two):
    runtime, device, default, other = two
    buffer = runtime.malloc(64)
    order(runtime, default, other)
    runtime.memcpy(memoryview(bytearray(64)), 0, buffer, 0, 64, D2H, default)
    x = it.zeros(16, device="fake")
    runtime.synchronize(device)
    with stream_scope(other, device):  # the window sees the read; record_use is left out
        from infinitrain_fake.window import Window

        with Window(runtime, "Peek", [x], []):
            pass
    block = x.buffer.block("test")
    block.uses.pop(other, None)
    address = x.ptr
    del x
    y = it.empty(16, device="fake")
    assert y.ptr == address
    with pytest.raises(RaceError, match=r"Fill .* overwrites what Peek .* reads"):
        fill(y, 1.0)


def test_elapsed_time_is_in_milliseconds(two):
    import time

    runtime, _, default, _ = two
    start, end = runtime.create_event(timing=True), runtime.create_event(timing=True)
    runtime.record(start, default)
    time.sleep(0.02)
    runtime.record(end, default)
    assert 15 < runtime.elapsed_ms(start, end) < 5000
    with pytest.raises(BackendError, match="timing=True"):
        runtime.elapsed_ms(start, runtime.create_event(timing=True))
    plain = runtime.create_event()
    runtime.record(plain, default)
    with pytest.raises(BackendError, match="timing=True"):
        runtime.elapsed_ms(start, plain)


def test_a_stream_of_another_device_is_refused(two):
    runtime, _, _, other = two
    x = it.zeros(4, device="fake:1")
    with pytest.raises(
        DeviceMemoryError,
        match=rf"memcpy D2H on stream {other.handle} of fake:0 between buffer #\d+ \(16 bytes on fake:1",
    ):
        runtime.memcpy(memoryview(bytearray(16)), 0, x.buffer, 0, 16, D2H, other)
    with DeviceGuard("fake:1"):
        assert runtime.create_stream().device is x.device


def test_a_kernel_on_the_wrong_device_is_refused(two):
    runtime, device, _, _ = two
    x = it.zeros(4, device="fake:1")
    runtime.set_device(device)
    with (
        pytest.raises(
            DeviceMismatchError, match=r"Fill runs on fake:0 and got buffer #\d+ \(16 bytes on fake:1"
        ),
        runtime.kernel_window("Fill", [], [x]),
    ):
        pass
    runtime.set_device(x.device)
    with runtime.kernel_window("Fill", [], [x]):
        x.array[...] = 4.0
    assert x.tolist() == [4.0] * 4


def test_the_current_device_is_per_thread_and_kernels_follow_their_tensors(two):
    runtime, device, _, _ = two
    with DeviceGuard("fake:1"):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(runtime.get_device()))
        thread.start()
        thread.join()
        assert seen == [device]
        x = it.full((3,), 2.0, device="fake:0")
        assert it.ops.add(x, x).tolist() == [4.0] * 3


def test_copies_between_devices_are_ordered_on_both_sides(two):
    x = it.full((1000,), 2.0, device="fake:0")
    y = x.to("fake:1")
    fill(x, 3.0)
    np.testing.assert_array_equal(y.numpy(), np.full(1000, 2.0))
    np.testing.assert_array_equal(x.to("fake:1").numpy(), np.full(1000, 3.0))
