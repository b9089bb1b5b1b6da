"""Entry points, in a Python of its own, with distributions that exist as metadata only [contract 2.8]."""

from pathlib import Path

import pytest

from infinitrain.backend import load_backend_module, registrar_path
from infinitrain.device import Device
from infinitrain.errors import BackendNotAvailableError, BackendRegistrationError, UnknownDeviceError
from infinitrain.testing import host_backend, run_python, temporary_backend

GOOD = """
from infinitrain.testing import host_backend
def register_backend():
    host_backend(name={name!r})()
"""


def install(folder: Path, name: str, code: str, device: str = "", function: str = "register_backend") -> str:
    """Write a module and the metadata of a distribution that offers it; return the folder."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[infinitrain.backends]\n{device or name} = {name}:{function}\n")
    return str(folder)


def run(code: str, folder: Path, **env: str) -> list[str]:
    """Run code with the folder's distributions installed; return the lines printed."""
    prelude = """
import sys
import infinitrain as it
from infinitrain.backend import *
from infinitrain.device import Device, DeviceType
from infinitrain.errors import *
"""
    return run_python(prelude + code, str(folder), **env).splitlines()


def test_a_name_loads_its_provider(tmp_path: Path) -> None:
    """[contract 1.4, 2.8, 3.2] Parsing loads, and initialises nothing."""
    install(tmp_path, "chipx", GOOD.format(name="chipx"))
    code = """
from infinitrain.backend import runtime
print("chipx" in sys.modules, "chipx" in installed_backends())
print(repr(Device.parse("chipx:1")), "chipx" in sys.modules, runtime._ready)
print(it.full((2,), 3.0, device="chipx:1").tolist())
print(load_backend("chipx"))
"""
    assert run(code, tmp_path) == [
        "False True",
        "Device(chipx, 1) True {}",
        "[3.0, 3.0]",
        "True",
    ]


def test_only_the_name_asked_for_is_loaded(tmp_path: Path) -> None:
    """[contract 2.8]"""
    install(tmp_path, "chipx", GOOD.format(name="chipx"))
    install(tmp_path, "broken", "raise OSError('libbroken.so')")
    code = """
Device.parse("cpu"), Device.parse("cuda:1"), Device.parse("privateuse1")
print("chipx" in sys.modules, "broken" in sys.modules)
Device.parse("chipx")
print("chipx" in sys.modules, "broken" in sys.modules)
"""
    assert run(code, tmp_path) == ["False False", "True False"]


def test_an_unknown_text_lists_what_is_installed(tmp_path: Path) -> None:
    """[contract 1.7]"""
    install(tmp_path, "chipx", GOOD.format(name="chipx"))
    install(tmp_path, "broken", "raise OSError('libbroken.so')")
    code = """
print(load_backend("broken", quiet=True))
try:
    Device.parse("chipy")
except UnknownDeviceError as error:
    print(error)
"""
    first, message = run(code, tmp_path)
    assert first == "False"
    assert "unknown device 'chipy'. Did you mean chipx?" in message
    assert "installed, not loaded: broken, chipx" in message
    assert "failed to load: broken (OSError: libbroken.so)" in message


def test_a_broken_provider_is_loud_by_name_and_breaks_nothing_else(tmp_path: Path) -> None:
    """[contract 2.8]"""
    install(tmp_path, "broken", "raise OSError('libbroken.so')")
    install(tmp_path, "chipx", GOOD.format(name="chipx"))
    code = """
try:
    Device.parse("broken")
except BackendNotAvailableError as error:
    print(error, type(error.__cause__).__name__, error.provider)
print(failed_backends())
print(it.zeros(1).tolist(), Device.parse("chipx"))
"""
    assert run(code, tmp_path) == [
        "backend 'broken' (broken 1.2) is installed but failed to load: OSError: libbroken.so [contract 2.8] "
        "OSError broken",
        "{'broken': 'OSError: libbroken.so'}",
        "[0.0] chipx:0",
    ]


def test_a_refused_registration_is_loud_too(tmp_path: Path) -> None:
    """[contract 2.8]"""
    install(tmp_path, "chipx", GOOD.format(name="Chipx"))
    code = """
try:
    it.zeros(1, device="chipx")
except BackendNotAvailableError as error:
    print(isinstance(error.__cause__, BackendRegistrationError), "contract 1.3" in str(error))
"""
    assert run(code, tmp_path) == ["True True"]


def test_two_distributions_with_one_key(tmp_path: Path) -> None:
    """[contract 2.8]"""
    install(tmp_path, "vendor_a", GOOD.format(name="chipx"), "chipx")
    install(tmp_path, "vendor_b", GOOD.format(name="chipx"), "chipx")
    code = """
try:
    Device.parse("chipx")
except BackendNotAvailableError as error:
    print(error)
print("vendor_a" in sys.modules, "vendor_b" in sys.modules)
"""
    message, loaded = run(code, tmp_path)
    assert "two distributions provide device 'chipx': vendor_a 1.2 and vendor_b 1.2; uninstall one" in message
    assert loaded == "False False"


def test_a_wrong_name_is_told(tmp_path: Path) -> None:
    """[contract 2.8] key = device name = registered name"""
    install(tmp_path, "chipx", GOOD.format(name="chipy"))
    code = """
try:
    Device.parse("chipx")
except BackendNotAvailableError as error:
    print(error)
"""
    assert "entry point 'chipx:register_backend' did not register device 'chipx'" in run(code, tmp_path)[0]


def test_autoload_can_be_turned_off(tmp_path: Path) -> None:
    """[contract 2.8]"""
    install(tmp_path, "chipx", GOOD.format(name="chipx"))
    code = """
try:
    Device.parse("chipx")
except UnknownDeviceError as error:
    print(error)
print("chipx" in sys.modules)
load_backend_module("chipx")
print(Device.parse("chipx"))
"""
    message, loaded, device = run(code, tmp_path, INFINITRAIN_BACKEND_AUTOLOAD="0")
    assert "'chipx' is installed, but INFINITRAIN_BACKEND_AUTOLOAD=0 keeps it from loading: unset" in message
    assert "Did you mean" not in message
    assert (loaded, device) == ("False", "chipx:0")


CUDA = """
from infinitrain.backend import BackendRegistration, register_backend as register, register_device_guard_impl
from infinitrain.device import DeviceType
from infinitrain.kernels import register_array_kernels
from infinitrain.testing import HostRuntime
class Runtime(HostRuntime):
    type = DeviceType.CUDA
def register_backend():
    register(DeviceType.CUDA, BackendRegistration(
        name="cuda", contract=(1, 0),
        register_runtime=lambda: register_device_guard_impl(DeviceType.CUDA, Runtime()),
        register_kernels=lambda: register_array_kernels(DeviceType.CUDA, "numpy")))
"""


def test_cuda_is_found_at_first_use(tmp_path: Path) -> None:
    """[contract 1.8, 2.8] Its name is built in: parsing loads nothing."""
    install(tmp_path, "gpux", CUDA, "cuda")
    code = """
print(Device.parse("cuda:1"), "gpux" in sys.modules)
print(it.full((1,), 4.0, device="cuda:1").tolist(), "gpux" in sys.modules)
"""
    assert run(code, tmp_path) == ["cuda:1 False", "[4.0] True"]


def test_asking_whether_cuda_is_there_is_quiet(tmp_path: Path) -> None:
    """[contract 2.8]"""
    install(tmp_path, "gpux", "raise OSError('libcuda.so.1')", "cuda")
    code = """
print(has_device_guard_impl(DeviceType.CUDA), failed_backends())
try:
    it.zeros(1, device="cuda")
except BackendNotAvailableError as error:
    print(error)
"""
    quiet, loud = run(code, tmp_path)
    assert quiet == "False {'cuda': 'OSError: libcuda.so.1'}"
    assert "backend 'cuda' (gpux 1.2) is installed but failed to load: OSError: libcuda.so.1" in loud


# Injection --------------------------------------------------------------------------------------------------


def good_registrar() -> None:
    """A registrar that spawned ranks can import."""
    host_backend(name="injected")()


def test_a_module_can_be_given(tmp_path: Path) -> None:
    """[contract 2.8] --backend_module pkg.mod[:function]"""
    (tmp_path / "modx.py").write_text(GOOD.format(name="modx") + "start = register_backend\n")
    code = """
load_backend_module("modx:start")
print(Device.parse("modx:3"), backend_modules())
"""
    assert run(code, tmp_path) == ["modx:3 ('modx:start',)"]
    code = """
load_backend_module("modx")
print(Device.parse("modx:3"), backend_modules())
"""
    assert run(code, tmp_path) == ["modx:3 ('modx',)"]


@pytest.mark.parametrize("path", ["no.such.module", "json:no_such", "", "json:dumps", ":f"])
def test_a_bad_module_is_loud(path: str) -> None:
    """[contract 2.8]"""
    with temporary_backend(), pytest.raises(BackendNotAvailableError, match="failed to register") as caught:
        load_backend_module(path)
    assert caught.value.__cause__ is not None


def test_a_module_that_ends_the_process_is_a_failed_one(tmp_path: Path) -> None:
    """[contract 2.8]"""
    (tmp_path / "leaver.py").write_text("raise SystemExit(5)\n")
    code = """
try:
    load_backend_module("leaver")
except BackendNotAvailableError as error:
    print(error)
"""
    assert "'leaver' failed to register: SystemExit: 5" in run(code, tmp_path)[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [("gpu", "Did you mean cuda"), ("", "a device is a name"), (":1", "a device is a name")],
)
def test_texts_with_an_answer_of_their_own(text: str, message: str) -> None:
    """[contract 1.7]"""
    with pytest.raises(UnknownDeviceError, match=message):
        Device.parse(text)


def test_a_registrar_is_known_by_its_name() -> None:
    """[contract 2.8]"""
    import json

    assert registrar_path(json.dumps) == "json:dumps"


def test_a_closure_is_refused_with_the_reason() -> None:
    """[contract 2.8]"""
    for closure in (lambda: None, host_backend(), Path().exists):
        with pytest.raises(BackendRegistrationError, match="spawned ranks import the registrar by name"):
            registrar_path(closure)
