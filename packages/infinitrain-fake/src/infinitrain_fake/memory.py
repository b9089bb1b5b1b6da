"""Device memory: poisoned blocks of host memory with guard bytes, handed out as opaque buffers.

A block is ``guard | bytes | guard``. Fresh and released bytes hold a poison that is NaN in every floating
dtype and huge in every wider integer dtype, so that a read of uninitialised memory shows in the result.
Released blocks are kept per size and reused once the streams that used them are ordered before the stream
that asks.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Final

import numpy as np

from infinitrain.device import Device
from infinitrain.errors import OutOfMemoryError

from .clock import History, Stream
from .errors import DeviceMemoryError

POISON: Final = 0x7FFF  # as uint16, little-endian, over and over
GUARD: Final = bytes([0xA5, 0x5A] * 32)
ALIGNMENT: Final = 64
_GUARD_ARRAY: Final = np.frombuffer(GUARD, np.uint8)
_POISON_WORD: Final = np.uint64(0x7FFF7FFF7FFF7FFF)
# Not canonical on x86-64 and unmapped elsewhere: a host that dereferences it faults at once instead of
# reading bytes.
_BASE: Final = 0x0FA0 << 48
_numbers = count(1)


class Memory(np.ndarray):
    """The host memory of a block.

    A class of its own, because the base of a NumPy view is the first array behind it that has another class
    behind itself: so the view that a window takes of a block stays the base of all arrays made in the window.
    """


def host_memory(nbytes: int) -> Memory:
    """Return ``nbytes`` (a multiple of 8) of poisoned host memory."""
    memory = Memory(nbytes, np.uint8)
    poison(memory)
    return memory


def poison(memory: np.ndarray) -> None:
    """Fill memory (uint8, a multiple of 8 bytes) with the poison."""
    memory.view(np.uint64).fill(_POISON_WORD)


def poisoned_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array of poison: what a read of memory sees that nothing has written."""
    nbytes = int(np.prod(shape)) * dtype.itemsize
    return np.ndarray(shape, dtype, np.asarray(host_memory((nbytes + 15) // 8 * 8)))


class Block:
    """One piece of a device's memory, in use by a buffer or cached."""

    __slots__ = ("address", "history", "memory", "nbytes", "number", "op", "pool", "size", "uses")

    def __init__(self, pool: Pool, size: int, address: int) -> None:
        self.pool, self.size, self.address = pool, size, address
        self.memory = host_memory(size + 2 * len(GUARD))
        self.history = History()
        self.uses: dict[Stream, int] = {}
        self.nbytes = self.number = 0
        self.op = ""

    def start(self, nbytes: int, op: str) -> None:
        """Give the block to a new buffer."""
        self.nbytes, self.op, self.number = nbytes, op, next(_numbers)
        self.draw_guards()

    def draw_guards(self) -> None:
        memory, end = self.memory, len(GUARD) + self.nbytes
        memory[: len(GUARD)] = _GUARD_ARRAY
        memory[end : end + len(GUARD)] = _GUARD_ARRAY

    def guards_hold(self) -> bool:
        """Tell whether no one wrote next to the block's bytes."""
        memory, end = self.memory, len(GUARD) + self.nbytes
        return memory[: len(GUARD)].tobytes() == GUARD and memory[end : end + len(GUARD)].tobytes() == GUARD

    def out_of_bounds(self, op: str) -> DeviceMemoryError:
        """Return the error for a broken guard, and mend the guard so that it is reported once."""
        self.draw_guards()
        return DeviceMemoryError(
            f"{op} wrote outside {self}: the bytes next to it have changed [contract 4.4]",
            op=op,
            nbytes=self.nbytes,
        )

    def take(self, start: int, nbytes: int) -> np.ndarray:
        """Return the block's own view of some bytes, for copies."""
        return self.memory[len(GUARD) + start : len(GUARD) + start + nbytes]

    def move(self, show_poison: bool) -> None:
        """Put the bytes elsewhere, so that arrays over the old place reach the device no more.

        With ``show_poison`` those arrays read as poison from now on; without it they stay a snapshot for a
        debugger.
        """
        old, self.memory = self.memory, self.memory.copy()
        if show_poison:
            poison(old)

    def __str__(self) -> str:
        return f"buffer #{self.number} ({self.nbytes} bytes on {self.pool.device}, allocated by {self.op})"


class FakeBuffer:
    """Opaque device memory [contract 3.3]; ``ptr`` is an address that the host cannot read."""

    __slots__ = ("__weakref__", "_block", "device", "nbytes")

    def __init__(self, block: Block, nbytes: int) -> None:
        self._block: Block | None = block
        self.device, self.nbytes = block.pool.device, nbytes

    @property
    def ptr(self) -> int:
        return self.block("ptr").address

    def block(self, op: str) -> Block:
        """Return the block behind the buffer. Raises DeviceMemoryError after ``release``."""
        block = self._block
        if block is None:
            raise DeviceMemoryError(
                f"{op} uses a buffer of {self.nbytes} bytes on {self.device} after its release "
                "[contract 3.3]",
                op=op,
                nbytes=self.nbytes,
            )
        if block.pool.closed:
            raise DeviceMemoryError(
                f"{op} uses {block} after shutdown() [contract 3.11]", op=op, nbytes=self.nbytes
            )
        return block

    def release(self) -> None:
        """Give the memory back now, as dropping the last reference does. A second time is an error."""
        block = self.block("release()")
        self._block = None
        block.pool.released.append(block)

    def __del__(self) -> None:
        # Any thread, any moment, possibly inside the collector: one atomic append, and the pool does the rest
        # later.
        block = self._block
        if block is not None:
            block.pool.released.append(block)

    def __repr__(self) -> str:
        return f"<FakeBuffer {self._block or 'released'}>"


class Pool:
    """One device's memory: ``limit`` bytes, blocks cached by size."""

    def __init__(self, device: Device, limit: int) -> None:
        self.device, self.limit = device, limit
        self.released: deque[Block] = deque()
        self.cached: dict[int, list[Block]] = {}
        self.live: dict[int, Block] = {}
        self.closed = False
        self.used = self.reserved = self.peak_used = self.peak_reserved = 0
        self.late: DeviceMemoryError | None = None
        self._next = _BASE + ((device.index + 1) << 40)

    def allocate(self, nbytes: int, op: str, stream: Stream, done: dict[Stream, int]) -> tuple[Block, bool]:
        """Return a block and whether it is new. Raises OutOfMemoryError after one ``empty_cache``."""
        self.settle(op)
        size = max(nbytes + ALIGNMENT - 1, ALIGNMENT) // ALIGNMENT * ALIGNMENT
        block = self._reuse(size, stream, done)
        new = block is None
        if block is None:
            if self.reserved + size > self.limit:
                self.empty_cache()
            if self.reserved + size > self.limit:
                raise OutOfMemoryError(self.device, nbytes, self.limit - self.reserved, self.used)
            block = Block(self, size, self._next)
            self._next += size + 4 * len(GUARD)
            self.reserved += size
            self.peak_reserved = max(self.peak_reserved, self.reserved)
        block.start(nbytes, op)
        block.uses = {stream: stream.tick}
        self.live[block.number] = block
        self.used += nbytes
        self.peak_used = max(self.peak_used, self.used)
        return block, new

    def _reuse(self, size: int, stream: Stream, done: dict[Stream, int]) -> Block | None:
        blocks = self.cached.get(size)
        if not blocks:
            return None
        for i in range(len(blocks) - 1, -1, -1):
            block = blocks[i]
            if all(
                s is stream or stream.seen.get(s, 0) >= tick or done.get(s, 0) >= tick
                for s, tick in block.uses.items()
            ):
                del blocks[i]
                return block
        return None

    def settle(self, op: str) -> None:
        """Take back what was released: check the guards, poison, cache. Raises what a guard has to tell."""
        while self.released:
            try:
                block = self.released.popleft()
            except IndexError:  # another thread took it
                break
            if self.live.pop(block.number, None) is None:
                continue
            if not block.guards_hold():
                self.late = self.late or block.out_of_bounds("a kernel or copy before its release")
            self.used -= block.nbytes
            poison(block.memory[len(GUARD) : -len(GUARD)])
            self.cached.setdefault(block.size, []).append(block)
        if self.late is not None:
            error, self.late = self.late, None
            raise error

    def empty_cache(self) -> None:
        """Return cached blocks to the device."""
        for size, blocks in self.cached.items():
            self.reserved -= size * len(blocks)
        self.cached.clear()

    def statistics(self) -> dict[str, int | None]:
        """Return bytes used (by live buffers) and reserved (with rounding and cache), and their peaks."""
        self.settle("memory_stats")
        return {
            "used": self.used,
            "reserved": self.reserved,
            "peak_used": self.peak_used,
            "peak_reserved": self.peak_reserved,
        }

    def close(self) -> None:
        """Refuse all further use."""
        self.closed = True
        self.cached.clear()
