"""Comparisons and logic; ties are included."""

from __future__ import annotations

import torch

from .case import Case, mask, whole, whole_floats

_COMPARISONS = {
    "equals": torch.eq,
    "not_equals": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}
_LOGIC = {"logical_and": torch.logical_and, "logical_or": torch.logical_or}

CASES = [
    case
    for op, theirs in _COMPARISONS.items()
    for case in (
        Case(
            op, "floats", lambda f, a, b: f(a, b), theirs, (whole_floats(-2, 3, 4, 5), whole_floats(-2, 3, 5))
        ),
        Case(op, "ints", lambda f, a, b: f(a, b), theirs, (whole(-2, 3, 4, 1), whole(-2, 3, 5))),
        Case(op, "float and int", lambda f, a, b: f(a, b), theirs, (whole_floats(-2, 3, 9), whole(-2, 3, 9))),
        Case(
            op,
            "number",
            lambda f, a: f(a, 1),
            lambda a, theirs=theirs: theirs(a, 1),
            (whole_floats(-2, 3, 9),),
        ),
        Case(
            op,
            "ints and half",
            lambda f, a: f(a, 0.5),
            lambda a, theirs=theirs: theirs(a, 0.5),
            (whole(-2, 3, 9),),
        ),
    )
]
CASES += [
    case
    for op, theirs in _LOGIC.items()
    for case in (
        Case(op, "bools", lambda f, a, b: f(a, b), theirs, (mask(4, 5), mask(5))),
        Case(op, "numbers", lambda f, a, b: f(a, b), theirs, (whole(-1, 2, 9), whole_floats(-1, 2, 9))),
    )
]
CASES += [
    Case("logical_not", "bools", lambda f, a: f(a), torch.logical_not, (mask(4, 5),)),
    Case("logical_not", "floats", lambda f, a: f(a), torch.logical_not, (whole_floats(-1, 2, 9),)),
]
