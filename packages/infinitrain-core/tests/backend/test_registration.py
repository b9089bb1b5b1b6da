"""Registration: what a provider calls, in which order, and who sees it [contract 2]."""

import threading
from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from infinitrain.backend import (
    PrivateUse1BackendRegistration,
    get_device_guard_impl,
    get_privateuse1_backend_default_autocast_dtype,
    get_privateuse1_backend_name,
    has_privateuse1_backend,
    register_backend,
    register_ccl_impl,
    register_device_guard_impl,
    register_kernel,
    register_privateuse1_backend,
    registered_types,
    registration,
)
from infinitrain.backend.registration import BackendRegistration
from infinitrain.device import Device, DeviceType
from infinitrain.dtype import float16
from infinitrain.errors import BackendNotAvailableError, BackendRegistrationError
from infinitrain.kernels import register_array_kernels
from infinitrain.testing import HostRuntime, IdleCcl, host_backend, refusal, temporary_backend

ONE = DeviceType.PRIVATEUSE1


def nothing() -> None:
    """A callback that forgets everything."""


def problems(**fields: Any) -> list[str]:
    """Return what is wrong with a registration that is otherwise right."""
    return refusal(host_backend(**fields)).problems


# What a provider calls --------------------------------------------------------------------------------------


def test_fields_are_keyword_only() -> None:
    """[contract 2.1]"""
    with pytest.raises(TypeError):
        PrivateUse1BackendRegistration("toy", (1, 0))  # type: ignore[misc]


def test_something_else_than_a_registration() -> None:
    """[contract 2.1]"""
    error = refusal(lambda: register_privateuse1_backend({"name": "toy"}))  # type: ignore[arg-type]
    assert "PrivateUse1BackendRegistration" in error.problems[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: register_kernel(ONE, "Fill", nothing),
        lambda: register_device_guard_impl(ONE, HostRuntime()),
        lambda: register_ccl_impl(ONE, IdleCcl()),
        lambda: register_array_kernels(ONE, "numpy"),
    ],
)
def test_only_inside_a_callback(call: Callable[[], object]) -> None:
    """[contract 2.1]"""
    with pytest.raises(BackendRegistrationError, match="inside a registration callback only"):
        call()


def test_only_for_ones_own_type() -> None:
    """[contract 2.1]"""
    found = problems(kernels=lambda: register_kernel(DeviceType.CPU, "Fill", nothing))
    assert len(found) == 1
    assert "inside the registration of" in found[0]


@pytest.mark.parametrize("type", [DeviceType.CPU, DeviceType.CUDA])
def test_builtin_types_have_their_own_name(type: DeviceType) -> None:
    """[contract 1.3, 2.1]"""
    with temporary_backend(type=type), pytest.raises(BackendRegistrationError, match="is not that of"):
        register_backend(type, BackendRegistration(name="toy", contract=(1, 0)))


@pytest.mark.parametrize("type", [DeviceType.INVALID, 2, "cuda", None])
def test_no_device_type(type: Any) -> None:
    """[contract 1.1]"""
    with pytest.raises(BackendRegistrationError, match="is no device type"):
        register_backend(type, BackendRegistration(name="toy", contract=(1, 0)))


# Order and visibility ---------------------------------------------------------------------------------------


def test_callbacks_run_in_order_and_see_the_new_name() -> None:
    """[contract 2.2]"""
    log: list[tuple[str, str]] = []
    impl = HostRuntime()

    def note(what: str) -> None:
        log.append((what, get_privateuse1_backend_name()))

    def runtime() -> None:
        note("runtime")
        register_device_guard_impl(ONE, impl)

    def ccl() -> None:
        note("ccl")
        register_ccl_impl(ONE, IdleCcl())

    with temporary_backend(
        host_backend(register_runtime=runtime, register_ccl=ccl, kernels=lambda: note("kernels"))
    ):
        assert log == [("runtime", "testdev"), ("ccl", "testdev"), ("kernels", "testdev")]


def test_callbacks_run_outside_the_lock() -> None:
    """[contract 2.2] Another thread reads the registry, and is not held up."""
    seen: list[Any] = []

    def look() -> None:
        seen.append((has_privateuse1_backend(), get_privateuse1_backend_name(), str(Device(ONE, 1))))

    def kernels() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()

    with temporary_backend(host_backend(kernels=kernels)):
        assert seen == [
            (False, "privateuse1", "privateuse1:1")
        ]  # [contract 2.4] no other thread sees the attempt


def test_the_device_is_not_usable_in_a_callback() -> None:
    """[contract 2.2]"""
    found = problems(kernels=lambda: get_device_guard_impl(ONE))
    assert "Its registration has not finished" in found[0]


# Order, coexistence -----------------------------------------------------------------------------------------


class CudaRuntime(HostRuntime):
    """A runtime in CUDA's place."""

    type = DeviceType.CUDA


def register_cuda() -> None:
    """Register a backend for CUDA."""
    cuda = DeviceType.CUDA
    register_backend(
        cuda,
        BackendRegistration(
            name="cuda",
            contract=(1, 0),
            register_runtime=lambda: register_device_guard_impl(cuda, CudaRuntime()),
            register_kernels=lambda: register_array_kernels(cuda, "numpy"),
        ),
    )


@pytest.mark.parametrize("order", list(permutations(["cpu", "cuda", "testdev"])), ids="-".join)
def test_order_does_not_matter(order: tuple[str, ...]) -> None:
    """[contract 2.6] Tensors of all three live in one process."""
    import infinitrain as it
    from infinitrain import cpu

    steps = {"cpu": cpu.register, "cuda": register_cuda, "testdev": host_backend()}
    with (
        temporary_backend(type=DeviceType.CPU),
        temporary_backend(type=DeviceType.CUDA),
        temporary_backend(type=ONE),
    ):
        for name in order:
            steps[name]()
        assert registered_types() == (DeviceType.CPU, DeviceType.CUDA, ONE)
        total = it.full((2,), 1.5)
        for name in ("cuda:1", "testdev:1"):
            total = total + it.full((2,), 2.5, device=name).cpu()
        assert total.tolist() == [6.5, 6.5]


# Getters ----------------------------------------------------------------------------------------------------


def test_getters_before_and_after() -> None:
    """[contract 2.7]"""
    with temporary_backend():
        assert (has_privateuse1_backend(), get_privateuse1_backend_name()) == (False, "privateuse1")
        with pytest.raises(BackendNotAvailableError):
            get_privateuse1_backend_default_autocast_dtype()
    with temporary_backend(host_backend(default_autocast_dtype=float16)):
        assert (has_privateuse1_backend(), get_privateuse1_backend_name()) == (True, "testdev")
        assert get_privateuse1_backend_default_autocast_dtype() is float16


# Un-registration --------------------------------------------------------------------------------------------


def test_temporary_backends_nest_and_outdate_kernel_caches() -> None:
    """[contract 2.10]"""
    import infinitrain as it

    def doubled() -> None:
        register_kernel(ONE, "Fill", lambda x, value: x.array.fill(2 * value))

    with temporary_backend(host_backend()):
        version = registration.version
        assert it.full((2,), 3.0, device="testdev").tolist() == [3.0, 3.0]
        with temporary_backend(host_backend(name="inner", kernels=doubled)):
            assert it.full((2,), 3.0, device="inner").tolist() == [6.0, 6.0]
            assert registration.version > version
        assert it.full((2,), 3.0, device="testdev").tolist() == [3.0, 3.0]


def test_a_temporary_backend_is_shut_down_and_the_old_one_not() -> None:
    """[contract 2.10]"""
    outer, inner = HostRuntime(), HostRuntime()
    with temporary_backend(host_backend(outer)):
        get_device_guard_impl(ONE)
        with temporary_backend(host_backend(inner)):
            get_device_guard_impl(ONE)
        assert (outer.calls("shutdown"), inner.calls("shutdown")) == (0, 1)
        assert get_device_guard_impl(ONE) is outer
        assert outer.calls("initialize") == 1
    assert not has_privateuse1_backend()
