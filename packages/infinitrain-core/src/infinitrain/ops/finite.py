"""Which elements are numbers: finite ones, and those that are NaN."""

from __future__ import annotations

from typing import Any

from ..backend.optable import Results, Tensor, op
from ..dtype import bool_


@op(profile="training", dtypes="numeric")
def IsFiniteForward(x: Tensor) -> Results:
    """Bool: x is neither infinite nor NaN."""
    return [(x.shape, bool_)]


@op(profile="training", dtypes="numeric")
def IsNanForward(x: Tensor) -> Results:
    """Bool: x is NaN."""
    return [(x.shape, bool_)]


def isfinite(x: Any) -> Any:
    """Return a bool tensor: True where x is neither infinite nor NaN. Not differentiable."""
    return IsFiniteForward(x)


def isnan(x: Any) -> Any:
    """Return a bool tensor: True where x is NaN. Not differentiable."""
    return IsNanForward(x)
