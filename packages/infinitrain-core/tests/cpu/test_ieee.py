"""Overflow and NaN are values: no kernel warns [contract 4.7]."""

from __future__ import annotations

import math

import pytest

import infinitrain as it
from infinitrain import ops

INF = math.inf


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (lambda: it.tensor([1e9]).astype("float16"), [INF]),
        (lambda: it.tensor([11.0, 12.0]).astype("float16").exp(), [59872.0, INF]),
        (lambda: it.tensor([3e38, 3e38]).sum(), INF),
        (lambda: it.tensor([3e38, 3e38]).mean(), INF),
        (lambda: it.tensor([0.0]).log(), [-INF]),
        (lambda: it.tensor([1.0]) / it.tensor([0.0]), [INF]),
        (lambda: ops.gelu(it.tensor([3e38])), [pytest.approx(3e38)]),
    ],
)
def test_values_without_warnings(make, want):
    assert make().tolist() == want


def test_the_norm_of_float64_is_float64():
    x = it.tensor([3e200, 4e200], dtype="float64")
    norm = ops.OPS["GlobalNorm"].call((x,))
    assert norm.dtype is it.float64
    assert norm.item() == pytest.approx(5e200, rel=1e-14)
