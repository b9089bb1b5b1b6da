"""What a provider's runtime implements: ``DeviceGuardImpl`` [contract 3.1]."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, Protocol, runtime_checkable

from ..device import Device, DeviceType, type_name
from ..dtype import DType
from ..errors import NotSupportedError

H2D: Final = "H2D"
D2H: Final = "D2H"
D2D: Final = "D2D"


@runtime_checkable
class Buffer(Protocol):
    """Device memory, opaque to core. Dropping the last reference releases it [contract 3.3].

    ``device`` and ``nbytes`` as asked for; ``ptr`` an int address, a multiple of 64, computed when read.
    """

    @property
    def device(self) -> Device: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def ptr(self) -> int: ...


@dataclass(frozen=True)
class LaunchInfo:
    """What ``initialize`` learns about the process: its place among the ranks and the provider's options."""

    global_rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    threads: int = 1
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


class DeviceGuardImpl(ABC):
    """A provider's runtime, one instance per device type. Many threads call its methods at once.

    The abstract methods are enough for a device on which core can train; the rest is optional, in groups
    (``GROUPS``). A missing optional method raises NotSupportedError naming method and provider [contract
    3.1].
    """

    host_visible: bool = False
    """Set by core from ``Capabilities.host_visible``: native arrays are host memory, valid at any time."""

    kernel_window: Any = None
    """Optional ``kernel_window(op_name, reads, writes) -> context manager``: entered by the dispatcher around
    every kernel, with lists of the tensors that the kernel reads and writes. Arrays of a device that is not
    ``host_visible`` need be valid inside it only [contract 3.9].
    """

    # Identity -----------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def type(self) -> DeviceType:
        """The device type served. A plain class attribute does: ``type = DeviceType.PRIVATEUSE1``."""

    def initialize(self, launch: LaunchInfo) -> None:  # noqa: B027 - optional
        """Start the runtime. Called once, before any other method, at first use [contract 3.2]."""

    @abstractmethod
    def device_count(self) -> int:
        """Return the number of devices, 0..128. Core asks once, after ``initialize``."""

    @abstractmethod
    def get_device(self) -> Device:
        """Return the calling thread's current device."""

    @abstractmethod
    def set_device(self, device: Device) -> None:
        """Make ``device`` current for the calling thread."""

    def describe(self, device: Device) -> str:
        """Return one line for people: model, memory, driver."""
        return str(device)

    def shutdown(self) -> None:  # noqa: B027
        """Release everything. Called once at exit, before the interpreter goes down [contract 3.11]."""

    # Memory -------------------------------------------------------------------------------------------------
    @abstractmethod
    def malloc(self, nbytes: int, stream: Any = None) -> Buffer:
        """Return ``nbytes`` (0 or more) of new memory on the current device. Raises OutOfMemoryError."""

    @abstractmethod
    def memcpy(
        self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        """Copy bytes; ``kind`` is H2D, D2H or D2D. A device side is a Buffer, the host side a memoryview.

        On return an H2D source may be overwritten and a D2H destination read [contract 3.4].
        """

    def memory_stats(self, device: Device) -> dict[str, int | None]:
        """Return ``used``, ``reserved`` and their peaks ``peak_used``, ``peak_reserved``: bytes or None."""
        return {"used": None, "reserved": None, "peak_used": None, "peak_reserved": None}

    def reset_peak(self, device: Device) -> None:  # noqa: B027
        """Start the peaks of ``memory_stats`` anew."""

    def empty_cache(self) -> None:  # noqa: B027
        """Give cached memory back to the system. Core does not call it: a provider does [contract 3.3]."""

    def host_alloc(self, nbytes: int) -> memoryview:
        """Return pinned host memory. Core does not call it yet."""
        raise self._unsupported("host_alloc")

    def memcpy_async(
        self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> Any:
        """Copy as ``memcpy`` does, without waiting; return an event. Core does not call it yet."""
        raise self._unsupported("memcpy_async")

    def record_use(self, buffer: Buffer, stream: Any) -> None:  # noqa: B027
        """Note that work on ``stream`` uses the buffer: its memory outlives that work [contract 3.3]."""

    # Arrays (both or none) ----------------------------------------------------------------------------------
    def native_array(self, buffer: Buffer, byte_offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        """Return an array of the provider's library over the memory, which it keeps alive [contract 3.9]."""
        raise self._unsupported("native_array")

    def adopt(self, array: Any) -> tuple[Buffer, int]:
        """Return (buffer, byte offset) of a dense array of the library: the inverse of ``native_array``."""
        raise self._unsupported("adopt")

    def empty_array(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """Return a new array on the current device: a shortcut for ``malloc`` and ``native_array``."""
        return self.native_array(self.malloc(prod(shape) * dtype.itemsize), 0, shape, dtype)

    def array_maker(self, shape: tuple[int, ...], dtype: DType) -> Callable[[], Any]:
        """Return a function like ``empty_array`` for one shape and dtype, which may then prepare once."""
        return lambda: self.empty_array(shape, dtype)

    # Streams (all or none) ----------------------------------------------------------------------------------
    def current_stream(self, device: Device) -> Any:
        """Return the calling thread's stream on ``device``; it has an int ``handle``."""
        raise self._unsupported("current_stream")

    def set_current_stream(self, stream: Any) -> None:
        """Make ``stream`` the calling thread's stream on its device."""
        raise self._unsupported("set_current_stream")

    def create_stream(self, priority: int = 0) -> Any:
        """Return a new stream on the current device."""
        raise self._unsupported("create_stream")

    def create_event(self, timing: bool = False) -> Any:
        """Return a new event on the current device."""
        raise self._unsupported("create_event")

    def record(self, event: Any, stream: Any) -> None:
        """Mark the end of the stream's work so far."""
        raise self._unsupported("record")

    def wait(self, stream: Any, event: Any) -> None:
        """Make the stream's later work wait for the event; the host does not block."""
        raise self._unsupported("wait")

    def query(self, event: Any) -> bool:
        """Tell whether the event's work is done."""
        raise self._unsupported("query")

    def synchronize_event(self, event: Any) -> None:
        """Block the host until the event's work is done."""
        raise self._unsupported("synchronize_event")

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Return the milliseconds between two events that were created with ``timing``."""
        raise self._unsupported("elapsed_ms")

    def synchronize(self, target: Any) -> None:
        """Block the host until all work of a device or stream is done. Without streams, do nothing."""
        if self.has_streams:
            raise self._unsupported("synchronize")

    # Capture (all or none) ----------------------------------------------------------------------------------
    def begin_capture(self, stream: Any) -> None:
        """Start recording the stream's work instead of running it. Core does not call it yet."""
        raise self._unsupported("begin_capture")

    def end_capture(self, stream: Any) -> Any:
        """Return what was recorded. Core does not call it yet."""
        raise self._unsupported("end_capture")

    def replay(self, graph: Any, stream: Any) -> None:
        """Run what was recorded. Core does not call it yet."""
        raise self._unsupported("replay")

    # What core asks of itself -------------------------------------------------------------------------------
    @property
    def has_streams(self) -> bool:
        """True when the provider implements the group of streams."""
        return self._overrides("current_stream")

    @property
    def has_arrays(self) -> bool:
        """True when the provider has an array library."""
        return self._overrides("native_array")

    def _overrides(self, method: str) -> bool:
        return getattr(self.__class__, method) is not getattr(DeviceGuardImpl, method)

    def _unsupported(self, method: str) -> NotSupportedError:
        name = type_name(self.type)
        return NotSupportedError(
            f"backend {name!r} does not support DeviceGuardImpl.{method} [contract 3.1]",
            provider=name,
            method=method,
        )


# The table of [contract 3.1]: group -> methods. The last three groups are implemented whole or not at all.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "identity": ("type", "initialize", "device_count", "get_device", "set_device", "describe", "shutdown"),
    "memory": ("malloc", "memcpy"),
    "memory, more": (
        "memory_stats", "reset_peak", "empty_cache", "host_alloc", "memcpy_async", "record_use",
        "empty_array", "array_maker", "kernel_window",
    ),
    "arrays": ("native_array", "adopt"),
    "streams": (
        "current_stream", "set_current_stream", "create_stream", "create_event", "record", "wait", "query",
        "synchronize_event", "elapsed_ms", "synchronize",
    ),
    "capture": ("begin_capture", "end_capture", "replay"),
}  # fmt: skip
WHOLE_GROUPS: Final = ("arrays", "streams", "capture")


def group_problems(runtime: DeviceGuardImpl) -> list[str]:
    """Return what is wrong with the groups that a runtime implements in part [contract 3.1]."""
    problems = []
    for group in WHOLE_GROUPS:
        missing = [m for m in GROUPS[group] if not runtime._overrides(m)]
        given = [m for m in GROUPS[group] if runtime._overrides(m) and m != "synchronize"]  # harmless alone
        if given and missing:
            problems.append(
                f"the runtime implements {', '.join(given)} without {', '.join(missing)}: "
                f"{group} come as a whole or not at all [contract 3.1]"
            )
    return problems
