"""A runtime's life in this process: options, first use, fork, exit; the current device [contract 3]."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..device import Device, DeviceType, type_name
from ..errors import BackendInitError, BackendNotAvailableError, ForkError, NoSuchDeviceError
from .capabilities import Capabilities
from .guard_impl import D2D, D2H, H2D, Buffer, DeviceGuardImpl, LaunchInfo
from .problems import capability_problems

if TYPE_CHECKING:
    from .registration import BackendRecord

__all__ = [
    "D2D",
    "D2H",
    "H2D",
    "Buffer",
    "DeviceGuard",
    "DeviceGuardImpl",
    "LaunchInfo",
    "check_device",
    "current_device",
    "get_device_guard_impl",
    "has_device_guard_impl",
    "set_backend_options",
    "set_current_device",
    "set_launch_info",
    "stream_scope",
    "synchronize",
]

# Launch -----------------------------------------------------------------------------------------------------

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


def backend_options(type: DeviceType) -> dict[str, Any]:
    """Return the values of the provider's options: by flag, by INFINITRAIN_<NAME>_<OPTION>, or the default.

    Raises BackendInitError for a flag that nobody declares or a text that is no such value.
    """
    from .registration import registered_types, require_record

    record = require_record(type)
    declared = {option.name: option for option in record.capabilities.options}
    known = {o.name for t in registered_types() for o in require_record(t).capabilities.options}
    unknown = sorted(set(_given_options) - known) if type is not DeviceType.CPU else []
    if unknown:
        raise BackendInitError(
            f"backend {record.name!r} has no option {', '.join(map(repr, unknown))}; it declares "
            f"{', '.join(declared) or 'none'} [contract 3.2]",
            provider=record.name,
        )
    values: dict[str, Any] = {}
    for name, option in declared.items():
        text = _given_options.get(name, os.environ.get(f"INFINITRAIN_{record.name.upper()}_{name.upper()}"))
        values[name] = option.default if text is None else option.parse(text)
    return values


# First use --------------------------------------------------------------------------------------------------

_ready: dict[DeviceType, DeviceGuardImpl] = {}
_counts: dict[DeviceType, int] = {}
_failed: dict[DeviceType, BackendInitError] = {}
_starting: set[DeviceType] = set()
_closed: set[DeviceType] = set()
_forked: set[DeviceType] = set()
_init_lock = threading.RLock()
on_fork: list[Callable[[], None]] = []  # called in a forked child; the dispatcher empties its caches here


def get_device_guard_impl(type: DeviceType) -> DeviceGuardImpl:
    """Return the runtime of a device type, initialising it at the first call [contract 3.2].

    Raises BackendNotAvailableError when there is none, BackendInitError when it does not start, ForkError in
    a child forked after that.
    """
    runtime = _ready.get(type)
    if runtime is not None and not _forked:
        return runtime
    if type in _forked:
        raise ForkError(
            f"device {type_name(type)!r} was initialised before fork(); a forked child cannot use it. "
            "Start ranks with the spawn method or exec a new process [contract 3.8]",
            provider=type_name(type),
        )
    return runtime or _initialize(type)


def has_device_guard_impl(type: DeviceType) -> bool:
    """Tell whether a device type has a runtime, without initialising it."""
    from .registration import find_record

    if find_record(type) is None and type is DeviceType.CUDA:
        from .discovery import load_backend

        load_backend(type_name(type), quiet=True)
    return find_record(type) is not None


def is_initialized(type: DeviceType) -> bool:
    """Tell whether a device type's runtime was started, without starting it."""
    return type in _ready


def _initialize(type: DeviceType) -> DeviceGuardImpl:
    from .registration import require_record

    record = require_record(type)
    with _init_lock:
        if type in _ready:
            return _ready[type]
        if type in _failed:
            raise _failed[type].with_traceback(None)
        if type in _closed:
            raise BackendNotAvailableError(
                f"device {record.name!r} was shut down, as the process is exiting [contract 3.11]",
                provider=record.name,
            )
        if type in _starting:
            raise BackendInitError(
                f"backend {record.name!r}: initialize used its own device through core [contract 3.2]",
                provider=record.name,
            )
        _starting.add(type)
        try:
            _start(record)
        except BackendInitError as error:
            if error.provider is None:  # raised by the provider itself
                error.provider = record.name
                error.add_note(f"backend {record.name!r} did not initialise [contract 3.2]")
            if error.permanent:
                _failed[type] = error
            raise
        except Exception as error:
            raise BackendInitError(
                f"backend {record.name!r} failed to initialise: {error.__class__.__name__}: {error} "
                "[contract 3.2]",
                provider=record.name,
            ) from error
        finally:
            _starting.discard(type)
        runtime: DeviceGuardImpl = record.runtime
        _ready[type] = runtime
        atexit.register(_shutdown, type)  # only now, so that it runs before those of the provider's libraries
        return runtime


def _start(record: BackendRecord) -> None:
    runtime: DeviceGuardImpl = record.runtime
    runtime.initialize(replace(_launch, options=backend_options(record.type)))
    count = runtime.device_count()
    if not isinstance(count, int) or not 0 <= count <= 128:
        raise BackendInitError(
            f"backend {record.name!r}: device_count() is {count!r}, not in 0..128 [contract 1.2]",
            provider=record.name,
        )
    given = record.registration.capabilities
    capabilities = given if isinstance(given, Capabilities) else given()
    if not isinstance(capabilities, Capabilities) or (capabilities is not given and capabilities.options):
        raise BackendInitError(
            f"backend {record.name!r}: capabilities() returned {capabilities!r}, expected a Capabilities "
            "without options, which must be known before initialize [contract 2.1]",
            provider=record.name,
        )
    if problems := capability_problems(capabilities):
        raise BackendInitError(
            f"backend {record.name!r}: capabilities() returned what cannot be: {'; '.join(problems)}",
            provider=record.name,
        )
    record.capabilities = capabilities
    runtime.host_visible = capabilities.host_visible
    _counts[record.type] = count


# Exit and fork ----------------------------------------------------------------------------------------------


def _shutdown(type: DeviceType) -> None:
    """Drain what was used, then shut down. An exit handler: the last started goes first [contract 3.11]."""
    runtime = _ready.get(type)
    if runtime is None or type in _forked:
        return
    try:
        if runtime.has_streams:
            for device in [d for d in _used if d.type is type]:
                runtime.synchronize(device)
    except Exception as error:
        print(f"infinitrain: draining backend {type_name(type)!r} failed at exit: {error}", file=sys.stderr)
    try:
        runtime.shutdown()
    except Exception as error:
        print(f"infinitrain: shutdown of backend {type_name(type)!r} failed: {error}", file=sys.stderr)
    if type is not DeviceType.CPU:  # which has nothing to lose, and later exit handlers may compute
        _closed.add(type)
        del _ready[type]
        for hook in on_fork:  # the dispatcher's plans hold the runtime too
            hook()


def _after_fork_in_child() -> None:
    global _init_lock, _current
    _init_lock = threading.RLock()  # a thread that does not exist here may hold the old one
    _current = _Current()  # what it remembers would hide the error
    for type in {*_ready, *_starting}:
        runtime = _ready.get(type)
        if runtime is None or not runtime.host_visible:
            _forked.add(type)
    _starting.clear()
    for hook in on_fork:
        hook()


os.register_at_fork(after_in_child=_after_fork_in_child)


def suspend(type: DeviceType) -> tuple[DeviceGuardImpl | None, int]:
    """Take a type's runtime away, for ``resume`` (infinitrain.testing only) [contract 2.10]."""
    global _current
    with _init_lock:
        _current = _Current()
        _failed.pop(type, None)
        _closed.discard(type)
        _used.difference_update([d for d in _used if d.type is type])
        return _ready.pop(type, None), _counts.pop(type, 0)


def resume(type: DeviceType, state: tuple[DeviceGuardImpl | None, int]) -> None:
    """Put back what ``suspend`` took."""
    with _init_lock:
        runtime, count = state
        if runtime is not None:
            _counts[type], _ready[type] = count, runtime


# Current device ---------------------------------------------------------------------------------------------


class _Current(threading.local):
    """Per thread: the current device of each type, as core last set it [contract 3.5]."""


_current = _Current()
_used: set[Device] = set()  # drained at exit; asking an unused device to synchronise would create its context


def check_device(device: Device) -> DeviceGuardImpl:
    """Return the device's runtime if the device exists. Raises NoSuchDeviceError [contract 1.8]."""
    runtime = get_device_guard_impl(device.type)
    count = _counts[device.type]
    if device.index >= count:
        raise NoSuchDeviceError(device.index, count, type_name(device.type))
    return runtime


def current_device(type: DeviceType) -> Device:
    """Return the calling thread's current device of a type."""
    device: Device | None = _current.__dict__.get(type.name)
    return device if device is not None else get_device_guard_impl(type).get_device()


def set_current_device(device: Device) -> None:
    """Make ``device`` current; the provider is called only on change."""
    if _current.__dict__.get(device.type.name) is not device:
        restore_current_device(device)
        _used.add(device)


def restore_current_device(device: Device) -> None:
    """Make ``device`` current again after another one, which is no use of it."""
    if _current.__dict__.get(device.type.name) is not device:
        check_device(device).set_device(device)
        _current.__dict__[device.type.name] = device


class DeviceGuard:
    """``with DeviceGuard(device):`` makes it current, and restores, on exceptions too [contract 3.5]."""

    __slots__ = ("device", "previous")

    def __init__(self, device: Device | str) -> None:
        self.device = Device.parse(device)

    def __enter__(self) -> DeviceGuard:
        self.previous = current_device(self.device.type)
        set_current_device(self.device)
        return self

    def __exit__(self, *exc: object) -> None:
        restore_current_device(self.previous)


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
