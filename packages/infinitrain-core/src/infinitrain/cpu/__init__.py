"""The built-in CPU backend: it registers through the same door as a provider."""

from __future__ import annotations

from ..backend.capabilities import Capabilities
from ..backend.problems import CONTRACT
from ..backend.registration import BackendRegistration, register_backend, register_device_guard_impl
from ..device import DeviceType
from ..dtype import bfloat16
from ..kernels import register_array_kernels
from .indexing import EXTRAS
from .kernels import register_explicit_kernels


def _register_runtime() -> None:
    from .runtime import CpuRuntime

    register_device_guard_impl(DeviceType.CPU, CpuRuntime())


def _register_kernels() -> None:
    register_array_kernels(DeviceType.CPU, "numpy", extras=EXTRAS)
    register_explicit_kernels()


def register() -> None:
    """Register the CPU; idempotent."""
    register_backend(
        DeviceType.CPU,
        BackendRegistration(
            name="cpu",
            contract=CONTRACT,
            register_runtime=_register_runtime,
            register_kernels=_register_kernels,
            default_autocast_dtype=bfloat16,
            capabilities=Capabilities(host_visible=True, peer_copy=True),
        ),
    )
