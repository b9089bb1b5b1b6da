"""Registration: one atomic transaction per device type [contract 2]."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .. import device as _device
from ..device import DeviceType, type_name
from ..dtype import DType
from ..errors import BackendNotAvailableError, BackendRegistrationError
from .capabilities import Capabilities
from .ccl import CclImpl
from .guard_impl import DeviceGuardImpl
from .kernels import Kernel, describe_callable
from .problems import CONTRACT, content_problems, declaration_problems

Callback = Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class BackendRegistration:
    """What a provider hands over. ``contract`` is the version it was written for: an int pair, no default.

    The callbacks take no argument and call ``register_device_guard_impl``, ``register_ccl_impl`` and
    ``register_kernel`` or ``register_array_kernels``. ``capabilities`` is a ``Capabilities``, or a callable
    that returns one, called once after ``initialize``, and which then declares no options: those are known
    before.
    """

    name: str
    contract: Any = None
    register_runtime: Callback | None = None
    register_kernels: Callback | None = None
    register_ccl: Callback | None = None
    default_autocast_dtype: DType | None = None
    capabilities: Capabilities | Callable[[], Capabilities] = field(default_factory=Capabilities)


class PrivateUse1BackendRegistration(BackendRegistration):
    """The registration of the one provider that lives outside core [contract 2.1]."""


class BackendRecord:
    """What a registration collected. Once published only ``capabilities`` changes, at first use."""

    def __init__(self, type: DeviceType, registration: BackendRegistration) -> None:
        self.type = type
        self.registration = registration
        self.name = registration.name
        self.contract: tuple[int, int] = CONTRACT
        self.runtime: Any = None
        self.ccl: CclImpl | None = None
        self.kernels: dict[
            str, dict[str, tuple[Kernel, ...]]
        ] = {}  # op name -> layer -> kernels, first first
        self.missing_array_kernels: tuple[str, ...] = ()
        given = registration.capabilities
        self.capabilities = given if isinstance(given, Capabilities) else Capabilities()
        self.problems: list[str] = []  # what the callbacks did wrong, kept so that all of it is told at once


# Published records, replaced as a whole so that readers need no lock.
_records: dict[DeviceType, BackendRecord] = {}
_busy: set[DeviceType] = set()
_changed = threading.Condition()
_building = threading.local()
version = 0  # bumped by every publication and withdrawal; kernel caches compare it
on_change: list[Callable[[], None]] = []  # called at every publication and withdrawal


def _after_fork_in_child() -> None:
    global _changed
    _changed = threading.Condition()  # a thread that does not exist here may hold the old one, or be in _busy
    _busy.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _under_construction() -> BackendRecord | None:
    record: BackendRecord | None = getattr(_building, "record", None)
    return record


def find_record(type: DeviceType) -> BackendRecord | None:
    """Return what is registered for ``type`` as the calling thread may see it, or None."""
    record = _under_construction()
    return record if record is not None and record.type is type else _records.get(type)


def require_record(type: DeviceType) -> BackendRecord:
    """Return the published record of ``type``. Raises BackendNotAvailableError [contract 1.8]."""
    record = _records.get(type)
    if record is None and type is DeviceType.CUDA and _under_construction() is None:
        # Its name is built in, so that parsing did not load its package as it does for a provider's.
        discovery().load_backend(type_name(type))
        record = _records.get(type)
    if record is None:
        building = _under_construction()
        if building is not None and building.type is type:
            why = "Its registration has not finished: nothing may use the device in a callback."
        else:
            why = (
                f"{discovery().situation()} Install the package that provides it, as in "
                f"infinitrain-{type_name(type)}, or give --backend_module pkg.mod"
            )
        raise BackendNotAvailableError(
            f"device {type_name(type)!r} has no backend in this process. {why} [contract 1.8]",
            provider=type_name(type),
        )
    return record


def discovery() -> Any:
    """Return the module that knows entry points; it needs this one, so it is imported late."""
    from . import discovery as module

    return module


def register_privateuse1_backend(registration: PrivateUse1BackendRegistration) -> None:
    """Register the external provider; a second equal call does nothing [contract 2.1, 2.5]."""
    register_backend(DeviceType.PRIVATEUSE1, registration)


def register_backend(type: DeviceType, registration: BackendRegistration) -> None:
    """Register a device type's backend in one transaction: all of it or, after any problem, nothing of it.

    Raises BackendRegistrationError with every problem found; an exception from a callback is its cause.
    """
    if not isinstance(registration, BackendRegistration):
        raise BackendRegistrationError(
            str(registration), ["give a PrivateUse1BackendRegistration(name=..., ...) [contract 2.1]"]
        )
    outer = _under_construction()
    if outer is not None:
        raise BackendRegistrationError(
            registration.name, [f"called from inside the registration of {outer.name!r} [contract 2.5]"]
        )
    problems = declaration_problems(type, registration)
    with _changed:
        if not _changed.wait_for(lambda: type not in _busy, timeout=60):
            raise BackendRegistrationError(
                registration.name, ["another thread has been registering for 60 s [contract 2.5]"]
            )
        holder = _records.get(type)
        if holder is not None:
            if not problems and _identity(holder.registration) == _identity(registration):
                return
            problems.append(
                f"{holder.name!r} is already registered in this process, and there can be one. Use a process "
                f"of its own for {registration.name!r}, or remove what registers {holder.name!r} "
                "(--backend_module, an import, its installed package) [contract 2.5]"
            )
        if problems:
            raise BackendRegistrationError(registration.name, problems)
        _busy.add(type)
    record = BackendRecord(type, registration)
    complete = False
    try:
        _collect(record)
        complete = True
    finally:
        with _changed:
            _busy.discard(type)
            if complete:
                publish(type, record)
            _changed.notify_all()


def _collect(record: BackendRecord) -> None:
    """Run the callbacks with ``record`` bound to this thread, and check what they gave."""
    registration = record.registration
    record.contract = (registration.contract[0], registration.contract[1])
    failures: dict[str, Exception] = {}
    _building.record = record
    try:
        for what in ("register_runtime", "register_ccl", "register_kernels"):
            callback = getattr(registration, what)
            if callback is None:
                continue
            try:
                callback()
            except Exception as error:
                failures[what] = error
    finally:
        _building.record = None
    problems = [
        problem
        for what, error in failures.items()
        for problem in (
            error.problems
            if isinstance(error, BackendRegistrationError)
            else [f"{what} raised {error.__class__.__name__}: {error}"]
        )
    ]
    problems += record.problems + content_problems(record, failures)
    if problems:
        raise BackendRegistrationError(registration.name, problems) from next(iter(failures.values()), None)


def publish(type: DeviceType, record: BackendRecord | None) -> None:
    """Replace what is registered for ``type`` by one assignment and outdate every kernel cache."""
    global _records, version
    records = dict(_records)
    if record is None:
        records.pop(type, None)
    else:
        records[type] = record
    _records = records
    version += 1
    for hook in on_change:
        hook()


def find_published(type: DeviceType) -> BackendRecord | None:
    """Return what is registered for ``type``, or None."""
    return _records.get(type)


def _identity(registration: BackendRegistration) -> tuple[Any, ...]:
    """Return what makes two registrations the same: values, and callables by module and qualified name."""
    r = registration
    capabilities: Any = describe_callable(r.capabilities)
    if isinstance(r.capabilities, Capabilities):
        capabilities = replace(r.capabilities, peak_flops=describe_callable(r.capabilities.peak_flops))  # type: ignore[arg-type]
    callbacks = [describe_callable(c) for c in (r.register_runtime, r.register_kernels, r.register_ccl)]
    return (r.name, tuple(r.contract), r.default_autocast_dtype, capabilities, *callbacks)


# What the callbacks call ------------------------------------------------------------------------------------


def building(what: str, type: DeviceType) -> BackendRecord:
    """Return the record that this thread is registering for ``type``. Raises BackendRegistrationError."""
    record = _under_construction()
    if record is None:
        raise BackendRegistrationError(
            type_name(type), [f"{what} works inside a registration callback only [contract 2.1]"]
        )
    if record.type is not type:
        raise BackendRegistrationError(
            record.name, [f"{what} for {type!r} inside the registration of {record.type!r} [contract 2.1]"]
        )
    return record


def register_device_guard_impl(type: DeviceType, impl: DeviceGuardImpl) -> None:
    """Give the runtime of the backend being registered."""
    record = building("register_device_guard_impl", type)
    if record.runtime is not None:
        record.problems.append("register_device_guard_impl was called twice [contract 2.3]")
    record.runtime = impl


def register_ccl_impl(type: DeviceType, impl: CclImpl) -> None:
    """Give the collectives of the backend being registered."""
    record = building("register_ccl_impl", type)
    if record.ccl is not None:
        record.problems.append("register_ccl_impl was called twice [contract 2.3]")
    record.ccl = impl


# Getters ----------------------------------------------------------------------------------------------------


def has_privateuse1_backend() -> bool:
    """Tell whether a provider is registered (not: being registered)."""
    return DeviceType.PRIVATEUSE1 in _records


def get_privateuse1_backend_name() -> str:
    """Return the provider's name, already inside its own registration callbacks; ``privateuse1`` before."""
    return _device.provider_name() or "privateuse1"


def get_privateuse1_backend_default_autocast_dtype() -> DType | None:
    """Return the provider's dtype for autocast, or None. Raises BackendNotAvailableError without provider."""
    record = find_record(DeviceType.PRIVATEUSE1) or require_record(DeviceType.PRIVATEUSE1)
    return record.registration.default_autocast_dtype


def registered_types() -> tuple[DeviceType, ...]:
    """Return the device types with a backend, in the order of their numbers."""
    return tuple(sorted(_records))


def _provider_name() -> str | None:
    record = find_record(DeviceType.PRIVATEUSE1)
    return record.name if record is not None else None


_device.provider_name = _provider_name
