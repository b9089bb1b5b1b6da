"""AdamW and SGD against torch.optim: twenty steps of loss and parameters, and the norm of gradients."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from agreement import assert_agree

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
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clip_grad_norm(dtype: str, max_norm: float) -> None:
    rng = np.random.default_rng(6)
    gradients = {key: rng.normal(0.1, 3, shape).astype(dtype) for key, shape in SHAPES.items()}
    ours = {key: nn.Parameter(it.zeros(shape, dtype=dtype)) for key, shape in SHAPES.items()}
    theirs = {key: torch.nn.Parameter(torch.tensor(ours[key].numpy())) for key in SHAPES}
    for key in SHAPES:
        if key != "rare":  # stays without a gradient
            ours[key].grad = it.from_numpy(gradients[key])
            theirs[key].grad = torch.tensor(gradients[key])

    our_norm = optim.clip_grad_norm(ours.values(), max_norm)
    norm = torch.nn.utils.clip_grad_norm_(theirs.values(), max_norm)

    group = f"clip_grad_norm, {dtype}"
    assert_agree(group, f"norm, at most {max_norm}", our_norm, norm, 2e-7)
    for key, parameter in theirs.items():
        if key == "rare":
            assert ours[key].grad is None
        else:
            assert_agree(group, f"{key}, at most {max_norm}", ours[key].grad, parameter.grad, 3e-7)


def _groups(params: list[Any], name: str, grouped: bool) -> list[Any]:
    return [{"params": params[:2], **GROUP[name]}, {"params": params[2:]}] if grouped else params


def _loss(p: dict[str, Any], x: Any, y: Any, xp: Any, step: int) -> Any:
    """Return the loss of a small net. ``rare`` takes part in every third step, from the second one on."""
    z = xp.matmul(xp.tanh(xp.matmul(x, p["w1"]) + p["b1"]), p["w2"]) * p["scale"]
    if step % 3 == 1:
        z = z + p["rare"]
    difference = z - y
    return xp.mean(difference * difference)
