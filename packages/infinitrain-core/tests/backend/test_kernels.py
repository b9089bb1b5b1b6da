"""What a kernel's signature may be, and kernels that are import paths [contract 2.3, 2.9, 4.4]."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import infinitrain as it
from infinitrain.backend import NO_OP_KERNELS, OPS, check_kernels, register_kernel
from infinitrain.backend.dispatch import find_kernel
from infinitrain.backend.registration import require_record
from infinitrain.device import DeviceType
from infinitrain.errors import BackendRegistrationError, KernelError, UnsupportedShapeError
from infinitrain.testing import HostRuntime, host_backend, temporary_backend

ONE = DeviceType.PRIVATEUSE1


def problem(name: str, fn: Any, **options: Any) -> str:
    """Return what registration says of one kernel."""
    with pytest.raises(BackendRegistrationError) as caught:
        accept(name, fn, **options)
    assert len(caught.value.problems) == 1
    return caught.value.problems[0]


def accept(name: str, fn: Any, **options: Any) -> None:
    """Register one kernel besides the array kernels."""
    with temporary_backend(host_backend(kernels=lambda: register_kernel(ONE, name, fn, **options))):
        pass


GOOD: list[tuple[str, Callable[..., Any]]] = [
    ("Cast", lambda x, dtype: x),
    ("Cast", lambda x, dtype, out: None),
    ("Cast", lambda x, dtype, *, out: None),
    ("Cast", lambda x, dtype, /, *, out: None),
    ("Fill", lambda x, value: None),
    ("LinearBackwardBias", lambda grad, *, out, accumulate=False: None),
    ("LinearBackwardBias", lambda grad, out, accumulate=False: None),
]
BAD: list[tuple[str, Callable[..., Any], str]] = [
    (
        "Cast",
        lambda x: x,
        r"parameters (x) do not match the table's (x, dtype) at contract 1.0 [contract 2.3]",
    ),
    ("Cast", lambda dtype, x: x, "parameters (dtype, x) do not match"),
    ("Cast", lambda x, kind: x, "parameters (x, kind) do not match"),
    ("Cast", lambda x, dtype, stream: x, "parameters (x, dtype, stream) do not match"),
    ("Cast", lambda x, dtype, block=128: x, "parameters (x, dtype, block) do not match"),
    ("Cast", lambda x, *, dtype: x, "dtype (keyword-only) cannot be given as core gives it"),
    ("Cast", lambda x, dtype, out, /: x, "out (positional-only) cannot be given"),
    ("Fill", lambda x, value, *, out: x, "Fill: writes x in place and takes no out"),
    ("Cast", lambda x, dtype, *, out, accumulate=False: x, "Cast: accumulate needs out, and a row marked"),
    ("LinearBackwardBias", lambda grad, accumulate=False: x, "LinearBackwardBias: accumulate needs out"),  # noqa: F821
    (
        "LinearBackwardBias",
        lambda grad, *, out, accumulate: None,
        "accumulate without a default cannot be given",
    ),
    ("Cast", lambda *args: args, "unreadable signature; give register_kernel(..., params=...)"),
    ("Cast", lambda x, dtype, **kwargs: x, "unreadable signature"),
    ("Cast", dict, "unreadable signature"),
    ("Cast", 7, "is 7, neither a callable nor an import path"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("name", "fn"), GOOD)
def test_good_signatures(name: str, fn: Callable[..., Any]) -> None:
    """[contract 2.3, 4.4]"""
    accept(name, fn)


@pytest.mark.parametrize(("name", "fn", "text"), BAD)
def test_bad_signatures(name: str, fn: Callable[..., Any], text: str) -> None:
    """[contract 2.3, 4.4]"""
    assert text in problem(name, fn)


def test_params_stand_in_for_an_unreadable_signature() -> None:
    """[contract 2.3] As of a ctypes function."""
    accept("Cast", dict, params=("x", "dtype", "out"))
    accept("Cast", lambda *args, **kwargs: None, params=["x", "dtype"])
    assert "parameters (x) do not match" in problem("Cast", dict, params=("x",))


def test_unknown_dtypes() -> None:
    """[contract 4.3]"""
    accept("Cast", lambda x, dtype: x, dtypes=("float32",))
    assert "unknown dtypes ['fp32']" in problem("Cast", lambda x, dtype: x, dtypes=("fp32", "float32"))


def test_near_names() -> None:
    """[contract 2.3]"""
    assert "'LinearFoward' is no op of the table; near: LinearForward" in problem("LinearFoward", print)


# Import paths -----------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with kernels that nobody has imported."""
    name = f"lazy_kernels_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "def fill(x, value):\n    x.array[...] = value + 1\n"
        "def wrong(x, values):\n    pass\n"
        "def hidden(*args):\n    args[0].array[...] = args[1] + 2\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def backend(path: str, **options: Any) -> Any:
    """Return a temporary backend whose Fill is an import path."""
    return temporary_backend(host_backend(kernels=lambda: register_kernel(ONE, "Fill", path, **options)))


def test_a_path_is_resolved_at_first_dispatch(module: str) -> None:
    """[contract 2.9]"""
    with backend(f"{module}:fill"):
        empty = it.empty(2, device="testdev")
        assert module not in sys.modules
        assert empty.fill_(4.0).tolist() == [5.0, 5.0]
        assert module in sys.modules


def test_a_path_is_checked_at_first_dispatch(module: str) -> None:
    """[contract 2.3, 2.9]"""
    with backend(f"{module}:wrong"), pytest.raises(KernelError, match=r"\(x, values\) do not match"):
        it.full((2,), 4.0, device="testdev")


def test_a_path_may_come_with_params(module: str) -> None:
    """[contract 2.3, 2.9]"""
    with backend(f"{module}:hidden", params=("x", "value")):
        assert check_kernels(ONE) == []
        assert it.full((2,), 4.0, device="testdev").tolist() == [6.0, 6.0]


@pytest.mark.parametrize("path", ["no_such_module:fill", "json:no_such"])
def test_a_bad_path_is_an_import_error(path: str) -> None:
    """[contract 2.9]"""
    with backend(path), pytest.raises(ImportError, match="no_such"):
        it.full((2,), 4.0, device="testdev")


def test_all_paths_can_be_checked_at_once(module: str) -> None:
    """[contract 2.9] For doctor and the conformance suite; the device is not started."""
    impl = HostRuntime()

    def kernels() -> None:
        register_kernel(ONE, "Fill", f"{module}:wrong")
        register_kernel(ONE, "Cast", "no_such_module:cast")

    with temporary_backend(host_backend(impl, kernels=kernels)):
        found = check_kernels(ONE)
        assert len(found) == 2
        assert "kernel Fill: parameters (x, values) do not match" in found[0] + found[1]
        assert "kernel Cast: ModuleNotFoundError: No module named 'no_such_module' [contract 2.9]" in found
        assert impl.log == []


def test_an_array_library_that_is_missing_is_told_once() -> None:
    """[contract 2.9]"""
    from infinitrain.kernels import register_array_kernels

    register = host_backend(register_kernels=lambda: register_array_kernels(ONE, "no_such_library"))
    with temporary_backend(register):
        found = check_kernels(ONE)
        assert len(found) == 1
        assert "No module named 'no_such_library'" in found[0]


# Ready kernels ----------------------------------------------------------------------------------------------


def test_views_share_memory() -> None:
    """[contract 4.4]"""
    with temporary_backend(host_backend()):
        x = it.tensor([[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]], device="testdev:1")
        view = OPS["NoOpForward"].call(x, (3, 2))
        back = OPS["NoOpBackward"].call((2, 3), view)
        assert view.ptr == x.ptr == back.ptr
        assert view.tolist() == [[1.5, 2.5], [3.5, 4.5], [5.5, 6.5]]
        x.fill_(7.0)
        assert back.tolist() == [[7.0] * 3] * 2
        assert sorted(NO_OP_KERNELS) == ["NoOpBackward", "NoOpForward"]


# Several kernels --------------------------------------------------------------------------------------------


def constant(number: float) -> Callable[..., None]:
    """A kernel of Fill that writes ``number``, whatever it is given."""

    def kernel(x: Any, value: float) -> None:
        x.array[...] = number

    return kernel


def few_columns(x: Any, value: float) -> bool:
    return bool(x.shape[-1] < 4)


def test_kernels_are_asked_in_the_order_of_registration() -> None:
    """[contract 4.3]"""
    asked: list[tuple[int, ...]] = []

    def narrow(x: Any, value: float) -> bool:
        asked.append(x.shape)
        return few_columns(x, value)

    def kernels() -> None:
        register_kernel(ONE, "Fill", constant(1.0), dtypes=("float32",), supports=narrow)
        register_kernel(ONE, "Fill", constant(2.0), dtypes=("float32",))
        register_kernel(ONE, "Fill", constant(3.0))

    with temporary_backend(host_backend(kernels=kernels)):
        for _ in range(3):
            assert it.full((2, 3), 9.0, device="testdev").tolist() == [[1.0] * 3] * 2
        assert asked == [(2, 3)]  # once for a shape
        assert it.full((1, 4), 9.0, device="testdev").tolist() == [[2.0] * 4]
        assert it.full((1, 2), 9, dtype="int32", device="testdev").tolist() == [[3, 3]]


def test_a_kernel_behind_one_that_takes_everything_is_a_mistake() -> None:
    """[contract 4.3]"""

    def kernels() -> None:
        register_kernel(ONE, "Fill", constant(1.0))
        register_kernel(ONE, "Fill", constant(2.0), dtypes=("float32",))

    with (
        pytest.raises(
            BackendRegistrationError, match=r"Fill is registered twice.*leaves nothing to the second"
        ),
        temporary_backend(host_backend(kernels=kernels)),
    ):
        pass


def test_a_call_that_no_kernel_takes_is_named() -> None:
    """[contract 4.7]"""

    def kernels() -> None:
        register_kernel(
            ONE, "AllFinite", lambda tensors, *, out: None, supports=lambda tensors: len(tensors) < 2
        )

    with temporary_backend(host_backend(kernels=kernels)):
        x = it.ones(3, device="testdev")
        assert find_kernel(OPS["AllFinite"], ONE, {"float32"}, ((x,),)).layer == "explicit"
        assert find_kernel(OPS["AllFinite"], ONE, {"float32"}, ((x, x),)).layer == "array"
        del require_record(ONE).kernels["AllFinite"]["array"]
        with pytest.raises(
            UnsupportedShapeError, match=r"AllFinite does not take AllFinite\(tensors: 2 tensors\)"
        ):
            find_kernel(OPS["AllFinite"], ONE, {"float32"}, ((x, x),))


@pytest.mark.parametrize(
    ("supports", "text"),
    [
        (lambda x: True, "supports= failed: TypeError"),
        (lambda x, value: "no", "supports= returned 'no', no bool"),
    ],
)
def test_a_wrong_supports_is_named(supports: Any, text: str) -> None:
    """[contract 4.3]"""
    with (
        temporary_backend(
            host_backend(kernels=lambda: register_kernel(ONE, "Fill", constant(1.0), supports=supports))
        ),
        pytest.raises(KernelError, match=rf"kernel Fill: {text}"),
    ):
        it.full((2,), 9.0, device="testdev")


def test_supports_is_a_function() -> None:
    """[contract 2.3]"""
    assert "supports is 'x', no function" in problem("Cast", lambda x, dtype: x, supports="x")
