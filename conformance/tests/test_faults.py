"""Planted faults: the command that proves that the suite sees them."""

from __future__ import annotations

import pytest

from infinitrain_conformance import faults

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
    assert "ops::test_values[LinearForward-odd-float32]" in got.out
    assert got.code == 0


@pytest.mark.slow
@pytest.mark.multiproc
def test_a_fault_that_is_not_caught_fails(command, monkeypatch):
    """With nothing to run against the fault, it is not caught, and that is exit code 1."""
    narrow = faults.selections
    monkeypatch.setattr(faults, "selections", lambda *args: [run for run in narrow(*args)[:1] if not run.ops])
    got = command("--faults", "linear_bias_lost_in_3d", json=False)
    assert "not caught: linear_bias_lost_in_3d" in got.out
    assert got.code == 1
