"""What the plain NumPy expression of an op is; the families are in _ops_*.py, which fill ``EXPRESSIONS``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, int]
Rng = np.random.Generator
Make = Callable[[Rng, Shape], tuple[Any, ...]]


@dataclass(frozen=True)
class Expression:
    """``numpy(*make(rng, shape))`` does what the op does with the same arguments, into new memory as the op does.

    What is compared first: every result, or what an op without results wrote; not the numbers where they are
    ``random``. A half precision needs ``tolerance``.
    """

    op: str
    make: Make
    numpy: Callable[..., Any]
    text: str
    random: bool = False
    tolerance: float = 1e-4


EXPRESSIONS: list[Expression] = []

EXCUSED: dict[str, str] = {
    "NoOpForward": "moves nothing: a view, like x.reshape(shape)",
    "NoOpBackward": "moves nothing: a view, like grad.reshape(shape)",
    "ErfForward": "NumPy has no erf",
}
"""Ops that are not measured, and why."""

CALL = "a call costs about 1 us, which is more than a tenth of so short an expression"
_STEPS = "some microseconds for checks and slices that pay for larger arrays"
_CHECKED = "the indices are checked, which NumPy does inside or not at all"
_MASKS = (
    "each sample has a Philox stream of its own, so that masks do not depend on how a batch is split [contract 8.3]; "
    "the expression draws from one stream"
)
REASONS: dict[str, str] = {
    **dict.fromkeys(
        (
            "AndForward", "OrForward", "NotForward", "IsFiniteForward", "IsNanForward", "PowForward", "NegForward",
            "AbsForward", "AddScalarForward", "MulScalarForward", "Fill", "Copy", "ScaleInPlace", "AccumulateGrad",
            "SliceForward", "SliceAssign", "ArgMax", "ArgMin", "AddForward", "SubForward", "MulForward",
            *(f"{c}{s}Forward" for c in ("Equals", "NotEquals", "Lt", "Le", "Gt", "Ge") for s in ("", "Scalar")),
        ),
        CALL,
    ),
    **dict.fromkeys(
        (
            "RmsNormBackward", "AddRmsNormForward", "AddRmsNormBackward", "LayerNormBackward", "AddLayerNormBackward",
            "AdamW", "SGD", "LinearGeluForward", "SwigluBackward",
        ),
        _STEPS,
    ),
    **dict.fromkeys(
        (
            "IndexSelectBackward", "EmbeddingBackward", "GatherForward", "GatherBackward", "ScatterAddForward",
            "CrossEntropyForward", "CrossEntropyBackward", "CrossEntropyBackwardInPlace",
            "VocabParallelCrossEntropyBackward",
        ),
        _CHECKED,
    ),
    "VocabParallelCrossEntropyForward": f"{_CHECKED}; padding and rows of -inf are allowed for",
    "DropoutForward": _MASKS,
    "DropoutBackward": _MASKS,
    "LinearCrossEntropyForward": "works in blocks, so that all logits are never held",
    "LinearCrossEntropyBackward": "works in blocks, so that all logits are never held, and computes them anew",
    "PowTensorBackward": "first looks for bases and exponents whose gradient would be 0 times infinity",
    "NormBackward": "divides first, or looks at the quotients first, so that none overflows",
    "TopKForward": "of equal elements the first one is promised, which the expression leaves open",
    "WhereBackward": "what is dropped may be infinite or NaN; g * m is then NaN",
    "MaskBackward": "what is dropped may be infinite or NaN; g * m is then NaN",
}  # fmt: skip
"""Why an op misses its aim, for the list of those that do."""


def add(op: str, make: Make, numpy: Callable[..., Any], text: str, **more: Any) -> None:
    """Declare the expression of an op; an op may have several."""
    EXPRESSIONS.append(Expression(op, make, numpy, text, **more))


# Arguments ---------------------------------------------------------------------------------------------------


def normal(rng: Rng, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def above_zero(rng: Rng, *shape: int) -> np.ndarray:
    return rng.random(shape, np.float32) + np.float32(0.5)


def mask(rng: Rng, *shape: int) -> np.ndarray:
    return rng.random(shape) < 0.5


def one(rng: Rng, shape: Shape) -> tuple[np.ndarray]:
    return (normal(rng, *shape),)


def positive(rng: Rng, shape: Shape) -> tuple[np.ndarray]:
    return (above_zero(rng, *shape),)


def two(rng: Rng, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    return normal(rng, *shape), above_zero(rng, *shape)


def three(rng: Rng, shape: Shape) -> tuple[np.ndarray, ...]:
    return normal(rng, *shape), *two(rng, shape)


def extra(make: Make, *values: Any) -> Make:
    """Return ``make`` with more arguments behind."""
    return lambda rng, shape: (*make(rng, shape), *values)


def targets(rng: Rng, shape: Shape) -> np.ndarray:
    """Return a column of each row."""
    return rng.integers(0, shape[1], shape[0])


def heads_shape(shape: Shape) -> tuple[int, int, int]:
    """Return (batch, positions, width) with as many elements as ``shape``, at most 256 positions."""
    positions = min(256, shape[0])
    return shape[0] // positions, positions, shape[1]
