"""The smallest all-reduce that experiments with ranks need: for threads, and for processes.

Every rank's gradients are one flat float32 buffer that all ranks can read. A rank sums its share of the
elements over the ranks, in the order of the ranks whoever does it, and writes the mean back into every
buffer: all ranks get the same bits, and threads the same as processes.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import threading
from typing import Protocol

import numpy as np

CHUNK = 1 << 15  # elements: three operands of a chunk stay in L2
PAGE = 4096


class RankError(RuntimeError):
    """Another rank failed, died, or did not come to the collective."""


class Comm(Protocol):
    """One rank's end of a group: ``buffers[r]`` is rank r's flat buffer, seen by every rank."""

    rank: int
    size: int
    buffers: list[np.ndarray]

    def meet(self) -> None:
        """Return when every rank is here. Raises RankError, at once when a rank is dead."""

    def fail(self, text: str) -> None:
        """Tell the other ranks why this one leaves."""


def all_reduce_mean(comm: Comm) -> None:
    """Replace every rank's buffer by the mean over the ranks."""
    if comm.size == 1:
        return
    comm.meet()
    count = comm.buffers[0].size
    first, last = count * comm.rank // comm.size, count * (comm.rank + 1) // comm.size
    scratch = np.empty(min(CHUNK, last - first), np.float32)
    for start in range(first, last, CHUNK):
        part = slice(start, min(start + CHUNK, last))
        total = scratch[: part.stop - start]
        np.add(comm.buffers[0][part], comm.buffers[1][part], out=total)
        for buffer in comm.buffers[2:]:
            total += buffer[part]
        total *= np.float32(1.0 / comm.size)
        for buffer in comm.buffers:
            buffer[part] = total
    comm.meet()


class Threads:
    """A group of thread ranks: ``Threads(2, n).comm(rank)`` is what each of them uses."""

    def __init__(self, size: int, count: int, timeout: float = 10.0) -> None:
        self.size = size
        self.timeout = timeout
        self.buffers = [np.zeros(count, np.float32) for _ in range(size)]
        self.barrier = threading.Barrier(size)
        self.cause: str | None = None

    def comm(self, rank: int) -> ThreadComm:
        return ThreadComm(self, rank)

    def abort(self, text: str) -> None:
        """Let every rank leave with this reason; the first one counts."""
        self.cause = self.cause or text
        self.barrier.abort()


class ThreadComm:
    def __init__(self, group: Threads, rank: int) -> None:
        self.group, self.rank, self.size, self.buffers = group, rank, group.size, group.buffers

    def meet(self) -> None:
        try:
            self.group.barrier.wait(self.group.timeout)
        except threading.BrokenBarrierError:
            late = f"the others did not come within {self.group.timeout:g} s"
            raise RankError(f"rank {self.rank} stops: {self.group.cause or late}") from None

    def fail(self, text: str) -> None:
        self.group.abort(f"rank {self.rank} failed: {text}")


class ProcessComm:
    """A process rank: memory from an inherited memfd, one inherited socket pair to each peer.

    Neither has a name in a file system, so that nothing remains of them however the processes end; and the
    kernel closes a dead process's sockets, so that its peers read the end of the stream at once.
    """

    def __init__(self, rank: int, memory: int, peers: dict[int, int], timeout: float = 10.0) -> None:
        self.rank, self.size = rank, len(peers) + 1
        self._peers = {r: socket.socket(fileno=fd) for r, fd in peers.items()}
        for peer in self._peers.values():
            peer.settimeout(timeout)
        self._mapping = mmap.mmap(memory, os.fstat(memory).st_size)
        os.close(memory)
        each = len(self._mapping) // self.size // 4
        whole = np.frombuffer(self._mapping, np.float32)
        self.buffers = [whole[r * each : (r + 1) * each] for r in range(self.size)]

    def limit(self, count: int) -> None:
        """Use the first ``count`` elements of each buffer: the mapping is whole pages."""
        self.buffers = [b[:count] for b in self.buffers]

    def meet(self) -> None:
        for peer in self._peers.values():
            with contextlib.suppress(OSError):  # dead: what it said, or that it died, is read below
                peer.send(b"k")
        for rank, peer in self._peers.items():
            try:
                said = _receive(peer)
            except TimeoutError:
                raise RankError(
                    f"rank {self.rank} stops: rank {rank} did not come within {peer.gettimeout():g} s"
                ) from None
            if not said:
                raise RankError(f"rank {self.rank} stops: rank {rank} died without a word")
            if said != b"k":
                raise RankError(f"rank {self.rank} stops: rank {rank} failed: {said[1:].decode()}")

    def fail(self, text: str) -> None:
        for peer in self._peers.values():
            with contextlib.suppress(OSError):
                peer.send(b"e" + text.encode()[:4000])


def _receive(peer: socket.socket) -> bytes:
    """Return the next packet, or nothing at the end of the stream."""
    try:
        return peer.recv(4096)
    except ConnectionError:
        # The peer closed before it read what we sent. That is told first, once; its last words come after it.
        return peer.recv(4096)


def make_memory(size: int, count: int) -> int:
    """Return a memfd with room for ``size`` buffers of ``count`` float32, each on pages of its own."""
    each = -(-count * 4 // PAGE) * PAGE
    fd = os.memfd_create("infinitrain-ranks")
    os.ftruncate(fd, max(size * each, PAGE))
    return fd


def make_sockets(size: int) -> list[dict[int, socket.socket]]:
    """Return, for each rank, its sockets by peer. Packets keep a reason apart from the barrier's bytes."""
    ends: list[dict[int, socket.socket]] = [{} for _ in range(size)]
    for a in range(size):
        for b in range(a + 1, size):
            ends[a][b], ends[b][a] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return ends
