"""Faults generated from the op table: which there are, and that the hunt tells a sharp suite from a blunt one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from infinitrain_conformance import checks
from infinitrain_conformance.call import Call
from infinitrain_conformance.generated import EQUIVALENT, KINDS, Bench, Fault, Kind, NotHere, faults_of, hunt
from infinitrain_conformance.generated.hunting import suite_tests
from infinitrain_conformance.generated.table import all_faults, ops_with_cases
from infinitrain_conformance.suite import test_ops as suite
from infinitrain_conformance.target import Spec, Target

DOCS = Path(__file__).parents[2] / "docs" / "conformance-faults.md"
SAMPLE = ("LinearForward", "LayerNormBackward", "EmbeddingBackward", "SoftmaxForward", "MaxForward", "AdamW")


@pytest.fixture(scope="module")
def cpu() -> Target:
    return Target(Spec("cpu"))


def named(full: str) -> Fault:
    op, _, name = full.partition(".")
    return next(fault for fault in faults_of(op) if fault.name == name)


def test_every_op_has_faults_of_its_arguments_attributes_and_results():
    """What a row declares decides what there is: an argument without a fault would be one that nobody checks."""
    from infinitrain.backend import OPS

    for op in ops_with_cases():
        row, names = OPS[op], {fault.name for fault in faults_of(op)}
        for p in row.params:
            kinds = ("wrong",) if p.kind in ("scalar", "attribute") else ("ignores", "cuts", "misplaces")
            assert {f"{kind}_{p.name}" for kind in kinds} <= names, op
        for result in row.results or row.writes:
            assert {f"{kind}_{result.removeprefix('*')}" for kind in ("off", "half_written")} <= names, op
        assert {f"overwrites_{result}" for result in row.accumulates} <= names, op


def test_kinds_and_exceptions_are_in_use():
    faults = all_faults()
    assert {fault.kind.name for fault in faults} == set(KINDS)
    assert not set(EQUIVALENT) - set(map(str, faults))
    assert len(set(map(str, faults))) == len(faults)
    assert {kind.check for kind in KINDS.values()} <= set(checks.CHECKS)


@pytest.mark.parametrize("op", SAMPLE)
def test_faults_are_caught(cpu, op):
    bench = Bench(cpu, op)
    verdicts = [hunt(fault, bench) for fault in faults_of(op)]
    assert not bench.broken
    assert [v.fault for v in verdicts if v.outcome == "missed"] == []
    assert sum(v.outcome == "caught" for v in verdicts) > 8


def test_the_check_of_a_kind_is_the_one_that_sees_it(cpu):
    """What only one check can see, it does see: a blunt one could hide behind another."""
    seen = {
        "LinearForward.off_y": "values",
        "LinearForward.half_written_y": "destination",
        "LinearForward.beside": "destination",
        "LinearForward.offset_lost_weight": "offset_arguments",
        "LinearBackwardBias.overwrites_dbias": "accumulates",
        "LinearBackwardBias.rounds_sum_dbias": "accumulates_small_into_large",
        "LinearForward.not_repeatable_y": "repeats",
    }
    for full, check in seen.items():
        fault = named(full)
        assert hunt(fault, Bench(cpu, fault.op)).test.startswith(f"ops::test_{check}["), full


def test_a_blunt_suite_misses(cpu, monkeypatch):
    """Ten tolerances are seen; with a table that allows twenty times as much they are not."""
    from infinitrain_conformance import check

    fault = named("GeluForward.off_y")
    assert hunt(fault, Bench(cpu, fault.op)).outcome == "caught"
    right = check.allowed
    monkeypatch.setattr(check, "allowed", lambda *args: 20 * right(*args))
    missed = hunt(fault, Bench(cpu, fault.op))
    assert (missed.outcome, missed.test) == ("missed", "")
    assert "tests passed" in missed.why


def swap_nothing(call: Call):
    return call.op


def swap_nowhere(call: Call):
    raise NotHere("not in this case")


def swap_never(call: Call):
    raise NotHere("not in this op", by_rule=True)


@pytest.mark.parametrize(
    ("swap", "outcome"),
    [(swap_nothing, "missed"), (swap_nowhere, "missed"), (swap_never, "rule")],
)
def test_what_is_never_seen(cpu, swap, outcome):
    """Only a rule excuses: a fault for which the suite has no case is missed."""
    fault = Fault("NegForward", "nothing", Kind("none", "", "values", lambda row, samples: ()), swap)
    assert hunt(fault, Bench(cpu, "NegForward")).outcome == outcome


def test_an_exception_that_is_seen_does_not_stand(cpu, monkeypatch):
    monkeypatch.setitem(EQUIVALENT, "NegForward.off_y", "nobody looked")
    verdict = hunt(named("NegForward.off_y"), Bench(cpu, "NegForward"))
    assert verdict.outcome == "missed"
    assert "take it off" in verdict.why


def test_a_test_that_fails_without_a_fault_says_nothing(cpu, monkeypatch):
    bench = Bench(cpu, "NegForward")
    right = checks.CHECKS["values"]

    def broken(make, heading):
        raise AssertionError("broken anyway")

    monkeypatch.setitem(checks.CHECKS, "values", checks.Check(broken))
    verdict = hunt(named("NegForward.low_precision"), bench)
    assert bench.broken
    assert not verdict.test.startswith("ops::test_values[")
    assert right.run is checks.values


def test_tests_are_the_suites_own():
    """The ids that the command prints are tests that the suite runs, with the same data."""
    ids = {
        f"ops::test_{check}[{param.id}]"
        for check in checks.CHECKS
        for mark in getattr(suite, f"test_{check}").pytestmark
        if mark.name == "parametrize"
        for param in mark.args[1]
    }
    assert {test.id for op in ops_with_cases() for test in suite_tests(op)} == ids


def test_tf32_keeps_ten_bits():
    from infinitrain_conformance.generated.precision import _tf32

    x = np.array([1.0, 1 + 2.0**-10, 1 + 2.0**-12, -(1 + 2.0**-11), np.inf, np.nan], np.float32)
    want = np.array([1.0, 1 + 2.0**-10, 1.0, -(1 + 2.0**-10), np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(_tf32(x), want)


@pytest.mark.skipif(not DOCS.exists(), reason="not in a checkout")
def test_docs_list_every_kind():
    text = DOCS.read_text(encoding="utf-8")
    for kind in KINDS.values():
        assert f"| `{kind.name}" in text, kind.name
        assert f"`{kind.check}`" in text, kind.name
