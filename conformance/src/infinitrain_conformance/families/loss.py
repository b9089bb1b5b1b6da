"""Cross-entropy and softmax: logits whose exp overflows, ignored targets, a large vocabulary, one class."""

from __future__ import annotations

import numpy as np

from ..cases import Built, Data, OpCase, Stat, case
from ..oracles import loss as oracles

CASES: list[OpCase] = []
IGNORE = -100


def _logits(
    d: Data, lead: tuple[int, ...], classes: int, scale: float, ignored: float
) -> tuple[np.ndarray, np.ndarray]:
    logits = d.normal(*lead, classes, mean=5.0, scale=scale)
    target = d.rng.integers(0, classes, lead)
    return logits, np.where(d.rng.random(lead) < ignored, IGNORE, target).astype(np.int64)


def forward(d: Data, lead: tuple[int, ...], classes: int, scale: float = 2.0, ignored: float = 0.0) -> Built:
    return Built((*_logits(d, lead, classes, scale, ignored), IGNORE), oracles.cross_entropy)


def backward(d: Data, lead: tuple[int, ...], classes: int, scale: float = 2.0, ignored: float = 0.0) -> Built:
    logits, target = _logits(d, lead, classes, scale, ignored)
    lse = oracles.log_sum_exp(logits).astype(np.float32 if d.dtype.name != "float64" else np.float64)
    # A gradient other than 1: a kernel that ignores it would pass a training run.
    grad = Stat(np.asarray(1.75))
    return Built((grad, logits, target, Stat(lse.astype(np.float64)), IGNORE), oracles.cross_entropy_backward)


for name, lead, classes, scale, ignored in (
    ("odd", (3, 5), 37, 2.0, 0.0),
    ("vocabulary", (2, 16), 5003, 2.0, 0.0),
    ("overflow", (4, 4), 64, 40.0, 0.0),
    ("ignored", (4, 32), 11, 2.0, 0.4),
    ("one_row", (1,), 3, 2.0, 0.0),
    ("rows4096", (4096,), 5, 2.0, 0.1),
):
    case(CASES, "CrossEntropyForward", name, forward, lead, classes, scale, ignored)
    case(CASES, "CrossEntropyBackward", name, backward, lead, classes, scale, ignored)


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
