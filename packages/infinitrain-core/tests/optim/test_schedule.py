"""Learning rates at the places where formulas meet."""

from __future__ import annotations

from math import cos, pi, sqrt
from typing import Any

import pytest

import infinitrain as it
from infinitrain import nn, optim
from infinitrain.errors import InfiniTrainError
from infinitrain.optim import Schedule

SETTINGS: dict[str, Any] = {
    "lr": 2.0,
    "decay_iters": 30,
    "min_lr": 0.5,
    "warmup_iters": 10,
    "warmup_init": 0.2,
}


@pytest.mark.parametrize("style", ["constant", "linear", "cosine", "inverse-square-root"])
def test_warm_up_is_linear_and_meets_the_peak(style: str) -> None:
    schedule = Schedule(style=style, **SETTINGS)
    assert schedule(0) == 0.2
    assert schedule(5) == pytest.approx(1.1)
    assert schedule(9) == pytest.approx(1.82)
    assert schedule(10) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("constant", {15: 2.0, 30: 2.0, 31: 2.0}),
        ("linear", {15: 2.0 - 0.25 * 1.5, 30: 0.5, 31: 0.5, 1000: 0.5}),
        ("cosine", {15: 0.5 + 0.75 * (1 + cos(pi / 4)), 20: 1.25, 30: 0.5, 31: 0.5}),
        ("inverse-square-root", {15: 2 * sqrt(10 / 15), 30: 2 * sqrt(1 / 3), 31: 0.5}),
    ],
)
def test_after_the_warm_up(style: str, expected: dict[int, float]) -> None:
    schedule = Schedule(style=style, **SETTINGS)
    assert {step: schedule(step) for step in expected} == pytest.approx(expected)


def test_without_warm_up_the_first_step_has_the_peak() -> None:
    for style in ("constant", "linear", "cosine", "inverse-square-root"):
        assert Schedule(0.1, style, decay_iters=4)(0) == pytest.approx(0.1)


def test_the_floor_holds_for_the_inverse_square_root() -> None:
    assert Schedule(1.0, "inverse-square-root", decay_iters=10_000, min_lr=0.1)(9000) == 0.1


def test_everything_that_makes_no_sense_is_named() -> None:
    with pytest.raises(optim.ScheduleError) as caught:
        Schedule(lr=0.0, style="exponential", decay_iters=0, min_lr=1.0, warmup_init=-1.0)
    assert len(caught.value.problems) == 5
    with pytest.raises(optim.ScheduleError, match=r"warmup_iters lies in 0 \.\. decay_iters - 1 = 9, got 10"):
        Schedule(1.0, decay_iters=10, warmup_iters=10)


def test_a_scheduler_sets_the_rate_of_each_step_and_resumes() -> None:
    params = [nn.Parameter(it.ones(2)), nn.Parameter(it.ones(2))]
    optimizer = optim.SGD([{"params": params[:1], "lr": 2.0}, {"params": params[1:], "lr": 1.0}])
    scheduler = optim.LRScheduler(optimizer, Schedule(style="linear", **SETTINGS))
    assert [g["lr"] for g in optimizer.groups] == [0.2, 0.1]
    for _ in range(20):
        scheduler.step()
    assert [g["lr"] for g in optimizer.groups] == pytest.approx([1.25, 0.625])
    assert scheduler.lr == pytest.approx(1.25)
    state = scheduler.state_dict()
    scheduler.step()
    scheduler.load_state_dict(state)
    assert optimizer.groups[0]["lr"] == pytest.approx(1.25)
    with pytest.raises(InfiniTrainError, match="last_step"):
        scheduler.load_state_dict({"last_step": -1})
