"""Calls of infinitrain.ops beside the same calls in PyTorch: one file per family, as the ops have."""

from __future__ import annotations

from . import (
    clamp,
    compare,
    dropout,
    elementwise,
    empty,
    fused,
    indexing,
    large,
    linear,
    loss,
    norm,
    reduction,
    rope,
    rows,
    scatter,
    shape,
    unary,
)
from .case import Case

CASES: tuple[Case, ...] = (
    *unary.CASES,
    *elementwise.CASES,
    *clamp.CASES,
    *compare.CASES,
    *dropout.CASES,
    *reduction.CASES,
    *shape.CASES,
    *indexing.CASES,
    *scatter.CASES,
    *linear.CASES,
    *loss.CASES,
    *fused.CASES,
    *norm.CASES,
    *rope.CASES,
    *rows.CASES,
    *empty.CASES,
    *large.CASES,
)
