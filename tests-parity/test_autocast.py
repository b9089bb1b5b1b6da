"""Mixed precision against torch.autocast on the CPU and torch.amp.GradScaler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bridge
import numpy as np
import pytest
import torch
from agreement import assert_agree, ratio
from bridge import Sizes

import infinitrain as it
from infinitrain import nn, ops, optim

RNG = np.random.Generator(np.random.PCG64(31))
X, W, Y = RNG.normal(0.2, 1, (4, 6, 8)), RNG.normal(0, 1, (5, 8)), RNG.normal(0, 1, (4, 8, 3))
IDS = RNG.integers(0, 5, (4, 6))
F = torch.nn.functional

# Where both say what happens: PyTorch's CPU has no float32 class for exp, log and pow, ours has.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[str, ...]]] = {
    "linear": (lambda x, w, y: ops.linear(x, w), lambda x, w, y: F.linear(x, w), ("float32",) * 3),
    "linear of float16": (lambda x, w, y: ops.linear(x, w), lambda x, w, y: F.linear(x, w), ("float16",) * 3),
    "linear of unlike": (
        lambda x, w, y: ops.linear(x, w),
        lambda x, w, y: F.linear(x, w),
        ("bfloat16", "float32", "float32"),
    ),
    "linear of float64": (lambda x, w, y: ops.linear(x, w), lambda x, w, y: F.linear(x, w), ("float64",) * 3),
    "matmul": (lambda x, w, y: x @ y, lambda x, w, y: x @ y, ("float32",) * 3),
    "matmul of float64": (lambda x, w, y: x @ y, lambda x, w, y: x @ y, ("float64",) * 3),
    "linear, gelu, linear": (
        lambda x, w, y: ops.gelu(ops.linear(x, w)) @ w,
        lambda x, w, y: F.gelu(F.linear(x, w), approximate="tanh") @ w,
        ("float32",) * 3,
    ),
    "residual": (
        lambda x, w, y: x + ops.linear(ops.linear(x, w), w.transpose(0, 1)),
        lambda x, w, y: x + F.linear(F.linear(x, w), w.T),
        ("float32",) * 3,
    ),
    "mul of unlike": (lambda x, w, y: x * (x @ y).sum(), lambda x, w, y: x * (x @ y).sum(), ("float32",) * 3),
    "softmax": (
        lambda x, w, y: ops.softmax(ops.linear(x, w).float()),
        lambda x, w, y: torch.softmax(F.linear(x, w).float(), -1),
        ("float32",) * 3,
    ),
    "layer_norm": (
        lambda x, w, y: ops.layer_norm(x, w[0]),
        lambda x, w, y: F.layer_norm(x, (8,), w[0]),
        ("float32",) * 3,
    ),
    "concat of unlike": (
        lambda x, w, y: ops.concat([ops.linear(x, w), x], 2),
        lambda x, w, y: torch.cat([F.linear(x, w), x], 2),
        ("float32",) * 3,
    ),
    "stack of unlike": (
        lambda x, w, y: ops.stack([ops.linear(x, w), x[:, :, :5]]),
        lambda x, w, y: torch.stack([F.linear(x, w), x[:, :, :5]]),
        ("float32",) * 3,
    ),
    "embedding": (
        lambda x, w, y: ops.embedding(it.from_numpy(IDS), w),
        lambda x, w, y: F.embedding(torch.from_numpy(IDS), w),
        ("float32",) * 3,
    ),
    "cross_entropy": (
        lambda x, w, y: ops.cross_entropy(ops.linear(x, w), it.from_numpy(IDS)),
        lambda x, w, y: F.cross_entropy(F.linear(x, w).flatten(0, 1), torch.from_numpy(IDS).flatten()),
        ("float32",) * 3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_dtypes_values_and_gradients(name: str) -> None:
    run, reference, dtypes = CASES[name]
    ours = [it.tensor(a, dtype=d, requires_grad=True) for a, d in zip((X, W, Y), dtypes, strict=True)]
    theirs = [
        torch.tensor(a, dtype=getattr(torch, d), requires_grad=True)
        for a, d in zip((X, W, Y), dtypes, strict=True)
    ]
    with it.autocast("cpu"):
        mine = run(*ours)
    with torch.autocast("cpu", torch.bfloat16):
        other = reference(*theirs)
    assert mine.dtype.name == str(other.dtype).removeprefix("torch.")
    tolerance = 1e-12 if "float64" in dtypes else 1e-2
    assert_agree("autocast, values", name, mine, other, tolerance)
    grad = RNG.normal(0.5, 1.0, tuple(other.shape))
    mine.backward(it.tensor(grad, dtype=mine.dtype))
    other.backward(torch.tensor(grad).to(other.dtype))
    for a, b in zip(ours, theirs, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            assert a.grad.dtype.name == str(b.grad.dtype).removeprefix("torch.")
            assert_agree("autocast, gradients", name, a.grad, b.grad, 1e-6 if "float64" in dtypes else 2e-2)


def test_twenty_steps_of_training(tmp_path: Path) -> None:
    sizes = Sizes()
    theirs = bridge.theirs(sizes, "float32", seed=11, spread=0.1)
    ours = bridge.ours(sizes, "float32", theirs, tmp_path)
    optimizers = (
        optim.AdamW(ours.named_parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1),
        torch.optim.AdamW(theirs.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1),
    )
    losses: list[tuple[float, float]] = []
    for step in range(20):
        tokens = np.random.default_rng(step % 3).integers(0, sizes.vocab_size, (4, 33))
        inputs, labels = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
        with it.autocast("cpu"):
            mine = ops.cross_entropy(ours(it.from_numpy(inputs)), it.from_numpy(labels))
        with torch.autocast("cpu", torch.bfloat16):
            logits = theirs(torch.from_numpy(inputs)).logits
            other = F.cross_entropy(logits.flatten(0, 1), torch.from_numpy(labels).flatten())
        if step == 0:
            assert ratio(mine, other) < 2e-3
        for loss, optimizer in zip((mine, other), optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append((mine.item(), other.item()))
    assert losses[-1][1] < 0.9 * losses[0][1], "it should learn, or the curve says little"
    for step, (a, b) in enumerate(losses):
        assert_agree("autocast, 20 steps of gpt2", f"loss of step {step}", a, b, 1e-2)


@pytest.mark.parametrize("interval", [1, 3, 4])
def test_the_scalers_factor(interval: int) -> None:
    """Forty steps of which some overflow: the same steps are skipped and the factor is the same."""
    settings: dict[str, Any] = {"growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": interval}
    ours, theirs = nn.Parameter(it.ones(5)), torch.nn.Parameter(torch.ones(5))
    mine = optim.GradScaler(2.0**10, **settings)
    other = torch.amp.GradScaler("cpu", 2.0**10, **settings)
    our_optimizer, optimizer = optim.SGD([ours], lr=0.1), torch.optim.SGD([theirs], lr=0.1)
    rng = np.random.default_rng(interval)
    for _ in range(40):
        factors = rng.normal(0, 1, 5).astype(np.float32)
        if rng.random() < 0.3:
            factors[rng.integers(5)] = rng.choice([np.inf, -np.inf, np.nan])
        for p, scaler, opt, given in (
            (ours, mine, our_optimizer, it.from_numpy(factors)),
            (theirs, other, optimizer, torch.from_numpy(factors)),
        ):
            opt.zero_grad()
            scaler.scale((p * given).sum()).backward()
            scaler.step(opt)
            scaler.update()
        assert mine.scale_factor == other.get_scale()
        assert mine.state_dict()["growth_tracker"] == other.state_dict()["_growth_tracker"]
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-6, atol=1e-6)
    assert set(mine.state_dict()) - {"growth_tracker"} == set(other.state_dict()) - {"_growth_tracker"}
