"""The cases of each family of ops, and the matrix op x case x dtype that the suite runs.

The op table decides what the matrix must hold: every op has a case here, in every dtype that the table gives it.
What nobody thought of is a failure of the suite's own tests.
"""

from __future__ import annotations

from functools import cache

from ..cases import HALF_AND_SINGLE, OpCase


@cache
def all_cases() -> tuple[OpCase, ...]:
    """Return every case of an op that this infinitrain-core has."""
    from infinitrain.backend import OPS

    from . import (
        activation,
        attention,
        base,
        clamp,
        compare,
        dropout,
        elementwise,
        indexing,
        linear,
        linear_loss,
        loss,
        mistakable,
        moe,
        norm,
        optimizer,
        pointwise,
        reduction,
        rope,
        scalar,
        scatter,
        shape,
        sizes,
        wide,
    )

    families = (
        base,
        activation,
        clamp,
        dropout,
        linear,
        linear_loss,
        norm,
        rope,
        elementwise,
        attention,
        loss,
        indexing,
        pointwise,
        compare,
        scalar,
        reduction,
        shape,
        scatter,
        moe,
        optimizer,
        mistakable,
        wide,
        sizes,
    )
    return tuple(case for family in families for case in family.CASES if case.op in OPS)


def matrix() -> list[tuple[OpCase, str]]:
    """Return all (case, dtype)."""
    from infinitrain.backend import OPS
    from infinitrain.backend.optable import DTYPES

    pairs, seen = [], set()
    for case in all_cases():
        takes = [d.name for d in DTYPES[OPS[case.op].dtypes]]
        wanted = case.dtypes
        if wanted is None:
            wanted = HALF_AND_SINGLE if case.op in seen else tuple(takes)
        seen.add(case.op)
        pairs += [(case, dtype) for dtype in wanted if dtype in takes]
    return pairs


def first_cases() -> list[OpCase]:
    """Return one case for each op: how destinations are handled does not depend on the data."""
    chosen: dict[str, OpCase] = {}
    for case in all_cases():
        chosen.setdefault(case.op, case)
    return list(chosen.values())


@cache
def level_of(op: str) -> str:
    """Return L1 for base ops, L3 for gradients and what optimizers do with them, L2 for the others."""
    from infinitrain.backend import BASE_OPS, OPS

    if op in BASE_OPS:
        return "L1"
    row = OPS[op]
    gradients = {name for other in OPS.values() for name in other.gradient} - {
        name for name in OPS if name.endswith("Forward")
    }
    backward = op in gradients or "Backward" in op or op in ("GlobalNorm", "AllFinite")
    return "L3" if backward or (row.writes and op != "Copy") else "L2"
