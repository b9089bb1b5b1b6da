"""Every op of the matrix against its float64 oracle: values, destinations, accumulation, specs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from infinitrain_conformance import checks
from infinitrain_conformance.cases import Data, OpCase
from infinitrain_conformance.check import compare, expect, fail
from infinitrain_conformance.families import first_cases, level_of, matrix
from infinitrain_conformance.oracles import Want
from infinitrain_conformance.target import Target


def _params(check: str, pairs: Iterable[tuple[OpCase, str]], clause: str | None = None) -> list[Any]:
    from infinitrain.backend import OPS

    return [
        pytest.param(
            case,
            dtype,
            id=f"{case}-{dtype}",
            marks=pytest.mark.contract(clause or case.clause, level=level_of(case.op), op=case.op),
        )
        for case, dtype in pairs
        if checks.applies(check, OPS[case.op])
    ]


def _first(*dtypes: str) -> list[tuple[OpCase, str]]:
    """Return the first case of each op in those dtypes that the matrix has for it."""
    pairs = set(matrix())
    return [(case, dtype) for case in first_cases() for dtype in dtypes if (case, dtype) in pairs]


@pytest.mark.parametrize(("case", "dtype"), _params("values", matrix()))
def test_values(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.values(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("offset_arguments", _first("float32", "bfloat16"), "4.4"))
def test_offset_arguments(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.offset_arguments(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(
    ("case", "dtype"), _params("destination", _first("float32", "bfloat16", "int64"), "4.4")
)
def test_destination(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.destination(checks.maker(case, dtype, seed, target.device), heading)


@pytest.mark.parametrize(("case", "dtype"), _params("accumulates", _first("float32", "bfloat16"), "4.4"))
def test_accumulates(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.accumulates(checks.maker(case, dtype, seed, target.device), heading, seed=seed + 1)


@pytest.mark.parametrize(("case", "dtype"), _params("accumulates", _first("bfloat16"), "4.4"))
def test_accumulates_into_float32(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    checks.accumulates(checks.maker(case, dtype, seed, target.device), heading, wide=True, seed=seed + 1)


@pytest.mark.parametrize(("case", "dtype"), _params("accumulates", _first("bfloat16"), "4.4"))
def test_accumulates_small_into_large(
    case: OpCase, dtype: str, target: Target, seed: int, heading: str
) -> None:
    """1,000 + 0.01 in a float32 destination for bfloat16 inputs: a sum in bfloat16 would stay 1,000."""
    from infinitrain.dtype import float32

    call = checks.maker(case, dtype, seed, target.device)()
    want, marked = call.want(), call.row.accumulates
    name = marked[0]
    shapes = {n: shape for n, (shape, _) in zip(call.names(), call.specs(), strict=True)}
    prefill = {n: np.full(shapes[n], 1000.0) for n in marked}
    targets = call.into(prefill, dict.fromkeys(marked, float32))
    got = targets.views[name].numpy().astype(np.float64) - 1000.0
    error = np.abs(got - want[name].value)
    scale = np.abs(want[name].value) * 2.0**-7 + want[name].magnitude * 2.0**-18 + 1000 * 2.0**-22
    if not (error <= scale).all():
        worst = np.unravel_index(int(np.argmax(error - scale)), shapes[name])
        fail(heading, [f"{name}: grew by {got[worst]:.5g}, float64 oracle {want[name].value[worst]:.5g}"])


@pytest.mark.parametrize(("case", "dtype"), _params("repeats", _first("float32"), "7.7"))
def test_repeats(case: OpCase, dtype: str, target: Target, seed: int, heading: str) -> None:
    """The same call twice gives the same bits, unless the provider lists the op as not deterministic."""
    if case.op in target.record.capabilities.nondeterministic:
        pytest.skip("listed as not deterministic")
    checks.repeats(checks.maker(case, dtype, seed, target.device), heading)


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


@pytest.mark.parametrize("where", ["beyond", "negative"])
@pytest.mark.contract("4.7", level="L2", op="EmbeddingForward")
def test_bad_index(where: str, target: Target, heading: str) -> None:
    """An id out of range is an IndexError at the latest at the next synchronising call, never uninitialised
    memory.
    """
    import infinitrain as it

    weight = it.from_numpy(np.ones((5, 4), np.float32), target.device)
    ids = it.from_numpy(np.array([0, 5 if where == "beyond" else -1, 2], np.int64), target.device)
    with pytest.raises(IndexError):
        it.backend.OPS["EmbeddingForward"].call(ids, weight).numpy()


@pytest.mark.parametrize("where", ["beyond", "negative"])
@pytest.mark.contract("4.7", level="L2", op="CrossEntropyForward")
def test_bad_target(where: str, target: Target, heading: str) -> None:
    """A class out of range is an IndexError at the latest at the next synchronising call."""
    import infinitrain as it

    logits = it.from_numpy(np.ones((3, 4), np.float32), target.device)
    classes = it.from_numpy(np.array([0, 4 if where == "beyond" else -1, 2], np.int64), target.device)
    with pytest.raises(IndexError):
        it.backend.OPS["CrossEntropyForward"].call(logits, classes, -100)[0].numpy()


@pytest.mark.contract("4.1", level="L2", op="CrossEntropyForward")
def test_nothing_to_average(target: Target, heading: str) -> None:
    """Only ignored targets: the mean of nothing is NaN, and the gradient's lse is still finite."""
    import infinitrain as it

    logits = it.from_numpy(np.ones((3, 4), np.float32), target.device)
    ignored = it.from_numpy(np.full(3, -100, np.int64), target.device)
    loss, lse = it.backend.OPS["CrossEntropyForward"].call(logits, ignored, -100)
    expect(heading, np.isnan(loss.numpy()).all(), f"loss is {loss.numpy()}, expected NaN")
    expect(heading, np.isfinite(lse.numpy()).all(), f"lse is {lse.numpy()}")
