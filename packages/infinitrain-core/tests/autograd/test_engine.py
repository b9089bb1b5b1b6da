"""The backward engine [contract 4.5, 4.10]."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import infinitrain as it
from infinitrain import ops
from infinitrain.autograd import Function, enable_grad, no_grad, saved_tensors_hooks
from infinitrain.errors import AutogradError


class Twice(Function):
    """y = 2 x, without any other op."""

    @staticmethod
    def forward(ctx, x):
        return ops.AddForward(x, x)

    @staticmethod
    def backward(ctx, grad):
        return ops.AddForward(grad, grad)


class Fork(Function):
    """Two results: 2x and 3x."""

    @staticmethod
    def forward(ctx, x):
        two = ops.AddForward(x, x)
        return two, ops.AddForward(two, x)

    @staticmethod
    def backward(ctx, two, three):
        total = None
        for grad, times in ((two, 2), (three, 3)):
            if grad is not None:
                scaled = it.tensor(grad.numpy() * times)
                total = scaled if total is None else ops.AddForward(total, scaled)
        return total


class Blocked(Function):
    """Passes forward, returns no gradient."""

    @staticmethod
    def forward(ctx, x):
        return ops.AddForward(x, x)

    @staticmethod
    def backward(ctx, grad):
        return None


def leaf(rng, *shape):
    return it.tensor(rng.standard_normal(shape).astype(np.float32), requires_grad=True)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def test_a_chain_of_50000_ops_needs_no_recursion(rng):
    x = leaf(rng, 3)
    y = x
    for _ in range(50_000):
        y = ops.add(y, x)
    seed = rng.standard_normal(3).astype(np.float32)
    y.backward(it.tensor(seed))
    np.testing.assert_allclose(x.grad.numpy(), seed.astype(np.float64) * 50_001, rtol=2e-3)
    y = x
    for _ in range(50_000):  # a graph that is dropped without a backward
        y = ops.clone(y)
    del y


def test_shared_subexpressions_add_up_without_aliasing(rng):
    """Add returns one gradient twice; adding to one of them must not change the other (defect 12 of the original)."""
    a, b = leaf(rng, 4), leaf(rng, 4)
    s = ops.add(a, b)
    y = ops.add(ops.add(s, s), a)
    seed = rng.standard_normal(4).astype(np.float32)
    y.backward(it.tensor(seed))
    np.testing.assert_allclose(a.grad.numpy(), 3 * seed, rtol=1e-6)
    np.testing.assert_allclose(b.grad.numpy(), 2 * seed, rtol=1e-6)
    a.grad.fill_(99.0)
    np.testing.assert_allclose(b.grad.numpy(), 2 * seed, rtol=1e-6)


def test_gradients_accumulate_over_backwards_and_zero_grad_makes_them_stale(rng):
    w, x = leaf(rng, 5, 3), it.tensor(rng.standard_normal((2, 3)).astype(np.float32))
    seed = it.tensor(rng.standard_normal((2, 5)).astype(np.float32))
    want = seed.numpy().T @ x.numpy()
    assert w.grad is None
    ops.linear(x, w).backward(seed)
    memory = w.grad
    np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-5)
    ops.linear(x, w).backward(seed)
    np.testing.assert_allclose(w.grad.numpy(), 2 * want, rtol=1e-5)
    w.zero_grad()
    assert w.grad is None  # [contract 4.5]
    memory.fill_(float("nan"))  # nothing reads a stale region
    ops.linear(x, w).backward(seed)
    assert w.grad is memory
    np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-5)


def test_gradients_land_in_a_given_destination(rng):
    """Views of one flat buffer, as optimizers and buckets use them [contract 4.5]."""
    w, b = leaf(rng, 5, 3), leaf(rng, 5)
    flat = it.full((20 + 7,), float("nan"))
    w.set_grad_destination(_part(flat, 2, (5, 3)))
    b.set_grad_destination(_part(flat, 17, (5,)))
    x, seed = (
        rng.standard_normal((2, 4, 3)).astype(np.float32),
        rng.standard_normal((2, 4, 5)).astype(np.float32),
    )
    for _ in range(2):
        ops.linear(it.tensor(x), w, b).backward(it.tensor(seed))
    got = flat.numpy()
    np.testing.assert_allclose(
        got[2:17].reshape(5, 3), 2 * np.einsum("abo,abi->oi", seed, x), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(got[17:22], 2 * seed.sum((0, 1)), rtol=1e-4, atol=1e-5)
    assert np.isnan(got[:2]).all()
    assert np.isnan(got[22:]).all()


def _part(flat, start, shape):
    from infinitrain.backend import TensorSpec

    return flat.view_as(TensorSpec.of(shape, flat.dtype, flat.device), start * flat.dtype.itemsize)


def test_none_gradients_and_unused_results_do_not_stop_the_walk(rng):
    x = leaf(rng, 3)
    two, three = Fork.apply(x)
    y = ops.add(Blocked.apply(two), three)
    y.backward(it.ones(3))
    np.testing.assert_allclose(x.grad.numpy(), [3, 3, 3])
    x.zero_grad()
    two, _unused = Fork.apply(x)
    two.backward(it.ones(3))
    np.testing.assert_allclose(x.grad.numpy(), [2, 2, 2])


def test_retain_graph_and_the_error_without_it(rng):
    x = leaf(rng, 3)
    y = Twice.apply(x)
    y.backward(it.ones(3), retain_graph=True)
    y.backward(it.ones(3))
    np.testing.assert_allclose(x.grad.numpy(), [4, 4, 4])
    with pytest.raises(AutogradError, match="retain_graph=True"):
        y.backward(it.ones(3))


def test_create_graph_is_refused_clearly(rng):
    with pytest.raises(AutogradError, match="create_graph"):
        Twice.apply(leaf(rng, 1)).backward(create_graph=True)


def test_backward_needs_a_scalar_or_a_gradient(rng):
    x = leaf(rng, 3)
    with pytest.raises(AutogradError, match=r"shape \[3\]"):
        Twice.apply(x).backward()
    with pytest.raises(AutogradError, match="gradient is"):
        Twice.apply(x).backward(it.ones(4))
    with pytest.raises(AutogradError, match="does not require grad"):
        it.ones(1).backward()


def test_post_accumulate_hooks_fire_once_after_the_last_contribution(rng):
    """[contract 4.5]"""
    x, seen = leaf(rng, 3), []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.numpy()))
    y = ops.add(ops.add(Twice.apply(x), x), Blocked.apply(x))
    y.backward(it.ones(3))
    assert len(seen) == 1
    np.testing.assert_allclose(seen[0], [3, 3, 3])
    Twice.apply(x).backward(it.ones(3))
    assert len(seen) == 2
    handle.remove()
    Twice.apply(x).backward(it.ones(3))
    assert len(seen) == 2


def test_tensor_hooks_see_and_replace_gradients(rng):
    x, seen = leaf(rng, 3), []
    middle = Twice.apply(x)
    middle.register_hook(lambda g: seen.append(g.numpy()))
    handle = x.register_hook(lambda g: ops.AddForward(g, g))
    ops.add(middle, middle).backward(it.ones(3))
    np.testing.assert_allclose(seen[0], [2, 2, 2])
    np.testing.assert_allclose(x.grad.numpy(), [8, 8, 8])
    handle.remove()
    x.zero_grad()
    Twice.apply(x).backward(it.ones(3))
    np.testing.assert_allclose(x.grad.numpy(), [2, 2, 2])


def test_grad_mode(rng):
    x = leaf(rng, 3)
    with no_grad():
        assert Twice.apply(x).is_leaf
        with enable_grad():
            assert not Twice.apply(x).is_leaf
        with pytest.raises(ZeroDivisionError), no_grad():
            raise ZeroDivisionError
        assert Twice.apply(x).is_leaf
    assert not Twice.apply(x).is_leaf
    assert no_grad()(Twice.apply)(x).is_leaf
    assert Twice.apply(x).detach().is_leaf


def test_grad_mode_is_per_thread(rng):
    x, found = leaf(rng, 3), []
    with no_grad():
        thread = threading.Thread(target=lambda: found.append(Twice.apply(x).is_leaf))
        thread.start()
        thread.join()
    assert found == [False]


def test_saved_tensor_hooks_pack_and_unpack(rng):
    w, x = leaf(rng, 2, 3), leaf(rng, 4, 3)
    packed = []

    def pack(t):
        packed.append(t.shape)
        return t.numpy()

    with saved_tensors_hooks(pack, it.tensor):
        y = ops.linear(x, w)
    y.backward(it.ones(4, 2))
    assert packed == [(4, 3), (2, 3)]
    np.testing.assert_allclose(w.grad.numpy(), np.ones((2, 4)) @ x.numpy(), rtol=1e-5)


def test_a_saved_tensor_changed_in_place_is_an_error_naming_the_culprit(rng):
    """[contract 4.10]"""
    w, x = leaf(rng, 2, 3), leaf(rng, 4, 3)
    w.name = "fc.weight"
    y = ops.linear(x, w)
    with no_grad():
        w.fill_(1.0)
    with pytest.raises(AutogradError, match=r"Linear saved fc\.weight.*Fill has changed it.*contract 4\.10"):
        y.backward(it.ones(4, 2))


def test_versions_are_shared_by_views_and_bumped_by_optimizers(rng):
    w = leaf(rng, 6)
    view = w.detach()
    with no_grad():
        view.fill_(2.0)
    assert w.version == view.version == 1
    m, v = it.zeros(6), it.zeros(6)
    ops.AdamW((w,), (it.ones(6),), (m,), (v,), 0.1, 0.9, 0.99, 1e-8, 0.0, 1)
    assert view.version == 2
    assert m.version >= 1


def test_in_place_changes_of_graph_tensors_are_refused(rng):
    x = leaf(rng, 3)
    with pytest.raises(AutogradError, match="fill_"):
        x.fill_(0.0)
    with pytest.raises(AutogradError, match="add_"):
        Twice.apply(x).add_(it.ones(3))


def test_nothing_of_the_graph_survives_backward_without_the_collector(rng):
    """[contract 4.10]"""
    gc.collect()
    gc.disable()
    try:
        x, w, b = leaf(rng, 4, 3), leaf(rng, 5, 3), leaf(rng, 5)
        hidden = ops.linear(x, w, b)
        y, *_ = (ops.layer_norm(hidden, b, b),)
        watched = [weakref.ref(t) for t in (hidden, hidden._node, y._node, y)]
        y.backward(it.ones(4, 5))
        del hidden, y
        assert [r() for r in watched] == [None] * 4
        y = ops.gelu(ops.linear(x, w, b))  # and when no backward is run
        watched = [weakref.ref(y), weakref.ref(y._node)]
        del y
        assert [r() for r in watched] == [None] * 2
    finally:
        gc.enable()


def test_a_wrong_number_of_gradients_names_the_function(rng):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return ops.AddForward(x, x)

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    with pytest.raises(AutogradError, match=r"Wrong\.backward returned 2 gradients for 1"):
        Wrong.apply(leaf(rng, 3)).backward(it.ones(3))


def test_a_gradient_of_the_wrong_shape_names_the_function(rng):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return ops.AddForward(x, x)

        @staticmethod
        def backward(ctx, grad):
            return it.ones(4)

    with pytest.raises(AutogradError, match=r"Wrong\.backward returned .*\[4\]"):
        Wrong.apply(leaf(rng, 3)).backward(it.ones(3))


def test_an_exception_in_backward_leaves_grad_mode_and_later_backwards_intact(rng):
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return ops.AddForward(x, x)

        @staticmethod
        def backward(ctx, grad):
            raise RuntimeError("device on fire")

    x = leaf(rng, 3)
    with pytest.raises(RuntimeError, match="on fire"):
        ops.add(Fails.apply(x), x).backward(it.ones(3))
    x.zero_grad()
    Twice.apply(x).backward(it.ones(3))
    np.testing.assert_allclose(x.grad.numpy(), [2, 2, 2])
