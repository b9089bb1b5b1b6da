"""`describe_backend`: what a backend is and has, without touching its device [contract 3.2, 4.2]."""

from __future__ import annotations

import json

import pytest

import infinitrain
from infinitrain.backend import (
    BASE_OPS,
    NO_OP_KERNELS,
    OPS,
    Capabilities,
    Option,
    describe_backend,
    get_device_guard_impl,
    register_kernel,
)
from infinitrain.backend.describe import BLOCKS
from infinitrain.backend.guard_impl import DeviceGuardImpl
from infinitrain.backend.optable import PROFILES
from infinitrain.device import Device, DeviceType
from infinitrain.errors import BackendNotAvailableError, UnknownDeviceError
from infinitrain.testing import HostRuntime, IdleCcl, host_backend, temporary_backend

TYPE = DeviceType.PRIVATEUSE1


def linear(x, weight, bias, *, out):
    raise AssertionError("describing a backend ran its kernel")


def linear_kernel() -> None:
    register_kernel(TYPE, "LinearForward", linear, dtypes=("float32", "int8"))
    register_kernel(TYPE, "GeluForward", "no_such_module.kernels:gelu")


def test_the_cpu() -> None:
    cpu = describe_backend("cpu")
    assert (cpu.name, cpu.slot, cpu.contract) == ("cpu", DeviceType.CPU, (1, 0))
    assert cpu.distribution is None
    assert cpu.trains
    assert not cpu.missing
    assert not cpu.blocks
    assert [o.name for o in cpu.ops] == list(OPS)
    assert {"identity", "memory", "arrays"} <= set(cpu.groups)
    assert cpu.capabilities is not None
    assert cpu.capabilities.host_visible
    assert describe_backend(infinitrain.CPU) == describe_backend(DeviceType.CPU) == cpu


def test_layers_are_told_from_the_highest_down() -> None:
    with temporary_backend(host_backend(kernels=linear_kernel)):
        found = describe_backend("testdev")
        assert describe_backend(Device(TYPE, 1)) == found
    support = found.op("LinearForward")
    assert [(k.name, k.dtypes) for k in support.layers] == [
        ("explicit", ("float32", "int8")),
        ("array", None),
    ]
    assert set(support.dtypes) == {"bfloat16", "float16", "float32", "float64"}
    assert [k.name for k in found.op("AttentionForward").layers][-1] == "composite"
    assert not found.op("AttentionForward").composed
    assert found.op("AddForward").layers[0].name == "array"
    with pytest.raises(KeyError):
        found.op("NoSuchOp")


def test_an_explicit_kernel_alone_serves_its_dtypes() -> None:
    def kernels() -> None:
        some_kernels()
        linear_kernel()

    with temporary_backend(without_arrays(kernels)):
        found = describe_backend("bare")
    assert found.op("LinearForward").dtypes == ("float32",)
    assert found.op("AddForward").dtypes == ()


def some_kernels() -> None:
    for name, kernel in NO_OP_KERNELS.items():
        register_kernel(TYPE, name, kernel)
    for name in ("Cast", "Fill"):
        register_kernel(TYPE, name, "no_such_module.kernels:" + name)


class Bare(HostRuntime):
    """A runtime without arrays."""

    native_array = DeviceGuardImpl.native_array
    adopt = DeviceGuardImpl.adopt


def without_arrays(kernels=some_kernels, **fields):
    return host_backend(Bare(), name="bare", register_kernels=kernels, **fields)


def test_what_is_missing_and_what_that_blocks() -> None:
    with temporary_backend(without_arrays()):
        found = describe_backend("bare")
    training = {n for n, row in OPS.items() if row.profile == "training"}
    composed = {o.name for o in found.ops if o.composed}
    assert "base" not in found.missing
    assert set(found.missing["training"]) == training - composed
    assert composed == {o.name for o in found.ops if o.layers and o.name not in BASE_OPS}
    assert "AttentionForward" in composed
    assert not found.trains
    assert "GPT-2" in found.blocks["training"]
    assert found.blocks.keys() == found.missing.keys()
    assert "arrays" not in found.groups
    assert found.methods == ("initialize", "shutdown")


def test_every_profile_says_what_it_blocks() -> None:
    assert tuple(BLOCKS) == PROFILES
    assert all(len(text) > 20 for text in BLOCKS.values())


def test_nothing_starts_and_nothing_is_imported() -> None:
    """The kernels' module does not exist; the runtime's log stays empty [contract 2.9, 3.2]."""
    runtime = HostRuntime()
    option = Option("tile", int, 128, "size of a tile")
    fields = {"capabilities": Capabilities(options=(option,)), "default_autocast_dtype": infinitrain.bfloat16}
    with temporary_backend(host_backend(runtime, kernels=linear_kernel, **fields)):
        found = describe_backend("testdev:1")
        text = json.dumps(found.as_dict())
    assert runtime.log == []
    assert found.options == (option,)
    assert found.default_autocast_dtype is infinitrain.bfloat16
    told = json.loads(text)
    assert told["options"] == [{"name": "tile", "default": "128", "help": "size of a tile"}]
    explicit = told["ops"]["LinearForward"][0]
    assert (explicit["layer"], explicit["dtypes"]) == ("explicit", ["float32", "int8"])
    assert explicit["functions"] == [f"{__name__}:linear"]
    assert told["trains"] is True


def test_capabilities_that_only_the_device_knows() -> None:
    """[contract 2.1]"""
    with temporary_backend(host_backend(capabilities=lambda: Capabilities(peer_copy=True))):
        assert describe_backend("testdev").capabilities is None
        assert describe_backend("testdev").as_dict()["capabilities"] is None
        get_device_guard_impl(TYPE)
        capabilities = describe_backend("testdev").capabilities
    assert capabilities is not None
    assert capabilities.peer_copy


def test_methods_that_an_instance_has_count() -> None:
    """As in the example of [contract 3.3]."""
    runtime = HostRuntime()
    runtime.memory_stats = lambda device: {}  # type: ignore[method-assign]
    with temporary_backend(host_backend(runtime)):
        found = describe_backend("testdev")
    assert "memory_stats" in found.methods
    assert "memory, more" in found.groups
    assert "streams" not in found.groups


def test_collectives() -> None:
    def register_ccl() -> None:
        infinitrain.backend.register_ccl_impl(TYPE, IdleCcl())

    with temporary_backend(host_backend(register_ccl=register_ccl)):
        assert describe_backend("testdev").collectives
    with temporary_backend(host_backend()):
        assert not describe_backend("testdev").collectives


def test_no_backend() -> None:
    with temporary_backend():
        with pytest.raises(UnknownDeviceError, match="'testdev'"):
            describe_backend("testdev")
        with pytest.raises(BackendNotAvailableError, match="no backend"):
            describe_backend(TYPE)
