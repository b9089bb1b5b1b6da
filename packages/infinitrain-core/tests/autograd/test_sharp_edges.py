"""Where gradients are easily lost, shared or counted twice."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, ops, optim
from infinitrain.autograd import Function, no_grad, saved_tensors_hooks
from infinitrain.errors import AutogradError


def leaf(*values, dtype="float32"):
    return it.tensor(list(values), dtype=dtype, requires_grad=True)


class Reverse(Function):
    """The identity, whose gradient is negated."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * -1.0


def test_a_gradient_that_is_the_leafs_own_is_no_less_a_gradient():
    x, w = leaf(0.0, 0.0), leaf(0.0, 0.0)
    x.grad = it.tensor([2.0, 3.0])
    (x + w).backward(x.grad)
    assert x.grad.tolist() == [4.0, 6.0]
    assert w.grad.tolist() == [2.0, 3.0]
    seed = x.grad
    x.zero_grad()
    (x + w).backward(seed)
    assert x.grad.tolist() == [4.0, 6.0]


def test_a_seed_in_the_memory_of_a_destination_is_read_before_it_is_overwritten():
    x = it.tensor([[1.0, 2.0]], requires_grad=True)
    w = it.tensor([[3.0, 4.0], [5.0, 7.0]], requires_grad=True)
    ops.linear(x, w).backward(it.tensor([[1.0, 10.0]]))
    seed = x.grad
    value = seed.numpy()
    x.zero_grad()
    w.zero_grad()
    ops.linear(x, w).backward(seed)
    np.testing.assert_allclose(w.grad.numpy(), value.T @ x.numpy())
    np.testing.assert_allclose(x.grad.numpy(), value @ w.numpy())


def test_a_function_that_returns_its_argument_leaves_the_argument_a_leaf():
    w = leaf(1.0, 2.0)
    reversed_ = Reverse.apply(w)
    assert w.is_leaf
    (w * 3.0).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    reversed_.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


def test_forward_may_name_its_attributes_as_it_likes():
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.fn, ctx.seq, ctx.hooks, ctx.n_results, ctx.edges = factor, factor, factor, factor, factor
            return ops.MulScalarForward(x, factor)

        @staticmethod
        def backward(ctx, grad):
            assert ctx.seq == ctx.hooks == ctx.n_results == ctx.edges == ctx.fn
            return grad * ctx.fn, None

    x = leaf(1.0)
    y = Scale.apply(x, 7.0)
    y.backward()
    assert x.grad.tolist() == [7.0]
    assert not hasattr(y.grad_fn, "seq")  # gone with the graph


def test_hooks_of_a_leaf_see_the_whole_gradient_once():
    x, seen = leaf(1.0), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    ((x + x) * 2.0 + x).backward()
    assert seen == [[5.0]]
    assert x.grad.tolist() == [5.0]


def test_a_hook_may_remove_itself():
    x, seen = leaf(1.0), []
    first = x.register_hook(lambda g: (seen.append("first"), first.remove())[0])
    x.register_hook(lambda g: seen.append("second"))
    (x * 2.0).backward()
    assert seen == ["first", "second"]


def test_a_given_destination_stays():
    w = nn.Parameter(it.tensor([1.0, 2.0]))
    bucket = it.zeros(2)
    w.set_grad_destination(bucket)
    optimizer = optim.AdamW([w], lr=0.1)
    w.grad = None
    (w * 3.0).sum().backward()
    optimizer.step()
    assert bucket.tolist() == [3.0, 3.0]
    assert w.grad is bucket


def test_a_float32_destination_never_sees_the_inputs_half_precision():
    """[contract 4.4]"""
    x, g = it.tensor([[1.0], [2.0**-9]]).astype("bfloat16"), it.ones(2, 1).astype("bfloat16")
    out = it.zeros(1, 1)
    ops.LinearBackwardWeight(x, g, out=out, accumulate=True)
    assert out.item() == 1.0 + 2.0**-9
    ops.LinearBackwardWeight(x, g, out=out)
    assert out.item() == 1.0 + 2.0**-9


def test_a_half_precision_leaf_with_a_float32_gradient():
    x = it.tensor([[1.0, 2.0]], dtype="bfloat16", requires_grad=True)
    x.set_grad_destination(it.zeros(1, 2))
    w = it.tensor([[3.0, 4.0]], dtype="bfloat16")
    for _ in range(2):
        ops.linear(x, w).sum().backward()
    assert x.grad.dtype is it.float32
    assert x.grad.tolist() == [[6.0, 8.0]]


def test_frozen_operands_keep_nothing_alive_and_may_change():
    x, w = it.tensor([[1.0, 2.0]]), it.tensor([[3.0, 4.0]], requires_grad=True)
    y = ops.linear(x, w)
    with no_grad():
        w.fill_(9.0)  # dw does not need w
    y.backward()
    assert w.grad.tolist() == [[1.0, 2.0]]


def test_saved_tensor_hooks_do_not_see_themselves_and_keep_the_version_check():
    x, w = it.tensor([[1.0, 2.0]], requires_grad=True), it.tensor([[3.0, 4.0]], requires_grad=True)
    with saved_tensors_hooks(lambda t: t * 1.0, lambda t: t):
        y = ops.linear(x, w)
    y.backward()
    assert w.grad.tolist() == [[1.0, 2.0]]
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = ops.linear(x, w)
    with no_grad():
        x.fill_(100.0)
    with pytest.raises(AutogradError, match=r"contract 4\.10"):
        y.backward()


def test_writing_in_place_does_not_drop_a_graph_silently():
    total, w = it.zeros(1), leaf(2.0)
    with pytest.raises(AutogradError, match="add_ would drop the graph"):
        total.add_(w * 2.0)
    with pytest.raises(AutogradError, match="copy_ would drop the graph"):
        total.copy_(w)
    with no_grad():
        total.add_(w)
    assert total.tolist() == [2.0]


def test_one_no_grad_object_in_two_threads():
    block, inside, found = no_grad(), threading.Event(), []

    def other():
        with block:
            inside.wait(10)
            found.append(it.is_grad_enabled())

    thread = threading.Thread(target=other)
    thread.start()
    with block:
        pass
    assert it.is_grad_enabled()
    inside.set()
    thread.join()
    assert found == [False]


def test_settings_of_a_state_dict_are_checked():
    w = nn.Parameter(it.tensor([1.0]))
    optimizer = optim.AdamW([("w", w)], lr=0.1)
    saved = optimizer.state_dict()
    saved["groups"][0]["lr"] = -5.0
    with pytest.raises(ValueError, match="lr"):
        optimizer.load_state_dict(saved)
    assert optimizer.groups[0]["lr"] == 0.1
