"""The backend under test: how it is loaded, what it declares, and its device once a test needs one."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from . import manifest
from .__about__ import __version__


class NotLoadable(Exception):
    """The backend is not installed, or does not register."""


class NoDevice(Exception):
    """The backend is installed, a device is not."""


class NoSuchIndex(Exception):
    """There are devices, but not the one that was asked for."""


class Broken(Exception):
    """The backend registered, but its runtime does not start."""


@dataclass(frozen=True)
class Spec:
    """What the command line says about the backend: all that a fresh process needs to load it again."""

    name: str  # a device text: maca, maca:1
    module: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def type_name(self) -> str:
        return self.name.partition(":")[0]


class Target:
    """The loaded backend. Nothing here touches its device before ``start`` [contract 3.2]."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.name = spec.type_name

    @cached_property
    def device(self) -> Any:
        """The device under test, the backend registered. Raises NotLoadable."""
        from infinitrain import backend
        from infinitrain.device import BUILTIN_NAMES, Device, type_name
        from infinitrain.errors import BackendError, InfiniTrainError

        try:
            if self.spec.module:
                backend.load_backend_module(self.spec.module)
            builtin = BUILTIN_NAMES.get(self.name)
            if builtin is not None and not backend.has_device_guard_impl(builtin):
                backend.load_backend(self.name)
            device = Device.parse(self.spec.name)
        except InfiniTrainError as error:
            cause = error.__cause__
            because = f"\ncause: {type(cause).__name__}: {cause}" if cause is not None else ""
            raise NotLoadable(f"{error}{because}") from error
        if not backend.has_device_guard_impl(device.type):
            raise NotLoadable(f"device {self.name!r} has no backend in this process")
        if type_name(device.type) != self.name:
            raise NotLoadable(
                f"{self.name!r} is the slot of {type_name(device.type)!r}: give that as --backend"
            )
        if self.spec.options:
            try:
                backend.set_backend_options(dict(self.spec.options))
            except BackendError as error:
                raise NotLoadable(str(error)) from error
        return device

    @cached_property
    def record(self) -> Any:
        """What the backend registered."""
        from infinitrain.backend import registration

        return registration.require_record(self.device.type)

    @cached_property
    def runtime(self) -> Any:
        """The runtime, initialised. Raises NoDevice, NoSuchIndex or Broken."""
        from infinitrain import backend
        from infinitrain.errors import BackendInitError, MissingLibraryError, NoDeviceError

        device = self.device
        try:
            runtime = backend.get_device_guard_impl(device.type)
            count = runtime.device_count()
        except (NoDeviceError, MissingLibraryError) as error:
            raise NoDevice(str(error)) from error
        except BackendInitError as error:
            raise Broken(str(error)) from error
        if device.index >= count:
            if not count:
                raise NoDevice(f"{self.name} has no devices")
            have = f"{self.name}:0 to {self.name}:{count - 1}" if count > 1 else f"{self.name}:0"
            raise NoSuchIndex(f"{self.name} has {count} device{'s' * (count > 1)}, {have}")
        return runtime

    @property
    def description(self) -> str:
        """The device in one line, once it was touched."""
        return (
            f"{self.device} ({self.runtime.describe(self.device)})"
            if "runtime" in self.__dict__
            else self.spec.name
        )

    @property
    def distribution(self) -> str | None:
        """The installed distribution that offers the device, with its version; None when it is built in or
        injected.
        """
        from infinitrain import backend

        entries = backend.installed_backends().get(self.name, [])
        dist = entries[0].dist if entries else None
        return f"{dist.name} {dist.version}" if dist is not None else None

    def missing_kernels(self) -> dict[str, list[str]]:
        """Return the ops without a kernel in any layer, by profile [contract 4.2]."""
        from infinitrain.backend import describe_backend

        return {profile: list(names) for profile, names in describe_backend(self.device).missing.items()}

    def versions(self) -> dict[str, Any]:
        """Return what is known before the backend is loaded."""
        import numpy

        from infinitrain import backend
        from infinitrain.__about__ import __version__ as core

        return {
            "suite": __version__,
            "core": core,
            "core_contract": ".".join(map(str, backend.CONTRACT)),
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "platform": platform.platform(),
        }

    def ops(self) -> dict[str, Any]:
        """Return what the report says of each op of the table."""
        from infinitrain.backend import OPS
        from infinitrain.backend.optable import DTYPES

        from .families import level_of
        from .matrix import DIRECTIONS

        return {
            row.name: {
                "profile": row.profile,
                "direction": DIRECTIONS[level_of(row.name)],
                "dtypes": [dtype.name for dtype in DTYPES[row.dtypes]],
            }
            for row in OPS.values()
        }

    def offers(self) -> frozenset[str]:
        """Return the optional groups of methods that the runtime has; nothing is called for that."""
        return frozenset(name for name, offered in manifest.declared(self.record).items() if offered)

    def facts(self) -> dict[str, Any]:
        """Return what the backend declares; of its device only what is known by now."""
        record = self.record
        provider: dict[str, Any] = {
            "name": self.name,
            "slot": self.device.type.name,
            "contract": ".".join(map(str, record.contract)),
            "options": [option.name for option in record.capabilities.options],
            "nondeterministic": list(record.capabilities.nondeterministic),
        }
        if self.distribution is not None:
            provider["distribution"] = self.distribution
        elif self.spec.module:
            provider["distribution"] = f"module {self.spec.module}"
        if "runtime" in self.__dict__:
            provider |= {"describe": self.description, "device_count": self.runtime.device_count()}
        return {
            "provider": provider,
            "capabilities": manifest.declared(record),
            "declared_where": {name: manifest.where(record, name) for name in manifest.NAMES},
            "missing_kernels": self.missing_kernels(),
        }
