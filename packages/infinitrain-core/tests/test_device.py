"""Device types, devices, and the parser [contract 1]."""

import copy
import pickle

import pytest

from infinitrain.backend import (
    get_device_guard_impl,
    get_privateuse1_backend_default_autocast_dtype,
    get_privateuse1_backend_name,
    has_privateuse1_backend,
)
from infinitrain.device import CPU, Device, DeviceType, type_name
from infinitrain.errors import (
    BackendNotAvailableError,
    BackendRegistrationError,
    NoSuchDeviceError,
    UnknownDeviceError,
)
from infinitrain.testing import HostRuntime, host_backend, temporary_backend

ONE = DeviceType.PRIVATEUSE1


def test_types_and_their_numbers() -> None:
    """[contract 1.1]"""
    assert {t.name: int(t) for t in DeviceType} == {"CPU": 0, "CUDA": 1, "PRIVATEUSE1": 2, "INVALID": -1}


def test_invalid_is_never_a_device() -> None:
    """[contract 1.1]"""
    with pytest.raises(ValueError, match=r"contract 1\.1"):
        Device(DeviceType.INVALID)
    with pytest.raises(BackendNotAvailableError):
        get_device_guard_impl(DeviceType.INVALID)


def test_devices_are_values() -> None:
    """[contract 1.2]"""
    a, b = Device(DeviceType.CUDA, 3), Device(DeviceType.CUDA, 3)
    assert a == b
    assert hash(a) == hash(b)
    assert a != Device(DeviceType.CUDA, 4)
    assert a != Device(ONE, 3)
    assert Device("cuda", 3) is a
    assert pickle.loads(pickle.dumps(a)) is copy.deepcopy(a) is a


@pytest.mark.parametrize("field", ["index", "type", "other"])
def test_devices_are_immutable(field: str) -> None:
    """[contract 1.2]"""
    with pytest.raises(AttributeError, match="immutable"):
        setattr(CPU, field, 1)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(CPU, field)


@pytest.mark.parametrize("index", [0, 1, 127])
def test_good_indices(index: int) -> None:
    """[contract 1.2]"""
    assert Device(DeviceType.CUDA, index).index == index


@pytest.mark.parametrize(
    ("type", "index", "error"),
    [
        (DeviceType.CUDA, -1, ValueError),
        (DeviceType.CUDA, 128, ValueError),
        (DeviceType.CUDA, True, TypeError),
        (DeviceType.CUDA, 1.0, TypeError),
        (DeviceType.CUDA, "1", TypeError),
        (DeviceType.CPU, 1, ValueError),
        (1, 0, ValueError),
        (None, 0, ValueError),
    ],
)
def test_bad_devices(type: DeviceType, index: int, error: type[Exception]) -> None:
    """[contract 1.2]"""
    with pytest.raises(error, match=r"contract 1\.[12]"):
        Device(type, index)


@pytest.mark.parametrize("name", ["maca", "cpux", "cuda2", "x", "0", "_", "privateuse11", "a_b_9"])
def test_good_names(name: str) -> None:
    """[contract 1.3]"""
    with temporary_backend(host_backend(name=name)):
        assert Device.parse_type(name) is ONE
        assert Device.parse(f"{name}:1") is Device(ONE, 1)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "maca\n",
        "\nmaca",
        "Maca",
        "MACA",
        "ma-ca",
        "ma ca",
        "ma:ca",
        "maca\u0663",
        "mäca",
        "m\u0430ca",
        None,
        7,
        b"maca",
    ],
    ids=ascii,
)
def test_bad_names(name: object) -> None:
    """[contract 1.3] Among them a Cyrillic letter, an Arabic digit, and what `re.match` takes."""
    with (
        pytest.raises(BackendRegistrationError, match=r"\[a-z0-9_\]\+ \[contract 1\.3\]"),
        temporary_backend(host_backend(name=name)),
    ):
        pass


@pytest.mark.parametrize("name", ["cpu", "cuda", "privateuse1"])
def test_reserved_names(name: str) -> None:
    """[contract 1.3]"""
    with (
        pytest.raises(BackendRegistrationError, match="reserved"),
        temporary_backend(host_backend(name=name)),
    ):
        pass


def test_parse_type_without_a_provider() -> None:
    """[contract 1.4]"""
    with temporary_backend():
        types = [Device.parse_type(t) for t in ("cpu", "cuda", "privateuse1")]
        assert types == [DeviceType.CPU, DeviceType.CUDA, ONE]
        assert type_name(ONE) == "privateuse1"


@pytest.mark.parametrize("text", ["privateuse1", "testdev"])
def test_parse_type_with_a_provider(text: str) -> None:
    """[contract 1.4]"""
    with temporary_backend(host_backend()):
        assert Device.parse_type(text) is ONE


WRONG_TYPES = [
    "",
    "cpu ",
    " cpu",
    "CPU",
    "cpu\n",
    "gpu",
    "testdev2",
    "Testdev",
    "cpu:0",
    "invalid",
    "cuda:",
    "\u0441pu",
]


@pytest.mark.parametrize("text", WRONG_TYPES, ids=ascii)
def test_other_texts_are_unknown(text: str) -> None:
    """[contract 1.4]"""
    with temporary_backend(host_backend()), pytest.raises(UnknownDeviceError) as caught:
        Device.parse_type(text)
    assert isinstance(caught.value, ValueError)
    assert caught.value.text == text


@pytest.mark.parametrize(
    "text", ["cpu", "cpu:0", "cuda", "cuda:0", "cuda:9", "cuda:10", "cuda:127", "testdev:5"]
)
def test_parse(text: str) -> None:
    """[contract 1.5] Existence is not checked."""
    with temporary_backend(host_backend()):
        device = Device.parse(text)
        name, _, index = text.partition(":")
        assert (type_name(device.type), device.index) == (name, int(index or 0))
        assert Device.parse(device) is device


@pytest.mark.parametrize(
    "text",
    [
        "cuda:",
        "cuda:00",
        "cuda:01",
        "cuda:+1",
        "cuda:-1",
        "cuda: 1",
        "cuda:1 ",
        "cuda:1\n",
        "cuda:1_0",
        "cuda:128",
        "cuda:999",
        "cuda:1000",
        "cuda:\u0663",
        "cuda:1.0",
        "cuda:1:1",
        "cuda:x",
        "cpu:1",
        "x:1",
        ":1",
        "",
    ],
    ids=ascii,
)
def test_parse_errors(text: str) -> None:
    """[contract 1.5]"""
    with pytest.raises(ValueError, match=r"contract 1\.[257]"):
        Device.parse(text)


@pytest.mark.parametrize("value", [None, 0, 1.5, b"cpu", ("cpu", 0), DeviceType.CPU])
def test_parse_takes_devices_and_strings_only(value: object) -> None:
    """[contract 1.5]"""
    with pytest.raises(TypeError, match=r"contract 1\.5"):
        Device.parse(value)  # type: ignore[arg-type]


def test_text_forms_with_a_provider() -> None:
    """[contract 1.6]"""
    assert (str(CPU), repr(CPU)) == ("cpu", "Device(cpu, 0)")
    assert (str(Device("cuda", 2)), repr(Device("cuda", 2))) == ("cuda:2", "Device(cuda, 2)")
    device = Device(ONE, 1)
    with temporary_backend():
        assert (str(device), repr(device)) == ("privateuse1:1", "Device(privateuse1, 1)")
    with temporary_backend(host_backend()):
        assert (str(device), repr(device)) == ("testdev:1", "Device(testdev, 1)")
        assert all(Device.parse(str(d)) is d for d in (CPU, device, Device("cuda", 127)))


def test_the_new_name_shows_in_the_callbacks() -> None:
    """[contract 1.6, 2.2]"""
    seen = []

    def kernels() -> None:
        seen.append((repr(Device(ONE, 1)), Device.parse("testdev:1").index, get_privateuse1_backend_name()))
        seen.append((has_privateuse1_backend(), get_privateuse1_backend_default_autocast_dtype()))

    with temporary_backend(host_backend(kernels=kernels)):
        assert seen == [("Device(testdev, 1)", 1, "testdev"), (False, None)]


def test_unknown_device_says_what_there_is() -> None:
    """[contract 1.7] Installed and failed providers: see backend/test_discovery.py."""
    with temporary_backend(host_backend()), pytest.raises(UnknownDeviceError) as caught:
        Device.parse("tesdev:1")
    message = str(caught.value)
    assert "unknown device 'tesdev'" in message
    assert "Did you mean testdev?" in message
    assert "Registered: cpu, testdev" in message
    assert "--backend_module" in message
    assert "infinitrain.backends" in message
    assert caught.value.near == ("testdev",)


def test_first_use_without_a_runtime() -> None:
    """[contract 1.8]"""
    with temporary_backend():
        device = Device.parse("privateuse1:3")
        with pytest.raises(BackendNotAvailableError, match=r"'privateuse1' has no backend.*Registered: cpu"):
            get_device_guard_impl(device.type)


def test_first_use_beyond_the_count() -> None:
    """[contract 1.8]"""
    import infinitrain as it

    with temporary_backend(host_backend(HostRuntime(count=2))):
        Device.parse("testdev:2")
        with pytest.raises(NoSuchDeviceError, match=r"testdev:2: there are 2") as caught:
            it.zeros(2, device="testdev:2")
        assert (caught.value.index, caught.value.count) == (2, 2)
