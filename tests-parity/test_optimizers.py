"""AdamW and SGD against torch.optim: twenty steps of loss and parameters, and the norm of gradients."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from agreement import array, assert_agree
from tensors import ours as as_ours
from tolerances import HALVES, ulps

import infinitrain as it
from infinitrain import nn, ops, optim

STEPS = 20
SHAPES = {"w1": (7, 5), "b1": (5,), "w2": (5, 3), "scale": (), "rare": (3,)}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "AdamW": ("AdamW", {"lr": 0.02, "weight_decay": 0.0}),
    "AdamW decay": ("AdamW", {"lr": 0.02, "weight_decay": 0.3}),
    "AdamW betas eps": ("AdamW", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-2, "weight_decay": 0.01}),
    "SGD": ("SGD", {"lr": 0.05}),
    "SGD decay": ("SGD", {"lr": 0.05, "weight_decay": 0.05}),
    "SGD momentum": ("SGD", {"lr": 0.02, "momentum": 0.9}),
    "SGD momentum decay": ("SGD", {"lr": 0.02, "momentum": 0.8, "weight_decay": 0.05}),
    "SGD dampening": ("SGD", {"lr": 0.02, "momentum": 0.9, "dampening": 0.4}),
    "SGD nesterov": ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    "SGD nesterov decay": ("SGD", {"lr": 0.02, "momentum": 0.7, "nesterov": True, "weight_decay": 0.05}),
}
# One group differs from the defaults; its settings, by optimizer.
GROUP = {"AdamW": {"lr": 0.005, "weight_decay": 0.2}, "SGD": {"lr": 0.01, "weight_decay": 0.1}}


@pytest.mark.parametrize(("flat", "grouped"), [(True, False), (True, True), (False, True)])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("settings", SETTINGS)
def test_twenty_steps(settings: str, dtype: str, tolerance: float, flat: bool, grouped: bool) -> None:
    name, options = SETTINGS[settings]
    rng = np.random.default_rng(5)
    start = {key: rng.normal(0.1, 0.5, shape).astype(dtype) for key, shape in SHAPES.items()}
    start["scale"] += 1  # far from 0, which would make errors in it look large
    teacher = {key: start[key] + rng.normal(0.1, 0.4, SHAPES[key]) for key in ("w1", "w2")}
    ours = {key: nn.Parameter(it.from_numpy(value)) for key, value in start.items()}
    theirs = {key: torch.nn.Parameter(torch.tensor(value)) for key, value in start.items()}
    our_optimizer = getattr(optim, name)(_groups(list(ours.items()), name, grouped), flat=flat, **options)
    optimizer = getattr(torch.optim, name)(_groups(list(theirs.values()), name, grouped), **options)

    losses = []
    for step in range(STEPS):
        x = rng.normal(0.2, 1, (23, 7)).astype(dtype)
        y = (np.tanh(x @ teacher["w1"]) @ teacher["w2"] - 1).astype(dtype)
        our_loss = _loss(ours, it.from_numpy(x), it.from_numpy(y), ops, step)
        loss = _loss(theirs, torch.tensor(x), torch.tensor(y), torch, step)
        our_loss.backward()
        loss.backward()
        our_optimizer.step()
        optimizer.step()
        our_optimizer.zero_grad()
        optimizer.zero_grad()

        losses.append(loss.item())
        group = f"{settings}, 20 steps, {dtype}"
        assert_agree(group, f"loss of step {step}", our_loss, loss, tolerance)
        for key, parameter in theirs.items():
            assert_agree(group, f"{key} after step {step}", ours[key], parameter, tolerance)

    for key, value in start.items():
        moved = np.linalg.norm(theirs[key].detach().numpy() - value)
        assert moved > 0.01 * np.linalg.norm(value), f"{key} hardly moved, so that it shows little"
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


@pytest.mark.parametrize("max_norm", [0.3, 7.0, 1e3, inf])
@pytest.mark.parametrize("dtype", ["float32", "float64", *HALVES])
def test_clip_grad_norm(dtype: str, max_norm: float) -> None:
    rng = np.random.default_rng(6)
    ours = {key: nn.Parameter(it.zeros(shape, dtype=dtype)) for key, shape in SHAPES.items()}
    theirs = {key: torch.nn.Parameter(torch.zeros(shape)) for key, shape in SHAPES.items()}
    if dtype == "float64":
        theirs = {key: torch.nn.Parameter(p.detach().double()) for key, p in theirs.items()}
    for key, shape in SHAPES.items():
        if key != "rare":  # stays without a gradient
            grad = torch.tensor(rng.normal(0.1, 3, shape)).to(getattr(torch, dtype))
            ours[key].grad, theirs[key].grad = as_ours(grad), grad.to(theirs[key].dtype)

    our_norm = optim.clip_grad_norm(ours.values(), max_norm)
    norm = torch.nn.utils.clip_grad_norm_(theirs.values(), max_norm)

    group = f"clip_grad_norm, {dtype}"
    assert_agree(group, f"norm, at most {max_norm}", our_norm, norm, 2e-7)
    for key, parameter in theirs.items():
        if key == "rare":
            assert ours[key].grad is None
        else:
            tolerance = HALVES[dtype][0] / 2 if dtype in HALVES else 3e-7  # rounded once more
            assert_agree(group, f"{key}, at most {max_norm}", ours[key].grad, parameter.grad, tolerance)


@pytest.mark.parametrize("master", [False, True], ids=["rounded", "master weights"])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("settings", SETTINGS)
def test_half_parameters_with_float32_state(settings: str, dtype: str, master: bool) -> None:
    """PyTorch makes the steps in float32 of the same half gradients; parameters are rounded after each, or, with master
    weights, for us to look at only. (PyTorch's own steps of half parameters keep half state: nothing to compare with.)
    """
    name, options = SETTINGS[settings]
    rng, half = np.random.default_rng(7), getattr(torch, dtype)
    theirs = {
        key: torch.tensor(rng.normal(0.1, 0.5, shape)).to(half).float() for key, shape in SHAPES.items()
    }
    start = {key: value.clone() for key, value in theirs.items()}
    ours = {key: nn.Parameter(as_ours(value.to(half))) for key, value in theirs.items()}
    our_optimizer = getattr(optim, name)(list(ours.items()), master_weights=master, **options)
    optimizer = getattr(torch.optim, name)(list(theirs.values()), **options)

    for step in range(STEPS):
        for key, parameter in theirs.items():
            grad = torch.tensor(rng.normal(0.3, 1, parameter.shape)).to(half)
            ours[key].grad, parameter.grad = as_ours(grad), grad.float()
        our_optimizer.step()
        optimizer.step()
        for key, parameter in theirs.items():
            rounded = parameter.to(half)
            if not master:
                parameter.copy_(rounded)
            apart = np.abs(array(ours[key]) - array(rounded)) / ulps(array(rounded), dtype)
            assert apart.max() <= (1 if master else step + 1), f"{key} after step {step}"
            assert np.mean(apart > 0) < 0.2, f"{key} after step {step}: {apart}"
    for key, value in start.items():
        assert (theirs[key] - value).norm() > 0.01 * value.norm(), f"{key} hardly moved"


def _groups(params: list[Any], name: str, grouped: bool) -> list[Any]:
    return [{"params": params[:2], **GROUP[name]}, {"params": params[2:]}] if grouped else params


def _loss(p: dict[str, Any], x: Any, y: Any, xp: Any, step: int) -> Any:
    """Return the loss of a small net. ``rare`` takes part in every third step, from the second one on."""
    z = xp.matmul(xp.tanh(xp.matmul(x, p["w1"]) + p["b1"]), p["w2"]) * p["scale"]
    if step % 3 == 1:
        z = z + p["rare"]
    difference = z - y
    return xp.mean(difference * difference)
