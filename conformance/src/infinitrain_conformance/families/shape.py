"""What moves elements: compared exactly, in every dtype; steps back, uneven cuts, axes of size 1 and 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cases import Built, Data, OpCase, case
from ..oracles import Want
from ..oracles import shape as oracles

CASES: list[OpCase] = []
Shape = tuple[int, ...]
Oracle = Callable[..., dict[str, Want]]
SINGLE = ("float32",)


def moved(d: Data, shape: Shape, oracle: Oracle, *args: Any) -> Built:
    """Any op of one tensor and attributes; gradients have a mean, or sums of them would cancel."""
    return Built((d.normal(*shape, mean=0.4), *args), oracle)


case(CASES, "TransposeForward", "last", moved, (3, 5, 7), oracles.transpose, 1, 2)
case(CASES, "TransposeForward", "outer", moved, (3, 5, 7), oracles.transpose, 0, 2)
case(CASES, "TransposeForward", "same", moved, (3, 5), oracles.transpose, 1, 1, dtypes=SINGLE)
case(CASES, "TransposeForward", "rows4096", moved, (4099, 3), oracles.transpose, 0, 1)
case(
    CASES, "TransposeForward", "nothing", moved, (3, 0), oracles.transpose, 0, 1, dtypes=SINGLE, clause="4.4"
)
case(CASES, "PermuteForward", "heads", moved, (2, 5, 3, 4), oracles.permute, (0, 2, 1, 3))
case(CASES, "PermuteForward", "cycle", moved, (1, 5, 3), oracles.permute, (2, 0, 1))
case(CASES, "PermuteForward", "0d", moved, (), oracles.permute, (), dtypes=SINGLE)

for name, shape, starts, ends, steps in (
    ("steps", (9, 7), (1, 0), (9, 6), (3, 2)),
    ("back", (9, 7), (8, 5), (-1, 0), (-2, -1)),
    ("last_back", (3, 5, 4), (0, 1, 3), (3, 4, -1), (1, 1, -1)),
    ("one", (5, 4), (2, 3), (3, 4), (1, 1)),
    ("rows4096", (4101, 3), (4, 0), (4100, 3), (1, 1)),
    ("0d", (), (), (), ()),
    ("nothing", (3, 4), (0, 1), (0, 3), (1, 1)),
):
    only, clause = (None, "4.1") if name in ("steps", "back", "rows4096") else (SINGLE, "4.1")
    clause = "4.4" if name == "nothing" else clause
    taken = tuple(len(r) for r in map(range, starts, ends, steps))
    where = (starts, ends, steps)
    case(CASES, "SliceForward", name, moved, shape, oracles.slice_, *where, dtypes=only, clause=clause)
    case(
        CASES,
        "SliceBackward",
        name,
        moved,
        taken,
        oracles.slice_backward,
        shape,
        *where,
        dtypes=only,
        clause=clause,
    )


def assigned(d: Data, shape: Shape, value: Shape, starts: Shape, ends: Shape, steps: Shape) -> Built:
    return Built((d.normal(*shape), d.normal(*value, mean=2.0), starts, ends, steps), oracles.slice_assign)


case(CASES, "SliceAssign", "steps", assigned, (9, 7), (3, 3), (1, 0), (9, 6), (3, 2))
case(CASES, "SliceAssign", "back", assigned, (9, 7), (5, 1), (8, 5), (-1, 0), (-2, -1))
case(CASES, "SliceAssign", "number", assigned, (4, 5), (), (1, 0), (3, 5), (1, 1), dtypes=SINGLE)
case(CASES, "SliceAssign", "rows4096", assigned, (4101, 3), (3,), (4, 0), (4100, 3), (1, 1))
case(CASES, "SliceAssign", "0d", assigned, (), (), (), (), (), dtypes=SINGLE)
case(
    CASES,
    "SliceAssign",
    "nothing",
    assigned,
    (3, 4),
    (1, 2),
    (0, 1),
    (0, 3),
    (1, 1),
    dtypes=SINGLE,
    clause="4.4",
)

case(CASES, "SplitForward", "uneven", moved, (3, 11, 2), oracles.split, (4, 4, 3), 1)
case(CASES, "SplitForward", "qkv", moved, (2, 5, 24), oracles.split, (12, 6, 6), 2)
case(CASES, "SplitForward", "many", moved, (17, 3), oracles.split, (1,) * 17, 0)
case(CASES, "SplitForward", "rows4096", moved, (4101, 3), oracles.split, (4096, 5), 0)
case(
    CASES,
    "SplitForward",
    "empty_piece",
    moved,
    (2, 5),
    oracles.split,
    (2, 0, 3),
    1,
    dtypes=SINGLE,
    clause="4.4",
)


def joined(d: Data, shapes: tuple[Shape, ...], axis: int) -> Built:
    return Built((tuple(d.normal(*s, mean=i) for i, s in enumerate(shapes)), axis), oracles.concat)


case(CASES, "ConcatForward", "three", joined, ((3, 4, 2), (3, 1, 2), (3, 7, 2)), 1)
case(CASES, "ConcatForward", "last", joined, ((5, 12), (5, 6)), 1)
case(CASES, "ConcatForward", "rows4096", joined, ((4096, 3), (5, 3)), 0)
case(CASES, "ConcatForward", "one", joined, ((2, 3),), 0, dtypes=SINGLE)
case(CASES, "ConcatForward", "with_empty", joined, ((0, 3), (2, 3)), 0, dtypes=SINGLE, clause="4.4")

for name, shape, repeats, axis in (
    ("middle", (2, 3, 4), 3, 1),
    ("last", (5, 7), 2, 1),
    ("once", (5, 7), 1, 0),
    ("size1", (3, 1), 4, 1),
    ("often", (3, 2), 4099, 0),
):
    grown = (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])
    only, clause = SINGLE if name == "once" else None, "4.7" if name == "often" else "4.1"
    case(CASES, "RepeatInterleaveForward", name, moved, shape, oracles.repeat, repeats, axis, dtypes=only)
    case(
        *(CASES, "RepeatInterleaveBackward", name, moved, grown, oracles.repeat_backward, repeats, axis),
        dtypes=only,
        clause=clause,
    )

for name, small, large in (
    ("broadcast", (3, 1, 4), (2, 3, 5, 4)),
    ("row", (7,), (4099, 7)),
    ("column", (5, 1), (5, 4099)),
    ("0d", (), (3, 5)),
    ("same", (3, 5), (3, 5)),
    ("nothing", (1, 3), (0, 3)),
):
    only, clause = SINGLE if name == "same" else None, "4.4" if name == "nothing" else "4.1"
    only = SINGLE if name == "nothing" else only
    back = "4.7" if name in ("row", "column") else clause
    case(CASES, "ExpandForward", name, moved, small, oracles.expand, large, dtypes=only, clause=clause)
    case(
        CASES, "ExpandBackward", name, moved, large, oracles.expand_backward, small, dtypes=only, clause=back
    )

for op, oracle in (("TrilForward", oracles.tril), ("TriuForward", oracles.triu)):
    case(CASES, op, "below", moved, (2, 6, 5), oracle, -1)
    case(CASES, op, "above", moved, (5, 6), oracle, 2)
    case(CASES, op, "main", moved, (3, 7, 7), oracle, 0)
    case(CASES, op, "outside", moved, (3, 4), oracle, 9, dtypes=SINGLE)
