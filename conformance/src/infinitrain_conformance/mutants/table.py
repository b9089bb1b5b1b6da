"""All mutants of the op table, and those that no test can see, with the reason."""

from __future__ import annotations

from functools import cache
from typing import Final

from ..cases import Data
from ..families import all_cases, matrix
from .mutant import KINDS, Mutant

_ENDS: Final = "with equal starts, steps and counts the ends cannot matter"
_ORDER: Final = "the order of the elements does not matter"
_KEPT: Final = "rounding keeps what is finite, infinite or NaN"
_ZEROS: Final = "rounding keeps what is zero"
_SHAPE: Final = "the shape of grad tells, unless nothing is reduced"
EQUIVALENT: Final[dict[str, str]] = {
    **dict.fromkeys(("SliceForward.wrong_ends", "SliceBackward.wrong_ends"), _ENDS),
    **dict.fromkeys(("GlobalNorm.misplaces_tensors", "AllFinite.misplaces_tensors"), _ORDER),
    **{
        f"{op}.{kind}_precision": reason
        for reason, ops in (
            (_KEPT, ("AllFinite", "IsFiniteForward", "IsNanForward")),
            (_ZEROS, ("AndForward", "OrForward", "NotForward")),
        )
        for op in ops
        for kind in ("low", "single")
    },
    **{f"{op}Backward.wrong_keepdims": _SHAPE for op in ("Sum", "Mean", "Max", "Min", "Norm")},
}
"""Mutants that do what the op does, by name, and why. One that a test does see does not belong here."""


@cache
def mutants_of(op: str) -> tuple[Mutant, ...]:
    """Return the mutants of an op that has cases, in the order of the kinds."""
    from infinitrain.backend import OPS

    row = OPS[op]
    dtypes = {case: dtype for case, dtype in reversed(matrix()) if case.op == op}
    samples = tuple(case.build(Data(0, dtype)).args for case, dtype in reversed(dtypes.items()))
    return tuple(
        Mutant(op, f"{kind.name}_{about}" if about else kind.name, kind, plant)
        for kind in KINDS.values()
        for about, plant in kind.make(row, samples)
    )


def ops_with_cases() -> list[str]:
    """Return the ops that the matrix has cases for, in its order."""
    return list(dict.fromkeys(case.op for case in all_cases()))


def all_mutants() -> list[Mutant]:
    """Return the mutants of every op."""
    return [mutant for op in ops_with_cases() for mutant in mutants_of(op)]
