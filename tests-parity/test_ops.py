"""Every case against PyTorch, in every floating dtype: results, their dtypes, and the gradients of all inputs."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
from agreement import array, assert_agree, note
from cases import CASES, Case
from tensors import as_tuple, dtype_of, exact, pair, send_back
from tolerances import DOUBLE, HALVES, SINGLE, assert_half, assert_scaled, single

from infinitrain import ops

OTHER_DTYPES = {
    "cross_entropy": "the loss of half logits is float32, as the log of a sum is; PyTorch rounds it",
}
"""Ops whose result is float32 where PyTorch's is the inputs' half."""
CANCELS = {
    "cross_entropy-uniform": "of equal logits the gradient is probability - 1 / classes",
    "attention": "one probability is 1, and the gradient of its score the difference of two equal terms",
    "rms_norm-width_1": "a number divided by its own size has no gradient",
}
"""Ops, or single cases, whose gradients at extreme scales are differences of what float32 cannot tell apart."""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_and_gradients(case: Case, dtype: str) -> None:
    rng = np.random.default_rng(crc32(str(case).encode()))
    ours, theirs = zip(*[pair(make(rng), dtype) for make in case.inputs], strict=True)
    tolerance = DOUBLE if dtype == "float64" and not case.narrow else single(case)

    our_results = as_tuple(case.ours(getattr(ops, case.op), *ours))
    their_results = as_tuple(case.theirs(*theirs))

    assert len(our_results) == len(their_results)
    for i, (a, b) in enumerate(zip(our_results, their_results, strict=True)):
        assert (dtype_of(a), a.shape) == (dtype_of(b), tuple(b.shape))
        assert a.requires_grad == b.requires_grad
        if b.is_floating_point():
            assert_agree(f"ops, results, {dtype}", f"{case} result {i}", a, b, tolerance)
        else:
            np.testing.assert_array_equal(array(a), array(b))
    for a, b in zip(our_results, their_results, strict=True):
        if b.requires_grad:
            send_back(rng, a, b)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            assert dtype_of(a.grad) == dtype_of(b.grad)
            assert_agree(f"ops, gradients, {dtype}", f"{case} input {i}", a.grad, b.grad, tolerance)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("case", [case for case in CASES if case.has_floats()], ids=str)
def test_half_floats(case: Case, dtype: str) -> None:
    """What is rounded once, of sums in float32 [contract 4.7]; see tolerances.py."""
    rng = np.random.default_rng(crc32(str(case).encode()))
    ours, theirs = zip(*[pair(make(rng), dtype) for make in case.inputs], strict=True)
    precise = [exact(x) for x in theirs]

    our_results = as_tuple(case.ours(getattr(ops, case.op), *ours))
    their_results = as_tuple(case.theirs(*theirs))
    exact_results = as_tuple(case.theirs(*precise))

    for i, (a, b, c) in enumerate(zip(our_results, their_results, exact_results, strict=True)):
        assert a.shape == tuple(b.shape)
        if dtype_of(a) != dtype_of(b):
            assert (dtype_of(a), case.op in OTHER_DTYPES) == ("float32", True)
        if dtype_of(a) == dtype:
            worst = assert_half(case, f"result {i}", a, b, c, dtype)
            note(f"ops, results, {dtype}, limits", f"{case} result {i}", worst)
        elif c.is_floating_point():  # a cast, or a loss in float32
            assert_agree(f"ops, results, float32 of {dtype}", f"{case} result {i}", a, c, SINGLE)
        else:
            np.testing.assert_array_equal(array(a), array(b))
    for a, b, c in zip(our_results, their_results, exact_results, strict=True):
        if c.requires_grad:
            send_back(rng, a, b, c)
    for i, (a, b, c) in enumerate(zip(ours, theirs, precise, strict=True)):
        assert (a.grad is None) == (b.grad is None)
        if b.grad is not None:
            assert dtype_of(a.grad) == dtype
            worst = assert_half(case, f"gradient of input {i}", a.grad, b.grad, c.grad, dtype)
            note(f"ops, gradients, {dtype}, limits", f"{case} input {i}", worst)


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40], ids=["tiny", "huge"])
@pytest.mark.parametrize("case", [case for case in CASES if case.has_floats()], ids=str)
def test_extreme_scales(case: Case, scale: float) -> None:
    """Floats of 1e-12 and of 1e12 in float32, against PyTorch in float64 with the same inputs."""
    rng = np.random.default_rng(crc32(str(case).encode()))
    made = [make(rng) for make in case.inputs]
    ours, theirs = zip(*[pair(x * scale if x.dtype.kind == "f" else x, "float32") for x in made], strict=True)
    precise = [exact(x) for x in theirs]

    our_results = as_tuple(case.ours(getattr(ops, case.op), *ours))
    exact_results = as_tuple(case.theirs(*precise))

    for i, (a, c) in enumerate(zip(our_results, exact_results, strict=True)):
        if dtype_of(a) == "float32":
            assert_scaled(case, f"result {i}", a, c)
        elif not a.dtype.is_floating and case.op != "cast":
            np.testing.assert_array_equal(array(a), array(c))
        if c.requires_grad:
            send_back(rng, a, c)
    if str(case) not in CANCELS and case.op not in CANCELS:
        for i, (a, c) in enumerate(zip(ours, precise, strict=True)):
            if c.grad is not None:
                assert_scaled(case, f"gradient of input {i}", a.grad, c.grad)
