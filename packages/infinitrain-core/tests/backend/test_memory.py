"""What core asks of a runtime when tensors are copied and kernels run [contract 3.3, 3.4, 3.6, 3.9, 3.10]."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS, Capabilities, dispatch, storage
from infinitrain.backend.guard_impl import GROUPS
from infinitrain.device import Device, DeviceType
from infinitrain.errors import DeviceError, DeviceMismatchError
from infinitrain.testing import HostRuntime, host_backend, temporary_backend

ONE = DeviceType.PRIVATEUSE1
VALUES = [[1.5, -2.25, 3.0], [0.125, 7.0, -8.5]]


def kinds(impl: HostRuntime) -> list[str]:
    """Return the kinds of the copies made, and forget them."""
    found = [kind for name, kind in impl.log if name == "memcpy"]
    impl.log.clear()
    return found


@pytest.mark.parametrize(("peer", "expected"), [(False, ["D2H", "H2D"]), (True, ["D2D"])])
def test_between_devices_core_stages_unless_the_provider_copies(peer: bool, expected: list[str]) -> None:
    """[contract 3.4]"""
    impl = HostRuntime()
    with temporary_backend(host_backend(impl, capabilities=Capabilities(peer_copy=peer))):
        x = it.tensor(VALUES, device="testdev:0")
        assert kinds(impl) == ["H2D"]
        y = x.to("testdev:1")
        assert kinds(impl) == expected
        assert y.tolist() == VALUES
        assert kinds(impl) == ["D2H"]
        assert x.clone().tolist() == VALUES
        assert kinds(impl) == ["D2D", "D2H"]


def test_the_host_side_is_free_on_return() -> None:
    """[contract 3.4] An H2D source may be overwritten."""
    source = np.array(VALUES, np.float32)
    with temporary_backend(host_backend()):
        x = it.from_numpy(source, "testdev:1")
        source[:] = 0.0
        assert x.tolist() == VALUES


def test_the_host_side_is_writable() -> None:
    """[contract 3.4] Also where the bytes come from an immutable object: ctypes needs it for an address."""
    seen: list[bool] = []

    class Runtime(HostRuntime):
        def memcpy(
            self,
            dst: Any,
            dst_offset: int,
            src: Any,
            src_offset: int,
            nbytes: int,
            kind: str,
            stream: Any = None,
        ) -> None:
            seen.append((src if kind == "H2D" else dst).readonly)
            super().memcpy(dst, dst_offset, src, src_offset, nbytes, kind, stream)

    with temporary_backend(host_backend(Runtime())):
        x = it.zeros(2, 3, device="testdev")
        storage.write_bytes(x, memoryview(np.array(VALUES, np.float32).tobytes()))
        assert x.tolist() == VALUES
        x.fill_(2.0)
        assert it.from_numpy(np.array(VALUES, np.float32), "testdev").tolist() == VALUES
        assert len(seen) >= 4
        assert not any(seen)


def test_adopt_is_called_with_the_tensors_device_current() -> None:
    """[contract 3.9] Arrays need not know their device, and those of visible devices are adopted late."""

    with temporary_backend(host_backend(capabilities=Capabilities(host_visible=True))):
        x = it.zeros(4, device="testdev:1")
        it.zeros(4, device="testdev:0")
        assert x.buffer.device == x.device


def test_nothing_is_copied_for_nothing() -> None:
    """[contract 3.3] malloc(0) is asked for, memcpy is not."""
    impl = HostRuntime()
    with temporary_backend(host_backend(impl)):
        x = it.zeros(0, 3, device="testdev")
        assert x.to("testdev:1").tolist() == []
        assert kinds(impl) == []


def test_tensors_on_two_devices_are_an_error_naming_both() -> None:
    """[contract 3.5]"""
    with temporary_backend(host_backend()):
        x, y = it.tensor(VALUES, device="testdev:0"), it.tensor(VALUES, device="testdev:1")
        with pytest.raises(DeviceMismatchError, match="testdev:0 and on testdev:1"):
            x + y


# Windows ----------------------------------------------------------------------------------------------------


class Windows(HostRuntime):
    """Arrays are valid inside a kernel's window only."""

    def __init__(self) -> None:
        super().__init__()
        self.local = threading.local()
        self.seen: list[tuple[str, list[Any], list[Any]]] = []

    @contextmanager
    def kernel_window(self, op: str, reads: list[Any], writes: list[Any]) -> Iterator[None]:  # type: ignore[override]
        self.seen.append((op, [t.ptr for t in reads], [t.ptr for t in writes]))
        self.local.open = True
        try:
            yield
        finally:
            self.local.open = False

    def native_array(self, *args: Any) -> Any:
        assert getattr(self.local, "open", False), "an array outside a window"
        return super().native_array(*args)


def test_arrays_are_used_inside_windows_only() -> None:
    """[contract 3.9] What is read, and what is written: destinations and arguments changed in place."""
    impl = Windows()
    with temporary_backend(host_backend(impl)):
        x, y = it.tensor(VALUES, device="testdev"), it.tensor(VALUES, device="testdev")
        assert impl.seen == []
        total = x + y
        assert total.tolist() == [[2 * v for v in row] for row in VALUES]
        OPS["AccumulateGrad"].call(x, 1.0, y)
        assert [op for op, _, _ in impl.seen] == ["AddForward", "AccumulateGrad"]
        assert impl.seen[0][1] == [x.ptr, y.ptr]
        assert impl.seen[1] == ("AccumulateGrad", [x.ptr], [y.ptr])


def test_a_window_is_closed_by_an_exception() -> None:
    """[contract 3.9]"""
    impl = Windows()

    def kernels() -> None:
        from infinitrain.backend import register_kernel

        register_kernel(ONE, "Fill", fail)

    with temporary_backend(host_backend(impl, kernels=kernels)):
        with pytest.raises(ZeroDivisionError):
            it.full((2,), 1.0, device="testdev")
        assert impl.local.open is False


def fail(x: Any, value: float) -> None:
    """A kernel that fails."""
    raise ZeroDivisionError


def test_host_visible_arrays_are_kept() -> None:
    """[contract 3.9]"""
    with temporary_backend(host_backend(capabilities=Capabilities(host_visible=True))):
        x = it.tensor(VALUES, device="testdev:1")
        assert x.array is x.array
        x.array[0, 0] = 9.0
        assert x.tolist()[0][0] == 9.0
        assert (x + x).tolist()[0][0] == 18.0


# Streams ----------------------------------------------------------------------------------------------------


class Streams(HostRuntime):
    """A device with one stream, which fails at the next synchronisation when told to."""

    class Stream:
        handle = 5

    stream = Stream()
    error: DeviceError | None = None

    def current_stream(self, device: Device) -> Any:
        return self.stream

    def record_use(self, buffer: Any, stream: Any) -> None:
        self.log.append(("record_use", (buffer.ptr, stream)))

    def synchronize(self, target: Any) -> None:
        self.log.append(("synchronize", target))
        error, self.error = self.error, None
        if error is not None:
            raise error


for name in set(GROUPS["streams"]) - set(vars(Streams)):
    setattr(Streams, name, lambda self, *args: None)


def test_what_a_kernel_uses_is_recorded_first() -> None:
    """[contract 3.3]"""
    impl = Streams()
    with temporary_backend(host_backend(impl)):
        x, y = it.tensor(VALUES, device="testdev"), it.tensor(VALUES, device="testdev")
        impl.log.clear()
        _ = x + y
        recorded = [use for what, use in impl.log if what == "record_use"]
        assert recorded[:2] == [(x.ptr, impl.stream), (y.ptr, impl.stream)]


@pytest.fixture
def blocking(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """INFINITRAIN_LAUNCH_BLOCKING=1"""
    monkeypatch.setenv("INFINITRAIN_LAUNCH_BLOCKING", "1")
    dispatch.clear_plans()
    yield
    dispatch.clear_plans()


@pytest.mark.usefixtures("blocking")
def test_blocking_launches_blame_the_right_kernel() -> None:
    """[contract 3.6]"""
    impl = Streams()
    with temporary_backend(host_backend(impl)):
        x = it.tensor(VALUES, device="testdev:1")
        impl.log.clear()
        _ = x + x
        assert ("synchronize", Device(ONE, 1)) in impl.log
        impl.error = DeviceError(77, "illegal address", sticky=True)
        with pytest.raises(DeviceError) as caught:
            x + x
    assert caught.value.op == "AddForward"
    assert "AddForward" in caught.value.__notes__[0]


def test_launches_do_not_block_by_default() -> None:
    """[contract 3.6]"""
    impl = Streams()
    with temporary_backend(host_backend(impl)):
        x = it.tensor(VALUES, device="testdev:1")
        _ = x + x
        assert impl.calls("synchronize") == 0


# Threads ----------------------------------------------------------------------------------------------------


def test_threads_compute_on_devices_of_their_own() -> None:
    """[contract 3.10]"""
    results: dict[int, Any] = {}

    def work(index: int) -> None:
        total = it.full((3,), 0.0, device=f"testdev:{index}")
        step = it.full((3,), float(index + 1), device=f"testdev:{index}")
        for _ in range(100):
            total = total + step
        results[index] = (str(total.device), total.tolist())

    with temporary_backend(host_backend(HostRuntime(4))):
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    assert results == {i: (f"testdev:{i}", [100.0 * (i + 1)] * 3) for i in range(4)}
