"""L1: initialisation, devices, the current device, what happens at exit and after a fork."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import numpy as np
import pytest

from infinitrain_conformance.check import expect, fail, same_bytes
from infinitrain_conformance.fresh import fresh
from infinitrain_conformance.marks import decline
from infinitrain_conformance.target import Target


def second_device(target: Target) -> object:
    """Return another device of the type, or skip."""
    from infinitrain.device import Device

    if target.runtime.device_count() < 2:
        pytest.skip("needs two devices")
    return Device(target.device.type, 1 - min(target.device.index, 1))


@pytest.mark.contract("3.2", level="L1")
def test_initialises_once(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "first_use")
    expect(heading, got["initialised"] <= 1, f"initialize ran {got['initialised']} times for eight threads")
    expect(
        heading,
        got["first"] in ([], ["initialize"], ["device_count"]),
        f"{got['first']} was called before initialize",
    )
    expect(heading, got["same"], "eight threads got different runtimes")


@pytest.mark.contract("3.1", level="L1")
def test_count_and_description(target: Target, heading: str) -> None:
    runtime = target.runtime
    count = runtime.device_count()
    expect(heading, isinstance(count, int) and 1 <= count <= 128, f"device_count() is {count!r}")
    expect(heading, count == runtime.device_count(), "device_count() changed")
    text = runtime.describe(target.device)
    expect(
        heading, isinstance(text, str) and text and "\n" not in text, f"describe() is {text!r}, not one line"
    )
    expect(heading, "{" not in text and "%s" not in text, f"describe() holds a placeholder: {text!r}")


@pytest.mark.contract("1.8", level="L1")
def test_every_device(target: Target, heading: str) -> None:
    """Each of device_count() devices can be made current, and memory asked for then is its own."""
    from infinitrain import backend
    from infinitrain.device import Device

    runtime, held = target.runtime, []
    for index in range(min(runtime.device_count(), 16)):
        device = Device(target.device.type, index)
        with backend.DeviceGuard(device):
            got = runtime.get_device()
            expect(heading, got == device, f"{device} was made current, get_device() says {got}")
            held.append(runtime.malloc(256))
        expect(heading, held[-1].device == device, f"memory asked for on {device} is on {held[-1].device}")
    texts = [runtime.describe(Device(target.device.type, i)) for i in range(len(held))]
    expect(heading, all(texts), f"describe() of {texts.index('') if '' in texts else 0} is empty")


@pytest.mark.contract("3.2", level="L1", optional=True)
def test_options_count(target: Target, heading: str) -> None:
    """Where a provider declares a number of devices as its option ``devices``, the option decides it."""
    declared = {option.name: option for option in target.record.capabilities.options}
    if "devices" not in declared or declared["devices"].type is not int:
        decline("the provider declares no option `devices`")
    options = tuple((k, v) for k, v in target.spec.options if k != "devices")
    got = fresh(heading, replace(target.spec, options=(*options, ("devices", "1"))), "device_count")
    expect(heading, got["count"] == 1, f"with --backend_option devices=1 there are {got['count']}")


@pytest.mark.contract("1.8", level="L1", optional=True)
def test_no_such_device(target: Target, heading: str) -> None:
    import infinitrain as it
    from infinitrain.device import Device, DeviceType
    from infinitrain.errors import NoSuchDeviceError

    count = target.runtime.device_count()
    if target.device.type is DeviceType.CPU or count > 127:
        decline("every index exists")
    beyond = Device(target.device.type, count)
    with pytest.raises(NoSuchDeviceError) as caught:
        it.zeros(3, device=beyond)
    expect(
        heading, (caught.value.index, caught.value.count) == (count, count), f"the error says {caught.value}"
    )
    expect(
        heading, target.name in str(caught.value), f"the error does not name {target.name}: {caught.value}"
    )
    expect(
        heading, it.ones(3, device=target.device).numpy().sum() == 3.0, "the device does not work afterwards"
    )


@pytest.mark.contract("3.5", level="L1")
def test_guard_restores(target: Target, heading: str) -> None:
    from infinitrain import backend

    kind = target.device.type
    backend.set_current_device(target.device)
    with backend.DeviceGuard(target.device):
        expect(
            heading, target.runtime.get_device() == target.device, f"inside: {target.runtime.get_device()}"
        )
    with pytest.raises(ZeroDivisionError), backend.DeviceGuard(str(target.device)):
        raise ZeroDivisionError
    expect(heading, backend.current_device(kind) == target.device, "not restored after an exception")


@pytest.mark.contract("3.5", level="L1", devices=2)
def test_guard_switches(target: Target, heading: str) -> None:
    from infinitrain import backend

    other = second_device(target)
    backend.set_current_device(target.device)
    try:
        with backend.DeviceGuard(other):  # type: ignore[arg-type]
            expect(
                heading,
                target.runtime.get_device() == other,
                f"inside: {target.runtime.get_device()}, not {other}",
            )
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    got = target.runtime.get_device()
    expect(
        heading, got == target.device, f"after the guard (left by an exception): {got}, not {target.device}"
    )


@pytest.mark.contract("3.5", level="L1", devices=2)
def test_current_device_is_per_thread(target: Target, heading: str) -> None:
    from infinitrain import backend

    other = second_device(target)
    seen = []

    def elsewhere() -> None:
        backend.set_current_device(other)  # type: ignore[arg-type]
        seen.append(target.runtime.get_device())

    backend.set_current_device(target.device)
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    expect(heading, seen == [other], f"the other thread saw {seen}")
    expect(
        heading, target.runtime.get_device() == target.device, "the other thread changed this one's device"
    )


@pytest.mark.contract("3.5", level="L1", devices=2)
def test_ops_run_where_their_tensors_are(target: Target, heading: str) -> None:
    import infinitrain as it
    from infinitrain import backend

    other = second_device(target)
    x = it.from_numpy(np.arange(5, dtype=np.float32), other)  # type: ignore[arg-type]
    with backend.DeviceGuard(target.device):
        y = x.astype("float64")
    expect(heading, y.device == other, f"the result is on {y.device}, its argument on {other}")
    expect(heading, y.numpy().tolist() == [0, 1, 2, 3, 4], f"got {y.numpy()}")


@pytest.mark.contract("3.5", level="L1", optional=True)
def test_two_devices_in_one_op(target: Target, heading: str) -> None:
    import infinitrain as it
    from infinitrain.device import Device, DeviceType
    from infinitrain.errors import DeviceMismatchError

    if target.device.type is DeviceType.CPU:
        decline("the CPU is one device")
    a, b = it.ones(3, device=target.device), it.ones(3, device=Device(DeviceType.CPU))
    with pytest.raises(DeviceMismatchError) as caught:
        it.backend.OPS["AccumulateGrad"].call(a, 1.0, b)
    expect(
        heading,
        str(target.device) in str(caught.value) and "cpu" in str(caught.value),
        f"it says {caught.value}",
    )


@pytest.mark.contract("3.4", level="L1", devices=2)
def test_copy_between_devices(target: Target, seed: int, heading: str) -> None:
    import infinitrain as it

    other = second_device(target)
    array = np.random.default_rng(seed).standard_normal(100_003).astype(np.float32)
    there = it.from_numpy(array, target.device).to(other)  # type: ignore[arg-type]
    expect(heading, there.device == other, f"to({other}) is on {there.device}")
    same_bytes(heading, f"{target.device} to {other}", there.numpy(), array)
    same_bytes(heading, "and back", there.to(target.device).numpy(), array)


@pytest.mark.contract("3.11", level="L1")
def test_exits(target: Target, heading: str) -> None:
    """A process that ends with memory, streams and unfinished work does so with code 0, quietly."""
    got = fresh(heading, target.spec, "exits", seconds=40)
    expect(heading, not got["stderr"].strip(), f"it printed: {got['stderr'][-600:]}")


@pytest.mark.contract("3.8", level="L1", hardware=True)
def test_fork(target: Target, heading: str) -> None:
    """A child forked after initialisation gets a clear error (host memory works), and dies quietly."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    got = fresh(heading, target.spec, "forked", seconds=40)
    expect(heading, got["status"] == 0, f"the child ended with {got['status']}")
    wanted = "sum 250.0" if got["host_visible"] else "ForkError"
    expect(
        heading,
        got["child"].startswith(wanted),
        f"the child's use of the device: {got['child']!r}, expected {wanted}",
    )
    expect(heading, got["parent"] == 250.0, f"the parent reads {got['parent']} afterwards")
    if "ForkError" in wanted:
        expect(heading, target.name in got["child"], f"the error does not name {target.name}: {got['child']}")


@pytest.mark.contract("3.10", level="L1")
def test_ops_from_threads(target: Target, seed: int, heading: str) -> None:
    """Eight threads run base ops on tensors of their own."""
    import infinitrain as it

    wrong: list[str] = []

    def work(worker: int) -> None:
        try:
            for i in range(30):
                x = it.zeros(1000 + worker, device=target.device)
                x.fill_(worker * 100 + i)
                got = x.astype("int64").numpy()
                if (got != worker * 100 + i).any():
                    wrong.append(f"thread {worker}, round {i}: {np.unique(got)[:5]}")
        except BaseException as error:
            wrong.append(f"thread {worker}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        fail(heading, wrong[:8])
