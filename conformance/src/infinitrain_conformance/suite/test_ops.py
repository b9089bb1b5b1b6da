"""Every op of the matrix against its float64 oracle: values, destinations, accumulation, specs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from infinitrain_conformance import checks
from infinitrain_conformance.cases import Data, OpCase
from infinitrain_conformance.check import compare, expect
from infinitrain_conformance.families import first_cases, level_of
from infinitrain_conformance.oracles import Want
from infinitrain_conformance.target import Target


def _params(check: str) -> list[Any]:
    clause = checks.CHECKS[check].clause
    return [
        pytest.param(
            case,
            dtype,
            id=f"{case}-{dtype}",
            marks=pytest.mark.contract(clause or case.clause, level=level_of(case.op), op=case.op),
        )
        for case, dtype in checks.planned(check)
    ]


@pytest.mark.parametrize(("case", "dtype"), _params("values"))
def test_values(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.values(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("offset_arguments"))
def test_offset_arguments(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.offset_arguments(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("destination"))
def test_destination(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.destination(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("accumulates"))
def test_accumulates(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.accumulates(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("accumulates_alone"))
def test_accumulates_alone(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.accumulates_alone(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("accumulates_into_float32"))
def test_accumulates_into_float32(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.accumulates(checks.maker(case, dtype, seed, target.device), heading, wide=True)


@pytest.mark.parametrize(("case", "dtype"), _params("accumulates_small_into_large"))
def test_accumulates_small_into_large(
    case: OpCase, dtype: str, target: Target, seed: int, heading: str
) -> None:
    checks.small_into_large(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("repeats"))
def test_repeats(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    """The same call twice gives the same bits, unless the provider lists the op as not deterministic."""
    if case.op in target.record.capabilities.nondeterministic:
        checks.values(checks.maker(case, dtype, seed, target.device), heading)  # other bits, not other values
        return
    checks.repeats(checks.maker(case, dtype, seed, target.device), heading)


EXACT = (
    "AbsForward", "AddForward", "ArgMax", "ArgMin", "ConcatForward", "CumSumForward", "EqualsForward", "ExpandForward",
    "GatherForward", "GeForward", "GtForward", "IndexSelectForward", "LeForward", "LtForward", "MaxForward",
    "MaximumForward", "MinForward", "MinimumForward", "NegForward", "NotEqualsForward", "PermuteForward",
    "RepeatInterleaveForward", "SliceForward", "SplitForward", "SubForward", "SumForward", "TransposeForward",
    "TrilForward", "TriuForward", "WhereForward",
)  # fmt: skip


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        pytest.param(
            case, "int64", id=f"{case}-int64", marks=pytest.mark.contract("4.1", level="L2", op=case.op)
        )
        for case in first_cases()
        if case.op in EXACT
    ],
)
def test_wide_integers(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    """Multiples of 2^40 + 1: a kernel that computes int64 in 32 bits, or in float32, cannot keep them."""
    checks.values(checks.maker(case, dtype, seed, target.device, unit=2.0**40 + 1), heading)


@pytest.mark.contract("4.7", level="L2", op="LinearForward", half=True)
def test_half_precision_needs_no_float32_luck(target: Target, seed: int, heading: str) -> None:
    """4,096 products that are all 1 + 1/128 in bfloat16: an accumulator of bfloat16 stops growing at 256."""
    import infinitrain as it

    x = np.full((2, 4096), 1.0078125)
    weight = np.ones((3, 4096))
    data = Data(seed, "bfloat16")
    tensors = [it.from_numpy(data.round(a).astype(data.dtype.numpy), target.device) for a in (x, weight)]
    y = it.backend.OPS["LinearForward"].call(*tensors, None)
    ok, line = compare("LinearForward", "y", y, Want(np.full((2, 3), 4128.0), np.full((2, 3), 4128.0), 4096))
    expect(heading, ok, line)


@pytest.mark.contract("4.1", level="L2", op="CrossEntropyForward")
def test_nothing_to_average(target: Target, heading: str) -> None:
    """Only ignored targets: the mean of nothing is NaN, and the gradient's lse is still finite."""
    import infinitrain as it

    logits = it.from_numpy(np.ones((3, 4), np.float32), target.device)
    ignored = it.from_numpy(np.full(3, -100, np.int64), target.device)
    loss, lse = it.backend.OPS["CrossEntropyForward"].call(logits, ignored, -100)
    expect(heading, np.isnan(loss.numpy()).all(), f"loss is {loss.numpy()}, expected NaN")
    expect(heading, np.isfinite(lse.numpy()).all(), f"lse is {lse.numpy()}")
