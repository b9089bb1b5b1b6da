"""Autocast: what becomes of the gradients, and what the casts of weights leave behind [contract 5.3]."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, ops, optim
from infinitrain.autograd import Function, no_grad
from infinitrain.autograd.grad_mode import state
from infinitrain.backend import OPS, register_kernel
from infinitrain.device import DeviceType
from infinitrain.testing import host_backend, temporary_backend

RNG = np.random.Generator(np.random.PCG64(6))


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


@pytest.mark.parametrize("adds", [True, False])
def test_only_kernels_that_add_see_destinations_wider_than_inferred(adds: bool) -> None:
    """[contract 4.4]"""
    seen: list[tuple[str, bool]] = []

    def plain(x: Any, grad: Any, *, out: Any) -> None:
        adding(x, grad, out=out)

    def adding(x: Any, grad: Any, *, out: Any, accumulate: bool = False) -> None:
        seen.append((out.dtype.name, accumulate))
        product = grad.array.astype(np.float32).T @ x.array.astype(np.float32)
        out.array[...] = (out.array if accumulate else 0) + product

    def kernels() -> None:
        kernel = adding if adds else plain
        register_kernel(DeviceType.PRIVATEUSE1, "LinearBackwardWeight", kernel)

    with temporary_backend(host_backend(kernels=kernels, default_autocast_dtype=it.bfloat16)):
        w, x = it.ones(3, 5, device="testdev"), it.ones(4, 5, device="testdev")
        w.requires_grad = True
        for _ in range(2):
            with it.autocast("testdev"):
                y = ops.linear(x, w)
            y.sum().backward()
        assert (w.grad.numpy() == 8.0).all()
    assert seen == ([("float32", False), ("float32", True)] if adds else [("bfloat16", False)] * 2)


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
    np.testing.assert_allclose(
        rounded(w.grad, "float16"), np.tile(rounded(half, "float16").sum(0), (3, 1)), rtol=2e-3
    )
    p = np.exp(rounded(logits))
    p = (p / p.sum(1, keepdims=True) - np.eye(3)[[0, 2, 1, 1]]) / 4
    np.testing.assert_allclose(rounded(logits.grad), p, rtol=1e-2, atol=1e-3)


IDS = it.from_numpy(RNG.integers(0, 7, (3, 4)))
FUSED = {
    "linear_gelu": (lambda x, w, b: ops.linear_gelu(x, w, b), ((3, 4, 8), (6, 8), (6,))),
    "linear_cross_entropy": (lambda x, w: ops.linear_cross_entropy(x, w, IDS), ((3, 4, 8), (7, 8))),
    "attention": (lambda qkv: ops.attention(qkv, 2), ((2, 5, 24),)),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_ops_agree_with_float32(name: str) -> None:
    run, shapes = FUSED[name]
    leaves = [leaf(*shape) for shape in shapes]
    grads: list[list[np.ndarray]] = []
    for enabled in (False, True):
        for t in leaves:
            t.zero_grad()
        with it.autocast("cpu", enabled=enabled):
            y = run(*leaves)
        y.backward(it.tensor(np.linspace(0.1, 2.0, y.numel).reshape(y.shape), dtype=y.dtype))
        assert {t.grad.dtype for t in leaves} == {it.float32}
        grads.append([t.grad.numpy() for t in leaves])
    for single, mixed in zip(*grads, strict=True):
        assert 1e-5 < np.linalg.norm(mixed - single) / np.linalg.norm(single) < 1e-2


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
            held = weakref.ref(next(iter(state.autocast.cache.values()))[2])
            y.sum().backward()
            del x, w, y
            assert not any(r() for r in gone)
            assert held() is None
            assert not state.autocast.cache
            kept = leaf(3, 5)
            ops.linear(leaf(4, 5).detach(), kept)
            cast = weakref.ref(next(iter(state.autocast.cache.values()))[2])
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
