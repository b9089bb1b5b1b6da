"""Streams, events and the order between accesses, by vector clocks.

Everything runs at once on the host; order is a matter of bookkeeping. A stream counts its operations
(``tick``) and knows, per other stream, up to which tick that stream's work precedes its own (``seen``). An
event is a copy of that knowledge, a wait merges it, and what the host has waited for precedes everything
issued later. Two accesses of the same bytes, at least one a write, must be ordered by this relation: on a
real device they would otherwise race, and here they raise the same error on every run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from infinitrain.device import Device

from .errors import RaceError

_numbers = count(1)


class Stream:
    """A queue of work on one device. ``handle`` is an int, unique in the process."""

    __slots__ = ("__weakref__", "device", "handle", "priority", "seen", "tick")

    def __init__(self, device: Device, priority: int = 0) -> None:
        self.device, self.priority = device, priority
        self.handle = next(_numbers)
        self.tick = 0
        self.seen: dict[Stream, int] = {}

    def knowledge(self) -> dict[Stream, int]:
        """Return what precedes the next operation: the stream's own work and what it has waited for."""
        return {**self.seen, self: self.tick}

    def __repr__(self) -> str:
        return f"stream {self.handle} of {self.device}"


class Event:
    """A point in a stream's work; nothing until it is recorded."""

    __slots__ = ("device", "polled", "seconds", "seen", "timing")

    def __init__(self, device: Device, timing: bool) -> None:
        self.device, self.timing = device, timing
        self.seen: dict[Stream, int] | None = None
        self.seconds = 0.0
        self.polled = False

    def record(self, stream: Stream) -> None:
        self.seen = stream.knowledge()
        self.seconds = time.perf_counter()
        self.polled = False


def merge(into: dict[Stream, int], other: dict[Stream, int]) -> None:
    """Raise the ticks in ``into`` to those of ``other``."""
    for stream, tick in other.items():
        if into.get(stream, 0) < tick:
            into[stream] = tick


class Access(NamedTuple):
    """Who touched some bytes last: the stream, its tick then, and the op."""

    stream: Stream
    tick: int
    op: str


@dataclass(slots=True)
class Unordered:
    """An access that nothing orders after an earlier one."""

    earlier: Access
    earlier_did: str
    later: Access
    later_does: str

    def error(self, buffer: Any) -> RaceError:
        """Return the error for this pair on ``buffer``."""
        a, b = self.earlier, self.later
        return RaceError(
            f"race on {buffer}: {b.op} on {b.stream} {self.later_does} what {a.op} on {a.stream} "
            f"{self.earlier_did}, and nothing orders the two. Missing: record an event on stream "
            f"{a.stream.handle} after {a.op} and wait(stream {b.stream.handle}, event) before {b.op}, "
            "or synchronize between them [contract 3.6]",
            ops=(a.op, b.op),
            streams=(a.stream.handle, b.stream.handle),
        )


class History:
    """The accesses to one block of memory that later ones must come after, by byte range."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.writes: dict[tuple[int, int], Access] = {}
        self.reads: dict[tuple[int, int, Stream], Access] = {}

    def read(self, start: int, end: int, now: Access, done: dict[Stream, int]) -> Unordered | None:
        """Note a read of bytes ``start`` to ``end``; return the write that it races with, if any."""
        found = None
        for (a, b), old in self.writes.items():
            if a < end and start < b and _unordered(old, now, done):
                found = Unordered(old, "wrote", now, "reads")
        self.reads[start, end, now.stream] = now
        return found

    def write(self, start: int, end: int, now: Access, done: dict[Stream, int]) -> Unordered | None:
        """Note a write of bytes ``start`` to ``end``; return the access that it races with, if any."""
        found = None
        for (a, b), old in self.writes.items():
            if a < end and start < b and _unordered(old, now, done):
                found = Unordered(old, "wrote", now, "overwrites")
        for (a, b, _), old in self.reads.items():
            if a < end and start < b and _unordered(old, now, done):
                found = Unordered(old, "reads", now, "overwrites")
        # What lies inside the new write is ordered before it, or was just reported.
        for key in [k for k in self.reads if start <= k[0] and k[1] <= end]:
            del self.reads[key]
        for inside in [k for k in self.writes if start <= k[0] and k[1] <= end]:
            del self.writes[inside]
        self.writes[start, end] = now
        return found


def _unordered(old: Access, now: Access, done: dict[Stream, int]) -> bool:
    """Tell whether neither the stream of ``now`` nor the host has waited for ``old``."""
    stream, tick = old.stream, old.tick
    return stream is not now.stream and now.stream.seen.get(stream, 0) < tick and done.get(stream, 0) < tick
