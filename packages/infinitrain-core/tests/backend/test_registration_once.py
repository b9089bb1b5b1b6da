"""Registration: atomic, idempotent, once per process [contract 2.4, 2.5]."""

import threading
from typing import Any

import pytest

from infinitrain.backend import (
    PrivateUse1BackendRegistration,
    get_privateuse1_backend_default_autocast_dtype,
    get_privateuse1_backend_name,
    has_device_guard_impl,
    has_privateuse1_backend,
    register_device_guard_impl,
    register_kernel,
    register_privateuse1_backend,
    registered_types,
    registration,
)
from infinitrain.backend.capabilities import Capabilities, Option
from infinitrain.device import Device, DeviceType
from infinitrain.dtype import bfloat16, float16
from infinitrain.errors import BackendRegistrationError, UnknownDeviceError
from infinitrain.kernels import register_array_kernels
from infinitrain.testing import HostRuntime, host_backend, refusal, temporary_backend

ONE = DeviceType.PRIVATEUSE1


def nothing() -> None:
    """A callback that forgets everything."""


def problems(**fields: Any) -> list[str]:
    """Return what is wrong with a registration that is otherwise right."""
    return refusal(host_backend(**fields)).problems


# Atomicity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("callback", ["register_runtime", "register_ccl", "register_kernels"])
def test_an_exception_leaves_nothing(callback: str) -> None:
    """[contract 2.4]"""

    def fail() -> None:
        register_kernel(ONE, "Fill", lambda x, value: None)
        raise OSError("no SDK")

    version = registration.version
    with temporary_backend():
        before = registration.version
        with pytest.raises(BackendRegistrationError, match=f"{callback} raised OSError: no SDK") as caught:
            host_backend(**{callback: fail})()
        assert isinstance(caught.value.__cause__, OSError)
        assert registration.version == before
        assert not has_device_guard_impl(ONE)
        assert registered_types() == (DeviceType.CPU,)
        assert get_privateuse1_backend_name() == "privateuse1"
        with pytest.raises(UnknownDeviceError):
            Device.parse("testdev")
        host_backend()()  # and nothing stands in the way of a second try
        assert has_privateuse1_backend()
    assert registration.version > version


def test_what_a_failed_callback_did_not_give_is_no_news() -> None:
    """[contract 2.3]"""

    def fail() -> None:
        raise OSError("no SDK")

    assert problems(register_runtime=fail) == ["register_runtime raised OSError: no SDK"]
    assert problems(register_kernels=fail) == ["register_kernels raised OSError: no SDK"]


def test_an_interrupt_leaves_nothing() -> None:
    """[contract 2.4]"""

    def interrupt() -> None:
        raise KeyboardInterrupt

    with temporary_backend():
        with pytest.raises(KeyboardInterrupt):
            host_backend(kernels=interrupt)()
        assert not has_privateuse1_backend()
        assert get_privateuse1_backend_name() == "privateuse1"
        host_backend()()


# Once -------------------------------------------------------------------------------------------------------


def callback_runtime() -> None:
    """A callback at the top level of a module, as a provider's are."""
    register_device_guard_impl(ONE, HostRuntime())


def callback_kernels() -> None:
    """As above."""
    register_array_kernels(ONE, "numpy")


def other_kernels() -> None:
    """As above."""
    register_array_kernels(ONE, "numpy")


def provider(**changes: Any) -> PrivateUse1BackendRegistration:
    """Return a new registration, the same every time."""
    values: dict[str, Any] = {
        "name": "toy",
        "contract": (1, 0),
        "register_runtime": callback_runtime,
        "register_kernels": callback_kernels,
        "default_autocast_dtype": bfloat16,
        "capabilities": Capabilities(options=(Option("devices", int, 2),), peak_flops=lambda dtype: 1e12),
    }
    return PrivateUse1BackendRegistration(**values | changes)


def test_the_same_again_is_nothing_new() -> None:
    """[contract 2.5]"""
    with temporary_backend():
        register_privateuse1_backend(provider())
        record = registration.find_published(ONE)
        version = registration.version
        register_privateuse1_backend(provider())
        register_privateuse1_backend(provider(contract=[1, 0]))
        assert registration.find_published(ONE) is record
        assert registration.version == version


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"register_kernels": other_kernels},
        {"register_ccl": nothing},
        {"default_autocast_dtype": float16},
        {"default_autocast_dtype": None},
        {"capabilities": Capabilities()},
        {"capabilities": Capabilities},
    ],
    ids=lambda c: next(iter(c)),
)
def test_another_is_refused(change: dict[str, Any]) -> None:
    """[contract 2.5]"""
    with temporary_backend():
        register_privateuse1_backend(provider())
        with pytest.raises(BackendRegistrationError, match="'toy' is already registered") as caught:
            register_privateuse1_backend(provider(**change))
        assert "--backend_module" in str(caught.value)
        assert get_privateuse1_backend_name() == "toy"
        assert get_privateuse1_backend_default_autocast_dtype() is bfloat16


def test_a_wrong_second_one_is_told_everything() -> None:
    """[contract 2.3, 2.5]"""
    with temporary_backend():
        register_privateuse1_backend(provider())
        with pytest.raises(BackendRegistrationError) as caught:
            register_privateuse1_backend(provider(name="Toy", contract=1))
    assert [p.split(" ")[0] for p in caught.value.problems] == ["name", "contract=1", "'toy'"]


def race(*registrations: PrivateUse1BackendRegistration) -> list[Exception | None]:
    """Register from as many threads at once; return what each met."""
    start = threading.Barrier(len(registrations))
    met: list[Exception | None] = [None] * len(registrations)

    def run(i: int) -> None:
        start.wait(10)
        try:
            register_privateuse1_backend(registrations[i])
        except BackendRegistrationError as error:
            met[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(registrations))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert not any(t.is_alive() for t in threads)
    return met


def slow_kernels() -> None:
    """Give the other thread time to arrive in the middle."""
    callback_kernels()
    threading.Event().wait(0.05)


def test_of_two_threads_one_wins() -> None:
    """[contract 2.5]"""
    with temporary_backend():
        met = race(
            provider(name="one", register_kernels=slow_kernels),
            provider(name="two", register_kernels=slow_kernels),
        )
        winner = get_privateuse1_backend_name()
        assert met[0 if winner == "one" else 1] is None
        assert f"'{winner}' is already registered" in str(met[1 if winner == "one" else 0])


def test_two_threads_with_the_same_both_succeed() -> None:
    """[contract 2.5]"""
    with temporary_backend():
        before = registration.version
        assert race(*[provider(register_kernels=slow_kernels) for _ in range(4)]) == [None] * 4
        assert registration.version == before + 1


def test_a_failure_lets_the_waiting_thread_try() -> None:
    """[contract 2.4, 2.5]"""
    started = threading.Event()

    def fail() -> None:
        started.set()
        threading.Event().wait(0.05)
        raise OSError("no SDK")

    def first() -> None:
        with pytest.raises(BackendRegistrationError):
            register_privateuse1_backend(provider(register_kernels=fail))

    with temporary_backend():
        thread = threading.Thread(target=first)
        thread.start()
        started.wait(10)
        register_privateuse1_backend(provider())
        thread.join(10)
        assert get_privateuse1_backend_name() == "toy"


def test_re_entry_is_an_error() -> None:
    """[contract 2.5]"""
    found = problems(kernels=lambda: register_privateuse1_backend(provider()))
    assert found == ["called from inside the registration of 'testdev' [contract 2.5]"]
