"""Faults of registration (L0)."""

from __future__ import annotations

from typing import Any

from infinitrain.backend import BASE_OPS, register_device_guard_impl, register_kernel
from infinitrain.device import DeviceType
from infinitrain.dtype import float16, float32

from .catalogue import registration_fault

Fields = dict[str, Any]
TYPE = DeviceType.PRIVATEUSE1


@registration_fault("2.3")
def base_kernel_missing(fields: Fields) -> None:
    """The provider registers no Cast kernel."""
    right = fields["register_kernels"]

    def register_kernels() -> None:
        from infinitrain.backend.registration import building

        right()
        del building("register_kernel", TYPE).kernels["Cast"]

    fields["register_kernels"] = register_kernels


@registration_fault("2.3")
def runtime_of_wrong_type(fields: Fields) -> None:
    """The runtime says that it serves CUDA."""

    def register_runtime() -> None:
        from ..runtime import FakeRuntime

        class CudaRuntime(FakeRuntime):
            type = DeviceType.CUDA

        register_device_guard_impl(TYPE, CudaRuntime())

    fields["register_runtime"] = register_runtime


@registration_fault("2.3")
def contract_missing(fields: Fields) -> None:
    """The registration does not say for which contract version it was written."""
    fields["contract"] = None


@registration_fault("2.3")
def autocast_dtype_float32(fields: Fields) -> None:
    """The default autocast dtype is float32, which is no lower precision."""
    fields["default_autocast_dtype"] = float32


@registration_fault("2.8")
def registers_another_name(fields: Fields) -> None:
    """The entry point ``fake`` registers a device named ``fake_device``."""
    fields["name"] = "fake_device"


@registration_fault("2.5")
def registers_differently_again(fields: Fields) -> None:
    """Every second call of the registrar hands over another registration: it is not idempotent."""
    global _calls
    _calls += 1
    if _calls % 2 == 0:
        fields["default_autocast_dtype"] = float16


_calls = 0


@registration_fault("2.3")
def kernel_parameters_swapped(fields: Fields) -> None:
    """LinearForward takes (weight, x, bias) instead of (x, weight, bias)."""
    right = fields["register_kernels"]

    def register_kernels() -> None:
        right()

        def linear(weight: Any, x: Any, bias: Any, *, out: Any) -> None:
            out.array[...] = x.array @ weight.array.T + (0 if bias is None else bias.array)

        register_kernel(TYPE, "LinearForward", linear)

    fields["register_kernels"] = register_kernels


@registration_fault("2.3")
def kernel_of_no_op(fields: Fields) -> None:
    """A kernel is registered under a name that is not in the op table: LinearForwrd."""
    right = fields["register_kernels"]

    def register_kernels() -> None:
        right()
        register_kernel(TYPE, "LinearForwrd", lambda x, weight, bias: x)

    fields["register_kernels"] = register_kernels


@registration_fault("2.4")
def kernels_callback_breaks_off(fields: Fields) -> None:
    """The kernels callback raises half-way, after kernels have been registered."""
    right = fields["register_kernels"]

    def register_kernels() -> None:
        right()
        raise OSError("libfake_kernels.so: cannot open shared object file")

    fields["register_kernels"] = register_kernels


@registration_fault("2.3")
def ccl_announced_not_given(fields: Fields) -> None:
    """A collectives callback is given and registers nothing."""
    fields["register_ccl"] = _nothing


def _nothing() -> None:
    pass


@registration_fault("2.9")
def kernel_path_leads_nowhere(fields: Fields) -> None:
    """LinearForward is given as an import path of a module that does not exist."""
    right = fields["register_kernels"]

    def register_kernels() -> None:
        right()
        register_kernel(TYPE, "LinearForward", "infinitrain_fake.no_such_module:linear_forward")

    fields["register_kernels"] = register_kernels


@registration_fault("2.3")
def only_base_kernels(fields: Fields) -> None:
    """The kernels callback stops after the base profile: no model can be trained."""
    right = fields["register_kernels"]

    def register_kernels() -> None:
        from infinitrain.backend.registration import building

        right()
        kernels = building("register_kernel", TYPE).kernels
        for name in [n for n in kernels if n not in BASE_OPS]:
            del kernels[name]

    fields["register_kernels"] = register_kernels


@registration_fault("3.2")
def initialises_when_registered(fields: Fields) -> None:
    """Registration starts the device and allocates: the device is in use before anyone asked for it."""
    right = fields["register_runtime"]

    def register_runtime() -> None:
        from infinitrain.backend import LaunchInfo
        from infinitrain.backend.registration import building

        right()
        runtime = building("register_device_guard_impl", TYPE).runtime
        runtime.initialize(LaunchInfo())
        runtime.ballast = runtime.malloc(1 << 20)

    fields["register_runtime"] = register_runtime
