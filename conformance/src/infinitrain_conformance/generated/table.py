"""All faults of the op table, and those that no test can see, with the reason."""

from __future__ import annotations

from functools import cache
from typing import Final

from ..cases import Data
from ..families import all_cases, matrix
from .fault import KINDS, Fault

_ENDS: Final = "with equal starts, steps and counts the ends cannot matter"
_ORDER: Final = "the order of the elements does not matter"
_NANS: Final = "rounding keeps NaN, and makes none"
_SHOWS: Final = "it shows in the result's shape, unless nothing is reduced"
_SHAPE: Final = "the shape of grad tells, unless nothing is reduced"
EQUIVALENT: Final[dict[str, str]] = {
    **dict.fromkeys(("SliceForward.wrong_ends", "SliceBackward.wrong_ends"), _ENDS),
    **dict.fromkeys(("GlobalNorm.misplaces_tensors", "AllFinite.misplaces_tensors"), _ORDER),
    **dict.fromkeys(("IsNanForward.low_precision", "IsNanForward.single_precision"), _NANS),
    **{f"{op}Forward.wrong_keepdims": _SHOWS for op in ("Sum", "Mean", "Max", "Min", "Norm")},
    **{f"{op}Backward.wrong_keepdims": _SHAPE for op in ("Sum", "Mean", "Max", "Min", "Norm")},
    "Fill.later_rows_x": "all rows are equal",
    "LinearCrossEntropyForward.swallows_nan_present": "it counts classes",
    "OneHot.swallows_nan_y": "it is made of 0 and 1",
    "AbsForward.loses_sign_y": "no absolute value has a sign",
    "ConcatForward.wrong_axis": "another axis shows in the result's shape, unless one tensor is all there is",
    **{
        f"RepeatInterleave{way}.wrong_axis": "another axis shows in the result's shape, unless nothing is repeated"
        for way in ("Forward", "Backward")
    },
}
"""Faults that do what the op does, by name, and why. One that a test does see does not belong here."""


@cache
def faults_of(op: str) -> tuple[Fault, ...]:
    """Return the faults of an op that has cases, in the order of the kinds."""
    from infinitrain.backend import OPS

    row = OPS[op]
    dtypes = {case: dtype for case, dtype in reversed(matrix()) if case.op == op}
    samples = tuple(case.build(Data(0, dtype)).args for case, dtype in reversed(dtypes.items()))
    return tuple(
        Fault(op, f"{kind.name}_{about}" if about else kind.name, kind, swap)
        for kind in KINDS.values()
        for about, swap in kind.make(row, samples)
    )


def ops_with_cases() -> list[str]:
    """Return the ops that the matrix has cases for, in its order."""
    return list(dict.fromkeys(case.op for case in all_cases()))


def all_faults() -> list[Fault]:
    """Return the faults of every op."""
    return [fault for op in ops_with_cases() for fault in faults_of(op)]
