"""Registering the fake: lazily, again, by its entry point's function; options; faults by name."""

import subprocess
import sys

import pytest

import infinitrain as it
import infinitrain_fake
from infinitrain.backend import get_privateuse1_backend_default_autocast_dtype, get_privateuse1_backend_name
from infinitrain.device import Device
from infinitrain.dtype import bfloat16
from infinitrain.errors import (
    BackendError,
    BackendInitError,
    BackendNotAvailableError,
    BackendRegistrationError,
)
from infinitrain.testing import temporary_backend


def test_registers_itself_under_its_name_and_again(fake):
    fake()
    infinitrain_fake.register_backend()
    assert get_privateuse1_backend_name() == "fake"
    assert get_privateuse1_backend_default_autocast_dtype() is bfloat16
    assert str(Device.parse("fake:1")) == "fake:1"


def test_neither_import_nor_registration_nor_parsing_touches_the_device():
    code = (
        "import sys, infinitrain, infinitrain_fake\n"
        "assert 'infinitrain_fake.runtime' not in sys.modules\n"
        "infinitrain_fake.register_backend()\n"
        "infinitrain.Device = infinitrain.device.Device\n"
        "print(repr(infinitrain.device.Device.parse('fake:1')))\n"
        "from infinitrain_fake.registration import runtime\n"
        "assert runtime().pools == [] and 'infinitrain_fake.faults' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == "Device(fake, 1)\n"


def test_methods_before_initialisation_are_refused():
    with temporary_backend(infinitrain_fake.register_backend):
        from infinitrain_fake.registration import runtime

        with pytest.raises(BackendError, match=r"malloc: the fake device is not initialised \[contract 3.2"):
            runtime().malloc(8)


def test_options_decide_the_number_and_size_of_devices(fake):
    runtime = fake(devices=3, memory_mb=7)
    assert runtime.device_count() == 3
    assert runtime.describe(Device.parse("fake:2")) == "fake accelerator in host memory, 7 MiB"
    with pytest.raises(it.errors.NoSuchDeviceError, match="fake:3"):
        it.ones(2, device="fake:3")


@pytest.mark.parametrize(("option", "value"), [("devices", 0), ("devices", 129), ("memory_mb", 0)])
def test_options_out_of_range_are_refused(fake, option, value):
    with pytest.raises(BackendInitError, match=rf"option {option}={value}"):
        fake(**{option: value})


def test_an_unknown_fault_is_refused_with_all_names(fake):
    with pytest.raises(
        BackendInitError, match=r"no planted fault 'wait_no_efect'. Did you mean wait_no_effect"
    ) as error:
        fake("wait_no_efect")
    assert all(name in str(error.value) for name in infinitrain_fake.faults.FAULTS)


def test_a_kernel_fault_given_after_registration_is_refused(monkeypatch):
    from infinitrain.backend import set_backend_options

    set_backend_options({"fault": "fill_skips_last"})
    try:
        message = "set INFINITRAIN_FAKE_FAULT=fill_skips_last"
        with (
            temporary_backend(infinitrain_fake.register_backend),
            pytest.raises(BackendInitError, match=message),
        ):
            it.ones(3, device="fake")
    finally:
        set_backend_options({})


def test_a_runtime_fault_may_be_given_as_an_option():
    from infinitrain.backend import set_backend_options

    set_backend_options({"fault": "memory_stats_zero"})
    try:
        with temporary_backend(infinitrain_fake.register_backend):
            held = it.ones(3, device="fake")
            runtime = it.backend.get_device_guard_impl(held.device.type)
            assert runtime.memory_stats(held.device)["used"] == 0
            assert "memory_stats_zero" in runtime.describe(held.device)
    finally:
        set_backend_options({})


def test_statistics_need_the_device():
    with temporary_backend(), pytest.raises(BackendNotAvailableError, match="not registered"):
        infinitrain_fake.statistics()


def test_a_fault_in_a_kernel_that_core_does_not_have(fake, monkeypatch):
    from infinitrain_fake import faults

    monkeypatch.setitem(
        faults.FAULTS,
        "unknown_op",
        faults.Fault(
            "unknown_op", "", "4.1", "L2", "kernels", lambda kernels: kernels["NoSuchOp"], "NoSuchOp"
        ),
    )
    assert not faults.usable(faults.FAULTS["unknown_op"])
    with pytest.raises(BackendRegistrationError, match="NoSuchOp"):
        fake("unknown_op")
