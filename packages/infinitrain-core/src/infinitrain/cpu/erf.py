"""CPU kernel of erf: in float32 a quotient of polynomials, in float64 what every array library gets."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.namespace import Namespace
from .blocks import blocks

NUMPY = Namespace(np)
# erf(x) = x P(x²) / Q(x²) on -4 .. 4 to four units in the last place of float32 (the coefficients of Eigen and XLA),
# and 1 exactly at 4: GELU multiplies what it lacks to 1 by large numbers.
# Times 64, near 1 in size at x = 0: x P(x²) is as large as the result, and no bits of a small one go lost on the way.
_P: tuple[float, ...] = tuple(64 * c for c in (
    -2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
    -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02,
))  # fmt: skip
_Q: tuple[float, ...] = tuple(64 * c for c in (
    -1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03,
    -1.42647390514189e-02,
))  # fmt: skip


def ErfForward(x: Any, *, out: Any) -> None:
    for a, y in blocks(x.array, out.array):
        erf(a, y)


def erf(a: np.ndarray, y: np.ndarray) -> None:
    """Write erf of ``a`` to ``y``, which may be the same array."""
    if a.dtype != np.float32:
        y[...] = NUMPY.erf(a)
        return
    np.clip(a, -4.0, 4.0, out=y)
    square = y * y
    y *= _polynomial(_P, square)
    y /= _polynomial(_Q, square)
    np.clip(y, -1.0, 1.0, out=y)


def _polynomial(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """Return the polynomial of x with these coefficients, that of the highest power first."""
    value = x * coefficients[0]
    for c in coefficients[1:-1]:
        value += c
        value *= x
    value += coefficients[-1]
    return value
