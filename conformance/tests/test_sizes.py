"""The large cases: every op has some, of sizes that no split divides; they see what goes wrong with many elements."""

from __future__ import annotations

import math

import numpy as np
import pytest

import infinitrain as it
from infinitrain.backend import OPS
from infinitrain.device import CPU
from infinitrain_conformance import checks
from infinitrain_conformance.call import Call
from infinitrain_conformance.cases import As, Data, Stat
from infinitrain_conformance.check import EXACT_ZEROS, compare
from infinitrain_conformance.families import all_cases, matrix, sizes
from infinitrain_conformance.families.reduction import weighed
from infinitrain_conformance.generated import Bench, faults_of, hunt, splits
from infinitrain_conformance.generated.places import write
from infinitrain_conformance.oracles import Want
from infinitrain_conformance.target import Spec, Target

LARGE = [case for case in all_cases() if sizes.is_large(case)]
BY_NAME = {str(case): case for case in all_cases()}


def arrays(values):
    for value in values:
        if isinstance(value, tuple):
            yield from arrays(value)
        elif isinstance(value, Stat | As):
            yield value.value
        elif isinstance(value, np.ndarray):
            yield value


def test_every_op_has_a_large_case_of_sizes_that_no_split_divides():
    seen = {}
    for case in LARGE:
        data = Data(0, "float32")
        call = Call(case.op, case.build(data), data, CPU)
        shapes = [a.shape for a in arrays(call.built.args)] + [shape for shape, _ in call.specs()]
        for shape in shapes:
            if math.prod(shape) > 300_000 and not any(math.prod(shape) % n == 0 for n in (4, 8, 16, 64)):
                seen[case.op] = max(seen.get(case.op, 0), len(shape))
    assert set(OPS) - set(seen) == set()
    fixed = {
        "Attention",
        "Rope",
        "Embedding",
        "LinearCrossEntropy",
        "Global",
        "AdamW",
        "SGD",
        "Scale",
        "AllFinite",
    }
    flat = {op for op, rank in seen.items() if rank < 4 and not any(op.startswith(name) for name in fixed)}
    assert flat == set()


def test_sizes_are_large_in_float32_and_small_ones_too():
    pairs = {(case.op, case.name.partition("_")[0]) for case, dtype in matrix() if dtype == "float32"}
    for name in ("row1", "column1", "element1", "lanes", "big"):
        assert {op for op in OPS if (op, name) not in pairs} == set()
    names = {str(case) for case in all_cases() if case not in sizes.CASES}
    assert not [name for name in names if name.partition("-")[2].partition("_")[0] in sizes.SHAPES]


def test_a_sum_of_hundreds_of_thousands_shows_one_that_is_lost():
    """Near every place where parts may meet, in float32 and within the tolerance of so many terms."""
    x = weighed(Data(3, "float32"), (300_007,))
    total = x.sum()
    for part in range(17):
        for at in (part * 300_006 // 16 + near for near in (-1, 0, 1)):
            if 0 <= at < x.size:
                y = it.from_numpy(np.asarray(total - x[at], np.float32))
                assert not compare("SumForward", "y", y, Want(np.asarray(total), np.asarray(total), x.size))[
                    0
                ]


def run(name: str, check: str, monkeypatch, spoil) -> None:
    """Run a check of a large case of one op, with what its kernel wrote spoilt."""
    case = BY_NAME[name]
    call = OPS[case.op].call

    def spoilt(*args, **options):
        got = call(*args, **options)
        array = got.numpy().copy()
        spoil(array.reshape(-1))
        write(got, array)
        return got

    monkeypatch.setattr(OPS[case.op], "call", spoilt)
    checks.CHECKS[check].run(checks.maker(case, "float32", 5, CPU), f"heading of {name}")


@pytest.mark.parametrize("at", [0, 150_001, -1])
def test_each_part_of_a_large_result_is_looked_at(monkeypatch, at):
    def spoil(y):
        y[at] *= 1.0001

    with pytest.raises(AssertionError, match="y: 1/303,065 outside"):
        run("ExpForward-big", "large", monkeypatch, spoil)


def test_accumulation_that_large_sizes_forget_is_seen(monkeypatch):
    def spoil(dbias):
        assert np.isinf(dbias[-1])
        dbias[-1] = 1.0

    with pytest.raises(AssertionError, match="dbias: 1/1,237 outside"):
        run("LinearBackwardBias-big", "large_accumulates", monkeypatch, spoil)


def test_a_race_is_seen(monkeypatch):
    calls = []

    def spoil(y):
        calls.append(1)
        y.view(np.uint32)[7] ^= len(calls) % 2

    with pytest.raises(AssertionError, match="y of two equal calls: 1/"):
        run("LinearForward-big", "large_repeats", monkeypatch, spoil)


@pytest.mark.parametrize("op", ["LinearForward", "LayerNormBackward", "SumForward", "Copy"])
def test_faults_of_large_sizes_are_caught_by_large_cases(op):
    bench = Bench(Target(Spec("cpu")), op)
    mine = [f for f in faults_of(op) if f.kind.make.__module__ == splits.__name__]
    verdicts = [hunt(fault, bench) for fault in mine]
    assert len(mine) > 6
    assert [v.fault for v in verdicts if v.outcome == "missed"] == []
    many = [v for v in verdicts if v.outcome == "caught" and v.kind not in ("swallows_nan", "loses_sign")]
    assert {v.test.partition("::")[0] for v in many} == {"sizes"}


def test_wide_integers_are_compared_as_integers():
    want = Want(np.array([2**53 + 1, 5]), np.zeros(2))
    assert compare("MulForward", "y", it.from_numpy(np.array([2**53 + 1, 5])), want)[0]
    ok, line = compare("MulForward", "y", it.from_numpy(np.array([2**53, 5])), want)
    assert not ok
    assert line == "y: 1/2 integers differ; got 9007199254740992, expected 9007199254740993"


def test_the_sign_of_zero_is_compared_where_results_are_exact():
    want = Want(np.array([-0.0, 0.0]), np.zeros(2))
    got = it.from_numpy(np.zeros(2, np.float32))
    ok, line = compare("MulForward", "y", got, want)
    assert not ok
    assert line == "y: 1/2 zeros have the wrong sign; first (0): got 0.0, float64 oracle -0.0"
    assert compare("ReluForward", "y", got, want)[0]
    assert set(EXACT_ZEROS) <= set(OPS)
