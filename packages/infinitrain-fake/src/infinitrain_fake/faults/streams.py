"""Faults of streams, events and copies (L1).

Where a fault takes an order away, the device shows what a real one may show: what was there before the write,
poison.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from infinitrain.backend import D2D, D2H, H2D
from infinitrain.device import Device

from ..clock import Stream
from ..memory import poisoned_array
from .catalogue import runtime_fault


@runtime_fault("3.6")
def wait_no_effect(runtime: Any) -> None:
    """wait(stream, event) returns without ordering anything."""
    runtime.races_show_poison = True
    runtime.wait = lambda stream, event: None


@runtime_fault("3.6")
def record_no_effect(runtime: Any) -> None:
    """record(event, stream) marks the start of the stream's work instead of its end."""
    right = runtime.record
    runtime.races_show_poison = True

    def record(event: Any, stream: Stream) -> None:
        right(event, stream)
        event.seen = {}

    runtime.record = record


@runtime_fault("3.6")
def synchronize_no_effect(runtime: Any) -> None:
    """synchronize returns at once, whatever is under way."""
    runtime.races_show_poison = True
    runtime.synchronize = lambda target: None


@runtime_fault("3.6")
def synchronize_event_no_effect(runtime: Any) -> None:
    """synchronize_event returns at once, whatever is under way."""
    runtime.races_show_poison = True
    runtime.synchronize_event = lambda event: None


@runtime_fault("3.6")
def synchronize_default_stream_only(runtime: Any) -> None:
    """synchronize(device) waits for the device's default stream and forgets the created ones."""
    right = runtime.synchronize
    runtime.races_show_poison = True

    def synchronize(target: Any) -> None:
        right(runtime.defaults[target.index] if isinstance(target, Device) else target)

    runtime.synchronize = synchronize


@runtime_fault("3.1")
def query_always_true(runtime: Any) -> None:
    """query says that an event is done while its work is still under way."""
    runtime.races_show_poison = True
    runtime.query = lambda event: True


@runtime_fault("3.5")
def stream_forgotten(runtime: Any) -> None:
    """set_current_stream has no effect: all work lands on the default stream."""
    runtime.set_current_stream = lambda stream: None


@runtime_fault("3.5")
def stream_identity_lost(runtime: Any) -> None:
    """current_stream returns a new stream at every call, with another handle."""
    runtime.races_show_poison = True
    runtime.current_stream = Stream


@runtime_fault("3.5")
def streams_shared_by_threads(runtime: Any) -> None:
    """The current stream is one for all threads."""
    current: dict[int, Stream] = {}
    right = runtime.current_stream

    def set_current_stream(stream: Stream) -> None:
        current[stream.device.index] = stream

    runtime.set_current_stream = set_current_stream
    runtime.current_stream = lambda device: current.get(device.index) or right(device)


@runtime_fault("3.1")
def elapsed_in_seconds(runtime: Any) -> None:
    """elapsed_ms returns seconds."""
    right = runtime.elapsed_ms
    runtime.elapsed_ms = lambda start, end: right(start, end) / 1e3


@runtime_fault("3.4")
def h2d_reads_source_late(runtime: Any) -> None:
    """memcpy H2D returns before it has read the host's bytes; what the host writes next arrives instead."""
    right, check = runtime.memcpy, runtime.check_alive
    pending: list[tuple[Any, ...]] = []

    def flush(op: str) -> None:
        waiting, pending[:] = list(pending), []
        for args in waiting:
            right(*args)
        check(op)

    def memcpy(
        dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        flush("memcpy")
        args = (dst, dst_offset, src, src_offset, nbytes, kind, stream)
        if kind == H2D:
            pending.append(args)
        else:
            right(*args)

    runtime.memcpy, runtime.check_alive = memcpy, flush


@runtime_fault("3.4")
def h2d_truncated(runtime: Any) -> None:
    """memcpy H2D copies whole units of 16 bytes and drops the rest."""
    _copies(runtime, H2D, lambda args: (*args[:4], args[4] // 16 * 16, *args[5:]))


@runtime_fault("3.4")
def d2h_offset_ignored(runtime: Any) -> None:
    """memcpy D2H reads from the start of the buffer whatever the offset."""
    _copies(runtime, D2H, lambda args: (*args[:3], 0, *args[4:]))


@runtime_fault("3.4")
def d2d_offset_ignored(runtime: Any) -> None:
    """memcpy D2D writes to the start of the destination whatever the offset."""
    _copies(runtime, D2D, lambda args: (args[0], 0, *args[2:]))


def _copies(runtime: Any, broken: str, change: Any) -> None:
    right = runtime.memcpy

    def memcpy(
        dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        args = (dst, dst_offset, src, src_offset, nbytes, kind, stream)
        right(*(change(args) if kind == broken else args))

    runtime.memcpy = memcpy


@runtime_fault("3.4")
def d2h_before_kernel(runtime: Any) -> None:
    """memcpy D2H does not wait for kernels issued before it: it returns what was there earlier, poison."""
    right = runtime.memcpy

    def memcpy(
        dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        early = kind == D2H and any(
            not a.op.startswith("memcpy") and runtime.done.get(a.stream, 0) < a.tick
            for a in src.block("memcpy").history.writes.values()
        )
        done = dict(runtime.done)
        right(dst, dst_offset, src, src_offset, nbytes, kind, stream)
        if early:
            runtime.done = done
            np.frombuffer(dst, np.uint8)[dst_offset : dst_offset + nbytes] = poisoned_array(
                (nbytes,), np.dtype(np.uint8)
            )

    runtime.memcpy = memcpy


@runtime_fault("3.4")
def peer_copy_stays(runtime: Any) -> None:
    """memcpy D2D between two devices does nothing, although peer_copy is declared."""
    right = runtime.memcpy

    def memcpy(
        dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        if kind != D2D or dst.device is src.device:
            right(dst, dst_offset, src, src_offset, nbytes, kind, stream)

    runtime.memcpy = memcpy
