"""L0: names, parsing, registration, laziness. Nothing here touches a device."""

from __future__ import annotations

import re
from typing import Any

import pytest

from infinitrain_conformance.check import expect, fail
from infinitrain_conformance.fresh import fresh
from infinitrain_conformance.marks import decline
from infinitrain_conformance.target import Target


def _entry_points(target: Target) -> list[Any]:
    from infinitrain import backend

    return backend.installed_backends().get(target.name, [])


WHOLE_GROUPS = ("arrays", "streams", "capture")


@pytest.mark.contract("1.3", level="L0")
def test_name(target: Target, heading: str) -> None:
    from infinitrain.device import DeviceType

    expect(heading, re.fullmatch(r"[a-z0-9_]+", target.name, re.ASCII), f"name {target.name!r}")
    own = target.device.type is not DeviceType.PRIVATEUSE1
    expect(
        heading, own or target.name not in ("cpu", "cuda", "privateuse1"), f"name {target.name!r} is reserved"
    )


@pytest.mark.contract("1.4", level="L0")
def test_parse(target: Target, heading: str) -> None:
    from infinitrain.device import Device

    kind = Device.parse_type(target.name)
    expect(heading, kind is target.device.type, f"parse_type({target.name!r}) is {kind!r}")
    expect(heading, Device.parse(target.name) == Device(kind, 0), f"parse({target.name!r})")
    expect(heading, Device.parse(f"{target.name}:0") is Device.parse(target.name), "name and name:0 differ")


@pytest.mark.parametrize(
    "text",
    ["{}:", "{}:00", "{}:01", "{}:-1", "{}:+1", "{}:1.5", "{}:abc", "{}:1:2", "{}:128", "{}:99999999999",
     "{}:\u0661",     " {}", "{} ", "{}\n", "{}: 1", "{}x", "x{}", "", ":0"],
)  # fmt: skip
@pytest.mark.contract("1.5", level="L0")
def test_bad_text(text: str, target: Target, heading: str) -> None:
    from infinitrain.device import Device
    from infinitrain.errors import UnknownDeviceError

    given = text.format(target.name)
    try:
        device = Device.parse(given)
    except UnknownDeviceError as error:
        kind = given.partition(":")[0]
        said = repr(given) in str(error) or repr(kind) in str(error)
        expect(heading, isinstance(error, ValueError) and said, f"the error does not say {given!r}: {error}")
    else:
        fail(heading, [f"parse({given!r}) gave {device!r}"])


@pytest.mark.contract("1.4", level="L0")
def test_case_matters(target: Target, heading: str) -> None:
    from infinitrain.device import Device

    if target.name.upper() == target.name:
        return  # digits only
    with pytest.raises(ValueError, match=re.escape(target.name.upper())):
        Device.parse(target.name.upper())


@pytest.mark.contract("1.6", level="L0")
def test_prints(target: Target, heading: str) -> None:
    from infinitrain.device import Device, DeviceType

    device = target.device
    expect(heading, Device.parse(str(device)) is device, f"str is {str(device)!r}, which does not parse back")
    expect(heading, repr(device) == f"Device({target.name}, {device.index})", f"repr is {device!r}")
    if device.type is not DeviceType.CPU:
        other = Device(device.type, 1)
        expect(heading, str(other) == f"{target.name}:1", f"str is {other!s}")
        expect(heading, Device.parse(f"{target.name}:1") is other, f"{target.name}:1 does not parse to it")


@pytest.mark.contract("3.2", level="L0")
def test_registration_is_lazy(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "lazy")
    expect(
        heading,
        not got["calls"],
        f"registering, parsing and printing called the runtime's {', '.join(got['calls'])}",
    )
    expect(
        heading, all(target.name in text for text in got["texts"]), f"texts without the name: {got['texts']}"
    )


@pytest.mark.contract("2.9", level="L0")
def test_registration_imports_nothing_heavy(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "lazy")
    expect(heading, not got["heavy"], f"registration imported {', '.join(got['heavy'])}; give import paths")


@pytest.mark.contract("2.8", level="L0")
def test_core_does_not_load_it(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "core_alone")
    expect(heading, got["sum"] == 3.0, "the CPU does not work beside the installed provider")
    expect(heading, not got["loaded"], f"`import infinitrain` loaded {', '.join(got['loaded'])}")


@pytest.mark.contract("2.5", level="L0", external=True)
def test_registers_twice(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "twice")
    expect(heading, got["again"], "neither an entry point nor a module was there to call again")


@pytest.mark.contract("2.5", level="L0")
def test_registers_from_threads(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "two_threads")
    expect(heading, not got["errors"], f"four threads at once: {got['errors']}")
    expect(heading, len(got["names"]) == 1, f"four threads saw {got['names']}")


@pytest.mark.contract("2.5", level="L0", external=True)
def test_second_provider_is_refused(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "intruder")
    expect(
        heading, target.name in got["message"], f"the refusal does not name the holder: {got['message']!r}"
    )
    expect(heading, got["name"] == target.name, f"the slot's name is {got['name']!r} afterwards")


@pytest.mark.contract("2.8", level="L0", external=True, optional=True)
def test_entry_point(target: Target, heading: str) -> None:
    entries = _entry_points(target)
    if not entries:
        decline("not installed as a distribution: it was injected with --backend_module")
    expect(heading, len(entries) == 1, f"{len(entries)} distributions offer {target.name!r}")
    got = fresh(heading, target.spec, "autoload_off")
    expect(heading, got["message"], "INFINITRAIN_BACKEND_AUTOLOAD=0 did not turn the entry point off")
    expect(heading, not got["loaded"], f"it loaded {', '.join(got['loaded'])} all the same")


@pytest.mark.contract("1.7", level="L0")
def test_unknown_device_error(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "unknown_device")
    expect(
        heading,
        f"{target.name}x" in got["message"],
        f"the error does not say what was given: {got['message']!r}",
    )
    about = got["message"].replace(f"{target.name}x", "")
    expect(heading, target.name in about, f"the error does not know {target.name!r}: {got['message']!r}")


@pytest.mark.contract("3.2", level="L0", external=True)
def test_unknown_option(target: Target, heading: str) -> None:
    got = fresh(heading, target.spec, "unknown_option")
    expect(
        heading, "conformance_no_such_option" in got["message"], f"not refused by name: {got['message']!r}"
    )
    expect(heading, "initialize" not in got["calls"], "the device was initialised all the same")


@pytest.mark.contract("3.2", level="L0")
def test_declared_options(target: Target, heading: str) -> None:
    for option in target.record.capabilities.options:
        expect(heading, option.help, f"option {option.name} has no help text")
        expect(heading, re.fullmatch(r"[a-z0-9_]+", option.name), f"option {option.name!r} is no flag's name")
        if option.default is not None:
            value = option.parse(str(option.default))
            expect(
                heading, value == option.default, f"option {option.name}: its default reads back as {value!r}"
            )


@pytest.mark.contract("9.1", level="L0")
def test_contract_version(target: Target, heading: str) -> None:
    from infinitrain import backend

    given = target.record.contract
    expect(heading, given[0] == backend.CONTRACT[0] and given <= backend.CONTRACT, f"contract {given}")


@pytest.mark.contract("2.3", level="L0")
def test_default_autocast_dtype(target: Target, heading: str) -> None:
    from infinitrain.dtype import HALF

    dtype = target.record.registration.default_autocast_dtype
    expect(heading, dtype is None or dtype in HALF, f"default_autocast_dtype is {dtype}")


@pytest.mark.contract("2.3", level="L0")
def test_base_kernels(target: Target, heading: str) -> None:
    from infinitrain.backend import BASE_OPS

    missing = [name for name in BASE_OPS if name not in target.record.kernels]
    expect(heading, not missing, f"no kernel for {', '.join(missing)}")


@pytest.mark.contract("2.9", level="L0")
def test_kernels_resolve(target: Target, heading: str) -> None:
    """Every import path leads to a callable with the table's parameters, every array library has what it
    needs.
    """
    from infinitrain import backend

    problems = backend.check_kernels(target.device.type)
    if problems:
        fail(heading, problems)


@pytest.mark.contract("4.6", level="L0")
def test_missing_kernels_say_so(target: Target, heading: str) -> None:
    """A missing kernel is named, with the provider and what it blocks, and never with the slot's name."""
    from infinitrain.backend import OPS, dispatch
    from infinitrain.errors import KernelNotFoundError

    for profile, names in target.missing_kernels().items():
        expect(heading, profile != "base", f"base kernels are missing: {', '.join(names)}")
        for name in names:
            with pytest.raises(KernelNotFoundError) as caught:
                dispatch.find_kernel(OPS[name], target.device.type)
            text = str(caught.value)
            for word in (name, repr(target.name), profile):
                expect(heading, word in text, f"the error about {name} does not say {word}: {text}")
            expect(heading, "privateuse1" not in text.lower(), f"the error says privateuse1: {text}")


@pytest.mark.parametrize("group", WHOLE_GROUPS)
@pytest.mark.contract("3.1", level="L0")
def test_groups_are_whole(group: str, target: Target, heading: str) -> None:
    """Streams, capture, and the two array methods come all or not at all."""
    from infinitrain.backend import DeviceGuardImpl
    from infinitrain.backend.guard_impl import GROUPS

    cls = type(target.record.runtime)
    missing = [name for name in GROUPS[group] if getattr(cls, name) is getattr(DeviceGuardImpl, name)]
    whole = not missing or len(missing) == len(GROUPS[group])
    expect(heading, whole, f"{cls.__name__} has some of the {group} group, but not {', '.join(missing)}")


@pytest.mark.contract("2.1", level="L0")
def test_capabilities(target: Target, heading: str) -> None:
    from infinitrain.backend import Capabilities

    given = target.record.registration.capabilities
    expect(heading, isinstance(given, Capabilities) or callable(given), f"capabilities is {given!r}")
