"""Backward on streams: each node runs where its forward ran, ordered by events [contract 3.6]."""

from __future__ import annotations

from typing import Any

from ..backend.runtime import get_device_guard_impl
from ..device import Device


class StreamFollower:
    """Moves the calling thread between streams, device by device, and back to where it was."""

    def __init__(self) -> None:
        self._first: dict[Device, Any] = {}  # the stream that was current when the device was first entered
        self._now: dict[Device, Any] = {}

    def enter(self, device: Device, stream: Any) -> None:
        """Make ``stream`` current; its work waits for what this pass has put on the stream before."""
        runtime = get_device_guard_impl(device.type)
        if device not in self._now:
            self._first[device] = self._now[device] = runtime.current_stream(device)
        if self._now[device] is not stream:
            self._order(runtime, self._now[device], stream)
            runtime.set_current_stream(stream)
            self._now[device] = stream

    def join(self) -> None:
        """Go back: the caller's stream waits for everything that this pass did."""
        for device, first in self._first.items():
            runtime = get_device_guard_impl(device.type)
            if self._now[device] is not first:
                self._order(runtime, self._now[device], first)
                runtime.set_current_stream(first)

    @staticmethod
    def _order(runtime: Any, before: Any, after: Any) -> None:
        event = runtime.create_event()
        runtime.record(event, before)
        runtime.wait(after, event)
