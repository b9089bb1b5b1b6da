"""Nothing is left out: functions, rows of the op table, and, in test_methods.py, methods."""

from __future__ import annotations

from zlib import crc32

import numpy as np
from cases import CASES
from tensors import as_tuple, pair

import infinitrain as it
from infinitrain import ops
from infinitrain.backend.dispatch import clear_plans

NOT_IN_TORCH = {
    "OPS": "the table itself",
    "from_numpy": "makes a tensor; every case calls it",
    "is_grad_enabled": "a mode",
    "no_grad": "a mode",
    "rope_table": "makes constants; the cases of rope are built on it",
    "to_device": "moves; here is one device",
}
"""Functions of infinitrain.ops that have no case, with the reason."""


def test_every_function_has_a_case() -> None:
    functions = set(ops.__all__) - set(NOT_IN_TORCH)
    cases = {case.op for case in CASES if case.op not in ops.OPS or case.op in ops.__all__}
    assert functions == cases, (
        f"without a case in tests-parity/cases: {sorted(functions - cases)} (or say in NOT_IN_TORCH why); "
        f"no function of ops: {sorted(cases - functions)}"
    )


def test_the_cases_reach_every_row() -> None:
    """Forward and backward of all cases in float32: each row of the table ran, in no other test but this one."""
    clear_plans()
    for case in CASES:
        rng = np.random.default_rng(crc32(str(case).encode()))
        inputs = [pair(make(rng), "float32")[0] for make in case.inputs]
        for y in as_tuple(case.ours(getattr(ops, case.op), *inputs)):
            if y.requires_grad:
                y.backward(it.ones(y.shape).astype(y.dtype), retain_graph=True)
    bias = it.ones(4, requires_grad=True)
    ops.linear(
        it.ones(2, 3), it.ones(4, 3), bias
    ).sum().backward()  # else Linear asks for all gradients at once
    missed = [name for name, row in ops.OPS.items() if not row.call.__globals__["_plans"]]
    assert not missed, f"no case of tests-parity/cases reaches {missed}"


def test_names_of_cases_differ() -> None:
    names = [str(case) for case in CASES]
    assert len(set(names)) == len(names), sorted({name for name in names if names.count(name) > 1})
