"""Cross-entropy of a linear layer's logits, and of the part of a vocabulary that one rank has."""

from __future__ import annotations

import numpy as np

from ..cases import Built, Data, OpCase, Stat, case
from ..oracles import linear_loss as oracles
from .loss import IGNORE, Shape

CASES: list[OpCase] = []


def _arguments(
    d: Data, lead: Shape, width: int, classes: int, ignored: float, padding: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``padding`` classes are not there: x is positive and their weights are -inf. Their places are in every block."""
    x, weight = d.normal(*lead, width, mean=0.3), d.normal(classes, width, mean=0.1, scale=0.4)
    target = d.rng.integers(0, classes, lead)
    if padding:
        x = d.round(np.abs(x) + 0.1)
        gone = d.rng.choice(classes, padding, replace=False)
        weight[gone] = -np.inf
        target = d.rng.choice(np.setdiff1d(np.arange(classes), gone), lead)
    return x, weight, np.where(d.rng.random(lead) < ignored, IGNORE, target).astype(np.int64)


def forward(
    d: Data,
    lead: Shape,
    width: int,
    classes: int,
    ignored: float,
    smoothing: float,
    reduction: str,
    padding: int = 0,
) -> Built:
    made = _arguments(d, lead, width, classes, ignored, padding)
    return Built((*made, IGNORE, smoothing, reduction), oracles.linear_cross_entropy)


def backward(
    d: Data,
    lead: Shape,
    width: int,
    classes: int,
    ignored: float,
    smoothing: float,
    reduction: str,
    padding: int = 0,
    uneven: bool = False,
) -> Built:
    x, weight, target = _arguments(d, lead, width, classes, ignored, padding)
    saved = oracles.linear_cross_entropy(x, weight, target, IGNORE, smoothing, reduction)
    present = saved["present"].value
    if uneven:  # as saved, whatever was there: which row has which count shows
        present = present - np.arange(present.size).reshape(present.shape) % 3 * (present // 4)
    statistics = Stat(saved["lse"].value), Stat(present)
    args = (Stat(np.asarray(1.75)), x, weight, target, *statistics, IGNORE, smoothing, reduction)
    return Built(args, oracles.linear_cross_entropy_backward)


for name, *options in (
    ("odd", (3, 5), 7, 37, 0.0, 0.15, "mean"),
    ("plain", (3, 5), 7, 37, 0.0, 0.0, "mean"),
    ("ignored", (4, 16), 9, 21, 0.3, 0.0, "mean"),
    ("smoothed", (3, 8), 12, 33, 0.2, 0.1, "mean"),
    ("sum", (24,), 12, 33, 0.2, 0.1, "sum"),
    ("vector", (), 8, 5, 0.0, 0.0, "mean"),
    ("vocabulary", (2, 8), 24, 5003, 0.0, 0.0, "mean"),
    ("blocks", (2, 600), 8, 5003, 0.1, 0.2, "mean"),
    ("padded", (3, 8), 12, 33, 0.2, 0.1, "mean", 6),
    ("padded_unsmoothed", (3, 8), 12, 33, 0.2, 0.0, "sum", 6),
    ("padded_blocks", (2, 600), 8, 5003, 0.1, 0.2, "mean", 700),
    ("rows4096", (4096,), 4, 6, 0.1, 0.0, "mean"),
):
    case(CASES, "LinearCrossEntropyForward", name, forward, *options)
    case(CASES, "LinearCrossEntropyBackward", name, backward, *options)
uneven = ((3, 8), 12, 33, 0.2, 0.1, "sum", 6)
case(CASES, "LinearCrossEntropyBackward", "uneven", backward, *uneven, uneven=True)


def part(d: Data, lead: Shape, n: int, first: int, vocabulary: int, scale: float = 2.0) -> Built:
    logits = d.normal(*lead, n, mean=5.0, scale=scale)
    target = d.rng.integers(0, vocabulary, lead)
    target = np.where(d.rng.random(lead) < 0.2, IGNORE, target).astype(np.int64)
    if first + n // 2 < vocabulary:
        target.reshape(-1)[target.size // 2] = first + n // 2  # where special values go
    return Built((logits, target, first, vocabulary, IGNORE), oracles.vocab_part)


def part_backward(
    d: Data, lead: Shape, n: int, first: int, vocabulary: int, smoothing: float, one: bool = False
) -> Built:
    names = np.arange(first, first + n)
    valid, target = names < vocabulary, d.rng.integers(0, vocabulary, lead)
    elsewhere = np.asarray((target < first) | (target >= first + n))
    p = d.round(d.rng.dirichlet(np.full(n, 0.5), lead) * 0.6)
    p[..., ~valid] = np.nan  # padding is what it is, and counts for nothing
    grad = Stat(np.asarray(0.4)) if one else d.round(d.rng.uniform(0.2, 2.0, lead))
    masked = np.where(elsewhere, 0, target - first).astype(np.int64)
    mask = valid[None] if one else valid
    return Built((grad, p, elsewhere, masked, mask, n, vocabulary, smoothing), oracles.vocab_part_backward)


for name, lead, n, first, vocabulary in (
    ("first", (3, 5), 16, 0, 45),
    ("padded", (3, 5), 16, 32, 45),
    ("only_padding", (4,), 16, 48, 45),
    ("wide", (64,), 1003, 1003, 2000),
):
    case(CASES, "VocabParallelCrossEntropyForward", name, part, lead, n, first, vocabulary)
    case(CASES, "VocabParallelCrossEntropyBackward", name, part_backward, lead, n, first, vocabulary, 0.1)
case(CASES, "VocabParallelCrossEntropyForward", "overflow", part, (8,), 16, 16, 45, scale=40.0)
case(
    CASES, "VocabParallelCrossEntropyBackward", "one_gradient", part_backward, (6,), 16, 32, 45, 0.0, one=True
)
