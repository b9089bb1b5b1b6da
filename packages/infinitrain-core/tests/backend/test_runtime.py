"""First use, options, failures, optional methods [contract 3]."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import infinitrain as it
from infinitrain.backend import (
    BASE_OPS,
    Capabilities,
    CclImpl,
    DeviceGuard,
    DeviceGuardImpl,
    LaunchInfo,
    Option,
    backend_options,
    current_device,
    get_device_guard_impl,
    has_device_guard_impl,
    register_kernel,
    set_backend_options,
    set_launch_info,
    synchronize,
)
from infinitrain.backend.guard_impl import GROUPS, WHOLE_GROUPS
from infinitrain.device import CPU, Device, DeviceType
from infinitrain.errors import (
    BackendInitError,
    MissingLibraryError,
    NoDeviceError,
    NoSuchDeviceError,
    NotSupportedError,
)
from infinitrain.testing import HostRuntime, host_backend, temporary_backend

ONE = DeviceType.PRIVATEUSE1
OPTIONS = Capabilities(
    options=(
        Option("devices", int, 2),
        Option("fast", bool, False),
        Option("ratio", float),
        Option("mode", str, "a"),
    )
)


@pytest.fixture
def host() -> Iterator[HostRuntime]:
    """A registered device that nobody has used yet."""
    impl = HostRuntime()
    with temporary_backend(host_backend(impl)):
        yield impl


@pytest.fixture(autouse=True)
def no_flags() -> Iterator[None]:
    """Take launch information and flags back."""
    yield
    set_launch_info(LaunchInfo())
    set_backend_options({})


# Lazy start -------------------------------------------------------------------------------------------------


def test_nothing_touches_the_device_before_first_use(host: HostRuntime) -> None:
    """[contract 3.2]"""
    device = Device.parse("testdev:1")
    assert has_device_guard_impl(ONE)
    assert "testdev" in f"{device} {device!r}"
    assert current_device  # importing is no use either
    assert host.log == []


@pytest.mark.parametrize(
    "use",
    [
        lambda: get_device_guard_impl(ONE),
        lambda: it.zeros(2, device="testdev"),
        lambda: current_device(ONE),
        lambda: synchronize("testdev"),
        lambda: DeviceGuard("testdev").__enter__(),
    ],
)
def test_first_use_initialises_once_and_first(host: HostRuntime, use: Any) -> None:
    """[contract 3.2]"""
    use()
    use()
    assert [name for name, _ in host.log[:2]] == ["initialize", "device_count"]
    assert host.calls("initialize") == host.calls("device_count") == 1


def test_threads_initialise_once() -> None:
    """[contract 3.2]"""
    inside: list[int] = []

    class Slow(HostRuntime):
        def initialize(self, launch: LaunchInfo) -> None:
            super().initialize(launch)
            threading.Event().wait(0.05)
            inside.append(self.calls("device_count"))

    impl = Slow()
    got: list[DeviceGuardImpl] = []
    with temporary_backend(host_backend(impl)):
        threads = [threading.Thread(target=lambda: got.append(get_device_guard_impl(ONE))) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(10)
        assert got == [impl] * 8
        assert impl.calls("initialize") == 1
        assert inside == [0]  # no other method ran before it had returned


def test_launch_information_arrives(host: HostRuntime) -> None:
    """[contract 3.2]"""
    set_launch_info(LaunchInfo(global_rank=5, local_rank=1, world_size=8, threads=2, tensor_parallel=4))
    get_device_guard_impl(ONE)
    assert host.launch == LaunchInfo(5, 1, 8, 2, 4, 1, {})


# Options ----------------------------------------------------------------------------------------------------


def test_options_come_from_flag_environment_or_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """[contract 3.2]"""
    impl = HostRuntime()
    monkeypatch.setenv("INFINITRAIN_TESTDEV_DEVICES", "7")
    monkeypatch.setenv("INFINITRAIN_TESTDEV_MODE", "environment")
    monkeypatch.setenv("INFINITRAIN_TESTDEV_UNDECLARED", "1")
    set_backend_options({"mode": "flag", "fast": "Yes"})
    with temporary_backend(host_backend(impl, capabilities=OPTIONS)):
        expected = {"devices": 7, "fast": True, "ratio": None, "mode": "flag"}
        assert backend_options(ONE) == expected
        get_device_guard_impl(ONE)
        assert impl.launch is not None
        assert impl.launch.options == expected
        assert get_device_guard_impl(DeviceType.CPU)  # which does not mind the provider's flags


def test_an_undeclared_flag_is_an_error(host: HostRuntime) -> None:
    """[contract 3.2]"""
    set_backend_options({"devcies": "2", "x": "1"})
    with pytest.raises(BackendInitError, match=r"no option 'devcies', 'x'; it declares none \["):
        get_device_guard_impl(ONE)
    assert host.log == []
    assert it.zeros(1).tolist() == [0.0]


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [("devices", "two", "an int"), ("fast", "maybe", "a bool"), ("ratio", "", "a float")],
)
def test_a_bad_value_is_an_error(name: str, text: str, kind: str) -> None:
    """[contract 3.2]"""
    set_backend_options({name: text})
    with (
        temporary_backend(host_backend(capabilities=OPTIONS)),
        pytest.raises(BackendInitError, match=rf"option {name}='{text}' is not {kind}"),
    ):
        get_device_guard_impl(ONE)


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("true", True), ("ON", True), ("0", False), ("No", False)]
)
def test_boolean_options(text: str, value: bool) -> None:
    """[contract 3.2]"""
    assert Option("fast", bool).parse(text) is value


def test_capabilities_may_be_computed_after_initialize() -> None:
    """[contract 2.1]"""
    impl = HostRuntime()

    def capabilities() -> Capabilities:
        impl.log.append(("capabilities", None))
        return Capabilities(host_visible=impl.calls("initialize") == 1)

    with temporary_backend(host_backend(impl, capabilities=capabilities)):
        assert impl.calls("capabilities") == 0
        get_device_guard_impl(ONE)
        get_device_guard_impl(ONE)
        assert impl.calls("capabilities") == 1
        assert impl.host_visible


@pytest.mark.parametrize("given", [None, Capabilities(options=(Option("a"),))])
def test_computed_capabilities_are_checked(given: Any) -> None:
    """[contract 2.1]"""
    with (
        temporary_backend(host_backend(capabilities=lambda: given)),
        pytest.raises(BackendInitError, match="expected a Capabilities without options"),
    ):
        get_device_guard_impl(ONE)


# Failures ---------------------------------------------------------------------------------------------------


class Failing(HostRuntime):
    """Fails to initialise, with the next of the given errors."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    def initialize(self, launch: LaunchInfo) -> None:
        super().initialize(launch)
        if self.errors:
            raise self.errors.pop(0)


def test_the_next_use_tries_again() -> None:
    """[contract 3.2]"""
    impl = Failing(OSError("driver is starting"), NoDeviceError("no card"))
    with temporary_backend(host_backend(impl)):
        with pytest.raises(
            BackendInitError, match="'testdev' failed to initialise: OSError: driver"
        ) as caught:
            it.zeros(1, device="testdev")
        assert isinstance(caught.value.__cause__, OSError)
        assert caught.value.provider == "testdev"
        with pytest.raises(NoDeviceError, match="no card") as again:
            it.zeros(1, device="testdev")
        assert again.value.provider == "testdev"
        assert "testdev" in again.value.__notes__[0]
        assert it.zeros(1, device="testdev").tolist() == [0.0]
        assert impl.calls("initialize") == 3


def test_a_permanent_failure_stays() -> None:
    """[contract 3.2]"""
    impl = Failing(BackendInitError("this chip is too old", permanent=True))
    with temporary_backend(host_backend(impl)):
        for _ in range(2):
            with pytest.raises(BackendInitError, match="too old"):
                get_device_guard_impl(ONE)
        assert impl.calls("initialize") == 1


def test_a_missing_library_names_it() -> None:
    """[contract 3.2]"""
    with temporary_backend(host_backend(Failing(MissingLibraryError("libmc.so", ["/opt/maca"])))):
        with pytest.raises(MissingLibraryError, match="searched /opt/maca") as caught:
            get_device_guard_impl(ONE)
        assert (caught.value.provider, caught.value.library) == ("testdev", "libmc.so")


@pytest.mark.parametrize("count", [-1, 129, None, 1.0, "2"])
def test_a_senseless_count(count: Any) -> None:
    """[contract 1.2]"""
    with (
        temporary_backend(host_backend(HostRuntime(count))),
        pytest.raises(BackendInitError, match=r"not in 0\.\.128"),
    ):
        get_device_guard_impl(ONE)


def test_no_device_at_all() -> None:
    """[contract 1.8]"""
    with (
        temporary_backend(host_backend(HostRuntime(0))),
        pytest.raises(NoSuchDeviceError, match="there is none"),
    ):
        it.zeros(1, device="testdev")


def test_initialize_may_not_use_its_own_device() -> None:
    """[contract 3.2]"""

    class Eager(HostRuntime):
        def initialize(self, launch: LaunchInfo) -> None:
            it.zeros(1, device="testdev")

    with (
        temporary_backend(host_backend(Eager())),
        pytest.raises(BackendInitError, match="used its own"),
    ):
        get_device_guard_impl(ONE)


# Optional methods -------------------------------------------------------------------------------------------


class Bare(DeviceGuardImpl):
    """Only what is required."""

    type = ONE

    def device_count(self) -> int:
        return 1

    def get_device(self) -> Device:
        return Device(ONE, 0)

    def set_device(self, device: Device) -> None:
        pass

    def malloc(self, nbytes: int, stream: Any = None) -> Any:
        raise MemoryError

    def memcpy(self, *args: Any, **kwargs: Any) -> None:
        pass


def base_kernels() -> None:
    """Kernels that nobody calls."""
    for name in BASE_OPS:
        register_kernel(ONE, name, f"not_there:{name}")


OPTIONAL = [m for g in WHOLE_GROUPS for m in GROUPS[g] if m != "synchronize"] + ["host_alloc", "memcpy_async"]


@pytest.mark.parametrize("method", OPTIONAL)
def test_a_missing_method_names_itself_and_the_provider(method: str) -> None:
    """[contract 3.1]"""
    import inspect

    count = len(inspect.signature(getattr(DeviceGuardImpl, method)).parameters) - 1
    with temporary_backend(host_backend(Bare(), register_kernels=base_kernels)):
        with pytest.raises(
            NotSupportedError, match=rf"'testdev' does not support DeviceGuardImpl\.{method} "
        ) as caught:
            getattr(Bare(), method)(*[1] * count)
        assert (caught.value.provider, caught.value.method) == ("testdev", method)


def test_other_optional_methods_do_nothing() -> None:
    """[contract 3.1, 3.7]"""
    bare = Bare()
    bare.initialize(LaunchInfo())
    bare.reset_peak(CPU)
    bare.empty_cache()
    bare.record_use(bare, None)  # type: ignore[arg-type]
    bare.synchronize(CPU)
    bare.shutdown()
    assert bare.describe(Device("cuda", 1)) == "cuda:1"
    assert set(bare.memory_stats(CPU).values()) == {None}
    assert not bare.has_streams
    assert not bare.has_arrays


def test_a_missing_collective_names_itself_and_the_provider() -> None:
    """[contract 6.1]"""

    class Ccl(CclImpl):
        type = ONE

    with (
        temporary_backend(host_backend()),
        pytest.raises(NotSupportedError, match=r"'testdev' .* CclImpl\.r"),
    ):
        Ccl().recv(0, 1, it.dtype.float32, 0, None, None)
