"""The generated special values see a kernel that treats one of them wrongly."""

from __future__ import annotations

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS
from infinitrain.device import CPU
from infinitrain_conformance import checks, special
from infinitrain_conformance.cases import Data
from infinitrain_conformance.families import all_cases, first_cases

CASES = {case.op: case for case in first_cases()}


def check(op: str, group: str, dtype: str = "float32") -> None:
    special.check(group, checks.maker(CASES[op], dtype, 3, CPU), "heading")


def through(change):
    """Return a wrapper of an op that changes its result as an array."""

    def wrap(call):
        def changed(*args, **kwargs):
            y = call(*args, **kwargs)
            return it.from_numpy(np.ascontiguousarray(change(y.numpy())).astype(y.dtype.numpy))

        return changed

    return wrap


@pytest.mark.parametrize(
    ("op", "group", "change", "message"),
    [
        ("ExpForward", "nan", lambda y: np.nan_to_num(y), r"nan in x: y\(1,2,20\) is 0, float64 oracle nan"),
        ("AddForward", "nan", lambda y: y + 0 * y.sum(), r"nan in a: .* is nan, float64 oracle"),
        (
            "MulForward",
            "infinity",
            lambda y: np.clip(y, -3e38, 3e38),
            "inf in a: .*is 3e[+]38, float64 oracle inf",
        ),
        (
            "SubForward",
            "infinity",
            lambda y: np.where(np.isinf(y), np.inf, y),
            "-inf in a: .* is inf, .* oracle -inf",
        ),
        ("ReciprocalForward", "ends", np.abs, "-0 in x: .* is inf, float64 oracle -inf"),
    ],
)
def test_a_wrong_kernel_is_seen(op, group, change, message, monkeypatch):
    check(op, group)
    monkeypatch.setattr(OPS[op], "call", through(change)(OPS[op].call))
    with pytest.raises(AssertionError, match=message):
        check(op, group)


def test_results_beyond_float16_are_infinite(monkeypatch):
    check("AddForward", "ends", "float16")
    monkeypatch.setattr(OPS["MulScalarForward"], "call", through(lambda y: np.clip(y, -65504, 65504))(
        OPS["MulScalarForward"].call
    ))  # fmt: skip
    with pytest.raises(AssertionError, match=r"largest in x: .* is 65504, float64 oracle inf"):
        check("MulScalarForward", "ends", "float16")


def test_a_subnormal_result_may_be_flushed_a_normal_one_not(monkeypatch):
    call = OPS["NegForward"].call
    monkeypatch.setattr(
        OPS["NegForward"], "call", through(lambda y: np.where(np.abs(y) < 1e-38, 0 * y, y))(call)
    )
    check("NegForward", "ends")
    monkeypatch.setattr(OPS["NegForward"], "call", through(lambda y: np.where(np.abs(y) < 0.5, 0, y))(call))
    with pytest.raises(AssertionError, match="is 0, float64 oracle"):
        check("NegForward", "ends")


def test_reasons_are_about_ops_and_values_that_there_are():
    names = {*special.GROUPS, *(name for group in special.GROUPS.values() for name in group)}
    for op, what in special.UNDEFINED:
        assert op in OPS, op
        assert what in names, what


LANES = {case.op: case for case in all_cases() if str(case) == f"{case.op}-lanes"}


@pytest.mark.parametrize(
    ("op", "group", "change", "message"),
    [
        # What vector instructions do with the ends of a row.
        (
            "SoftmaxForward",
            "nan",
            lambda y: np.where(np.isnan(y).all(-1, keepdims=True), 0, y),
            r"y\(3,0\) is 0",
        ),
        ("LayerNormForward", "nan", lambda y: y + 0 * y.sum(), r"nan in x: y\(0,0\) is nan, float64 oracle"),
        ("TransposeForward", "ends", lambda y: y + 0.0, r"-0 in x: y\(0,3\) is 0, float64 oracle -0"),
        ("MulForward", "ends", lambda y: np.where(y == 0, 0, y), r"0 in b: y\(3,0\) is 0, float64 oracle -0"),
    ],
)
def test_a_kernel_that_is_wrong_in_long_rows_is_seen(op, group, change, message, monkeypatch):
    def run():
        special.check(group, checks.maker(LANES[op], "float32", 3, CPU), "heading")

    def first(call):
        def changed(*args, **kwargs):
            got = call(*args, **kwargs)
            y, *more = got if isinstance(got, tuple) else (got,)
            new = it.from_numpy(np.ascontiguousarray(change(y.numpy())).astype(y.dtype.numpy))
            return (new, *more) if more else new

        return changed

    run()
    monkeypatch.setattr(OPS[op], "call", first(OPS[op].call))
    with pytest.raises(AssertionError, match=message):
        run()


def test_nan_goes_to_both_ends_and_the_middle_of_a_row():
    built = LANES["ExpForward"].build(Data(0, "float32"))
    assert special.spots("ExpForward", built, (0, None), "nan") == [(393,), (458,), (523,)]
    assert special.spots("ExpForward", built, (0, None), "-0") == [(393, 458, 523)]
    short = CASES["ExpForward"].build(Data(0, "float32"))
    assert special.spots("ExpForward", short, (0, None), "nan") == [(307,)]
