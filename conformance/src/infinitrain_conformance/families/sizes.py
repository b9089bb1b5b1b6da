"""Sizes that decide how a kernel goes about its work: one row, one column, one element, eight axes, rows long enough
for vector instructions, and more elements than one thread is given.

Large sizes are products of odd numbers, doubled where an op takes pairs: every way to cut them has a rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..cases import Built, Data, OpCase, case
from . import attention, indexing, linear, linear_loss, optimizer, rope, scatter
from .by_shape import TABLE, Shape

CASES: list[OpCase] = []
SINGLE = ("float32",)
LARGE: Final = "big"
"""What the names of large cases start with."""
LANES: Final = "lanes"
"""And those of cases into whose rows special values are put."""
SHAPES: Final[dict[str, Shape]] = {
    "row1": (1, 1031),
    "column1": (1031, 1),
    "element1": (1,),
    "rank8": (2, 1, 3, 1, 2, 1, 1, 7),
    LANES: (7, 131),
    LARGE: (5, 1, 7, 7, 1237),
}


def is_large(case: OpCase) -> bool:
    """Tell whether a case is one of hundreds of thousands of elements."""
    return case.name.partition("_")[0] == LARGE


def has_lanes(case: OpCase) -> bool:
    """Tell whether special values go into the rows of a case. Sums over rows may leave the dtype in between."""
    return case.name.partition("_")[0] == LANES and not case.name.endswith("_by_row")


IN_HALF: Final = frozenset(
    f"{name}{way}"
    for name in (
        "Gelu",
        "Swiglu",
        "LayerNorm",
        "AddLayerNorm",
        "RmsNorm",
        "Softmax",
        "CrossEntropy",
        "Embedding",
    )
    for way in ("Forward", "Backward")
) | {"AdamW", "AccumulateGrad", "Copy", "RopeForward", "CrossEntropyBackwardInPlace", "LinearGeluForward"}
"""Ops whose large cases are run in bfloat16 too."""


def _add(op: str, name: str, build: Callable[..., Built], *args: Any, **kwargs: Any) -> None:
    half = name.startswith(LARGE) and (op in IN_HALF or (op == "Cast" and name.endswith("to_float32")))
    dtypes = SINGLE + ("bfloat16",) * half
    case(CASES, op, name, build, *args, dtypes=dtypes, clause="4.4", **kwargs)


for entry in TABLE:
    for name, shape in SHAPES.items():
        full = (1,) * (entry.rank - len(shape)) + shape
        label = f"{name}_{entry.label}".rstrip("_")
        _add(entry.op, label, lambda d, e=entry, s=full: e.build(d, s))

build: Callable[..., Built]
for op, build in (("AttentionForward", attention.forward), ("AttentionBackward", attention.backward)):
    _add(op, "row1", build, 1, 1, 1, 1, 37)
    _add(op, "column1", build, 1, 131, 1, 1, 1)
    _add(op, "element1", build, 1, 1, 1, 1, 1)
    _add(op, LANES, build, 1, 67, 2, 1, 64)
    _add(op, LARGE, build, 1, 331, 5, 5, 61)
    _add(op, f"{LARGE}_grouped", build, 3, 197, 6, 2, 53, causal=False)

for op, gradient in (("RopeForward", False), ("RopeBackward", True)):
    _add(op, "row1", rope.rope, 1, 1, 1, 1, 106, gradient=gradient)
    _add(op, "element1", rope.rope, 1, 1, 1, 1, 2, gradient=gradient)
    _add(op, "column1", rope.rope, 1, 1031, 1, 1, 2, gradient=gradient)
    _add(op, LANES, rope.rope, 1, 7, 3, 2, 70, False, gradient=gradient)
    _add(op, LARGE, rope.rope, 5, 67, 7, 5, 130, gradient=gradient)
    _add(op, f"{LARGE}_halves", rope.rope, 5, 67, 7, 5, 130, False, 3, gradient=gradient)

for name, shapes in (
    ("row1", ((1, 1031),)),
    ("column1", ((1031, 1),)),
    ("element1", ((1,),)),
    ("rank8", (SHAPES["rank8"],)),
    (LANES, ((7, 131), (131,))),
    (LARGE, ((17, 17, 1049), (1237,), ())),
):
    _add("AdamW", name, optimizer.adamw, 3, shapes=shapes)
    _add("SGD", name, optimizer.sgd, shapes=shapes)
    _add("SGD", f"{name}_nesterov", optimizer.sgd, shapes=shapes, nesterov=True, weight_decay=0.05)
    _add("SGD", f"{name}_plain", optimizer.sgd, shapes=shapes, momentum=0.0)
    _add("ScaleInPlace", name, optimizer.scale, 0.37, shapes=shapes)
    _add("GlobalNorm", name, optimizer.heavy, shapes=shapes)
    _add("AllFinite", name, optimizer.finite, 1.0, 0, shapes=shapes)

for name, shape, index, axis in (
    ("row1", (1, 1031), (1, 131), 1),
    ("column1", (1031, 1), (131, 1), 0),
    ("element1", (1,), (1,), 0),
    ("rank8", SHAPES["rank8"], SHAPES["rank8"], 7),
    (LANES, (7, 131), (7, 131), 1),
    (LARGE, (5, 7, 7, 1237), (5, 7, 7, 67), 3),
):
    _add("ScatterForward", name, scatter.scatter, shape, index, axis)
    _add("ScatterBackward", name, scatter.scatter_backward, shape, index, axis)
    _add("ScatterAddForward", name, scatter.add, shape, index, axis)

# Where the shape of a row does not make every result large.
_add("EmbeddingForward", f"{LARGE}_table", indexing.forward, (7, 37), 2503, 121)
_add("EmbeddingBackward", f"{LARGE}_table", indexing.backward, (7, 37), 2503, 121)
_add("LinearForward", f"{LARGE}_result", linear.forward, (5, 67), 37, 911)
_add("LinearBackwardInput", f"{LARGE}_result", linear.dx, (5, 67), 911, 37)
_add("LinearBackwardWeight", f"{LARGE}_result", linear.dweight, (5, 7), 911, 331)
_add("LinearBackward", f"{LARGE}_result", linear.backward, (5, 7), 911, 331)
_add("LinearBackwardBias", f"{LARGE}_result", linear.dbias, (1,), 300_007)
for op, loss in (
    ("LinearCrossEntropyForward", linear_loss.forward),
    ("LinearCrossEntropyBackward", linear_loss.backward),
):
    _add(op, f"{LARGE}_vocabulary", loss, (5, 1, 3, 9), 37, 8209, 0.1, 0.1, "mean")
sized: Any = ((131,), 37, 8209, 0.1, 0.1, "sum", 600, True)
_add("LinearCrossEntropyBackward", f"{LARGE}_uneven", linear_loss.backward, *sized)


def _with(
    build: Callable[..., Built], at: int, value: float, *args: Any, **kwargs: Any
) -> Callable[[Data], Built]:
    """Return a builder of a case of one tensor that has ``value`` in one place: where parts meet, it is not lost."""

    def built(d: Data) -> Built:
        made = build(d, *args, **kwargs)
        first = made.args[0]
        tensor = first[0] if isinstance(first, tuple) else first
        changed: np.ndarray = tensor.copy()
        changed.reshape(-1)[at] = value
        return Built(
            ((changed, *first[1:]) if isinstance(first, tuple) else changed, *made.args[1:]), made.oracle
        )

    return built


for entry in TABLE:
    if entry.label == "to_one" and entry.op.endswith("Forward"):
        for at in (0, 170_001, -1):
            _add(entry.op, f"{LARGE}_nan{at}", _with(entry.build, at, np.nan, SHAPES[LARGE]))
for op, build in (
    ("GlobalNorm", optimizer.heavy),
    ("AllFinite", lambda d, shapes: optimizer.finite(d, 1.0, 0, shapes)),
):
    for at in (0, 170_001, -1):
        for label, value in (("nan", np.nan), ("inf", -np.inf)):
            _add(op, f"{LARGE}_{label}{at}", _with(build, at, value, shapes=((17, 17, 1049), (1237,), ())))
