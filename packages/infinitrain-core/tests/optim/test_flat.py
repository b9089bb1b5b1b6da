"""Flat buffers change where things are and nothing else [contract 4.5, 4.10]."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, optim
from infinitrain.errors import AutogradError
from infinitrain.optim.flat import gradients, runs_with_gradient


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 3), nn.Linear(3, 3, bias=False))


def _backward(net: nn.Module) -> None:
    x = np.linspace(-1, 2, 12, dtype=np.float32).reshape(4, 3)
    net(it.tensor(x)).backward(it.tensor(np.cos(x)))


def test_values_objects_and_gradients_stay() -> None:
    net = _net()
    _backward(net)
    held = [(p, p.numpy(), p.grad.numpy()) for p in net.parameters()]
    (buffer,) = optim.flatten(net.parameters())
    for p, (same, values, grad) in zip(net.parameters(), held, strict=True):
        assert p is same
        assert (p.numpy() == values).all()
        assert (p.grad.numpy() == grad).all()
    assert buffer.numel == sum(-(-p.numel // 16) * 16 for p in net.parameters())
    starts = [p.ptr - buffer.data.ptr for p in net.parameters()]
    assert starts == [4 * s for s in buffer.starts]
    assert all(s % 64 == 0 for s in starts)


def test_gradients_land_in_the_buffer_and_gaps_stay_zero() -> None:
    net = _net()
    (buffer,) = optim.flatten(net.parameters())
    _backward(net)
    flat, used = buffer.grad.numpy(), np.zeros(buffer.numel, bool)
    for p, start in zip(buffer.params, buffer.starts, strict=True):
        assert (flat[start : start + p.numel] == p.grad.numpy().reshape(-1)).all()
        assert p.grad.numpy().any()
        used[start : start + p.numel] = True
    assert not flat[~used].any()
    _backward(net)  # accumulates in place
    assert np.allclose(buffer.grad.numpy(), 2 * flat)


def test_flattening_again_changes_nothing() -> None:
    net = _net()
    first = optim.flatten(net.parameters())
    assert optim.flatten(net.parameters()) == first
    more = nn.Parameter(it.ones(4))
    again = optim.flatten([*net.parameters(), more])
    assert again[0] is first[0]
    assert again[1].params == (more,)


def test_each_parameter_has_a_version_of_its_own() -> None:
    net = _net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    versions = [p.version for p in net.parameters()]
    net[3].weight.detach().fill_(1.0)
    assert [p.version - v for p, v in zip(net.parameters(), versions, strict=True)] == [0, 0, 0, 0, 1]
    _backward(net)
    optimizer.step()
    assert [p.version - v for p, v in zip(net.parameters(), versions, strict=True)] == [1, 1, 1, 1, 2]


def test_a_step_between_forward_and_backward_is_noticed() -> None:
    net = _net()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    _backward(net)
    y = net(it.ones(1, 3, requires_grad=True))
    optimizer.step()
    with pytest.raises(AutogradError, match="SGD has changed"):
        y.backward(it.ones(1, 3))


def test_runs_stop_at_stale_gradients_and_foreign_destinations() -> None:
    net = _net()
    (buffer,) = optim.flatten(net.parameters())
    _backward(net)
    a, _, c, d, e = net.parameters()
    assert [(r.flat, r.start, r.stop) for r in runs_with_gradient(net.parameters())] == [(buffer, 0, 5)]
    c.zero_grad()
    e.grad = it.ones(3, 3)
    runs = runs_with_gradient(net.parameters())
    assert [(r.flat, r.start, r.stop) for r in runs] == [(buffer, 0, 2), (buffer, 3, 4), (None, 0, 1)]
    tensors = gradients(runs)
    assert tensors[0].shape == (32,)
    assert (tensors[0].numpy()[:15] == a.grad.numpy().reshape(-1)).all()
    assert (tensors[1].numpy()[:3] == d.grad.numpy()).all()
    assert tensors[2] is e.grad


def test_runs_of_two_buffers_do_not_cut_each_other() -> None:
    net = _net()
    matrices, vectors = (optim.flatten([p for p in net.parameters() if p.ndim == n])[0] for n in (2, 1))
    _backward(net)
    runs = runs_with_gradient(net.parameters())
    assert [(r.flat, r.start, r.stop) for r in runs] == [(matrices, 0, 3), (vectors, 0, 2)]


def test_frozen_and_shared_memory_is_left_alone() -> None:
    frozen = nn.Parameter(it.ones(3), requires_grad=False)
    one = nn.Parameter(it.ones(3))
    two = nn.Parameter(one.detach())
    plain = nn.Parameter(it.ones(3))
    buffers = optim.flatten([frozen, one, two, plain])
    assert [b.params for b in buffers] == [(plain,)]
    one.detach().fill_(4.0)
    assert two.tolist() == [4.0] * 3


def test_one_buffer_for_each_dtype() -> None:
    params = [nn.Parameter(it.ones(3, dtype=d)) for d in ("float32", "float64", "float32", "bfloat16")]
    buffers = optim.flatten(params)
    assert [b.dtype.name for b in buffers] == ["float32", "float64", "bfloat16"]
    assert buffers[2].data.tolist()[:3] == [1.0] * 3


def test_moving_a_module_keeps_the_optimizers_state() -> None:
    a, b = _net(), _net()
    b.load_state_dict(a.state_dict())
    one = optim.AdamW(a.named_parameters(), lr=0.01)
    two = optim.AdamW(b.named_parameters(), lr=0.01, flat=False)
    for step in range(6):
        if step == 3:
            a.to("float64")
            a.to("float32")
        for net, optimizer in ((a, one), (b, two)):
            optimizer.zero_grad()
            _backward(net)
            optimizer.step()
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-6)
    assert len(one._long) == 1


def test_a_tied_parameter_is_in_the_buffer_once() -> None:
    net = _net()
    net[2].weight, net[2].bias = net[0].weight, net[0].bias
    assert len(optim.flatten(net.parameters())[0].params) == 3
