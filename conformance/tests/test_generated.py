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
from infinitrain_conformance.suite import test_sizes as sizes_suite
from infinitrain_conformance.suite import test_special_values as special_suite
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
    from infinitrain_conformance import check, special

    fault = named("GeluForward.off_y")
    assert hunt(fault, Bench(cpu, fault.op)).outcome == "caught"
    right = check.allowed
    for module in (check, special):
        monkeypatch.setattr(module, "allowed", lambda *args: 20 * right(*args))
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


def test_a_failure_without_op_and_clause_does_not_count(cpu, monkeypatch):
    """A message that names neither is an error of the suite, not a fault that is caught."""
    fault, bench = named("NegForward.off_y"), Bench(cpu, "NegForward")
    assert bench.tests()

    def nameless(make, heading):
        make().run()
        raise AssertionError("something is wrong")

    monkeypatch.setitem(checks.CHECKS, "values", checks.Check(nameless))
    with pytest.raises(
        AssertionError, match=r"test_values\[NegForward-.* failed without naming op and clause"
    ):
        hunt(fault, bench)


def test_a_rule_has_to_hold_for_every_case(cpu):
    """One case in which a rule holds does not excuse a fault that other cases excuse by their data."""
    calls = []

    def swap(call: Call):
        calls.append(call)
        raise NotHere("because", by_rule=len(calls) == 1)

    fault = Fault("NegForward", "nothing", Kind("none", "", "values", lambda row, samples: ()), swap)
    assert hunt(fault, Bench(cpu, "NegForward")).outcome == "missed"


def test_half_sums_are_those_of_a_half_precision_loop():
    """Sums, products of matrices and additions by index of the oracles, one after the other in bfloat16."""
    import ml_dtypes

    from infinitrain_conformance.generated.half_sums import with_half_sums
    from infinitrain_conformance.oracles import plain

    x, total = np.full(200, 1.01), ml_dtypes.bfloat16(0)
    for _ in range(200):
        total = ml_dtypes.bfloat16(float(total) + 1.01)

    def oracle(x):
        into = np.zeros(1)
        np.add.at(into, np.zeros(200, int), x)
        return {
            "sum": plain(np.asarray(x.sum())),
            "product": plain(np.einsum("ai,bi->ab", x[None], np.ones_like(x)[None])),
            "added": plain(into),
            "running": plain(np.cumsum(x)[-1:]),
        }

    made, sums = with_half_sums(oracle, (x,), np.dtype(ml_dtypes.bfloat16))
    assert sums >= 4
    assert [float(made[name].reshape(-1)[0]) for name in made] == [float(total)] * 4
    assert float(total) != 202.0


def test_tests_are_the_suites_own():
    """The ids that the command prints are tests that the suite runs, with the same data."""
    ids = {
        f"{planned.file}::test_{check}[{param.id}]"
        for check, planned in checks.CHECKS.items()
        for mark in getattr(
            {"ops": suite, "sizes": sizes_suite, "special_values": special_suite}[planned.file],
            f"test_{check}",
        ).pytestmark
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
