"""Registration: one atomic transaction per device type [contract 2]."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from .. import device as _device
from ..device import BUILTIN_NAMES, DeviceType, type_name
from ..dtype import HALF, DType
from ..errors import BackendNotAvailableError, BackendRegistrationError
from .capabilities import Capabilities
from .ccl import CclImpl
from .kernels import Kernel, describe_kernel, signature_problem
from .optable import BASE_OPS, OPS
from .runtime import DeviceGuardImpl

CONTRACT: Final = (1, 0)
"""The contract version that this core implements [contract 9.1]."""

_NAME: Final = re.compile(r"[a-z0-9_]+", re.ASCII)
Callback = Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class BackendRegistration:
    """What a provider hands over. ``contract`` is the version it was written for: an int pair, without default.

    The callbacks take no argument and call ``register_device_guard_impl``, ``register_kernel`` (or
    ``register_array_kernels``) and ``register_ccl_impl``. ``capabilities`` is a ``Capabilities`` or a callable that
    returns one, called once after ``initialize``.
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
    """What a registration collected; never changed once it is published."""

    def __init__(self, type: DeviceType, registration: BackendRegistration) -> None:
        self.type = type
        self.registration = registration
        self.name = registration.name
        self.contract: tuple[int, int] = CONTRACT
        self.runtime: Any = None
        self.ccl: CclImpl | None = None
        self.kernels: dict[str, dict[str, Kernel]] = {}  # op name -> layer -> kernel
        self.missing_array_kernels: tuple[str, ...] = ()
        self.capabilities = registration.capabilities if isinstance(registration.capabilities, Capabilities) else Capabilities()

    def resolve_capabilities(self) -> None:
        """Call a capabilities callable, once, after ``initialize``."""
        if not isinstance(self.registration.capabilities, Capabilities):
            self.capabilities = self.registration.capabilities()


# Published records, replaced as a whole so that readers need no lock.
_records: dict[DeviceType, BackendRecord] = {}
_busy: dict[DeviceType, threading.Thread] = {}
_changed = threading.Condition()
_building = threading.local()
version = 0  # bumped by every publication and withdrawal; kernel caches compare it


def _under_construction() -> BackendRecord | None:
    return getattr(_building, "record", None)


def find_record(type: DeviceType) -> BackendRecord | None:
    """Return what is registered for ``type`` as the calling thread may see it, or None."""
    record = _under_construction()
    return record if record is not None and record.type is type else _records.get(type)


def require_record(type: DeviceType) -> BackendRecord:
    """Return the published record of ``type``. Raises BackendNotAvailableError [contract 1.8]."""
    record = _records.get(type)
    if record is None:
        from .discovery import situation

        raise BackendNotAvailableError(
            f"device {type_name(type)!r} has no backend in this process. {situation()} [contract 1.8]",
            device=type_name(type),
        )
    return record


def register_privateuse1_backend(registration: PrivateUse1BackendRegistration) -> None:
    """Register the external provider; a second equal call does nothing [contract 2.1, 2.5]."""
    register_backend(DeviceType.PRIVATEUSE1, registration)


def register_backend(type: DeviceType, registration: BackendRegistration) -> None:
    """Register a device type's backend in one transaction: all of it or, after any problem, nothing of it.

    Raises BackendRegistrationError with every problem found; an exception from a callback is its cause.
    """
    if _under_construction() is not None:
        raise BackendRegistrationError(
            registration.name,
            [f"called from inside the registration of {_under_construction().name!r} [contract 2.5]"],  # type: ignore[union-attr]
        )
    with _changed:
        if not _changed.wait_for(lambda: type not in _busy, timeout=60):
            raise BackendRegistrationError(
                registration.name, ["another thread has been registering for 60 s [contract 2.5]"]
            )
        holder = _records.get(type)
        if holder is not None:
            if _equal(holder.registration, registration):
                return
            raise BackendRegistrationError(
                registration.name,
                [
                    f"{holder.name!r} is already registered in this process; there can be one. "
                    f"Use a process of its own for {registration.name!r}, or unset what registers {holder.name!r} "
                    "(--backend_module, INFINITRAIN_BACKEND_AUTOLOAD) [contract 2.5]"
                ],
            )
        _busy[type] = threading.current_thread()
    record = BackendRecord(type, registration)
    try:
        _run(record)
    except BaseException:
        record = None  # type: ignore[assignment]
        raise
    finally:
        _building.record = None
        with _changed:
            del _busy[type]
            if record is not None:
                publish(type, record)
            _changed.notify_all()


def _run(record: BackendRecord) -> None:
    registration = record.registration
    problems = _declaration_problems(record)
    if problems:
        raise BackendRegistrationError(str(registration.name), problems)
    record.contract = tuple(registration.contract)
    _building.record = record
    cause: Exception | None = None
    for what in ("register_runtime", "register_ccl", "register_kernels"):
        callback = getattr(registration, what)
        if callback is None:
            continue
        try:
            callback()
        except Exception as error:
            cause = cause or error
            problems.append(f"{what} raised {error.__class__.__name__}: {error}")
    problems += _content_problems(record, failed=cause is not None)
    if problems:
        raise BackendRegistrationError(registration.name, problems) from cause


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


on_change: list[Callable[[], None]] = []


def _declaration_problems(record: BackendRecord) -> list[str]:
    registration, problems = record.registration, []
    name = registration.name
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        problems.append(f"name {name!r} must match [a-z0-9_]+ (lowercase ASCII letters, digits, underscore) [contract 1.3]")
    elif BUILTIN_NAMES.get(name, record.type) is not record.type or name == "privateuse1":
        problems.append(f"name {name!r} is reserved [contract 1.3]")
    for what in ("register_runtime", "register_kernels"):
        if not callable(getattr(registration, what)):
            problems.append(f"{what} must be a callable without arguments [contract 2.1]")
    if registration.register_ccl is not None and not callable(registration.register_ccl):
        problems.append("register_ccl, when given, must be a callable without arguments [contract 2.1]")
    problems += _contract_problems(registration.contract)
    dtype = registration.default_autocast_dtype
    if dtype is not None and dtype not in HALF:
        problems.append(f"default_autocast_dtype must be float16 or bfloat16, not {dtype} [contract 2.3]")
    if not isinstance(registration.capabilities, Capabilities) and not callable(registration.capabilities):
        problems.append("capabilities must be a Capabilities or a callable that returns one [contract 2.1]")
    return problems


def _contract_problems(contract: Any) -> list[str]:
    pair = (
        isinstance(contract, tuple | list)
        and len(contract) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) for n in contract)
    )
    if not pair:
        return [f"contract={contract!r} must be the version it was written for, such as contract={CONTRACT} [contract 2.3]"]
    major, minor = contract
    if major != CONTRACT[0] or not 0 <= minor <= CONTRACT[1]:
        return [
            f"contract {major}.{minor} is not supported: this core implements {CONTRACT[0]}.0 to "
            f"{CONTRACT[0]}.{CONTRACT[1]}; install a matching infinitrain-core or provider [contract 9.1]"
        ]
    return []


def _content_problems(record: BackendRecord, failed: bool) -> list[str]:
    problems = []
    runtime = record.runtime
    if runtime is None:
        if not failed:
            problems.append("the runtime callback did not call register_device_guard_impl [contract 2.3]")
    else:
        if not isinstance(runtime, DeviceGuardImpl):
            problems.append(f"the runtime {runtime!r} is not a DeviceGuardImpl [contract 2.3]")
        elif runtime.type is not record.type:
            problems.append(f"the runtime says type {runtime.type!r}, expected {record.type!r} [contract 2.3]")
    if record.registration.register_ccl is not None and not failed:
        if record.ccl is None:
            problems.append("the ccl callback did not call register_ccl_impl [contract 2.3]")
        elif not isinstance(record.ccl, CclImpl) or record.ccl.type is not record.type:
            problems.append(f"the ccl {record.ccl!r} is not a CclImpl of type {record.type!r} [contract 2.3]")
    if not failed:
        missing = [name for name in BASE_OPS if name not in record.kernels]
        problems += [f"required kernel {name} is missing [contract 2.3]" for name in missing]
    for op_name, layers in record.kernels.items():
        for kernel in layers.values():
            problem = signature_problem(OPS[op_name], kernel, record.contract)
            if problem:
                problems.append(problem)
    return problems


def _equal(a: BackendRegistration, b: BackendRegistration) -> bool:
    def key(r: BackendRegistration) -> tuple:
        capabilities = r.capabilities if isinstance(r.capabilities, Capabilities) else describe_kernel(r.capabilities)
        callbacks = [describe_kernel(c) for c in (r.register_runtime, r.register_kernels, r.register_ccl)]
        return (r.name, tuple(r.contract or ()), r.default_autocast_dtype, repr(capabilities), *callbacks)

    return key(a) == key(b)


# What the callbacks call ------------------------------------------------------------------------------------------


def building(what: str, type: DeviceType) -> BackendRecord:
    """Return the record that the calling thread is registering for ``type``. Raises BackendRegistrationError."""
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
        raise BackendRegistrationError(record.name, ["register_device_guard_impl was called twice [contract 2.3]"])
    record.runtime = impl


def register_ccl_impl(type: DeviceType, impl: CclImpl) -> None:
    """Give the collectives of the backend being registered."""
    record = building("register_ccl_impl", type)
    if record.ccl is not None:
        raise BackendRegistrationError(record.name, ["register_ccl_impl was called twice [contract 2.3]"])
    record.ccl = impl


# Getters ----------------------------------------------------------------------------------------------------------


def has_privateuse1_backend() -> bool:
    """Tell whether a provider is registered (not: being registered)."""
    return DeviceType.PRIVATEUSE1 in _records


def get_privateuse1_backend_name() -> str:
    """Return the provider's name, already inside its own registration callbacks; ``privateuse1`` before."""
    return _device.provider_name() or "privateuse1"


def get_privateuse1_backend_default_autocast_dtype() -> DType | None:
    """Return the dtype the provider declared for autocast, or None. Raises BackendNotAvailableError without one."""
    record = find_record(DeviceType.PRIVATEUSE1) or require_record(DeviceType.PRIVATEUSE1)
    return record.registration.default_autocast_dtype


def registered_types() -> tuple[DeviceType, ...]:
    """Return the device types with a backend, in the order of their numbers."""
    return tuple(sorted(_records))


def _provider_name() -> str | None:
    record = find_record(DeviceType.PRIVATEUSE1)
    return record.name if record is not None else None


_device.provider_name = _provider_name
