"""Every function of infinitrain.ops against PyTorch: results, dtypes, and the gradients of all inputs."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pytest
import torch
from agreement import array, assert_agree, ratio
from cases import CASES, Case
from cases.case import NARROW

import infinitrain as it
from infinitrain import ops

DTYPES = ("float32", "float64")
HALVES = {"bfloat16": 2.0**-9, "float16": 2.0**-11}  # what rounding once may cost
NOT_IN_TORCH = {
    "OPS": "the table",
    "AccumulateGrad": "a row of the table",
    "Fill": "a row of the table",
    "from_numpy": "makes a tensor",
    "is_grad_enabled": "a mode",
    "no_grad": "a mode",
    "rope_table": "makes constants",
    "to_device": "one device here",
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_and_gradients(case: Case, dtype: str) -> None:
    rng = np.random.default_rng(crc32(str(case).encode()))
    inputs = [make(rng) for make in case.inputs]
    inputs = [x.astype(dtype) if x.dtype.kind == "f" else x for x in inputs]
    ours = [it.from_numpy(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    theirs = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]

    our_results = _tuple(case.ours(getattr(ops, case.op), *ours))
    their_results = _tuple(case.theirs(*theirs))

    assert len(our_results) == len(their_results)
    tolerance = case.float64 if dtype == "float64" else NARROW
    for i, (a, b) in enumerate(zip(our_results, their_results, strict=True)):
        assert (str(a.dtype), a.shape) == (str(b.dtype).removeprefix("torch."), tuple(b.shape))
        assert a.requires_grad == b.requires_grad
        if b.is_floating_point():
            assert_agree(f"ops, results, {dtype}", f"{case} result {i}", a, b, tolerance)
        else:
            np.testing.assert_array_equal(array(a), array(b))

    for a, b in zip(our_results, their_results, strict=True):
        if b.requires_grad:
            weights = torch.tensor(rng.normal(0.3, 1, b.shape)).to(b.dtype)
            a.backward(it.from_numpy(weights.double().numpy()).astype(str(a.dtype)), retain_graph=True)
            b.backward(weights, retain_graph=True)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            assert str(a.grad.dtype) == str(b.grad.dtype).removeprefix("torch.")
            assert_agree(f"ops, gradients, {dtype}", f"{case} input {i}", a.grad, b.grad, tolerance)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("case", [case for case in CASES if case.has_floats()], ids=str)
def test_half_floats(case: Case, dtype: str) -> None:
    """Rounding once, of sums in float32 [contract 4.7], is at most twice as far from float64 as PyTorch is."""
    rng = np.random.default_rng(crc32(str(case).encode()))
    inputs = [torch.tensor(make(rng)) for make in case.inputs]
    inputs = [x.to(getattr(torch, dtype)) if x.is_floating_point() else x for x in inputs]
    halves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    exact = [
        (x.double() if x.is_floating_point() else x).requires_grad_(x.is_floating_point()) for x in inputs
    ]
    ours = [_ours(x) for x in inputs]

    half_results = _tuple(case.theirs(*halves))
    exact_results = _tuple(case.theirs(*exact))
    if not all(x.isfinite().all() for x in half_results if x.is_floating_point()):
        pytest.skip(f"leaves the range of {dtype}")
    results = _tuple(case.ours(getattr(ops, case.op), *ours))

    for i, (a, b, c) in enumerate(zip(results, half_results, exact_results, strict=True)):
        if c.is_floating_point():
            tolerance = 2 * ratio(b, c) + HALVES[dtype]
            assert_agree(f"ops, results, {dtype}", f"{case} result {i}", a, c, tolerance)
        if c.requires_grad:
            weights = torch.tensor(rng.normal(0.3, 1, b.shape)).to(b.dtype)
            a.backward(it.from_numpy(weights.double().numpy()).astype(str(a.dtype)), retain_graph=True)
            b.backward(weights, retain_graph=True)
            c.backward(weights.to(c.dtype), retain_graph=True)
    for i, (a, b, c) in enumerate(zip(ours, halves, exact, strict=True)):
        if c.grad is not None:
            assert str(a.grad.dtype) == dtype
            tolerance = 2 * ratio(b.grad, c.grad) + HALVES[dtype]
            if tolerance < 0.1:  # where halves leave nothing of a gradient, there is nothing to compare
                assert_agree(f"ops, gradients, {dtype}", f"{case} input {i}", a.grad, c.grad, tolerance)


def test_every_function_has_a_case() -> None:
    functions = set(ops.__all__) - set(NOT_IN_TORCH)
    cases = {case.op for case in CASES}
    assert functions == cases, (
        f"without a case in tests-parity/cases: {sorted(functions - cases)} (or say in NOT_IN_TORCH why); "
        f"no function of ops: {sorted(cases - functions)}"
    )


def _tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def _ours(x: torch.Tensor) -> it.Tensor:
    """Return our tensor with the values and the dtype of ``x``, a half or integers; a leaf."""
    if not x.is_floating_point():
        return it.from_numpy(x.numpy())
    made = it.from_numpy(x.float().numpy()).astype(str(x.dtype).removeprefix("torch.")).detach()
    made.requires_grad = True
    return made
