"""What a provider reads and implements: registration, runtime, kernels, collectives. See docs/contract.md."""

from .allocator import CachingAllocator
from .capabilities import Capabilities, Option
from .ccl import AVG, MAX, MIN, PROD, SUM, CclImpl
from .describe import BackendDescription, KernelLayer, OpSupport, describe_backend
from .discovery import (
    backend_modules,
    failed_backends,
    installed_backends,
    load_backend,
    load_backend_module,
    registrar_path,
)
from .dispatch import composite
from .guard_impl import D2D, D2H, H2D, Buffer, DeviceGuardImpl, LaunchInfo
from .kernels import check_kernels, register_kernel
from .noop import NO_OP_KERNELS, no_op_backward, no_op_forward
from .optable import BASE_OPS, OPS, Op, Param
from .problems import CONTRACT
from .registration import (
    BackendRegistration,
    PrivateUse1BackendRegistration,
    get_privateuse1_backend_default_autocast_dtype,
    get_privateuse1_backend_name,
    has_privateuse1_backend,
    register_backend,
    register_ccl_impl,
    register_device_guard_impl,
    register_privateuse1_backend,
    registered_types,
)
from .runtime import (
    DeviceGuard,
    backend_options,
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
    "AVG",
    "BASE_OPS",
    "CONTRACT",
    "D2D",
    "D2H",
    "H2D",
    "MAX",
    "MIN",
    "NO_OP_KERNELS",
    "OPS",
    "PROD",
    "SUM",
    "BackendDescription",
    "BackendRegistration",
    "Buffer",
    "CachingAllocator",
    "Capabilities",
    "CclImpl",
    "DeviceGuard",
    "DeviceGuardImpl",
    "DeviceTensor",
    "KernelLayer",
    "LaunchInfo",
    "Op",
    "OpSupport",
    "Option",
    "Param",
    "PrivateUse1BackendRegistration",
    "TensorSpec",
    "backend_modules",
    "backend_options",
    "check_kernels",
    "composite",
    "current_device",
    "describe_backend",
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
    "no_op_backward",
    "no_op_forward",
    "register_backend",
    "register_ccl_impl",
    "register_device_guard_impl",
    "register_kernel",
    "register_privateuse1_backend",
    "registered_types",
    "registrar_path",
    "set_backend_options",
    "set_current_device",
    "set_launch_info",
    "stream_scope",
    "synchronize",
]
