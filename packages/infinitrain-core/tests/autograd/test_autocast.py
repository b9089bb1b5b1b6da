"""Autocast: what is cast where, and how regions begin and end [contract 5]."""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.autograd import Function
from infinitrain.autograd.grad_mode import state
from infinitrain.backend import OPS
from infinitrain.backend.optable import OpTable, op
from infinitrain.device import Device, DeviceType
from infinitrain.errors import DtypeError, UnknownDeviceError
from infinitrain.testing import host_backend, temporary_backend

RNG = np.random.Generator(np.random.PCG64(5))


def leaf(*shape: int, mean: float = 0.3, dtype: str = "float32") -> it.Tensor:
    return it.tensor(RNG.normal(mean, 1.0, shape), dtype=dtype, requires_grad=True)


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    assert state.autocast is None
    assert state.regions == ()


# The policy table -----------------------------------------------------------------------------------------


def _functions(base: type[Function] = Function) -> Iterator[type[Function]]:
    for cls in base.__subclasses__():
        yield cls
        yield from _functions(cls)


def test_every_policy_is_reached_by_a_function() -> None:
    """A row that no Function names is never cast, whatever it says. Gradients have no policy: backward is not autocast.

    The Functions of the profile ``parallel`` come with the collectives.
    """
    named = {cls.row.name for cls in _functions() if cls.row is not None}
    for row in OPS.values():
        if row.autocast != "keep" and row.profile != "parallel":
            assert row.name in named, row.name


def test_the_table_of_the_contract() -> None:
    lower = {"LinearForward", "MatmulForward", "AttentionForward"}
    wide = {
        "Exp",
        "Log",
        "Pow",
        "PowTensor",
        "Sqrt",
        "Rsqrt",
        "Reciprocal",
        "Sin",
        "Cos",
        "Tanh",
        "CrossEntropy",
    }
    widest = {"Add", "Sub", "Mul", "Div", "Where", "Concat"}
    keep = {"LayerNorm", "Softmax", "LogSoftmax", "Gelu", "Embedding", "Sum", "Mean", "Transpose"}
    for policy, names in (("float32", wide), ("widest", widest), ("keep", keep)):
        assert {OPS[f"{n}Forward"].autocast for n in names} == {policy}
    assert {OPS[n].autocast for n in lower} == {"lower"}


def test_an_unknown_policy_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infinitrain.backend.optable.OPS", OpTable())
    with pytest.raises(
        ValueError, match=r"OddForward: unknown autocast policy 'lowest'.*lower.*\[contract 5\.1\]"
    ):

        @op(profile="extra", autocast="lowest")
        def OddForward(x: Any) -> Any:
            """An op."""


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_results_have_the_dtypes_of_their_policies(dtype: str) -> None:
    x, w, half = leaf(4, 5), leaf(3, 5), leaf(4, 3).detach().astype(dtype)
    wide = it.tensor([1.5, 2.5], dtype="float64", requires_grad=True)
    with it.autocast("cpu", dtype):
        for y, want in (
            (ops.linear(x, w), dtype),
            (x @ w.transpose(0, 1), dtype),
            (ops.exp(half), "float32"),
            (half**2.0, "float32"),
            (ops.cross_entropy(half, it.tensor([0, 1, 2, 0])), "float32"),
            (ops.softmax(half), dtype),
            (ops.layer_norm(half, it.ones(3)), dtype),
            (ops.layer_norm(x, it.ones(5)), "float32"),
            (half + ops.sum(x), "float32"),
            (ops.concat([half, leaf(4, 3)]), "float32"),
            (ops.where(half > 0.0, half, leaf(4, 3)), "float32"),
            (half * 2.0, dtype),
            (ops.exp(wide), "float64"),
            (ops.exp(it.tensor([1, 2])), "float32"),
        ):
            assert y.dtype.name == want


def test_float64_is_never_cast() -> None:
    x, w = leaf(2, 5, dtype="float64"), leaf(3, 5, dtype="float64")
    with it.autocast("cpu"):
        np.testing.assert_array_equal(ops.linear(x, w).numpy(), x.numpy() @ w.numpy().T)
        with pytest.raises(DtypeError, match=r"float64.*float32"):
            ops.linear(x, leaf(3, 5))


def test_float32_regions_raise_half_precision() -> None:
    x, w = leaf(4, 5, dtype="bfloat16"), leaf(3, 5)
    with it.autocast("cpu", "float32"):
        y = ops.linear(x, w)
    np.testing.assert_allclose(y.numpy(), x.numpy().astype(np.float64) @ w.numpy().T, rtol=1e-5, atol=1e-5)
    y.sum().backward()
    assert (x.grad.dtype.name, w.grad.dtype.name) == ("bfloat16", "float32")


# Regions --------------------------------------------------------------------------------------------------


def test_regions_nest_and_restore_on_exceptions() -> None:
    x, w = leaf(4, 5), leaf(3, 5)

    def dtype() -> str:
        return ops.linear(x, w).dtype.name

    assert not it.is_autocast_enabled("cpu")
    with it.autocast("cpu"):
        assert it.is_autocast_enabled("cpu")
        assert not it.is_autocast_enabled("cuda")
        with it.autocast("cpu", it.float16):
            assert dtype() == "float16"
            with it.autocast("cpu", enabled=False):
                assert dtype() == "float32"
                assert not it.is_autocast_enabled("cpu")
            assert dtype() == "float16"
            with it.autocast("cuda", "bfloat16"):
                assert dtype() == "float16"
                assert it.is_autocast_enabled("cuda:1")
        with pytest.raises(RuntimeError, match="stop"), it.autocast("cpu", "float16"):
            raise RuntimeError("stop")
        assert dtype() == "bfloat16"
    assert dtype() == "float32"


def test_as_a_decorator_one_object_serves_recursion_and_threads() -> None:
    x, w = leaf(4, 5), leaf(3, 5)

    @it.autocast("cpu")
    def run(depth: int) -> list[str]:
        """Documented."""
        return [*(run(depth - 1) if depth else []), ops.linear(x, w).dtype.name]

    assert run.__doc__ == "Documented."
    found: list[str] = []
    with it.autocast("cpu", "float16"):
        thread = threading.Thread(target=lambda: found.append(ops.linear(x, w).dtype.name))
        thread.start()
        thread.join()
    assert found == ["float32"]  # a region is its thread's
    assert run(2) == ["bfloat16"] * 3


def test_what_names_a_device_type() -> None:
    for name in ("cpu", Device.parse("cpu"), DeviceType.CPU):
        assert it.autocast(name).dtype is it.bfloat16
    assert it.autocast("cuda:3").type is DeviceType.CUDA
    assert it.autocast(DeviceType.CUDA).dtype is it.float16
    with pytest.raises(UnknownDeviceError, match="cpu2"):
        it.autocast("cpu2")
    with pytest.raises(ValueError, match="valid DeviceType"):
        it.autocast(DeviceType.INVALID)
    for dtype in ("int8", it.float64):
        with pytest.raises(DtypeError, match=r"float16, bfloat16 or float32, got .*\[contract 5\.2\]"):
            it.autocast("cpu", dtype)
    with pytest.raises(DtypeError, match="unknown dtype 'half'"):
        it.autocast("cpu", "half")


def test_a_provider_declares_its_dtype_or_the_user_gives_one() -> None:
    explicit = r'explicit dtype.*autocast\("testdev", "bfloat16"\).*default_autocast_dtype.*\[contract 5\.2\]'
    with temporary_backend():
        with pytest.raises(DtypeError, match="'privateuse1' requires an explicit dtype"):
            it.autocast(DeviceType.PRIVATEUSE1)
        assert it.autocast(DeviceType.PRIVATEUSE1, "float16").dtype is it.float16
    with temporary_backend(host_backend()):
        with pytest.raises(DtypeError, match=explicit):
            it.autocast("testdev:1")
        it.autocast("testdev", enabled=False)
    with temporary_backend(host_backend(default_autocast_dtype=it.float16)):
        assert it.autocast("testdev").dtype is it.float16


def test_only_tensors_of_the_regions_device_type() -> None:
    with it.autocast("cuda", "float16"):
        assert ops.linear(leaf(4, 5), leaf(3, 5)).dtype is it.float32


# Functions without a row -----------------------------------------------------------------------------------


class Mine(Function):
    """A user's linear layer of ops; what its forward saw is kept in ``seen``."""

    seen: ClassVar[list[str]] = []

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save(x, w)
        y = ops.linear(x, w)
        Mine.seen[:] = [x.dtype.name, w.dtype.name, y.dtype.name]
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved
        return grad @ w, grad.transpose(0, 1) @ x


class MineLower(Mine, autocast="lower"):
    pass


class MineWide(Mine, autocast="float32"):
    pass


class MineInside(Mine, autocast="inside"):
    pass


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize(
    ("fn", "given", "seen"),
    [
        (Mine, "float32", ["float32"] * 3),
        (Mine, "bfloat16", ["bfloat16"] * 3),
        (MineLower, "float32", ["float16"] * 3),
        (MineLower, "float64", ["float64"] * 3),
        (MineWide, "bfloat16", ["float32"] * 3),
        (MineWide, "float32", ["float32"] * 3),
        (MineInside, "float32", ["float32", "float32", "float16"]),
    ],
)
def test_a_users_function_computes_in_the_dtypes_that_it_is_given(
    fn: type[Function], given: str, seen: list[str], record: bool
) -> None:
    """[contract 5.3] Forward and backward see the same, and gradients have the arguments' dtypes."""
    x, w = leaf(4, 5, dtype=given), leaf(3, 5, dtype=given)
    with it.autocast("cpu", "float16"), contextlib.nullcontext() if record else it.no_grad():
        y = fn.apply(x, w)
        assert ops.linear(leaf(4, 5), leaf(3, 5)).dtype is it.float16  # the region is as it was
    assert Mine.seen == seen
    assert y.dtype.name == seen[2]
    if not record or fn is MineInside:  # whose backward would have to bring the region back
        return
    grad = RNG.normal(0.5, 1.0, (4, 3))
    y.backward(it.tensor(grad, dtype=y.dtype))
    tolerance = {"float64": 1e-12, "float32": 1e-5}.get(seen[2] if given != "bfloat16" else given, 2e-2)
    for got, want in ((x.grad, grad @ w.numpy().astype(float)), (w.grad, grad.T @ x.numpy().astype(float))):
        assert got is not None
        assert got.dtype.name == given
        np.testing.assert_allclose(got.numpy().astype(float), want, rtol=tolerance, atol=10 * tolerance)


def test_a_forward_that_raises_leaves_the_region() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, error: Exception) -> Any:
            assert state.autocast is None
            raise error

    with it.autocast("cpu"):
        region = state.autocast
        for x in (leaf(2), leaf(2).detach()):
            for error in (RuntimeError("stop"), AttributeError("stop")):
                for mode in (it.no_grad(), it.autograd.enable_grad()):
                    with pytest.raises(type(error), match="stop"), mode:
                        Fails.apply(x, error)
                    assert state.autocast is region


def test_what_a_function_cannot_ask_of_autocast() -> None:
    for kwargs in (
        {"autocast": "widest"},
        {"autocast": "bfloat16"},
        {"autocast": "keep", "op": ops.LinearForward},
    ):
        with pytest.raises(ValueError, match=r"Odd: autocast= is one of keep, lower, .*\[contract 5\.3\]"):
            types.new_class("Odd", (Function,), kwargs)
