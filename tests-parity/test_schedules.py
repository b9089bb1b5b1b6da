"""Learning rates against the schedulers of torch and transformers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import transformers
from torch.optim import lr_scheduler as torch_schedules

import infinitrain as it
from infinitrain import nn
from infinitrain.optim import SGD, LRScheduler, Schedule

LR, TOTAL, WARMUP, LOW = 0.7, 40, 6, 0.05
Maker = Callable[[torch.optim.Optimizer], torch_schedules.LRScheduler]


def _warm(optimizer: torch.optim.Optimizer) -> torch_schedules.LRScheduler:
    return torch_schedules.LinearLR(optimizer, 0.1 / LR, 1.0, WARMUP)


def _after_warmup(make: Maker) -> Maker:
    return lambda o: torch_schedules.SequentialLR(o, [_warm(o), make(o)], [WARMUP])


CASES: dict[str, tuple[Schedule, Maker]] = {
    "constant": (Schedule(LR), lambda o: torch_schedules.ConstantLR(o, 1.0)),
    "warm-up": (Schedule(LR, "constant", TOTAL, 0, WARMUP, 0.1), _warm),
    "warm-up from 0": (
        Schedule(LR, "constant", TOTAL, 0, WARMUP),
        lambda o: transformers.get_constant_schedule_with_warmup(o, WARMUP),
    ),
    "linear": (
        Schedule(LR, "linear", TOTAL, LOW),
        lambda o: torch_schedules.LinearLR(o, 1.0, LOW / LR, TOTAL),
    ),
    "warm-up and linear": (
        Schedule(LR, "linear", TOTAL, 0, WARMUP),
        lambda o: transformers.get_linear_schedule_with_warmup(o, WARMUP, TOTAL),
    ),
    "cosine": (
        Schedule(LR, "cosine", TOTAL, LOW),
        lambda o: torch_schedules.CosineAnnealingLR(o, TOTAL, LOW),
    ),
    "warm-up and cosine": (
        Schedule(LR, "cosine", TOTAL, LOW, WARMUP, 0.1),
        _after_warmup(lambda o: torch_schedules.CosineAnnealingLR(o, TOTAL - WARMUP, LOW)),
    ),
    "warm-up from 0 and cosine": (
        Schedule(LR, "cosine", TOTAL, 0, WARMUP),
        lambda o: transformers.get_cosine_schedule_with_warmup(o, WARMUP, TOTAL),
    ),
    "inverse square root": (
        Schedule(LR, "inverse-square-root", TOTAL, 0, WARMUP),
        lambda o: transformers.get_inverse_sqrt_schedule(o, WARMUP),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_learning_rates(name: str) -> None:
    schedule, make = CASES[name]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(2))], lr=LR)
    theirs = make(optimizer)
    our_optimizer = SGD([nn.Parameter(it.zeros(2))], lr=LR)
    ours = LRScheduler(our_optimizer, schedule)

    for step in range(TOTAL + 1):
        rate = optimizer.param_groups[0]["lr"]
        assert our_optimizer.groups[0]["lr"] == pytest.approx(rate, rel=1e-12, abs=1e-12), f"step {step}"
        optimizer.step()
        theirs.step()
        ours.step()
