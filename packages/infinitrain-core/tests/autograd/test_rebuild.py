"""Large results that are cheap to make again are not kept for backward [contract 4.10]."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.autograd import no_grad, saved, saved_tensors_hooks

C = 6


def leaf(rng, *shape):
    return it.tensor(rng.standard_normal(shape).astype(np.float32), requires_grad=True)


CHEAP = {
    "gelu": lambda x, w, b: ops.gelu(x),
    "silu": lambda x, w, b: ops.silu(x),
    "linear_gelu": lambda x, w, b: ops.linear_gelu(x, ops.outer(w, b), b),
    "swiglu": lambda x, w, b: ops.swiglu(x.repeat_interleave(2, -1)),
    "layer_norm": lambda x, w, b: ops.layer_norm(x, w, b),
    "rms_norm": lambda x, w, b: ops.rms_norm(x, w),
    "add_layer_norm": lambda x, w, b: ops.add_layer_norm(x, x * 2.0, w, b)[1],
    "add_layer_norm sum": lambda x, w, b: ops.add_layer_norm(x, x * 2.0, w, b)[0],
    "add_rms_norm": lambda x, w, b: ops.add_rms_norm(x, x * 2.0, w)[1],
    "add_rms_norm sum": lambda x, w, b: ops.add_rms_norm(x, x * 2.0, w)[0],
}


def run(name, monkeypatch, above):
    """Return the gradients of a loss through a Linear that saves the result, and whether the result was kept."""
    monkeypatch.setattr(saved, "REBUILD_ABOVE", above)
    rng = np.random.default_rng(3)
    x, w, b = leaf(rng, 5, C), leaf(rng, C), leaf(rng, C)
    out = leaf(rng, 4, C)
    y = CHEAP[name](x, w, b)
    memory = weakref.ref(y.array)
    z = ops.linear(y, out)
    del y
    kept = memory() is not None
    (z * z).sum().backward()
    return [p.grad.numpy() for p in (x, w, b, out) if p.grad is not None], kept


@pytest.mark.parametrize("name", CHEAP)
def test_gradients_are_the_same_and_the_memory_is_gone(name, monkeypatch):
    want, kept = run(name, monkeypatch, above=1 << 30)
    assert kept
    got, kept = run(name, monkeypatch, above=4)
    assert kept == name.endswith("sum")  # the node that makes a sum keeps it for itself
    assert len(got) == len(want) >= 2
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def test_a_graph_walked_twice(monkeypatch):
    monkeypatch.setattr(saved, "REBUILD_ABOVE", 4)
    rng = np.random.default_rng(4)
    x, out = leaf(rng, 5, C), leaf(rng, 4, C)
    loss = ops.linear(ops.gelu(x), out).sum()
    loss.backward(retain_graph=True)
    once = out.grad.numpy().copy()
    loss.backward()
    np.testing.assert_allclose(out.grad.numpy(), 2 * once, rtol=1e-6)


def test_a_result_changed_before_it_was_saved_is_kept(monkeypatch):
    monkeypatch.setattr(saved, "REBUILD_ABOVE", 4)
    rng = np.random.default_rng(5)
    x, out = leaf(rng, 5, C), leaf(rng, 4, C)
    y = ops.gelu(x)
    ops.Fill(y, 2.0)
    ops.linear(y, out).sum().backward()
    np.testing.assert_array_equal(out.grad.numpy(), np.full((4, C), 10.0))


def test_inputs_of_what_is_made_again_must_not_change(monkeypatch):
    monkeypatch.setattr(saved, "REBUILD_ABOVE", 4)
    rng = np.random.default_rng(6)
    x, out = leaf(rng, 5, C), leaf(rng, 4, C)
    loss = ops.linear(ops.gelu(x), out).sum()
    with no_grad():
        x.fill_(1.0)
    with pytest.raises(it.errors.AutogradError, match=r"Gelu saved .* Fill has changed it since"):
        loss.backward()


def test_hooks_see_the_tensor_itself(monkeypatch):
    monkeypatch.setattr(saved, "REBUILD_ABOVE", 4)
    rng = np.random.default_rng(7)
    x, out = leaf(rng, 5, C), leaf(rng, 4, C)
    seen = []
    with saved_tensors_hooks(lambda t: seen.append(t.shape) or t, lambda t: t):
        ops.linear(ops.gelu(x), out).sum().backward()
    assert (5, C) in seen[1:]


def test_a_result_that_was_written_through_a_view_is_kept(monkeypatch):
    """A write through an alias that NumPy was given has no version."""
    monkeypatch.setattr(saved, "REBUILD_ABOVE", 4)
    rng = np.random.default_rng(8)
    x, out = leaf(rng, 5, C), leaf(rng, 4, C)
    y = ops.gelu(x)
    np.from_dlpack(y.detach())[:, ::2] = 0
    ops.linear(y, out).sum().backward()
    np.testing.assert_allclose(out.grad.numpy(), np.tile(y.numpy().sum(0), (4, 1)), rtol=1e-6, atol=1e-6)
    assert not out.grad.numpy()[:, ::2].any()


def test_long_chains_are_made_again_from_what_is_there(monkeypatch):
    monkeypatch.setattr(saved, "REBUILD_ABOVE", 4)
    x = it.tensor(np.full((1, 6), 0.5, np.float32), requires_grad=True)
    y = x
    for _ in range(1500):
        y = ops.silu(y)
    y.sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_a_changed_bias_is_no_concern_of_a_norms_gradient():
    rng = np.random.default_rng(9)
    for norm in (ops.layer_norm, lambda x, w, b: ops.add_layer_norm(x, x, w, b)[1]):
        x, w, b = leaf(rng, 5, C), leaf(rng, C), leaf(rng, C)
        loss = norm(x, w, b).sum()
        ops.Fill(b, 0.0)
        loss.backward()
        np.testing.assert_allclose(b.grad.numpy(), np.full(C, 5.0), rtol=1e-6)
