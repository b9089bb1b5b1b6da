"""Registration: every problem is told, and all of them at once [contract 2.3]."""

from typing import Any

import pytest

from infinitrain.backend import (
    CclImpl,
    DeviceGuardImpl,
    get_device_guard_impl,
    register_ccl_impl,
    register_device_guard_impl,
    register_kernel,
)
from infinitrain.backend.capabilities import Capabilities, Option
from infinitrain.device import DeviceType
from infinitrain.dtype import float32
from infinitrain.errors import BackendInitError
from infinitrain.testing import HostRuntime, IdleCcl, host_backend, refusal, temporary_backend

ONE = DeviceType.PRIVATEUSE1


def nothing() -> None:
    """A callback that forgets everything."""


def problems(**fields: Any) -> list[str]:
    """Return what is wrong with a registration that is otherwise right."""
    return refusal(host_backend(**fields)).problems


# Problems ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "contract", [None, 0, 1, 1.0, "1.0", (), (1,), (1, 0, 0), ("1", "0"), (True, False), (1, 0.0)]
)
def test_contract_is_a_pair(contract: Any) -> None:
    """[contract 2.3]"""
    found = problems(contract=contract)
    assert len(found) == 1
    assert "must be the version it was written for, as in contract=(1, 0)" in found[0]


@pytest.mark.parametrize("contract", [(0, 0), (0, 9), (1, 1), (1, -1), (2, 0)])
def test_contract_out_of_range(contract: tuple[int, int]) -> None:
    """[contract 2.3, 9.1]"""
    found = problems(contract=contract)
    assert found == [
        f"contract {contract[0]}.{contract[1]} is not supported: this core implements 1.0 to 1.0; "
        "install a matching infinitrain-core or provider [contract 9.1]"
    ]


@pytest.mark.parametrize("dtype", [float32, "float16", 16, bool])
def test_autocast_dtype_is_a_half(dtype: Any) -> None:
    """[contract 2.3]"""
    assert "default_autocast_dtype must be float16 or bfloat16" in problems(default_autocast_dtype=dtype)[0]


@pytest.mark.parametrize("field", ["register_runtime", "register_kernels", "register_ccl"])
def test_callbacks_are_callable(field: str) -> None:
    """[contract 2.3]"""
    assert problems(**{field: 7}) == [f"{field} must be a callable without arguments [contract 2.1]"]


@pytest.mark.parametrize("field", ["register_runtime", "register_kernels"])
def test_required_callbacks(field: str) -> None:
    """[contract 2.3]"""
    assert problems(**{field: None}) == [f"{field} must be a callable without arguments [contract 2.1]"]


class WithoutArrays(HostRuntime):
    native_array = DeviceGuardImpl.native_array
    adopt = DeviceGuardImpl.adopt


def test_array_kernels_need_arrays() -> None:
    """[contract 4.8] They would fail at the first op; and nothing would seem to be missing."""
    assert refusal(host_backend(WithoutArrays())).problems == [
        "register_array_kernels needs a runtime with native_array and adopt [contract 4.8]"
    ]


def test_capabilities() -> None:
    """[contract 2.1]"""
    assert "capabilities must be a Capabilities" in problems(capabilities=7)[0]


@pytest.mark.parametrize(
    "options", [("devices",), (Option("a"), Option("a")), (Option("Devices"),), (Option("a\n"),)]
)
def test_options(options: Any) -> None:
    """[contract 3.2]"""
    assert "options must be " in problems(capabilities=Capabilities(options=options))[0]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"options": 3}, "options must be a tuple of Option(name, ...), not 3"),
        ({"options": (Option(7),)}, "options must be Option(name, ...) with different names"),
        ({"options": (Option("a", type=5),)}, "option 'a': type 5 must be a callable"),
        ({"peak_flops": 1e12}, "peak_flops=1000000000000.0 must be a function of a dtype"),
        (
            {"nondeterministic": ("EmbedingBackward",)},
            "'EmbedingBackward' is no op of the table; near: Embed",
        ),
        ({"nondeterministic": "EmbeddingBackward"}, "nondeterministic must be a tuple of names of ops, not"),
        ({"nondeterministic": (["Cast"],)}, "nondeterministic: ['Cast'] is no op of the table"),
        ({"host_visible": 1}, "host_visible=1 must be True or False"),
        ({"thread_ranks": None}, "thread_ranks=None must be True or False"),
    ],
)
def test_what_capabilities_declare(fields: Any, told: str) -> None:
    """[contract 2.3, 3.2, 7.7]: at registration, not where they are first used."""
    (problem,) = problems(capabilities=Capabilities(**fields))
    assert told in problem
    assert "[contract " in problem


def test_capabilities_known_late_are_checked_late() -> None:
    """[contract 2.1]"""
    late = host_backend(capabilities=lambda: Capabilities(peak_flops=4))
    with temporary_backend(late), pytest.raises(BackendInitError, match="peak_flops=4 must be a function"):
        get_device_guard_impl(ONE)


def test_a_runtime_is_given() -> None:
    """[contract 2.3]"""
    assert problems(register_runtime=nothing) == [
        "register_runtime did not call register_device_guard_impl [contract 2.3]"
    ]


def test_a_runtime_is_a_runtime() -> None:
    """[contract 2.3]"""
    found = problems(register_runtime=lambda: register_device_guard_impl(ONE, object()))  # type: ignore[arg-type]
    assert "is not a DeviceGuardImpl" in found[0]


def test_a_runtime_says_this_type() -> None:
    """[contract 2.3]"""

    class Wrong(HostRuntime):
        type = DeviceType.CUDA

    assert "the runtime says type <DeviceType.CUDA: 1>" in problems(runtime=Wrong())[0]


def test_one_runtime() -> None:
    """[contract 2.3]"""

    def twice() -> None:
        register_device_guard_impl(ONE, HostRuntime())
        register_device_guard_impl(ONE, HostRuntime())

    assert problems(register_runtime=twice) == ["register_device_guard_impl was called twice [contract 2.3]"]


def test_an_abstract_runtime_cannot_be_made() -> None:
    """[contract 2.3, 3.1]"""
    found = problems(register_runtime=lambda: register_device_guard_impl(ONE, DeviceGuardImpl()))  # type: ignore[abstract]
    assert "TypeError" in found[0]
    assert "malloc" in found[0]


@pytest.mark.parametrize(
    ("methods", "text"),
    [
        (("adopt",), "native_array without adopt: arrays come"),
        (("current_stream", "record"), "current_stream, record without set_current_stream,"),
        (("begin_capture", "replay"), "begin_capture, replay without end_capture: capture come"),
    ],
)
def test_groups_are_whole(methods: tuple[str, ...], text: str) -> None:
    """[contract 3.1] HostRuntime has the arrays; its `adopt` is taken away."""
    body: dict[str, Any] = {m: lambda self, *args: None for m in methods}
    if methods == ("adopt",):
        body = {"adopt": DeviceGuardImpl.adopt}
    assert text in problems(runtime=type("Partial", (HostRuntime,), body)())[0]


def test_host_visible_is_a_capability() -> None:
    """[contract 3.9]"""

    class Visible(HostRuntime):
        host_visible = True

    assert "Capabilities(host_visible=True)" in problems(runtime=Visible())[0]


def test_a_promised_ccl_is_given() -> None:
    """[contract 2.3]"""
    assert problems(register_ccl=nothing) == ["register_ccl did not call register_ccl_impl [contract 2.3]"]


def test_a_ccl_is_complete_and_of_this_type() -> None:
    """[contract 2.3, 6.1]"""

    class Other(IdleCcl):
        type = DeviceType.CUDA

    class Partial(IdleCcl):
        all_reduce = CclImpl.all_reduce

    for ccl, text in [
        (Other(), "is not a CclImpl of type"),
        (object(), "is not a CclImpl"),
        (Partial(), "all_reduce"),
    ]:
        assert text in problems(register_ccl=lambda ccl=ccl: register_ccl_impl(ONE, ccl))[0]


def test_base_kernels() -> None:
    """[contract 2.3]"""
    found = problems(register_kernels=nothing)
    names = ("Cast", "Fill", "NoOpForward", "NoOpBackward")
    assert found == [f"required kernel {name} is missing [contract 2.3]" for name in names]


def test_everything_at_once() -> None:
    """[contract 2.3] Before the callbacks: what is declared. After them: what they gave."""
    declared = problems(name="Toy", contract=0, register_runtime=None, default_autocast_dtype=float32)
    assert [p.split(" ")[0] for p in declared] == [
        "name",
        "register_runtime",
        "contract=0",
        "default_autocast_dtype",
    ]

    def kernels() -> None:
        register_kernel(ONE, "Fil", nothing)
        register_kernel(ONE, "Fill", lambda x, values: None)
        register_kernel(ONE, "Cast", lambda x, dtype: x)
        register_kernel(ONE, "Cast", lambda x, dtype: x)

    given = problems(register_runtime=nothing, register_ccl=nothing, register_kernels=kernels)
    expected = [
        "'Fil' is no op of the table; near: Fill",
        "Cast is registered twice in the explicit layer",
        "register_runtime did not call",
        "register_ccl did not call",
        "required kernel NoOpForward",
        "required kernel NoOpBackward",
        "kernel Fill: parameters (x, values) do not match the table's (x, value) at contract 1.0",
    ]
    assert len(given) == len(expected)
    for text, problem in zip(expected, given, strict=True):
        assert text in problem
