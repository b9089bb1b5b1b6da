"""How ``fake`` registers itself. Nothing here touches the device or imports the simulation [contract 3.2]."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from infinitrain.backend import (
    Capabilities,
    Option,
    PrivateUse1BackendRegistration,
    register_device_guard_impl,
    register_privateuse1_backend,
)
from infinitrain.device import DeviceType
from infinitrain.dtype import bfloat16
from infinitrain.errors import BackendNotAvailableError

if TYPE_CHECKING:
    from .runtime import FakeRuntime

CAPABILITIES = Capabilities(
    peer_copy=True,
    options=(
        Option("devices", int, 2, "number of devices, 1 to 128"),
        Option("memory_mb", int, 4096, "memory of each device in MiB"),
        Option("fault", str, "", "planted faults, comma-separated; see infinitrain_fake.faults"),
    ),
)


def register_backend() -> None:
    """Register the device ``fake``; idempotent [contract 2.8]."""
    fields: dict[str, Any] = {
        "name": "fake",
        "contract": (1, 0),
        "register_runtime": register_runtime,
        "register_kernels": register_kernels,
        "default_autocast_dtype": bfloat16,
        "capabilities": CAPABILITIES,
    }
    names = _planted()
    if names:
        from . import faults

        faults.plant(names, "registration", fields)
    register_privateuse1_backend(PrivateUse1BackendRegistration(**fields))


def register_runtime() -> None:
    from .runtime import FakeRuntime

    register_device_guard_impl(DeviceType.PRIVATEUSE1, FakeRuntime(_planted()))


def register_kernels() -> None:
    from infinitrain.kernels import register_array_kernels

    register_array_kernels(DeviceType.PRIVATEUSE1, "numpy")
    names = _planted()
    if names:
        from infinitrain.backend.registration import building

        from . import faults

        faults.plant(names, "kernels", building("register_kernel", DeviceType.PRIVATEUSE1).kernels)


def _planted() -> tuple[str, ...]:
    text = os.environ.get("INFINITRAIN_FAKE_FAULT", "")
    if not text:
        return ()
    from . import faults

    return faults.parse(text)


def runtime() -> FakeRuntime:
    """Return the registered runtime. Raises BackendNotAvailableError when the device is not registered."""
    from infinitrain.backend.registration import find_record

    from .runtime import FakeRuntime

    record = find_record(DeviceType.PRIVATEUSE1)
    if record is None or not isinstance(record.runtime, FakeRuntime):
        raise BackendNotAvailableError(
            "the fake device is not registered: call infinitrain_fake.register_backend()"
        )
    return record.runtime
