"""Cross-entropy with label smoothing, sums, and over a linear layer."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from .case import Case, Maker, normal, whole


def _some_ignored(classes: int, *shape: int) -> Maker:
    def make(rng: np.random.Generator) -> np.ndarray:
        targets = rng.integers(0, classes, shape)
        targets.reshape(-1)[1::3] = -100
        return targets

    return make


def _cross_entropy(about: str, logits: Maker, targets: Maker, smoothing: float, reduction: str) -> Case:
    def theirs(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, x.shape[-1]), y.reshape(-1)
        return F.cross_entropy(*flat, label_smoothing=smoothing, reduction=reduction)

    options = {"label_smoothing": smoothing, "reduction": reduction}
    return Case("cross_entropy", about, lambda f, x, y: f(x, y, **options), theirs, (logits, targets))


def _linear(about: str, rows: tuple[int, ...], classes: int, smoothing: float, reduction: str) -> Case:
    options = {"label_smoothing": smoothing, "reduction": reduction}

    def theirs(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits = F.linear(x, w).reshape(-1, classes)
        loss = F.cross_entropy(logits.float() if x.itemsize == 2 else logits, y.reshape(-1), **options)
        return loss

    return Case(
        *("linear_cross_entropy", about, lambda f, x, w, y: f(x, w, y, **options), theirs),
        (normal(*rows, 6), normal(classes, 6), _some_ignored(classes, *rows)),
    )


def _in_place(about: str, *shape: int) -> Case:
    """The logits' memory becomes their gradient; they are a copy, of which PyTorch's gradient is the same."""
    options = {"label_smoothing": 0.1, "in_place": True}
    return Case(
        *("cross_entropy", about, lambda f, x, y: f(x * 1.0, y, **options)),
        lambda x, y: F.cross_entropy(x.reshape(-1, shape[-1]), y.reshape(-1), label_smoothing=0.1),
        (normal(*shape), _some_ignored(shape[-1], *shape[:-1])),
    )


CASES = [
    _in_place("in place", 2, 5, 11),
    _cross_entropy("smoothed", normal(9, 11), whole(0, 11, 9), 0.1, "mean"),
    _cross_entropy("smoothed, some ignored", normal(2, 5, 11), _some_ignored(11, 2, 5), 0.3, "mean"),
    _cross_entropy("uniform", normal(9, 11), whole(0, 11, 9), 1.0, "mean"),
    _cross_entropy("sum", normal(2, 5, 11), _some_ignored(11, 2, 5), 0.0, "sum"),
    _cross_entropy("smoothed sum", normal(2, 5, 11), _some_ignored(11, 2, 5), 0.2, "sum"),
    _linear("", (9,), 11, 0.0, "mean"),
    _linear("smoothed", (2, 5), 301, 0.1, "mean"),
    _linear("sum", (2, 5), 11, 0.1, "sum"),
]
