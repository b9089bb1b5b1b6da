"""Cross-entropy and softmax: logits whose exp overflows, ignored targets, a large vocabulary and a padded one,
label smoothing, one class.
"""

from __future__ import annotations

import numpy as np

from ..cases import Built, Data, OpCase, Stat, case
from ..oracles import loss as oracles

CASES: list[OpCase] = []
IGNORE = -100
Shape = tuple[int, ...]


def _logits(
    d: Data, lead: Shape, classes: int, scale: float, ignored: float, padding: int
) -> tuple[np.ndarray, np.ndarray]:
    logits = d.normal(*lead, classes, mean=5.0, scale=scale)
    if padding:  # a vocabulary rounded up to a multiple of something: no token has these classes
        logits[..., -padding:] = -np.inf
    target = d.rng.integers(0, classes - padding, lead)
    return logits, np.where(d.rng.random(lead) < ignored, IGNORE, target).astype(np.int64)


def forward(
    d: Data, lead: Shape, classes: int, scale: float = 2.0, ignored: float = 0.0,
    padding: int = 0, smoothing: float = 0.0, reduction: str = "mean",
) -> Built:  # fmt: skip
    made = _logits(d, lead, classes, scale, ignored, padding)
    return Built((*made, IGNORE, smoothing, reduction), oracles.cross_entropy)


def backward(
    d: Data, lead: Shape, classes: int, scale: float = 2.0, ignored: float = 0.0,
    padding: int = 0, smoothing: float = 0.0, reduction: str = "mean", in_place: bool = False,
) -> Built:  # fmt: skip
    logits, target = _logits(d, lead, classes, scale, ignored, padding)
    lse = oracles.log_sum_exp(logits).astype(np.float32 if d.dtype.name != "float64" else np.float64)
    # A gradient other than 1: a kernel that ignores it would pass a training run.
    grad = Stat(np.asarray(1.75))
    args = (grad, logits, target, Stat(lse.astype(np.float64)), IGNORE, smoothing, reduction)
    return Built(args, oracles.cross_entropy_in_place if in_place else oracles.cross_entropy_backward)


for name, lead, classes, scale, ignored, padding, smoothing, reduction in (
    ("odd", (3, 5), 37, 2.0, 0.0, 0, 0.0, "mean"),
    ("vocabulary", (2, 16), 5003, 2.0, 0.0, 0, 0.0, "mean"),
    ("overflow", (4, 4), 64, 40.0, 0.0, 0, 0.0, "mean"),
    ("ignored", (4, 32), 11, 2.0, 0.4, 0, 0.0, "mean"),
    ("one_row", (1,), 3, 2.0, 0.0, 0, 0.0, "mean"),
    ("no_axes", (), 7, 2.0, 0.0, 0, 0.0, "mean"),
    ("rows4096", (4096,), 5, 2.0, 0.1, 0, 0.0, "mean"),
    ("smoothed", (4, 8), 19, 2.0, 0.3, 0, 0.1, "mean"),
    ("smoothed_vocabulary", (2, 16), 5003, 2.0, 0.0, 0, 0.3, "mean"),
    ("smoothed_padding", (4, 8), 24, 2.0, 0.2, 5, 0.1, "mean"),
    ("uniform", (5, 3), 9, 2.0, 0.0, 0, 1.0, "mean"),
    ("padding", (4, 8), 24, 2.0, 0.0, 5, 0.0, "mean"),
    ("sum", (4, 32), 11, 2.0, 0.4, 0, 0.1, "sum"),
):
    options = (lead, classes, scale, ignored, padding, smoothing, reduction)
    case(CASES, "CrossEntropyForward", name, forward, *options)
    case(CASES, "CrossEntropyBackward", name, backward, *options)
    case(CASES, "CrossEntropyBackwardInPlace", name, backward, *options, in_place=True)


def softmax(d: Data, shape: tuple[int, ...], axis: int, scale: float = 2.0) -> Built:
    return Built((d.normal(*shape, mean=5.0, scale=scale), axis), oracles.softmax)


def softmax_backward(d: Data, shape: tuple[int, ...], axis: int) -> Built:
    y = d.round(oracles.softmax(d.normal(*shape), axis)["y"].value)
    return Built((d.like(y), y, axis), oracles.softmax_backward)


def log_softmax(d: Data, shape: tuple[int, ...], axis: int, scale: float = 2.0) -> Built:
    return Built((d.normal(*shape, mean=5.0, scale=scale), axis), oracles.log_softmax)


def log_softmax_backward(d: Data, shape: tuple[int, ...], axis: int) -> Built:
    y = d.round(oracles.log_softmax(d.normal(*shape), axis)["y"].value)
    return Built((d.like(y), y, axis), oracles.log_softmax_backward)


for name, shape, axis in (
    ("last", (3, 5, 37), 2),
    ("first", (6, 4), 0),
    ("wide", (4, 1023), 1),
    ("one", (5, 1), 1),
):
    case(CASES, "SoftmaxForward", name, softmax, shape, axis)
    case(CASES, "SoftmaxBackward", name, softmax_backward, shape, axis)
    case(CASES, "LogSoftmaxForward", name, log_softmax, shape, axis)
    case(CASES, "LogSoftmaxBackward", name, log_softmax_backward, shape, axis)
case(CASES, "SoftmaxForward", "overflow", softmax, (8, 33), 1, scale=40.0)
case(CASES, "LogSoftmaxForward", "overflow", log_softmax, (8, 33), 1, scale=40.0)
