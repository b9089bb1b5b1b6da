"""The command that proves that the suite sees faults, planted and generated ones."""

from __future__ import annotations

from collections import Counter

import pytest

from infinitrain_conformance import faults, planted
from infinitrain_conformance.generated import Verdict, hunt_all
from infinitrain_conformance.generated.table import ops_with_cases
from infinitrain_conformance.target import Spec

fake = pytest.importorskip("infinitrain_fake.faults")


def test_unknown_fault_is_usage(command):
    got = command("--faults", "linear_bias_lost_in_4d", json=False)
    assert got.code == 2
    assert "did you mean linear_bias_lost_in_3d" in got.err


def test_every_fault_says_where_it_belongs():
    """Narrow selections come from level and op; a fault without them would run everything."""
    for fault in fake.FAULTS.values():
        assert fault.level in ("L0", "L1", "L2", "L3", "L4", "L5"), fault.name
        assert fault.clause.count(".") == 1, fault.name


@pytest.mark.slow
@pytest.mark.multiproc
def test_faults_are_caught(command):
    """One fault of each kind. Refused registrations, wrong numbers and a wait that does not wait."""
    got = command("--faults", "contract_missing", "linear_bias_lost_in_3d", "wait_no_effect", json=False)
    assert "3 of 3 planted faults caught" in got.out
    assert "ops::test_values[LinearForward-odd-" in got.out
    assert got.code == 0


@pytest.mark.slow
@pytest.mark.multiproc
def test_a_fault_that_is_not_caught_fails(command, monkeypatch):
    """With nothing to run against the fault, it is not caught, and that is exit code 1."""
    monkeypatch.setattr(planted, "selections", lambda *args: [])
    got = command("--faults", "wait_no_effect", json=False)
    assert "not caught: wait_no_effect" in got.out
    assert got.code == 1


@pytest.mark.multiproc
def test_generated_faults_on_any_backend(command):
    got = command("--backend", "cpu", "--faults", "LinearForward.ignores_bias", "NegForward", json=False)
    assert "LinearForward.ignores_bias" in got.out
    assert "[contract 4.1]" in got.out
    assert "ops::test_values[LinearForward-odd-" in got.out
    assert "generated faults caught" in got.out
    assert "planted faults" not in got.out
    assert got.code == 0


@pytest.mark.multiproc
def test_a_kind_of_fault(command):
    got = command("--backend", "cpu", "--faults", "rounds_sum", "SumForward.races_y", json=False)
    assert "LinearBackwardBias.rounds_sum_dbias" in got.out
    assert "SumForward.races_y" in got.out
    assert "SumForward.off_y" not in got.out
    assert got.code == 0


@pytest.mark.multiproc
def test_a_backend_that_is_not_there(command):
    got = command("--backend", "toy", "--backend_module", "no_such", "--faults", "NegForward", json=False)
    assert "no_such" in got.err
    assert "Traceback" not in got.err
    assert got.code == 3


def test_list(command):
    got = command("--faults", "list", json=False)
    assert "LinearForward.ignores_bias  generated ignores" in got.out
    assert "wait_no_effect  planted runtime" in got.out
    assert got.code == 0


def test_summary_counts_what_is_not_applicable():
    def verdict(name, outcome):
        return Verdict(name, "kind", "L2", outcome)

    found = [verdict("a", "caught"), verdict("b", "missed"), verdict("X.a", "caught"), verdict("X.b", "rule")]
    assert faults.summary(found) == (
        "1 of 2 planted faults caught, 1 of 1 generated faults caught, 1 not applicable"
    )


@pytest.mark.slow
@pytest.mark.multiproc
def test_every_op_has_two_generated_faults_that_are_caught():
    """All of them, on cpu: for every op, and so for every direction."""
    verdicts, broken = hunt_all(Spec("cpu"), ops_with_cases())
    assert broken == []
    assert [v.fault for v in verdicts if v.outcome == "missed"] == []
    caught = Counter(v.fault.partition(".")[0] for v in verdicts if v.outcome == "caught")
    assert [op for op in ops_with_cases() if caught[op] < 2] == []
