"""Dropout with the mask of ours: what is kept is divided by 1 - p. test_special_values.py compares distributions."""

from __future__ import annotations

from typing import Any

import torch

from infinitrain import ones, ops, random

from .case import Case, normal


def _ours(f: Any, x: Any, p: float) -> Any:
    with random.step_scope(seed=3, step=5):
        return f(x, p)


def _theirs(x: torch.Tensor, p: float) -> torch.Tensor:
    kept = torch.tensor(_ours(ops.dropout, ones(tuple(x.shape)), p).numpy()) != 0
    return torch.where(kept, x / (1 - p), 0)


CASES = [
    Case(
        "dropout", f"p {p}", lambda f, x, p=p: _ours(f, x, p), lambda x, p=p: _theirs(x, p), (normal(9, 31),)
    )
    for p in (0.0, 0.3, 0.8)
]
