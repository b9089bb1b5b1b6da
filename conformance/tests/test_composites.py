"""What core's composites say that they call is what they call [contract 4.3]."""

from __future__ import annotations

import inspect
from collections import defaultdict

import pytest

import infinitrain as it
from infinitrain.backend import OPS, dispatch
from infinitrain.backend.optable import BASE_OPS
from infinitrain_conformance.call import Call
from infinitrain_conformance.cases import Data
from infinitrain_conformance.families import all_cases

CASES = defaultdict(list)
for _case in all_cases():
    if _case.op in dispatch.COMPOSITES:
        CASES[_case.op].append(_case)


def test_every_composite_has_cases() -> None:
    assert CASES.keys() == dispatch.COMPOSITES.keys()


@pytest.mark.parametrize("op", CASES)
def test_calls_are_those_declared(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run directly, over the CPU's own kernels: a fused op inside is then a call like any other."""
    called: set[str] = set()
    find_kernel = dispatch.find_kernel

    def noting(row, *args):
        called.add(row.name)
        return find_kernel(row, *args)

    monkeypatch.setattr(dispatch, "find_kernel", noting)
    composite = dispatch.COMPOSITES[op]
    for case in CASES[op]:
        data = Data(1, "float32")
        call = Call(op, case.build(data), data, it.CPU)
        dispatch.clear_plans()

        kernel, destinations = composite.resolve(), {}
        if "out" in inspect.signature(kernel).parameters:  # in destination style
            outs = tuple(it.empty(shape, dtype=dtype) for shape, dtype in call.specs())
            destinations = {"out": outs if len(outs) > 1 else outs[0]}
        kernel(*call.args, **destinations)
    assert called - set(BASE_OPS) == set(composite.calls)
    assert set(composite.calls) <= OPS.keys()
