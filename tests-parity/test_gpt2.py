"""GPT-2 against transformers': logits, loss, the gradient of every parameter, and steps of training."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import bridge
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from agreement import assert_agree
from bridge import Sizes
from transformers import get_cosine_schedule_with_warmup

import infinitrain as it
from infinitrain import nn, optim

SMALL = Sizes()
VARIANTS = {
    "2 layers, 3 heads of 10": (SMALL, 2, 33),
    "sdpa, 5 heads of 7": (replace(SMALL, n_embd=35, n_head=5, attention="sdpa"), 3, 33),
    "untied, narrow MLP": (replace(SMALL, tied=False, expansion=1.5, eps=1e-3, n_layer=3), 1, 40),
    "one head, two tokens": (replace(SMALL, n_head=1, n_layer=1), 4, 2),
}
GPT2_124M = Sizes(n_layer=12, n_head=12, n_embd=768, vocab_size=50257, block_size=1024, attention="sdpa")


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-13)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_small_models(variant: str, dtype: str, tolerance: float, tmp_path: Path) -> None:
    sizes, batch, time = VARIANTS[variant]
    theirs = bridge.theirs(sizes, dtype, seed=7, spread=0.2)
    ours = bridge.ours(sizes, dtype, theirs, tmp_path)

    _compare(f"gpt2 {variant}, {dtype}", ours, theirs, [_batch(sizes, batch, time, 1)], tolerance)


def test_gradients_of_several_batches_add_up(tmp_path: Path) -> None:
    theirs = bridge.theirs(SMALL, "float64", seed=8, spread=0.2)
    ours = bridge.ours(SMALL, "float64", theirs, tmp_path)
    batches = [_batch(SMALL, size, time, size) for size, time in ((2, 33), (1, 17), (3, 5))]

    _compare("gpt2 three batches, float64", ours, theirs, batches, 1e-13)


@pytest.mark.slow
def test_the_published_size(tmp_path: Path) -> None:
    theirs = bridge.theirs(GPT2_124M, "float32", seed=9, spread=0.02)
    ours = bridge.ours(GPT2_124M, "float32", theirs, tmp_path)
    assert ours.num_parameters() == 124_439_808

    _compare("gpt2 124M, float32", ours, theirs, [_batch(GPT2_124M, 1, 64, 2)], 1e-4)


def test_our_weights_in_their_model(tmp_path: Path) -> None:
    theirs = bridge.theirs(SMALL, "float32", seed=10, spread=0.2)
    ours = bridge.ours(SMALL, "float32", theirs, tmp_path)
    with it.no_grad():
        for p in ours.parameters():
            p.copy_(np.random.default_rng(3).normal(0.1, 0.3, p.shape).astype("float32"))
    state = bridge.exchanged({name: p.numpy() for name, p in ours.named_parameters()})

    safetensors.numpy.save_file(state, tmp_path / "ours.safetensors")
    missing, unexpected = theirs.load_state_dict(
        safetensors.torch.load_file(tmp_path / "ours.safetensors"), strict=False
    )

    assert (missing, unexpected) == (["lm_head.weight"], [])  # tied: it stands in the file once
    _compare("gpt2 our weights, float32", ours, theirs, [_batch(SMALL, 2, 33, 4)], 1e-5)


# Unclipped in float64: the two add 1e-6 to the norm differently.
@pytest.mark.parametrize(
    ("dtype", "max_norm", "tolerance"), [("float32", 0.5, 1e-5), ("float64", inf, 1e-12)]
)
def test_twenty_steps_of_training(dtype: str, max_norm: float, tolerance: float, tmp_path: Path) -> None:
    """AdamW with decay for matrices alone, gradients clipped, warm-up and cosine."""
    theirs = bridge.theirs(SMALL, dtype, seed=11, spread=0.1)
    ours = bridge.ours(SMALL, dtype, theirs, tmp_path)

    our_optimizer = optim.AdamW(optim.decay_groups(ours.named_parameters(), 0.1), betas=(0.9, 0.95))
    our_schedule = optim.LRScheduler(our_optimizer, optim.Schedule(1e-2, "cosine", 20, 0.0, 5))
    groups = [
        {"params": [p for p in theirs.parameters() if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in theirs.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))
    schedule = get_cosine_schedule_with_warmup(optimizer, 5, 20)

    our_losses, losses, norms = [], [], []
    for step in range(20):
        tokens, labels = _batch(SMALL, 4, 33, step % 3)
        our_loss, _ = _our_loss(ours, tokens, labels)
        our_loss.backward()
        our_norm = optim.clip_grad_norm(ours.parameters(), max_norm)
        our_optimizer.step()
        our_optimizer.zero_grad()
        our_schedule.step()

        loss, _ = _their_loss(theirs, tokens, labels)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()

        assert our_norm == pytest.approx(norm.item(), rel=1e-5)
        norms.append(norm.item())
        our_losses.append(our_loss.item())
        losses.append(loss.item())

    assert losses[-1] < 0.8 * losses[0], "it should learn, or the curve says little"
    assert dtype == "float64" or max(norms) > max_norm, "clipping should happen"
    for step, (a, b) in enumerate(zip(our_losses, losses, strict=True)):
        assert_agree(f"gpt2 20 steps, {dtype}", f"loss of step {step}", a, b, tolerance)


def _compare(
    group: str,
    ours: nn.TransformerModel,
    theirs: torch.nn.Module,
    batches: list[tuple[np.ndarray, np.ndarray]],
    tolerance: float,
) -> None:
    for tokens, labels in batches:
        loss, logits = _our_loss(ours, tokens, labels)
        their_loss, their_logits = _their_loss(theirs, tokens, labels)
        assert_agree(group, "logits", logits, their_logits, tolerance)
        assert_agree(group, "loss", loss, their_loss, tolerance)
        loss.backward()
        their_loss.backward()

    our_gradients = {name: p.grad.numpy() for name, p in ours.named_parameters()}
    gradients = bridge.exchanged({name: p.grad.numpy() for name, p in theirs.named_parameters()})
    assert our_gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        assert np.linalg.norm(gradient) > 0, f"{name} has no gradient, so that it shows nothing"
        assert_agree(group, name, our_gradients[name], gradient, tolerance)


def _our_loss(model: nn.TransformerModel, tokens: np.ndarray, labels: np.ndarray) -> tuple[Any, Any]:
    """Return loss and logits; as in transformers, position t predicts label t + 1."""
    targets = np.full_like(labels, -100)
    targets[:, :-1] = labels[:, 1:]
    logits = model(it.from_numpy(tokens))
    return nn.CrossEntropyLoss()(logits, it.from_numpy(targets)), logits


def _their_loss(
    model: torch.nn.Module, tokens: np.ndarray, labels: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return loss and logits. The loss is transformers' own, except that it rounds float64 to float32."""
    output = model(input_ids=torch.tensor(tokens), labels=torch.tensor(labels))
    if output.logits.dtype is torch.float64:
        predictions, targets = output.logits[:, :-1].flatten(0, 1), torch.tensor(labels[:, 1:]).flatten()
        return torch.nn.functional.cross_entropy(predictions, targets), output.logits
    return output.loss, output.logits


def _batch(sizes: Sizes, batch: int, time: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens (B, T), and labels of which some are to be ignored."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, sizes.vocab_size, (batch, time))
    labels = tokens.copy()
    labels.reshape(-1)[2::7] = -100
    return tokens, labels
