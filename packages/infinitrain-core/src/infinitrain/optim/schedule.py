"""The learning rate as a function of the step: linear warm-up, then constant or one of three decays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, isfinite, pi, sqrt
from typing import Any, Final

from ..errors import InfiniTrainError
from .optimizer import Optimizer

STYLES: Final = ("constant", "linear", "cosine", "inverse-square-root")


class ScheduleError(InfiniTrainError, ValueError):
    """Settings of a schedule that do not fit together; ``problems`` lists every reason."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = list(problems)
        super().__init__("this learning-rate schedule makes no sense: " + "; ".join(problems))


@dataclass(frozen=True)
class Schedule:
    """``schedule(step)`` is the learning rate of optimizer step ``step``, counted from 0.

    Warm-up: warmup_init + (lr - warmup_init) step / warmup_iters, for step < warmup_iters. Then, with
    r = (step - warmup_iters) / (decay_iters - warmup_iters):

        constant              lr
        linear                lr - r (lr - min_lr)
        cosine                min_lr + (cos(pi r) + 1) / 2 (lr - min_lr)
        inverse-square-root   max(min_lr, lr sqrt(max(warmup_iters, 1)) / sqrt(max(step, 1)))

    and min_lr beyond decay_iters, except for constant. Raises ScheduleError.
    """

    lr: float
    style: str = "constant"
    decay_iters: int = 1
    min_lr: float = 0.0
    warmup_iters: int = 0
    warmup_init: float = 0.0

    def __post_init__(self) -> None:
        problems = []
        if self.style not in STYLES:
            problems.append(f"style is one of {', '.join(STYLES)}, got {self.style!r}")
        if not (isfinite(self.lr) and self.lr > 0):
            problems.append(f"lr is above 0, got {self.lr}")
        if not 0 <= self.min_lr <= self.lr:
            problems.append(f"min_lr lies between 0 and lr {self.lr}, got {self.min_lr}")
        if not 0 <= self.warmup_init <= self.lr:
            problems.append(f"warmup_init lies between 0 and lr {self.lr}, got {self.warmup_init}")
        if not self.decay_iters > 0:
            problems.append(f"decay_iters is at least 1, got {self.decay_iters}")
        elif not 0 <= self.warmup_iters < self.decay_iters:
            problems.append(
                f"warmup_iters lies in 0 .. decay_iters - 1 = {self.decay_iters - 1}, got {self.warmup_iters}"
            )
        if problems:
            raise ScheduleError(problems)

    def __call__(self, step: int) -> float:
        """Return the learning rate of step ``step`` (from 0)."""
        if step < self.warmup_iters:
            return self.warmup_init + (self.lr - self.warmup_init) * step / self.warmup_iters
        if self.style == "constant":
            return self.lr
        if step > self.decay_iters:
            return self.min_lr
        if self.style == "inverse-square-root":
            return max(self.min_lr, self.lr * sqrt(max(self.warmup_iters, 1)) / sqrt(max(step, 1)))
        r = (step - self.warmup_iters) / (self.decay_iters - self.warmup_iters)
        if self.style == "linear":
            return self.lr - r * (self.lr - self.min_lr)
        return self.min_lr + 0.5 * (cos(pi * r) + 1.0) * (self.lr - self.min_lr)


class LRScheduler:
    """Keeps an optimizer's learning rate on a schedule: that of step 0 from the start; ``step()`` after each
    step.

    Groups whose learning rate differs from the first one's keep the ratio.
    """

    def __init__(self, optimizer: Optimizer, schedule: Schedule) -> None:
        self.optimizer, self.schedule = optimizer, schedule
        first = optimizer.groups[0]["lr"]
        self._ratios = [group["lr"] / first if first else 1.0 for group in optimizer.groups]
        self.last_step = 0
        self._apply()

    @property
    def lr(self) -> float:
        """The learning rate of the next optimizer step."""
        return self.schedule(self.last_step)

    def step(self) -> None:
        """Go on to the next optimizer step's learning rate."""
        self.last_step += 1
        self._apply()

    def state_dict(self) -> dict[str, Any]:
        """Return ``last_step``."""
        return {"last_step": self.last_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at ``last_step``, and set the optimizer's learning rate. Raises InfiniTrainError."""
        step = state.get("last_step")
        if not isinstance(step, int) or isinstance(step, bool) or step < 0:
            raise InfiniTrainError(f"a scheduler's state has an int last_step >= 0, got {dict(state)!r}")
        self.last_step = step
        self._apply()

    def _apply(self) -> None:
        for group, ratio in zip(self.optimizer.groups, self._ratios, strict=True):
            group["lr"] = self.lr * ratio
