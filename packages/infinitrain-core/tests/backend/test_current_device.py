"""Current device and stream: per thread, shadowed, restored [contract 3.5]."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import infinitrain as it
from infinitrain.backend import (
    DeviceGuard,
    current_device,
    set_current_device,
    stream_scope,
)
from infinitrain.backend.guard_impl import GROUPS
from infinitrain.device import Device, DeviceType
from infinitrain.errors import (
    BackendNotAvailableError,
    NoSuchDeviceError,
)
from infinitrain.testing import HostRuntime, host_backend, temporary_backend

ONE = DeviceType.PRIVATEUSE1


@pytest.fixture
def host() -> Iterator[HostRuntime]:
    """A registered device that nobody has used yet."""
    impl = HostRuntime()
    with temporary_backend(host_backend(impl)):
        yield impl


def test_the_provider_is_asked_only_on_change(host: HostRuntime) -> None:
    """[contract 3.5]"""
    one = Device(ONE, 1)
    set_current_device(one)
    set_current_device(one)
    it.zeros(2, device=one)
    assert [d for name, d in host.log if name == "set_device"] == [one]
    set_current_device(Device(ONE, 0))
    assert host.calls("set_device") == 2


def test_a_guard_restores_on_exceptions_too(host: HostRuntime) -> None:
    """[contract 3.5]"""
    zero, one = Device(ONE, 0), Device(ONE, 1)
    with DeviceGuard("testdev:1") as guard:
        assert guard.device is current_device(ONE) is host.get_device() is one
        with DeviceGuard(zero):
            assert host.get_device() is zero
        assert host.get_device() is one
    assert current_device(ONE) is host.get_device() is zero
    with pytest.raises(ZeroDivisionError), DeviceGuard(one):
        raise ZeroDivisionError
    assert current_device(ONE) is host.get_device() is zero


def test_a_guard_for_no_device_changes_nothing(host: HostRuntime) -> None:
    """[contract 1.8, 3.5]"""
    guard = DeviceGuard("testdev:2")
    with pytest.raises(NoSuchDeviceError):
        guard.__enter__()
    assert current_device(ONE) is Device(ONE, 0)


def test_the_current_device_is_per_thread(host: HostRuntime) -> None:
    """[contract 3.5]"""
    seen: list[Device] = []
    set_current_device(Device(ONE, 1))
    thread = threading.Thread(target=lambda: seen.append(current_device(ONE)))
    thread.start()
    thread.join(10)
    assert seen == [Device(ONE, 0)]
    assert current_device(ONE) is Device(ONE, 1)


def test_an_op_runs_on_its_tensors_device(host: HostRuntime) -> None:
    """[contract 3.5]"""
    at: list[Device] = []

    class Watched(HostRuntime):
        def kernel_window(self, op: str, reads: list[Any], writes: list[Any]) -> DeviceGuard:  # type: ignore[override]
            at.append(self.get_device())
            return DeviceGuard(self.get_device())

    with temporary_backend(host_backend(Watched())):
        x = it.full((2,), 1.5, device="testdev:1")
        set_current_device(Device(ONE, 0))
        at.clear()
        assert (x + x).device is Device(ONE, 1)
        assert at == [Device(ONE, 1)]


def test_streams_are_scoped() -> None:
    """[contract 3.5]"""

    class Streams(HostRuntime):
        stream: Any = "first"

        def current_stream(self, device: Device) -> Any:
            return self.stream

        def set_current_stream(self, stream: Any) -> None:
            self.stream = stream

    for name in GROUPS["streams"][2:]:
        setattr(Streams, name, lambda self, *args: None)
    impl = Streams()
    with temporary_backend(host_backend(impl)):
        with stream_scope("second", Device(ONE, 1)):
            assert impl.stream == "second"
        assert impl.stream == "first"
        with pytest.raises(ZeroDivisionError), stream_scope("second", Device(ONE, 1)):
            raise ZeroDivisionError
        assert impl.stream == "first"


def test_a_device_without_backend(host: HostRuntime) -> None:
    """[contract 1.8]"""
    with pytest.raises(BackendNotAvailableError, match="'cuda' has no backend"):
        DeviceGuard("cuda").__enter__()
