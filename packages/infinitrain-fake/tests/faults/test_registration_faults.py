"""Faults of registration are either refused with every reason, or seen in what the registered device does."""

import os
import subprocess
import sys

import pytest

import infinitrain_fake
from infinitrain.backend import get_privateuse1_backend_name
from infinitrain.errors import BackendError, BackendRegistrationError, KernelNotFoundError
from infinitrain.testing import temporary_backend
from infinitrain_fake.faults import FAULTS

REFUSED = {
    "base_kernel_missing": "required kernel Cast is missing",
    "runtime_of_wrong_type": "runtime says type",
    "contract_missing": "contract=None must be the version",
    "autocast_dtype_float32": "default_autocast_dtype must be float16 or bfloat16",
    "kernel_parameters_swapped": r"LinearForward: parameters \(weight, x, bias\)",
    "kernel_of_no_op": "LinearForwrd",
    "kernels_callback_breaks_off": "register_kernels raised OSError: libfake_kernels.so",
    "ccl_announced_not_given": "did not call register_ccl_impl",
}
SEEN = {
    "registers_another_name",
    "registers_differently_again",
    "only_base_kernels",
    "kernel_path_leads_nowhere",
    "initialises_when_registered",
}


def test_every_registration_fault_is_tested():
    assert set(REFUSED) | SEEN == {n for n, f in FAULTS.items() if f.kind == "registration"}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_core_refuses(fake, name):
    with pytest.raises(BackendRegistrationError, match=REFUSED[name]):
        fake(name)


@pytest.mark.parametrize("fault", ["", "registers_another_name"])
def test_another_name(fake, fault):
    fake(fault)
    assert get_privateuse1_backend_name() == ("fake_device" if fault else "fake")


def test_another_registration_the_second_time(monkeypatch):
    monkeypatch.setenv("INFINITRAIN_FAKE_FAULT", "registers_differently_again")
    with temporary_backend(), pytest.raises(BackendRegistrationError, match="already registered"):
        _register_twice()


def _register_twice():
    infinitrain_fake.register_backend()
    infinitrain_fake.register_backend()


@pytest.mark.parametrize("fault", ["", "only_base_kernels"])
def test_only_base_kernels(fake, fault):
    import infinitrain as it

    fake(fault)
    x = it.ones(2, 2, device="fake")
    if fault:
        with pytest.raises(KernelNotFoundError, match="no kernel LinearForward"):
            it.ops.linear(x, x)
    else:
        it.ops.linear(x, x)


def test_a_kernel_path_that_leads_nowhere(fake):
    import infinitrain as it

    fake("kernel_path_leads_nowhere")
    x = it.ones(2, 2, device="fake")
    with pytest.raises((ImportError, BackendError), match="no_such_module"):
        it.ops.linear(x, x)


@pytest.mark.parametrize("fault", ["", "initialises_when_registered"])
def test_a_process_forked_after_registration_can_use_the_device(fault):
    code = (
        "import os, infinitrain as it, infinitrain_fake\n"
        "infinitrain_fake.register_backend()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        ok = it.ones(2, device='fake').tolist() == [1.0, 1.0]\n"
        "        used = it.backend.get_device_guard_impl(it.device.DeviceType.PRIVATEUSE1).counts.mallocs\n"
        "        os._exit(0 if ok and used == 1 else 1)\n"
        "    except Exception as error:\n"
        "        os._exit(2)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]))\n"
    )
    env = {**os.environ, "INFINITRAIN_FAKE_FAULT": fault}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert (done.stdout == "0\n") is (not fault), (done.stdout, done.stderr)
