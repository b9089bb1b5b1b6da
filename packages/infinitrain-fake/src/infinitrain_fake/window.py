"""The window: the only place where a kernel reaches device memory [contract 3.9].

The dispatcher opens one around every kernel, naming the tensors that the kernel reads and writes. Inside it
``native_array`` gives NumPy views of the device's memory, without a copy: of a tensor that is only read, a
view that NumPy refuses to write to; of memory that is no argument and was not allocated by the kernel itself,
none at all.

All views of one block share a base made for this window. When the window closes, the base's reference count
tells whether a view got away (into a global, a closure, a thread). Such a view is cut off: the block's bytes
move elsewhere, the old place is filled with poison, and an error names the op. So views cost what a view
costs, and yet nobody reads or changes device memory after the window: copying every argument in and out would
take as long as many kernels do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import numpy as np

from infinitrain.backend import OPS
from infinitrain.dtype import DType
from infinitrain.errors import DeviceMismatchError, KernelError

from .clock import Access
from .errors import DeviceMemoryError
from .memory import GUARD, Block, poisoned_array


class Window:
    """One kernel's access to device memory; see the module's text."""

    def __init__(self, runtime: Any, op: str, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        self.runtime, self.op, self.reads, self.writes = runtime, op, reads, writes
        self.ranges: dict[tuple[Block, int, int], bool] = {}  # block, start, end: may be written
        self.bases: dict[tuple[Block, bool], np.ndarray] = {}
        self.stale: list[tuple[Block, int, int]] = []
        self.outer: Window | None = None

    def __enter__(self) -> Window:
        runtime, op = self.runtime, self.op
        runtime.check_alive(op)
        device = runtime.get_device()
        row = OPS.get(op)
        looks = row is None or not row.view  # a view of a tensor reads nothing
        with runtime.lock:
            runtime.counts.kernels[op] += 1
            stream = runtime.current_stream(device)
            stream.tick += 1
            self.now = now = Access(stream, stream.tick, op)
            done = runtime.done
            for written, tensors in ((False, self.reads), (True, self.writes)):
                for tensor in tensors:
                    buffer = tensor.buffer
                    block = buffer.block(op)
                    if buffer.device is not device:
                        raise DeviceMismatchError(
                            f"{op} runs on {device} and got {block}: make that device current [contract 3.5]",
                            op=op,
                            devices=(device, buffer.device),
                        )
                    start = tensor.offset
                    end = start + tensor.nbytes
                    self.ranges[block, start, end] = written  # writes come last and win
                    if looks and end > start:
                        history = block.history
                        race = (history.write if written else history.read)(start, end, now, done)
                        if race is not None:
                            runtime.raced(race, block, start, end, self)
        local = runtime.local
        self.outer, local.window = local.window, self
        return self

    def array(self, buffer: Any, offset: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Return the view of ``shape`` and ``dtype`` at a buffer's byte ``offset``."""
        block = buffer.block(self.op)
        nbytes = dtype.itemsize
        for n in shape:
            nbytes *= n
        end = offset + nbytes
        check_range(self.op, block, offset, nbytes)
        if offset % dtype.itemsize:
            raise KernelError(
                f"{self.op}: offset {offset} in {block} is not aligned to {dtype} [contract 4.4]", op=self.op
            )
        writable = self._may(block, offset, end)
        if self.stale and any(b is block and s < end and offset < e for b, s, e in self.stale):
            return poisoned_array(shape, dtype.numpy)
        base = self.bases.get((block, writable))
        if base is None:
            base = block.memory.view(np.ndarray)
            base.flags.writeable = writable
            self.bases[block, writable] = base
        return np.ndarray(shape, dtype.numpy, base, len(GUARD) + offset)

    def _may(self, block: Block, start: int, end: int) -> bool:
        """Tell whether these bytes may be written. Raises KernelError when they may not even be read."""
        exact = self.ranges.get((block, start, end))
        if exact is not None:
            return exact
        readable = False
        window: Window | None = self
        while window is not None:
            for (b, s, e), written in window.ranges.items():
                if b is block and s <= start and end <= e:
                    if written:
                        return True
                    readable = True
            window = window.outer
        if not readable:
            raise KernelError(
                f"{self.op} reaches for bytes {start} to {end} of {block}, which belong to none of its "
                "arguments [contract 3.9]",
                op=self.op,
            )
        return False

    def made(self, block: Block, filled: bool) -> None:
        """Let the kernel use a block that it allocated; ``filled`` when its content comes with it."""
        self.ranges[block, 0, block.nbytes] = True
        if block.nbytes:
            with self.runtime.lock:
                race = block.history.write(0, block.nbytes, self.now, self.runtime.done)
                if race is not None and filled:
                    self.runtime.raced(race, block, 0, block.nbytes, self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runtime.local.window = self.outer
        escaped: Block | None = None
        while self.bases:
            block, references = _pop(self.bases)
            if references > _ALONE:
                block.move(show_poison=error is None)
                escaped = block
        if isinstance(error, ValueError) and "read-only" in str(error):
            raise KernelError(
                f"{self.op} wrote to a tensor that it may only read: {error} [contract 4.4]", op=self.op
            ) from error
        if error is not None:
            return
        for (block, _, _), written in self.ranges.items():
            if written and not block.guards_hold():
                raise block.out_of_bounds(self.op)
        if escaped is not None:
            raise KernelError(
                f"{self.op} kept an array of {escaped} beyond its window; the array shows poison now. Keep "
                "tensors, or a copy of the array [contract 3.9]",
                op=self.op,
            )


def _pop(bases: dict[tuple[Block, bool], np.ndarray]) -> tuple[Block, int]:
    """Take one entry out of ``bases``; return its block and the number of references to its array."""
    (block, _), base = bases.popitem()
    return block, sys.getrefcount(base)


# Counted, not known: how many references a name and a call are differs between versions of Python.
_ALONE: Final = _pop({(None, False): np.empty(0)})[1]  # type: ignore[dict-item]


def check_range(op: str, block: Block, offset: int, nbytes: int) -> None:
    """Raise DeviceMemoryError unless the bytes lie within the block's buffer."""
    if offset < 0 or nbytes < 0 or offset + nbytes > block.nbytes:
        raise DeviceMemoryError(
            f"{op} is out of bounds: bytes {offset} to {offset + nbytes} of {block} [contract 4.4]",
            op=op,
            nbytes=block.nbytes,
        )
