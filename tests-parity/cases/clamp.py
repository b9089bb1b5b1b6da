"""Clamp, and the larger and the smaller of two tensors, with elements on the bounds and ties."""

from __future__ import annotations

import torch

from .case import Case, mask, normal, whole, whole_floats

_BOUNDS = ((-1.0, 1.0), (None, 0.5), (-0.5, None), (1.0, 1.0))
_PAIRS = {"maximum": torch.maximum, "minimum": torch.minimum}

CASES = [
    Case(
        *("clamp", f"{low} to {high}", lambda f, x, low=low, high=high: f(x, low, high)),
        lambda x, low=low, high=high: torch.clamp(x, low, high),
        (whole_floats(-3, 4, 5, 7),),
    )
    for low, high in _BOUNDS
]
CASES += [
    Case(
        "clamp",
        "fractions",
        lambda f, x: f(x, -0.3, 0.7),
        lambda x: torch.clamp(x, -0.3, 0.7),
        (normal(5, 7),),
    ),
    Case("clamp", "ints", lambda f, x: f(x, -2, 4), lambda x: torch.clamp(x, -2, 4), (whole(-9, 9, 20),)),
    Case(
        "clamp",
        "ints by a float",
        lambda f, x: f(x, -2, 4.5),
        lambda x: torch.clamp(x, -2, 4.5),
        (whole(-9, 9, 20),),
    ),
]
CASES += [
    case
    for op, theirs in _PAIRS.items()
    for case in (
        Case(op, "", lambda f, a, b: f(a, b), theirs, (normal(4, 5), normal(4, 5))),
        Case(
            op,
            "ties",
            lambda f, a, b: f(a, b),
            theirs,
            (whole_floats(-2, 3, 6, 1, 5), whole_floats(-2, 3, 4, 1)),
        ),
        Case(op, "ints", lambda f, a, b: f(a, b), theirs, (whole(-9, 9, 4, 5), whole(-9, 9, 5))),
        Case(op, "float and int", lambda f, a, b: f(a, b), theirs, (whole_floats(-2, 3, 9), whole(-2, 3, 9))),
        Case(op, "bools", lambda f, a, b: f(a, b), theirs, (mask(4, 5), mask(5))),
    )
]
