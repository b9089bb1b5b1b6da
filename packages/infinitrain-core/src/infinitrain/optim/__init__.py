"""Optimizers, clipping, loss scaling and learning-rate schedules."""

from .adamw import AdamW, decay_groups
from .clip import NonFiniteGradientError, clip_grad_norm
from .flat import FlatBuffer, flatten
from .optimizer import Optimizer
from .scaler import GradScaler
from .schedule import LRScheduler, Schedule, ScheduleError
from .sgd import SGD

__all__ = [
    "SGD",
    "AdamW",
    "FlatBuffer",
    "GradScaler",
    "LRScheduler",
    "NonFiniteGradientError",
    "Optimizer",
    "Schedule",
    "ScheduleError",
    "clip_grad_norm",
    "decay_groups",
    "flatten",
]
