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
        stream, seen = now.stream, now.stream.seen
        found = None
        for (a, b), old in self.writes.items():
            s = old.stream
            if (
                s is not stream
                and a < end
                and start < b
                and seen.get(s, 0) < old.tick
                and done.get(s, 0) < old.tick
            ):
                found = Unordered(old, "wrote", now, "reads")
        self.reads[start, end, stream] = now
        return found

    def write(self, start: int, end: int, now: Access, done: dict[Stream, int]) -> Unordered | None:
        """Note a write of bytes ``start`` to ``end``; return the access that it races with, if any."""
        stream, seen = now.stream, now.stream.seen
        found = None
        for (a, b), old in self.writes.items():
            s = old.stream
            if (
                s is not stream
                and a < end
                and start < b
                and seen.get(s, 0) < old.tick
                and done.get(s, 0) < old.tick
            ):
                found = Unordered(old, "wrote", now, "overwrites")
        covered = []
        for key, old in self.reads.items():
            a, b, s = key
            if a >= start and b <= end:
                covered.append(key)
            if (
                s is not stream
                and a < end
                and start < b
                and seen.get(s, 0) < old.tick
                and done.get(s, 0) < old.tick
            ):
                found = Unordered(old, "reads", now, "overwrites")
        for key in covered:
            del self.reads[key]
        if len(self.writes) > 1 or (start, end) not in self.writes:
            for a, b in [k for k in self.writes if k[0] >= start and k[1] <= end]:
                del self.writes[a, b]
        self.writes[start, end] = now
        return found
