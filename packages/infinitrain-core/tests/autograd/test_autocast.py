"""Autocast: what is cast where, what becomes of the gradients, and what a region leaves behind [contract 5]."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, ops, optim
from infinitrain.autograd import Function, captured_autocast, no_grad
from infinitrain.autograd.grad_mode import state
from infinitrain.backend import OPS
from infinitrain.backend.optable import OpTable, op
from infinitrain.device import Device, DeviceType
from infinitrain.errors import DtypeError, UnknownDeviceError
from infinitrain.testing import host_backend, temporary_backend

RNG = np.random.Generator(np.random.PCG64(5))


def leaf(*shape: int, mean: float = 0.3, dtype: str = "float32") -> it.Tensor:
    return it.tensor(RNG.normal(mean, 1.0, shape), dtype=dtype, requires_grad=True)


def rounded(x: it.Tensor, dtype: str = "bfloat16") -> np.ndarray:
    """Return x as the lower dtype holds it, in float64."""
    return x.detach().astype(dtype).numpy().astype(np.float64)


@pytest.fixture
def casts(monkeypatch: pytest.MonkeyPatch) -> list[it.Tensor]:
    """The tensors that were cast, in order."""
    seen: list[it.Tensor] = []
    row = OPS["Cast"]
    call = row.call

    def counting(x: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(x)
        return call(x, *args, **kwargs)

    monkeypatch.setattr(row, "call", counting)
    return seen


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


def test_a_captured_region_is_entered_again_on_any_thread() -> None:
    x, w = leaf(4, 5), leaf(3, 5)
    with it.autocast("cpu", "float16"):
        captured = captured_autocast()
    outside = captured_autocast()
    found: list[str] = []

    def again() -> None:
        for _ in range(2):
            with captured:
                found.append(ops.linear(x, w).dtype.name)
                with outside:
                    found.append(ops.linear(x, w).dtype.name)

    again()
    thread = threading.Thread(target=again)
    thread.start()
    thread.join()
    assert found == ["float16", "float32"] * 4


# Gradients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["explicit", "array"])
def test_weight_gradients_are_sums_in_float32_that_were_never_rounded(
    layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFINITRAIN_KERNELS", layer)
    it.backend.dispatch.clear_plans()
    w, b = leaf(3, 5), leaf(3)
    want, bias = np.zeros((3, 5)), np.zeros(3)
    for _ in range(3):  # micro-batches: the first overwrites, the others add
        x, grad = leaf(40, 5).detach(), leaf(40, 3).detach().astype("bfloat16")
        with it.autocast("cpu"):
            y = ops.linear(x, w, b)
        y.backward(grad)
        want += rounded(grad).T @ rounded(x)
        bias += rounded(grad).sum(0)
    assert w.grad.dtype is b.grad.dtype is it.float32
    np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b.grad.numpy(), bias, rtol=1e-5, atol=1e-5)
    it.backend.dispatch.clear_plans()


def test_uses_of_one_tensor_are_summed_in_float32() -> None:
    """256 + 1 is 256 in bfloat16; here for a leaf, a result, and a leaf with a hook."""
    for hooked in (False, True):
        x = it.ones(1, 1, requires_grad=True)
        seen: list[it.Tensor] = []
        if hooked:
            x.register_hook(seen.append)
        h = x * 1.0
        with it.autocast("cpu"):
            y = ops.linear(h, it.full((1, 1), 256.0)) + ops.linear(h, it.ones(1, 1))
            z = x @ it.full((1, 1), 256.0) + x @ it.ones(1, 1)
        (y.float() + z).sum().backward()
        assert x.grad.item() == 514.0
        assert all(g.dtype is it.float32 for g in seen)


def test_gradients_have_their_inputs_dtypes() -> None:
    half, w, logits = leaf(4, 5, dtype="bfloat16"), leaf(3, 5, dtype="float16"), leaf(4, 3, dtype="bfloat16")
    with it.autocast("cpu", "float16"):
        loss = ops.cross_entropy(logits * 1.0, it.tensor([0, 2, 1, 1])) + ops.linear(half, w).sum().float()
    loss.backward()
    assert [t.grad.dtype.name for t in (half, w, logits)] == ["bfloat16", "float16", "bfloat16"]
    np.testing.assert_allclose(rounded(w.grad), np.tile(rounded(half, "float16").sum(0), (3, 1)), rtol=2e-3)
    p = np.exp(rounded(logits))
    p = (p / p.sum(1, keepdims=True) - np.eye(3)[[0, 2, 1, 1]]) / 4
    np.testing.assert_allclose(rounded(logits.grad), p, rtol=1e-2, atol=1e-3)


def test_a_cast_is_no_graph_node_and_off_in_backward() -> None:
    seen: list[bool] = []

    class Watch(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x + 0.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(it.is_autocast_enabled("cpu"))
            return grad

    x, w = leaf(4, 5), leaf(3, 5)
    with it.autocast("cpu"):
        y = ops.linear(Watch.apply(x), w)
        assert y.grad_fn._edges[1] == (w, -1)
        y.sum().backward()
        assert it.is_autocast_enabled("cpu")
    assert seen == [False]


# The cache of weights -------------------------------------------------------------------------------------


def test_a_weight_is_cast_once_until_it_changes(casts: list[it.Tensor]) -> None:
    w, frozen = nn.Parameter(leaf(3, 5).detach()), nn.Parameter(leaf(3, 5).detach(), requires_grad=False)
    optimizer = optim.SGD([w], lr=0.5)
    x = leaf(4, 5).detach().astype("bfloat16")

    def count(of: it.Tensor) -> int:
        return sum(x is of for x in casts)

    with it.autocast("cpu"):
        for _ in range(3):
            with it.autocast("cpu"):
                y = ops.linear(x, w) + ops.linear(x, frozen)
        assert (count(w), count(frozen)) == (1, 1)
        with it.autocast("cpu", "float16"):
            ops.linear(x, w)
        assert count(w) == 2
        y.sum().backward()
        optimizer.step()
        after = ops.linear(x, w)
    assert count(w) == 3
    np.testing.assert_allclose(rounded(after), rounded(x) @ rounded(w).T, rtol=1e-2, atol=5e-2)
    with it.autocast("cpu"):
        ops.linear(x, w)
    assert count(w) == 4  # dropped at the outermost exit


def test_a_cast_made_without_a_graph_serves_one_with_it() -> None:
    x, w = leaf(4, 5).detach(), leaf(3, 5)
    with it.autocast("cpu"):
        with no_grad():
            ops.linear(x, w)
        y = ops.linear(x, w)
    y.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.tile(rounded(x).sum(0), (3, 1)), rtol=1e-5)


def test_a_region_keeps_neither_parameters_nor_graphs_alive() -> None:
    gc.disable()
    try:
        with it.autocast("cpu"):
            x, w = leaf(4, 5).detach(), leaf(3, 5)
            y = ops.linear(x, w)
            gone = [weakref.ref(w), weakref.ref(y.grad_fn), weakref.ref(y.grad_fn._saved[0])]
            held = weakref.ref(next(iter(state.autocast.cache.values()))[3])
            y.sum().backward()
            del x, w, y
            assert not any(r() for r in gone)
            assert held() is None
            assert not state.autocast.cache
            kept = leaf(3, 5)
            ops.linear(leaf(4, 5).detach(), kept)
            cast = weakref.ref(next(iter(state.autocast.cache.values()))[3])
        assert cast() is None
    finally:
        gc.enable()


def test_a_model_learns_under_autocast() -> None:
    config = nn.TransformerConfig(block_size=16, vocab_size=32, n_layer=2, n_head=2, n_embd=32)
    model = nn.TransformerModel(config, seed=3)
    optimizer = optim.AdamW(model.named_parameters(), lr=3e-3)
    tokens = it.from_numpy(RNG.integers(0, 32, (4, 17)))
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        with it.autocast("cpu"):
            logits = model(tokens[:, :-1])
            loss = ops.cross_entropy(logits, tokens[:, 1:])
        loss.backward()
        optim.clip_grad_norm(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert (logits.dtype, loss.dtype) == (it.bfloat16, it.float32)
    assert {p.grad.dtype for p in model.parameters()} == {it.float32}
    assert losses[-1] < losses[0] - 0.5
