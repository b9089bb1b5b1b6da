"""L1 to L3: hundreds of thousands of elements, of sizes that no split divides. The values, memory that is aligned to an
element only, accumulation, equal bits. Smaller sizes that matter, such as one row, are among the cases of ``test_ops``.
"""

from __future__ import annotations

from typing import Any

import pytest

from infinitrain_conformance import checks
from infinitrain_conformance.cases import OpCase
from infinitrain_conformance.families import level_of
from infinitrain_conformance.target import Target


def _params(check: str) -> list[Any]:
    return [
        pytest.param(
            case,
            dtype,
            id=f"{case}-{dtype}",
            marks=pytest.mark.contract(checks.CHECKS[check].clause, level=level_of(case.op), op=case.op),
        )
        for case, dtype in checks.planned(check)
    ]


@pytest.mark.parametrize(("case", "dtype"), _params("large"))
def test_large(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.large(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("large_accumulates"))
def test_large_accumulates(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.large_accumulates(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("large_repeats"))
def test_large_repeats(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    """Whatever the order in which threads end, equal calls give equal bits, unless the provider lists the op."""
    if case.op not in target.record.capabilities.nondeterministic:
        checks.repeats(checks.maker(case, dtype, seed, target.device), heading)
