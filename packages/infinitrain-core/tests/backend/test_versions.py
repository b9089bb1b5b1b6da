"""Providers that were written for an older minor of the contract [contract 9]."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import infinitrain as it
from infinitrain.backend import OPS, optable, problems, register_kernel
from infinitrain.device import DeviceType
from infinitrain.errors import BackendRegistrationError, NotSupportedError
from infinitrain.testing import host_backend, temporary_backend

ONE = DeviceType.PRIVATEUSE1


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """Core at 1.1, with an op whose second parameter is new, and an op that is new."""
    from infinitrain.backend.optable import Results, Scalar, Tensor

    monkeypatch.setattr(problems, "CONTRACT", (1, 1))

    def TestScale(x: Tensor, factor: Scalar, offset: Scalar = 0.0) -> Results:
        """factor x + offset."""
        return [(x.shape, x.dtype)]

    def TestNew(x: Tensor) -> Results:
        """x, since 1.1."""
        return [(x.shape, x.dtype)]

    declare = optable.op(profile="extra", param_since={"offset": (1, 1)})
    try:
        # Annotations as the table reads them: texts.
        for fn in (TestScale, TestNew):
            fn.__annotations__ = {k: getattr(v, "__name__", v) for k, v in fn.__annotations__.items()}
        yield declare(TestScale), optable.op(profile="extra", since=(1, 1))(TestNew)
    finally:
        for name in ("TestScale", "TestNew"):
            OPS.pop(name, None)


def old(x: Any, factor: float, *, out: Any) -> None:
    """A kernel of 1.0."""
    out.array[...] = x.array * factor


def new(x: Any, factor: float, offset: float, *, out: Any) -> None:
    """A kernel of 1.1."""
    out.array[...] = x.array * factor + offset


def provider(contract: tuple[int, int], name: str, kernel: Callable[..., Any]) -> Any:
    """Return a temporary backend with one more kernel."""
    register = host_backend(contract=contract, kernels=lambda: register_kernel(ONE, name, kernel))
    return temporary_backend(register)


def refused(contract: tuple[int, int], name: str, kernel: Callable[..., Any]) -> list[str]:
    """Return why that is refused."""
    with pytest.raises(BackendRegistrationError) as caught, provider(contract, name, kernel):
        pass
    return caught.value.problems


def test_core_implements_1_0() -> None:
    """[contract 9.1]"""
    assert problems.CONTRACT == (1, 0)


def test_an_older_kernel_is_called_as_before(later: tuple[Any, Any]) -> None:
    """[contract 9.2]"""
    scale, _ = later
    with provider((1, 0), "TestScale", old):
        x = it.tensor([1.5, -2.0], device="testdev")
        assert scale(x, 3.0).tolist() == [4.5, -6.0]
        assert scale(x, 3.0, 0.0).tolist() == [4.5, -6.0]


def test_an_older_kernel_cannot_do_what_is_new(later: tuple[Any, Any]) -> None:
    """[contract 9.2]"""
    scale, _ = later
    with provider((1, 0), "TestScale", old):
        x = it.tensor([1.5, -2.0], device="testdev")
        with pytest.raises(
            NotSupportedError, match=r"offset=0.5 needs contract \(1, 1\).*'testdev'.*\(1, 0\)"
        ):
            scale(x, 3.0, 0.5)


def test_a_newer_kernel_gets_everything(later: tuple[Any, Any]) -> None:
    """[contract 9.2]"""
    scale, _ = later
    with provider((1, 1), "TestScale", new):
        x = it.tensor([1.5, -2.0], device="testdev")
        assert scale(x, 3.0, 0.5).tolist() == [5.0, -5.5]
        assert scale(x, 3.0).tolist() == [4.5, -6.0]


def test_signatures_are_measured_at_the_declared_minor(later: tuple[Any, Any]) -> None:
    """[contract 2.3, 9.2]"""
    assert "do not match the table's (x, factor) at contract 1.0" in refused((1, 0), "TestScale", new)[0]
    assert (
        "do not match the table's (x, factor, offset) at contract 1.1" in refused((1, 1), "TestScale", old)[0]
    )


def test_an_op_that_is_younger_than_the_declared_minor(later: tuple[Any, Any]) -> None:
    """[contract 9.2]"""
    with provider((1, 1), "TestNew", lambda x: x):
        pass
    assert refused((1, 0), "TestNew", lambda x: x) == ["kernel TestNew: since 1.1, not in 1.0 [contract 9.2]"]


def test_both_minors_are_accepted_and_no_third(later: tuple[Any, Any]) -> None:
    """[contract 9.1]"""
    for minor in (0, 1):
        with temporary_backend(host_backend(contract=(1, minor))):
            pass
    with pytest.raises(BackendRegistrationError, match=r"this core implements 1\.0 to 1\.1"):
        host_backend(contract=(1, 2))()
