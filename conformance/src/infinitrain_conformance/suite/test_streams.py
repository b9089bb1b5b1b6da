"""L1: streams and events. Destinations are poisoned, so that work done too early shows as poison."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from infinitrain_conformance.check import expect, fail
from infinitrain_conformance.target import Target

COUNT = 1 << 20
ROUNDS = 25
POISON = -7.0


@pytest.fixture
def streams(target: Target) -> tuple[Any, Any]:
    """Two new streams of the device."""
    from infinitrain import backend
    from infinitrain.errors import NotSupportedError

    runtime = target.runtime
    if not runtime.has_streams:
        raise NotSupportedError("streams")
    backend.set_current_device(target.device)
    return runtime.create_stream(), runtime.create_stream()


def settled(target: Target, value: float = POISON, count: int = COUNT) -> Any:
    """Return a tensor that holds ``value``, all work done."""
    import infinitrain as it

    x = it.full((count,), value, device=target.device)
    it.backend.synchronize(target.device)
    return x


def produce(x: Any, last: float) -> None:
    """Write x many times, ``last`` at the end: a consumer that does not wait reads something earlier."""
    for i in range(ROUNDS):
        x.fill_(-100.0 - i)
    x.fill_(last)


def all_equal(heading: str, x: Any, value: float, what: str) -> None:
    __tracebackhide__ = True
    got = x.numpy()
    wrong = got != value
    if wrong.any():
        seen = np.unique(got[wrong])[:4].tolist()
        fail(heading, [f"{what}: {int(wrong.sum()):,}/{got.size:,} elements are {seen}, expected {value}"])


@pytest.mark.contract("3.1", level="L1", optional="streams")
def test_stream_properties(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    from infinitrain import backend

    one, two = streams
    for stream in (one, two, target.runtime.current_stream(target.device)):
        expect(heading, isinstance(stream.handle, int), f"handle is {stream.handle!r}")
    expect(heading, one.handle != two.handle, "two new streams have one handle")
    with backend.stream_scope(one, target.device):
        now = target.runtime.current_stream(target.device)
        expect(heading, now.handle == one.handle, "stream_scope did not make its stream current")
    after = target.runtime.current_stream(target.device)
    expect(heading, after.handle != one.handle, "stream_scope did not restore the stream")


@pytest.mark.contract("3.5", level="L1", optional="streams")
def test_current_stream_is_per_thread(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    from infinitrain import backend

    seen = []

    def look() -> None:
        backend.set_current_device(target.device)
        seen.append(target.runtime.current_stream(target.device).handle)

    with backend.stream_scope(streams[0], target.device):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    expect(heading, seen != [streams[0].handle], "another thread sees this thread's stream")


@pytest.mark.contract("3.6", level="L1", optional="streams")
def test_consumer_waits_for_producer(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    """Producer on one stream, consumer on another, an event between them."""
    from infinitrain.backend import stream_scope

    runtime, (one, two) = target.runtime, streams
    x, y = settled(target), settled(target)
    event = runtime.create_event()
    with stream_scope(one, target.device):
        produce(x, 5.0)
        runtime.record(event, one)
    with stream_scope(two, target.device):
        runtime.wait(two, event)
        y.copy_(x)
        runtime.synchronize(two)
        all_equal(heading, y, 5.0, "the consumer, after wait(stream, event)")


@pytest.mark.contract("3.6", level="L1", optional="streams")
def test_event_is_of_its_moment(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    """An event recorded again means the later work; waiting for it covers both."""
    from infinitrain.backend import stream_scope

    runtime, (one, two) = target.runtime, streams
    x, y = settled(target), settled(target)
    event = runtime.create_event()
    with stream_scope(one, target.device):
        runtime.record(event, one)
        produce(x, 6.0)
        runtime.record(event, one)
    with stream_scope(two, target.device):
        runtime.wait(two, event)
        y.copy_(x)
        runtime.synchronize(two)
        all_equal(heading, y, 6.0, "the consumer, after the event's second record")


@pytest.mark.parametrize("how", ["synchronize_event", "query"])
@pytest.mark.contract("3.1", level="L1", optional="streams")
def test_host_waits_for_event(how: str, target: Target, streams: tuple[Any, Any], heading: str) -> None:
    """After synchronize_event, or once query said yes, the host may read what the stream wrote."""
    from infinitrain.backend import stream_scope

    runtime, (one, _) = target.runtime, streams
    x = settled(target)
    event = runtime.create_event()
    with stream_scope(one, target.device):
        produce(x, 8.0)
        runtime.record(event, one)
    if how == "synchronize_event":
        runtime.synchronize_event(event)
    else:
        deadline = time.monotonic() + 60
        while not (answer := runtime.query(event)):
            expect(heading, time.monotonic() < deadline, "query() says no for 60 s")
        expect(heading, answer is True, f"query() is {answer!r}, no bool")
    all_equal(heading, x, 8.0, f"after {how}()")
    expect(heading, runtime.query(event) is True, "query() says no after the event's work was done")


@pytest.mark.contract("3.1", level="L1", optional="streams")
def test_synchronize_device_and_stream(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    from infinitrain import backend

    runtime, (one, two) = target.runtime, streams
    x, y = settled(target), settled(target)
    with backend.stream_scope(one, target.device):
        produce(x, 9.0)
    with backend.stream_scope(two, target.device):
        produce(y, 10.0)
    runtime.synchronize(one)
    all_equal(heading, x, 9.0, "after synchronize(stream)")
    backend.synchronize(target.device)
    all_equal(heading, y, 10.0, "after synchronize(device)")


@pytest.mark.contract("3.1", level="L1", optional="streams")
def test_elapsed(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    """Two events 60 ms of host time apart on an idle stream: milliseconds, and no more than the host
    measured.
    """
    from infinitrain.backend import stream_scope

    runtime, (one, _) = target.runtime, streams
    x = settled(target)
    start, end = runtime.create_event(timing=True), runtime.create_event(timing=True)
    began = time.monotonic()
    with stream_scope(one, target.device):
        runtime.record(start, one)
        time.sleep(0.06)
        produce(x, 1.0)
        runtime.record(end, one)
    runtime.synchronize_event(end)
    host = (time.monotonic() - began) * 1e3
    elapsed = runtime.elapsed_ms(start, end)
    expect(
        heading,
        30.0 < elapsed < 1.2 * host + 5.0,
        f"elapsed_ms is {elapsed:.3f}, the host measured {host:.3f} ms",
    )


@pytest.mark.contract("3.4", level="L1", optional="streams")
def test_copies_follow_the_stream(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    """memcpy on a stream comes after that stream's kernels, and kernels after it."""
    import infinitrain as it
    from infinitrain.backend import stream_scope

    one = streams[0]
    x, data = settled(target), np.arange(COUNT, dtype=np.float32)
    with stream_scope(one, target.device):
        produce(x, 3.0)
        all_equal(heading, x, 3.0, "D2H on the kernels' stream")
        produce(x, 4.0)
        x.copy_(it.from_numpy(data))
        y = x.astype("float64")
        got = y.numpy()
    expect(heading, np.array_equal(got, data), "a kernel after H2D on its stream read something older")
    it.backend.synchronize(target.device)


@pytest.mark.contract("3.3", level="L1", optional="streams")
def test_memory_outlives_its_stream(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    """Freed while one stream still works on it, allocated for another: neither sees the other's data."""
    import infinitrain as it
    from infinitrain.backend import stream_scope, synchronize

    one, two = streams
    for i in range(6):
        y = settled(target)
        with stream_scope(one, target.device):
            x = it.empty(COUNT, device=target.device)
            produce(x, 11.0 + i)
            y.copy_(x)
            del x
        with stream_scope(two, target.device):
            z = it.empty(COUNT, device=target.device)
            z.fill_(-5.0)
        synchronize(target.device)
        all_equal(heading, y, 11.0 + i, f"round {i}: the first stream's result")
        all_equal(heading, z, -5.0, f"round {i}: the second stream's tensor")


@pytest.mark.contract("3.3", level="L1", optional="streams")
def test_memory_used_on_two_streams(target: Target, streams: tuple[Any, Any], heading: str) -> None:
    """Made on one stream, read on another, dropped: its memory waits for the reader too [record_use]."""
    import infinitrain as it
    from infinitrain.backend import stream_scope, synchronize

    runtime, (one, two) = target.runtime, streams
    for i in range(6):
        y = settled(target)
        event = runtime.create_event()
        with stream_scope(one, target.device):
            x = it.empty(COUNT, device=target.device)
            x.fill_(21.0 + i)
            runtime.record(event, one)
        with stream_scope(two, target.device):
            runtime.wait(two, event)
            for _ in range(ROUNDS):
                y.fill_(0.0)
            y.copy_(x)
        del x
        with stream_scope(one, target.device):
            z = it.empty(COUNT, device=target.device)
            z.fill_(-6.0)
        synchronize(target.device)
        all_equal(heading, y, 21.0 + i, f"round {i}: the reader on the second stream")
        all_equal(heading, z, -6.0, f"round {i}: the first stream's next tensor")
