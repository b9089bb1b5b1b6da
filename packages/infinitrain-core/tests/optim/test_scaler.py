"""GradScaler: the factor's way up and down, skipped steps, clipping, misuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import infinitrain as it
from infinitrain import nn, ops, optim
from infinitrain.errors import AutogradError, InfiniTrainError


def _pair(scale: float, **settings: float) -> tuple[nn.Parameter, optim.Optimizer, optim.GradScaler]:
    p = nn.Parameter(it.tensor([1.0, -2.0, 0.5]))
    return p, optim.SGD([p], lr=0.5), optim.GradScaler(scale, **settings)


def test_a_step_is_that_without_a_scaler() -> None:
    p, optimizer, scaler = _pair(1024.0)
    grad = it.tensor([0.5, 1.0, -0.25])
    scaled = scaler.scale((p * grad).sum())
    assert scaled.item() == 1024.0 * (0.5 - 2.0 - 0.125)
    scaled.backward()
    np.testing.assert_array_equal(p.grad.numpy(), 1024.0 * grad.numpy())
    assert scaler.step(optimizer) is True
    np.testing.assert_array_equal(p.numpy(), [0.75, -2.5, 0.625])
    np.testing.assert_array_equal(p.grad.numpy(), grad.numpy())
    scaler.update()
    assert scaler.scale_factor == 1024.0


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("flat", [True, False])
def test_a_gradient_that_is_not_finite_skips_the_step(bad: float, flat: bool) -> None:
    params = [nn.Parameter(it.ones(n)) for n in (4, 1000, 3)]
    optimizer = optim.AdamW(params, flat=flat)
    scaler = optim.GradScaler(8.0)
    for i, p in enumerate(params):
        grad = np.ones(p.shape, np.float32)
        grad[-1] = bad if i == 1 else 1.0
        p.backward(it.from_numpy(grad))
    versions = [p.version for p in params]
    assert scaler.step(optimizer) is False
    assert all((p.numpy() == 1.0).all() for p in params)
    assert [p.version for p in params] == versions
    assert optimizer.state_dict()["state"] == {}
    scaler.update()
    assert scaler.scale_factor == 4.0


def test_the_factor_grows_after_an_interval_without_a_skip() -> None:
    p, optimizer, scaler = _pair(16.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=3)
    scales = []
    for bad in (0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1):
        optimizer.zero_grad()
        scaler.scale((p * (np.inf if bad else 0.0)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.scale_factor)
    assert scales == [16, 16, 48, 48, 48, 12, 12, 12, 36, 9, 2.25]


def test_the_factor_stays_within_float32() -> None:
    p, optimizer, scaler = _pair(2.0**126, growth_interval=1)
    for _ in range(3):
        p.backward(it.ones(3))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert scaler.scale_factor == 2.0**127
    scaler.load_state_dict({**scaler.state_dict(), "scale": 2.0**-125})
    for _ in range(3):
        p.backward(it.full((3,), np.nan))
        scaler.step(optimizer)
        scaler.update()
    assert scaler.scale_factor == 2.0**-126


def test_clipping_between_unscaling_and_the_step() -> None:
    p, optimizer, scaler = _pair(65536.0)
    scaler.scale((p * it.tensor([3.0, 0.0, 4.0])).sum()).backward()
    scaler.unscale_(optimizer)
    assert optim.clip_grad_norm([p], 1.0, error_if_nonfinite=False) == pytest.approx(5.0)
    assert scaler.step(optimizer)
    np.testing.assert_allclose(p.numpy(), [1.0 - 0.3, -2.0, 0.5 - 0.4], rtol=1e-5)


def test_small_float16_gradients_survive() -> None:
    """2e-8 is below half of float16's smallest number: without the factor the weight's gradient is 0."""
    w = nn.Parameter(it.ones(1, 4))
    x = it.full((2, 4), 1e-3)
    found = []
    for scaler in (optim.GradScaler(enabled=False), optim.GradScaler(2.0**16)):
        w.zero_grad()
        with it.autocast("cpu", "float16"):
            y = ops.linear(ops.linear(x, w), it.full((1, 1), 2e-4))
        scaler.scale((y.float() * 1e-4).sum()).backward()
        scaler.step(optim.SGD([w], lr=0.0))
        found.append(w.grad.numpy()[0, 0])
    assert found[0] == 0.0
    assert found[1] == pytest.approx(2 * 1e-3 * 2e-8, rel=2e-3)


def test_half_precision_losses_are_scaled_in_float32() -> None:
    loss = it.tensor(3.0, dtype="float16", requires_grad=True)
    scaled = optim.GradScaler().scale(loss * 1.0)
    assert (scaled.dtype, scaled.item()) == (it.float32, 3.0 * 65536)


def test_state_dict_round_trip() -> None:
    p, optimizer, scaler = _pair(16.0, growth_interval=2)
    p.backward(it.ones(3))
    scaler.step(optimizer)
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 16.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2, "growth_tracker": 1,
    }  # fmt: skip
    other = optim.GradScaler()
    other.load_state_dict(state)
    assert other.state_dict() == state
    p.backward(it.ones(3))
    other.step(optimizer)
    other.update()
    assert other.scale_factor == 32.0
    for wrong in ({}, {"scale": 1.0}):
        with pytest.raises(InfiniTrainError, match="state has scale, growth_factor"):
            other.load_state_dict(wrong)
    before = other.state_dict()
    for wrong in ({**state, "scale": 0.0}, {**state, "growth_tracker": 2}, {**state, "growth_tracker": -1}):
        with pytest.raises(ValueError, match="GradScaler"):
            other.load_state_dict(wrong)
    for wrong in ({**state, "growth_interval": 2.0}, {**state, "growth_factor": np.inf}):
        with pytest.raises(ValueError, match="GradScaler: growth_"):
            other.load_state_dict(wrong)
    assert other.state_dict() == before


def test_disabled_everything_passes_through() -> None:
    p, optimizer, _ = _pair(1.0)
    scaler = optim.GradScaler(enabled=False)
    loss = (p * p).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.unscale_(optimizer)
    assert scaler.step(optimizer)
    scaler.update()
    scaler.update()
    np.testing.assert_array_equal(p.numpy(), [0.0, 0.0, 0.0])
    assert scaler.state_dict() == {}
    scaler.load_state_dict({})


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize(
    ("what", "then"),
    [
        ("written", lambda p, q: p.backward(it.ones(3))),  # scaled ones upon unscaled ones
        ("written", lambda p, q: (p.zero_grad(), q.zero_grad(), p.backward(it.full((3,), np.inf)))),
        ("written", lambda p, q: setattr(p, "grad", it.ones(3))),
        ("dropped", lambda p, q: p.zero_grad()),
        ("dropped", lambda p, q: (p.zero_grad(), q.zero_grad())),
    ],
)
def test_what_unscale_looked_at_is_what_the_step_takes(what: str, then: Any, flat: bool) -> None:
    p, q = nn.Parameter(it.ones(3), name="p"), nn.Parameter(it.ones(2), name="q")
    optimizer, scaler = optim.SGD([p, q], lr=1.0, flat=flat), optim.GradScaler(4.0)
    p.backward(it.ones(3))
    q.backward(it.ones(2))
    scaler.unscale_(optimizer)
    then(p, q)
    with pytest.raises(InfiniTrainError, match=f"the gradient of parameter [pq] was {what} after unscale_"):
        scaler.step(optimizer)
    assert (p.numpy() == 1.0).all()
    assert (q.numpy() == 1.0).all()


def test_a_gradient_that_came_after_unscaling() -> None:
    p, q = nn.Parameter(it.ones(3), name="p"), nn.Parameter(it.ones(2), name="q")
    optimizer, scaler = optim.SGD([p, q], lr=1.0), optim.GradScaler(4.0)
    p.backward(it.ones(3))
    scaler.unscale_(optimizer)
    q.backward(it.ones(2))
    with pytest.raises(InfiniTrainError, match="the gradient of parameter q was written after unscale_"):
        scaler.step(optimizer)


def test_gradients_may_be_changed_in_place_after_unscaling() -> None:
    """What clips by value, or adds noise; and buffers that somebody makes of the parameters meanwhile."""
    p = nn.Parameter(it.ones(3))
    optimizer, scaler = optim.SGD([p], lr=1.0, flat=False), optim.GradScaler(4.0)
    p.backward(it.full((3,), 8.0))
    scaler.unscale_(optimizer)
    p.grad.copy_(p.grad * 0.25)
    optim.flatten([p])
    assert scaler.step(optimizer)
    np.testing.assert_array_equal(p.numpy(), np.full(3, 0.5))


@pytest.mark.parametrize("flat", [True, False])
def test_no_gradient_is_divided_twice(flat: bool) -> None:
    shared, own = nn.Parameter(it.ones(3), name="shared"), nn.Parameter(it.ones(2), name="own")
    first, second = optim.SGD([shared], lr=1.0, flat=flat), optim.SGD([own, shared], lr=1.0, flat=flat)
    scaler = optim.GradScaler(4.0)
    shared.backward(it.full((3,), 8.0))
    own.backward(it.full((2,), 8.0))
    scaler.step(first)
    with pytest.raises(InfiniTrainError, match=r"gradient of parameter shared is unscaled already: .* two"):
        scaler.step(second)
    np.testing.assert_array_equal(shared.grad.numpy(), np.full(3, 2.0))
    np.testing.assert_array_equal(own.grad.numpy(), np.full(2, 8.0))
    scaler.update()
    with pytest.raises(InfiniTrainError, match=r"no backward has written it since the last iteration"):
        scaler.step(first)


@pytest.mark.parametrize("flat", [True, False])
def test_unscaling_is_a_write(flat: bool) -> None:
    """A graph that saved a gradient refuses to go on with other numbers than it saw [contract 4.10]."""
    params = [nn.Parameter(it.ones(n)) for n in (3, 5)]
    optimizer, scaler = optim.SGD(params, lr=1.0, flat=flat), optim.GradScaler(4.0)
    for p in params:
        p.backward(it.ones(p.shape))
    versions = [p.grad.version for p in params]
    x = it.ones(5, requires_grad=True)
    y = (x * params[1].grad).sum()
    scaler.unscale_(optimizer)
    assert all(p.grad.version > v for p, v in zip(params, versions, strict=True))
    with pytest.raises(AutogradError, match=r"saved .* for backward at version"):
        y.backward()


def test_misuse_is_named() -> None:
    p, optimizer, scaler = _pair(4.0)
    with pytest.raises(
        InfiniTrainError, match=r"no parameter .* has a gradient; call scale\(loss\)\.backward"
    ):
        scaler.step(optimizer)
    with pytest.raises(InfiniTrainError, match=r"no step since .*call step\(optimizer\)"):
        scaler.update()
    p.backward(it.ones(3))
    scaler.unscale_(optimizer)
    with pytest.raises(InfiniTrainError, match="unscaled already"):
        scaler.unscale_(optimizer)
    with pytest.raises(InfiniTrainError, match="no step since"):
        scaler.update()
    scaler.step(optimizer)
    with pytest.raises(InfiniTrainError, match=r"has made its step; call update\(\)"):
        scaler.step(optimizer)
    with pytest.raises(InfiniTrainError, match="unscaled already"):
        scaler.unscale_(optimizer)
    half = nn.Parameter(it.ones(2, dtype="float16"))
    half.backward(it.ones(2, dtype="float16"))
    with pytest.raises(InfiniTrainError, match="a gradient is float16"):
        scaler.step(optim.SGD([half], lr=1.0))
    np.testing.assert_array_equal(half.grad.numpy(), [1.0, 1.0])
    for wrong in (
        {"init_scale": 0.0},
        {"init_scale": np.inf},
        {"growth_factor": 1.0},
        {"growth_factor": np.inf},
        {"backoff_factor": 1.0},
        {"backoff_factor": 0.0},
        {"growth_interval": 0},
        {"growth_interval": 2.5},
        {"growth_interval": 2000.0},
        {"growth_interval": True},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            optim.GradScaler(**wrong)  # type: ignore[arg-type]
