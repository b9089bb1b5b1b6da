"""The runtime half of a provider: ``DeviceGuardImpl``, buffers, launch options, current device [contract 3]."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from ..device import Device, DeviceType, type_name
from ..dtype import DType
from ..errors import (
    BackendError,
    BackendInitError,
    ForkError,
    NoSuchDeviceError,
    NotSupportedError,
)

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
    """A provider's runtime. One instance per device type; every method may be called from many threads at once.

    The seven abstract-or-required methods are enough for a device on which core can train; the rest is optional, in
    groups. A missing optional method raises NotSupportedError naming method and provider [contract 3.1].
    """

    # Identity -----------------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def type(self) -> DeviceType:
        """The device type served."""

    def initialize(self, launch: LaunchInfo) -> None:
        """Start the runtime. Called once, before any other method, at first use [contract 3.2]."""

    @abstractmethod
    def device_count(self) -> int:
        """Number of devices, 0..128."""

    @abstractmethod
    def get_device(self) -> Device:
        """The calling thread's current device."""

    @abstractmethod
    def set_device(self, device: Device) -> None:
        """Make ``device`` current for the calling thread."""

    def describe(self, device: Device) -> str:
        """One line for people: model, memory, driver."""
        return str(device)

    def shutdown(self) -> None:
        """Release everything; called once at exit, before the interpreter goes down [contract 3.11]."""

    # Memory -------------------------------------------------------------------------------------------------------
    @abstractmethod
    def malloc(self, nbytes: int, stream: Any = None) -> Buffer:
        """Return ``nbytes`` (0 is legal) of uninitialised memory on the current device. Raises OutOfMemoryError."""

    @abstractmethod
    def memcpy(
        self, dst: Any, dst_offset: int, src: Any, src_offset: int, nbytes: int, kind: str, stream: Any = None
    ) -> None:
        """Copy bytes; ``kind`` is H2D, D2H or D2D. The host side is a contiguous memoryview of bytes.

        On return an H2D source may be overwritten and a D2H destination read [contract 3.4].
        """

    def memory_stats(self, device: Device) -> dict[str, int | None]:
        """Return ``used``, ``reserved``, ``peak_used``, ``peak_reserved`` in bytes; unknown values are None."""
        return {"used": None, "reserved": None, "peak_used": None, "peak_reserved": None}

    def reset_peak(self, device: Device) -> None:
        """Start the peaks of ``memory_stats`` anew."""

    def empty_cache(self) -> None:
        """Give cached memory back to the system."""

    def host_alloc(self, nbytes: int) -> memoryview:
        """Return pinned host memory."""
        raise self._unsupported("host_alloc")

    def memcpy_async(self, *args: Any, **kwargs: Any) -> Any:
        """As ``memcpy``, without waiting; returns an event."""
        raise self._unsupported("memcpy_async")

    # Arrays -------------------------------------------------------------------------------------------------------
    def native_array(self, buffer: Buffer, byte_offset: int, shape: tuple[int, ...], dtype: DType) -> Any:
        """Return an array of the provider's library over the buffer's memory (no copy) [contract 3.9]."""
        raise self._unsupported("native_array")

    def adopt(self, array: Any) -> tuple[Buffer, int]:
        """Return (buffer, byte offset) of a dense array of the provider's library: the inverse of ``native_array``."""
        raise self._unsupported("adopt")

    def empty_array(self, shape: tuple[int, ...], dtype: DType) -> Any:
        """Return an uninitialised array on the current device. A shortcut that host-visible providers may override."""
        buffer = self.malloc(_nbytes(shape, dtype))
        return self.native_array(buffer, 0, shape, dtype)

    # Streams (all or none) ----------------------------------------------------------------------------------------
    def current_stream(self, device: Device) -> Any:
        """The calling thread's stream on ``device``; it has an int ``handle``."""
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
        """Milliseconds between two events."""
        raise self._unsupported("elapsed_ms")

    def synchronize(self, target: Any) -> None:
        """Block the host until all work of a device or stream is done. A device without streams has nothing to do."""
        if self.has_streams:
            raise self._unsupported("synchronize")

    def record_use(self, buffer: Buffer, stream: Any) -> None:
        """Note that work on ``stream`` uses the buffer, so that its memory outlives that work [contract 3.3]."""

    # Capture (all or none) ----------------------------------------------------------------------------------------
    def begin_capture(self, stream: Any) -> None:
        raise self._unsupported("begin_capture")

    def end_capture(self, stream: Any) -> Any:
        raise self._unsupported("end_capture")

    def replay(self, graph: Any, stream: Any) -> None:
        raise self._unsupported("replay")

    # What core asks of itself -------------------------------------------------------------------------------------
    host_visible: bool = False
    """True when ``native_array`` is plain host memory that may be read at any time after ``synchronize``."""

    kernel_window: Any = None
    """Optional ``kernel_window(op_name, reads, writes) -> context manager``: entered by the dispatcher around every
    kernel, with the tensors that the kernel reads and writes. Arrays of a device that is not ``host_visible`` are valid
    inside it only [contract 3.9]."""

    @property
    def has_streams(self) -> bool:
        return type(self).current_stream is not DeviceGuardImpl.current_stream

    @property
    def has_arrays(self) -> bool:
        return type(self).native_array is not DeviceGuardImpl.native_array

    def _unsupported(self, method: str) -> NotSupportedError:
        name = type_name(self.type)
        return NotSupportedError(
            f"backend {name!r} does not support DeviceGuardImpl.{method} [contract 3.1]", provider=name, method=method
        )


def _nbytes(shape: tuple[int, ...], dtype: DType) -> int:
    n = dtype.itemsize
    for size in shape:
        n *= size
    return n


# Launch ---------------------------------------------------------------------------------------------------------

_launch = LaunchInfo()
_given_options: dict[str, str] = {}


def set_launch_info(launch: LaunchInfo) -> None:
    """Say what ``initialize`` of every provider will be told. Call before the first use of a device."""
    global _launch
    _launch = launch


def set_backend_options(options: Mapping[str, str]) -> None:
    """Give the provider's declared options as texts (``--backend_option k=v``). Call before the first use."""
    _given_options.clear()
    _given_options.update(options)


def _launch_for(record: Any) -> LaunchInfo:
    """Return the launch info with the options of ``record``: given by flag, by INFINITRAIN_<NAME>_<K>, or default."""
    declared = {option.name: option for option in record.capabilities.options}
    unknown = sorted(set(_given_options) - set(declared)) if record.type is DeviceType.PRIVATEUSE1 else []
    if unknown:
        known = ", ".join(declared) or "none"
        raise BackendInitError(
            f"backend {record.name!r} declares no option {unknown[0]!r}; declared: {known} [contract 3.2]"
        )
    values: dict[str, Any] = {}
    for name, option in declared.items():
        text = _given_options.get(name, os.environ.get(f"INFINITRAIN_{record.name.upper()}_{name.upper()}"))
        values[name] = option.default if text is None else option.parse(text)
    fields = {f: getattr(_launch, f) for f in LaunchInfo.__dataclass_fields__ if f != "options"}
    return LaunchInfo(**fields, options=values)


# First use ------------------------------------------------------------------------------------------------------

_ready: dict[DeviceType, DeviceGuardImpl] = {}
_failed: dict[DeviceType, BackendInitError] = {}
_init_lock = threading.RLock()
_forked_types: set[DeviceType] = set()
on_fork: list[Any] = []  # called in a forked child; the dispatcher empties its caches here


def get_device_guard_impl(type: DeviceType) -> DeviceGuardImpl:
    """Return the runtime of a device type, initialising it at the first call [contract 3.2].

    Raises BackendNotAvailableError when there is none, BackendInitError when it does not start, ForkError in a child
    forked after that.
    """
    runtime = _ready.get(type)
    if runtime is not None and not _forked_types:
        return runtime
    if type in _forked_types:
        raise ForkError(
            f"device {type_name(type)!r} was initialised before fork(); a forked child cannot use it. "
            "Start ranks with the spawn method or exec a new process [contract 3.8]"
        )
    return runtime or _initialize(type)


def has_device_guard_impl(type: DeviceType) -> bool:
    """Tell whether a device type has a runtime, without initialising it."""
    from .registration import find_record

    return find_record(type) is not None


def _initialize(type: DeviceType) -> DeviceGuardImpl:
    from .registration import require_record

    record = require_record(type)
    with _init_lock:
        if type in _ready:
            return _ready[type]
        if type in _failed:
            raise _failed[type]
        runtime: DeviceGuardImpl = record.runtime
        try:
            runtime.initialize(_launch_for(record))
            record.resolve_capabilities()
            count = runtime.device_count()
        except BackendInitError as error:
            if error.permanent:
                _failed[type] = error
            error.__dict__.setdefault("provider", record.name)
            raise
        except Exception as error:
            raise BackendInitError(
                f"backend {record.name!r} failed to initialise: {error} [contract 3.2]", provider=record.name
            ) from error
        if not isinstance(count, int) or not 0 <= count <= 128:
            raise BackendInitError(f"backend {record.name!r}: device_count() is {count!r}, not 0..128 [contract 1.2]")
        if not _ready:
            atexit.register(_shutdown)
        _ready[type] = runtime
        return runtime


def _shutdown() -> None:
    for type, runtime in reversed(_ready.items()):
        if type in _forked_types:
            continue
        with contextlib.suppress(BackendError):
            if runtime.has_streams:
                for index in range(runtime.device_count()):
                    runtime.synchronize(Device(type, index))
        runtime.shutdown()
    _ready.clear()


def _after_fork_in_child() -> None:
    # The lock may have been held by a thread that does not exist here.
    global _init_lock
    _init_lock = threading.RLock()
    for type, runtime in _ready.items():
        if not runtime.host_visible:
            _forked_types.add(type)
    for hook in on_fork:
        hook()


os.register_at_fork(after_in_child=_after_fork_in_child)


def forget(type: DeviceType) -> None:
    """Drop what is known of a type's runtime (infinitrain.testing only) [contract 2.10]."""
    with _init_lock:
        runtime = _ready.pop(type, None)
        _failed.pop(type, None)
        _current.__dict__.pop(type.name, None)
        if runtime is not None:
            runtime.shutdown()


# Current device -------------------------------------------------------------------------------------------------


class _Current(threading.local):
    """Per thread: the current device of each type, as core last set it [contract 3.5]."""


_current = _Current()


def check_device(device: Device) -> DeviceGuardImpl:
    """Return the device's runtime after checking that the device exists. Raises NoSuchDeviceError [contract 1.8]."""
    runtime = get_device_guard_impl(device.type)
    count = runtime.device_count()
    if device.index >= count:
        raise NoSuchDeviceError(device.index, count, type_name(device.type))
    return runtime


def current_device(type: DeviceType) -> Device:
    """Return the calling thread's current device of a type."""
    device = _current.__dict__.get(type.name)
    return device if device is not None else get_device_guard_impl(type).get_device()


def set_current_device(device: Device) -> None:
    """Make ``device`` current; the provider is called only on change."""
    if _current.__dict__.get(device.type.name) is not device:
        check_device(device).set_device(device)
        _current.__dict__[device.type.name] = device


class DeviceGuard:
    """Context manager: ``device`` is current inside, the previous one afterwards, on exceptions too [contract 3.5]."""

    __slots__ = ("device", "previous")

    def __init__(self, device: Device | str) -> None:
        self.device = Device.parse(device)

    def __enter__(self) -> DeviceGuard:
        self.previous = current_device(self.device.type)
        set_current_device(self.device)
        return self

    def __exit__(self, *exc: object) -> None:
        set_current_device(self.previous)


@contextlib.contextmanager
def stream_scope(stream: Any, device: Device) -> Iterator[None]:
    """Run the body on ``stream`` of ``device``; the previous stream is current again afterwards."""
    runtime = check_device(device)
    previous = runtime.current_stream(device)
    runtime.set_current_stream(stream)
    try:
        yield
    finally:
        runtime.set_current_stream(previous)


def synchronize(device: Device | str) -> None:
    """Block until all work on ``device`` is done."""
    device = Device.parse(device)
    check_device(device).synchronize(device)
