"""Modules: registration, order, hooks, placement."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn
from infinitrain.errors import AutogradError, UnknownDeviceError
from infinitrain.tensor import Tensor


class Net(nn.Module):
    def __init__(self) -> None:
        self.second = nn.Linear(3, 4)
        self.first = nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(it.tensor([1.5, -2.0]))
        self.register_buffer("mean", it.tensor([0.25]))
        self.register_buffer("scratch", it.tensor([9.0]), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(self.second(x)) * self.scale


def test_names_come_in_order_of_assignment() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["scale", "second.weight", "second.bias", "first.weight"]
    assert [n for n, _ in net.named_buffers()] == ["mean", "scratch"]
    assert [n for n, _ in net.named_modules()] == ["", "second", "first"]
    assert list(net.state_dict()) == ["scale", "mean", "second.weight", "second.bias", "first.weight"]


def test_a_shared_parameter_comes_once_under_its_first_name() -> None:
    net = Net()
    net.again = nn.Linear(3, 4)
    net.again.weight = net.second.weight
    assert "again.weight" not in dict(net.named_parameters())
    assert "again.weight" in dict(net.named_parameters(remove_duplicate=False))
    assert len(list(net.parameters())) == 5


def test_a_shared_module_comes_once() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    net.append(net[0])
    assert [n for n, _ in net.named_modules()] == ["", "0", "1"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_what_is_assigned_over_is_forgotten() -> None:
    net = Net()
    net.scale = None
    assert "scale" not in dict(net.named_parameters())
    del net.first
    assert [n for n, _ in net.named_modules()] == ["", "second"]
    net.mean = it.tensor([1.0])
    assert dict(net.named_buffers())["mean"].item() == 1.0


def test_a_plain_tensor_does_not_take_a_parameters_place() -> None:
    net = Net()
    with pytest.raises(TypeError, match=r"scale is an nn\.Parameter"):
        net.scale = it.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"first is an nn\.Module"):
        net.first = 3


@pytest.mark.parametrize("name", ["", "a.b", "forward"])
def test_impossible_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be a name|would hide"):
        nn.Module().register_buffer(name, it.tensor([1.0]))


def test_what_is_derived_from_a_parameter_is_none() -> None:
    p = nn.Parameter(it.tensor([1.0, 2.0]))
    assert type(p.detach()) is Tensor
    assert type(p.view(2, 1)) is Tensor
    assert not p.detach().requires_grad


def test_hooks_see_change_and_go() -> None:
    layer = nn.Linear(2, 2)
    seen: list[str] = []

    def double(module: nn.Module, args: tuple[Any, ...]) -> Any:
        seen.append("pre")
        return args[0] + args[0]

    def negate(module: nn.Module, args: tuple[Any, ...], result: Tensor) -> Tensor:
        seen.append("post")
        return result.new_full(result.shape, 7.0)

    x = it.tensor([[1.0, -3.0]])
    plain = layer(x).numpy()
    pre = layer.register_forward_pre_hook(double)
    expected = 2 * x.numpy() @ layer.weight.numpy().T + layer.bias.numpy()
    np.testing.assert_allclose(layer(x).numpy(), expected, rtol=1e-6)
    post = layer.register_forward_hook(negate)
    assert (layer(x).numpy() == 7).all()
    assert seen == ["pre", "pre", "post"]
    pre.remove()
    post.remove()
    post.remove()
    assert (layer(x).numpy() == plain).all()


def test_a_pre_hook_may_return_all_arguments() -> None:
    seen: list[Any] = []

    class Keep(nn.Module):
        def forward(self, *args: Any) -> None:
            seen.append(args)

    module = Keep()
    module.register_forward_pre_hook(lambda m, args: (*args, "more"))
    module(1, 2)
    assert seen == [(1, 2, "more")]


def test_train_and_eval_reach_all_modules_and_apply_goes_children_first() -> None:
    net = Net()
    assert net.training
    net.eval()
    assert not any(m.training for m in net.modules())
    net.train()
    assert all(m.training for m in net.modules())
    order: list[nn.Module] = []
    net.apply(order.append)
    assert order == [net.second, net.first, net]


def test_zero_grad_makes_gradients_none_and_keeps_their_memory() -> None:
    net = Net()
    net(it.tensor([[1.0, 2.0, 3.0]])).backward(it.tensor([[1.0, 1.0]]))
    held = net.scale._grad
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    assert net.scale._grad is held


def test_to_a_dtype_keeps_identity_ties_hooks_and_gradients() -> None:
    net = Net()
    net.again = nn.Linear(3, 4)
    net.again.weight = net.second.weight
    twin = nn.Parameter(net.first.weight.detach())  # another object over the same memory
    net.twin = twin
    net.register_buffer("count", it.tensor([3]))
    calls: list[Tensor] = []
    net.scale.register_post_accumulate_grad_hook(calls.append)
    before = {name: (id(p), p.numpy()) for name, p in net.named_parameters()}
    net(it.tensor([[1.0, 2.0, 3.0]])).backward(it.tensor([[1.0, 3.0]]))
    grad = net.scale.grad.numpy()

    assert net.to("float64") is net
    assert net.count.dtype.name == "int64"
    assert net.mean.dtype.name == "float64"
    assert net.again.weight is net.second.weight
    for name, p in net.named_parameters():
        assert p.dtype.name == "float64"
        assert id(p) == before[name][0]
        assert (p.numpy() == before[name][1]).all()
    np.testing.assert_array_equal(net.scale.grad.numpy(), grad)
    assert net.scale.grad.dtype.name == "float64"
    net.twin.detach().fill_(5.0)
    assert (net.first.weight.numpy() == 5).all()
    net.zero_grad()
    net(it.tensor([[1.0, 2.0, 3.0]], dtype="float64")).backward(it.tensor([[1.0, 3.0]], dtype="float64"))
    assert len(calls) == 2


def test_a_graph_from_before_a_move_is_refused() -> None:
    layer = nn.Linear(2, 2)
    y = layer(it.tensor([[1.0, 2.0]], requires_grad=True))
    layer.to("float64")
    with pytest.raises(AutogradError, match=r"Module\.to"):
        y.backward(it.tensor([[1.0, 1.0]]))


def test_to_an_unknown_device_or_dtype_changes_nothing() -> None:
    net = Net()
    with pytest.raises(UnknownDeviceError):
        net.to("float64", "nowhere")
    with pytest.raises(TypeError, match="floating"):
        net.to("int32")
    assert {p.dtype.name for p in net.parameters()} == {"float32"}


def test_freezing() -> None:
    net = Net().requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_the_repr_shows_the_tree() -> None:
    assert repr(Net()) == "Net(\n  (second): Linear(3, 4)\n  (first): Linear(4, 2, bias=False)\n)"


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="ModuleList defines no forward"):
        nn.ModuleList([nn.GELU()])(1)
