"""What a provider reads and implements: registration, runtime, kernels, collectives. See docs/contract.md."""

from .capabilities import Capabilities, Option
from .ccl import CclImpl
from .discovery import failed_backends, installed_backends, load_backend, load_backend_module
from .dispatch import composite
from .kernels import register_kernel
from .optable import BASE_OPS, OPS, Op, Param
from .registration import (
    CONTRACT,
    BackendRegistration,
    PrivateUse1BackendRegistration,
    get_privateuse1_backend_default_autocast_dtype,
    get_privateuse1_backend_name,
    has_privateuse1_backend,
    register_backend,
    register_ccl_impl,
    register_device_guard_impl,
    register_privateuse1_backend,
)
from .runtime import (
    D2D,
    D2H,
    H2D,
    Buffer,
    DeviceGuard,
    DeviceGuardImpl,
    LaunchInfo,
    current_device,
    get_device_guard_impl,
    has_device_guard_impl,
    set_backend_options,
    set_current_device,
    set_launch_info,
    stream_scope,
    synchronize,
)
from .spec import TensorSpec
from .storage import DeviceTensor, empty, from_array

__all__ = [
    "BASE_OPS",
    "CONTRACT",
    "D2D",
    "D2H",
    "H2D",
    "OPS",
    "BackendRegistration",
    "Buffer",
    "Capabilities",
    "CclImpl",
    "DeviceGuard",
    "DeviceGuardImpl",
    "DeviceTensor",
    "LaunchInfo",
    "Op",
    "Option",
    "Param",
    "PrivateUse1BackendRegistration",
    "TensorSpec",
    "composite",
    "current_device",
    "empty",
    "failed_backends",
    "from_array",
    "get_device_guard_impl",
    "get_privateuse1_backend_default_autocast_dtype",
    "get_privateuse1_backend_name",
    "has_device_guard_impl",
    "has_privateuse1_backend",
    "installed_backends",
    "load_backend",
    "load_backend_module",
    "register_backend",
    "register_ccl_impl",
    "register_device_guard_impl",
    "register_kernel",
    "register_privateuse1_backend",
    "set_backend_options",
    "set_current_device",
    "set_launch_info",
    "stream_scope",
    "synchronize",
]
