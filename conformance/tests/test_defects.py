"""Providers with one defect: which test sees it, and what the message says."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.multiproc


def test_good_provider(toy):
    got = toy("good", "-k", "LinearForward or base_ops or memory or registration")
    assert got.failed() == []
    assert got.code == 0, got.out


def test_wrong_numbers(toy):
    got = toy("forgets_bias", "--op", "LinearForward")
    assert got.code == 1
    failed = {t["id"]: t for t in got.failed()}
    assert "ops::test_values[LinearForward-odd-float32]" in failed
    assert "ops::test_values[LinearForward-no_bias-float32]" not in failed
    message = failed["ops::test_values[LinearForward-odd-float32]"]["message"]
    parts = (
        "[contract 4.1]",
        "LinearForward",
        "provider toy",
        "device toy:0",
        "data seed ",
        "outside; worst (",
    )
    for part in (*parts, "float64 oracle", "allowed +-", "test ops::test_values[LinearForward-odd-float32]"):
        assert part in message


def test_write_beside_the_destination(toy):
    got = toy(
        "writes_beside",
        "--op",
        "LinearForward",
        "-k",
        "LinearForward-odd and not test_values and not special_values",
    )
    assert [t["id"] for t in got.failed()] == [
        "ops::test_destination[LinearForward-odd-float32]",
        "ops::test_destination[LinearForward-odd-bfloat16]",
    ]
    assert got.failed()[0]["clause"] == "4.4"
    assert "elements after the destination changed" in got.failed()[0]["message"]


def test_missing_kernels_are_unsupported_and_below_the_floor(toy):
    got = toy("base_only", "-k", "LinearForward-odd or LinearForward-vector or test_fill")
    outcomes = {t["outcome"] for t in got.tests.values() if t["op"] == "LinearForward"}
    assert outcomes == {"unsupported"}
    assert got.failed() == []
    assert got.code == 1
    assert "ops::test_values[LinearForward-odd-float32]" in got.report["summary"]["below_floor"]
    assert "LinearForward" in got.report["missing_kernels"]["training"]
    assert "no kernel in profile training" in got.out


def test_crash_costs_one_test(toy):
    """The process dies in each LinearForward; every other test still has its result."""
    got = toy("aborts", "-k", "LinearForward-vector or LinearBackwardBias-odd or test_parse")
    assert got.code == 1
    assert [t["id"] for t in got.crashed()] == ["ops::test_values[LinearForward-vector-float32]"]
    assert got.failed() == []
    assert "SIGABRT" in got.crashed()[0]["message"]
    assert "1 crashed" in got.out
    assert got.tests["ops::test_values[LinearBackwardBias-odd-float16]"]["outcome"] == "passed"


def test_hang_costs_one_test(toy):
    got = toy("hangs", "--timeout", "3", "-k", "LinearForward-vector or LinearBackwardBias-odd-float16")
    assert [t["id"] for t in got.crashed()] == ["ops::test_values[LinearForward-vector-float32]"]
    message = got.crashed()[0]["message"]
    assert message.startswith("timeout: no result after 3 s\n")
    assert "in _hangs" in message
    assert "_pytest" not in got.out + got.err
    assert got.tests["ops::test_values[LinearBackwardBias-odd-float16]"]["outcome"] == "passed"


@pytest.mark.multiproc
@pytest.mark.parametrize("registrar", ["without_image", "skips"])
def test_what_a_kernel_raises_is_no_reason_to_leave_a_test_out(toy, registrar):
    """An error whose text begins like the suite's own, and pytest's skip, are failures all the same."""
    got = toy(registrar, "-k", "test_values and LinearForward-odd-bfloat16")
    assert got.code == 1
    assert [t["outcome"] for t in got.tests.values()] == ["failed"]
