"""How ``fake`` registers itself. Nothing here touches the device or imports the simulation [contract 3.2]."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

_runtime: FakeRuntime | None = None


def register_backend() -> None:
    """Register the device ``fake``; idempotent [contract 2.8]."""
    register_privateuse1_backend(
        PrivateUse1BackendRegistration(
            name="fake",
            contract=(1, 0),
            register_runtime=register_runtime,
            register_kernels=register_kernels,
            default_autocast_dtype=bfloat16,
            capabilities=CAPABILITIES,
        )
    )


def register_runtime() -> None:
    global _runtime
    from .runtime import FakeRuntime

    _runtime = FakeRuntime()
    register_device_guard_impl(DeviceType.PRIVATEUSE1, _runtime)


def register_kernels() -> None:
    from infinitrain.kernels import register_array_kernels

    register_array_kernels(DeviceType.PRIVATEUSE1, "numpy")


def runtime() -> FakeRuntime:
    """Return the runtime registered last. Raises BackendNotAvailableError before registration."""
    if _runtime is None:
        raise BackendNotAvailableError(
            "the fake device is not registered: infinitrain_fake.register_backend()"
        )
    return _runtime
