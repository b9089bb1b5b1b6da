"""The report: counts, floors, JSON."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from infinitrain_conformance import details, summary
from infinitrain_conformance.report import OUTCOMES, Case, Report, Result, write_whole


def report(*outcomes: str, floor: bool = False) -> Report:
    made = Report(facts={"suite": "0"})
    for i, outcome in enumerate(outcomes):
        made.cases[f"t{i}"] = Case(f"t{i}", "L1", "3.3", None, floor)
        made.results[f"t{i}"] = Result(f"t{i}", outcome)
    return made


@pytest.mark.parametrize(
    ("outcomes", "floor", "code"),
    [
        (("passed", "passed"), True, 0),
        (("passed", "failed"), True, 1),
        (("passed", "crashed"), True, 1),
        (("passed", "xfailed"), True, 0),
        (("passed", "unsupported"), False, 0),
        (("passed", "unsupported"), True, 1),
        (("passed", "skipped"), True, 1),
        (("unsupported", "skipped"), False, 4),
        ((), False, 4),
    ],
)
def test_exit_code(outcomes, floor, code):
    assert report(*outcomes, floor=floor).exit_code == code


def test_no_device_does_not_hide_failures():
    made = report("failed")
    made.no_device = "none"
    assert made.exit_code == 1
    made = report("passed", "skipped", floor=True)
    made.no_device = "none"
    assert made.exit_code == 6


def test_lines_count_what_ran():
    """First of all."""
    lines = summary.lines(report("passed", "failed", "unsupported", "crashed", "xfailed"))
    assert lines[0].startswith(
        "ran 4 of 5 (floor 0), 1 failed, 1 crashed, 1 xfailed, 1 unsupported, seed 0: not"
    )


def test_crashes_and_expected_failures_are_named():
    made = report("crashed", "xfailed")
    made.results["t0"] = Result("t0", "crashed", 0.0, "was ended by SIGSEGV")
    made.results["t1"] = Result(
        "t1", "xfailed", 0.0, "too slow (#7, until 2027-01-01): AssertionError\n  more"
    )
    lines = summary.lines(made)
    assert "crashed: t0: was ended by SIGSEGV" in lines
    assert "expected failure: t1: too slow (#7, until 2027-01-01): AssertionError" in lines


def of_ops() -> Report:
    made = Report(facts={"ops": {
        "A": {"direction": "forward", "dtypes": ["float32", "int32", "int64"]},
        "B": {"direction": "forward", "dtypes": ["float32"]},
        "C": {"direction": "backward", "dtypes": ["float32", "bfloat16"]},
    }})  # fmt: skip
    for i, (op, dtype, outcome) in enumerate([
        ("A", "float32", "passed"), ("A", "float32", "failed"), ("A", "int64", "passed"),
        ("B", "float32", "unsupported"), ("C", "float32", "crashed"), ("C", "bfloat16", "xfailed"),
    ]):  # fmt: skip
        made.cases[f"t{i}"] = Case(f"t{i}", "L2", "4.1", op, dtype=dtype)
        made.results[f"t{i}"] = Result(f"t{i}", outcome)
    return made


def test_matrix_and_coverage():
    found = of_ops().to_json()
    assert found["matrix"]["A"] == {"float32": {"passed": 1, "failed": 1}, "int64": {"passed": 1}}
    assert found["matrix"]["C"] == {"float32": {"crashed": 1}, "bfloat16": {"xfailed": 1}}
    assert found["coverage"] == {
        "forward": {"float32": {"ran": 1, "ops": 2}, "integers": {"ran": 1, "ops": 1}},
        "backward": {"float32": {"ran": 1, "ops": 1}, "bfloat16": {"ran": 1, "ops": 1}},
    }
    small, large = (summary.lines(of_ops(), full_matrix=full) for full in (False, True))
    assert "forward         1/2         -         -         -       1/1         -" in small
    assert any(line.split() == ["A", "forward", "1", "1F", ".", "1"] for line in large)
    assert any(line.split() == ["C", "backward", "1C", "1x", "."] for line in large)


def test_failures_are_counted_by_op_before_their_details():
    made = of_ops()
    for name in ("t1", "t4"):
        made.results[name] = replace(made.results[name], message=f"message of {name}")
    for i in range(6, 12):
        made.cases[f"t{i}"] = Case(f"t{i}", "L2", "4.1", "A", dtype="int64")
        made.results[f"t{i}"] = Result(f"t{i}", "failed", 0.0, f"message of t{i}")
    few, all_ = (details.lines(made, verbose=verbose) for verbose in (False, True))
    assert few[:2] == ["A: 7 of 9 failed (float32 1, int64 6)", "C: 1 of 2 crashed (float32 1)"]
    shown = [text for text in few[2:] if text.startswith("\nFAILED")]
    assert shown == [f"\nFAILED t{i}\nmessage of t{i}" for i in (1, 6, 7)]
    assert "\n... and 4 more of A; --verbose prints all of them" in few
    assert sum(text.startswith("\nFAILED") for text in all_) == 7


def test_reasons_are_grouped():
    made = Report(facts={"suite": "0"})
    for i in range(30):
        op = "AB"[i % 2] * 3
        made.cases[f"t{i}"] = Case(f"t{i}", "L2", "4.1", op, floor=i < 4, dtype="float32")
        made.results[f"t{i}"] = Result(f"t{i}", "unsupported", 0.0, f"UnsupportedShapeError: {op}: ({i}, 4)")
    made.results["t29"] = Result("t29", "unsupported", 0.0, "no kernel BBB")
    lines = summary.lines(made)
    assert "unsupported: 29 because UnsupportedShapeError: the op: (N, N)" in lines
    assert "unsupported: 1 because no kernel" in lines
    below = (
        "not run, and may not be declined: 4 tests, such as t0, because UnsupportedShapeError: the op: (N, N)"
    )
    assert below in lines
    for i in range(29):
        made.results[f"t{i}"] = Result(f"t{i}", "unsupported", 0.0, f"because of {'x' * i}")
    lines = summary.lines(made)
    assert sum(line.startswith("unsupported: ") for line in lines) == 10
    assert "... and 20 more reasons; --json FILE has all of them" in lines


def test_table_of_ops_is_left_out():
    assert not any(line.startswith("ops run") for line in summary.lines(of_ops(), coverage=False))


def test_json_shape(command):
    got = command(
        "--backend", "cpu", "-k", "test_parse or test_bad_index or test_guard_switches", "--seed", "3"
    )
    found = got.report
    assert found["schema"] == 2
    assert {"suite", "core", "core_contract", "python", "numpy", "provider", "summary", "tests"} <= set(found)
    assert found["seed"] == 3
    assert found["provider"]["name"] == "cpu"
    assert found["provider"]["slot"] == "CPU"
    assert found["provider"]["contract"] == "1.0"
    assert set(found["summary"]["levels"]["L0"]) == set(OUTCOMES)
    test = got.tests["registration::test_parse"]
    assert (test["level"], test["clause"], test["outcome"], test["floor"]) == ("L0", "1.4", "passed", True)
    assert got.tests["devices::test_guard_switches"]["message"] == "needs two devices"
    assert {t["outcome"] for t in got.tests.values()} <= set(OUTCOMES)


def test_write_is_whole_or_not_at_all(tmp_path):
    path = tmp_path / "r.json"
    path.write_text("old")
    broken = report("passed")
    broken.facts["bad"] = object()
    with pytest.raises(TypeError):
        broken.write(path)
    assert path.read_text() == "old"
    report("passed").write(path)
    assert json.loads(path.read_text())["summary"]["ran"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_what_is_at_the_reports_path_stays_what_it_is(tmp_path):
    """A link is followed, a pipe written to; neither is replaced by a file."""
    target, link, pipe = tmp_path / "kept.json", tmp_path / "link.json", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()


def test_a_test_without_a_result_is_no_pass():
    """Selected, not in the floor, and its process ended without a word."""
    made = Report()
    made.cases = {name: Case(name, "L2", "4.1", "Rope") for name in ("a", "b")}
    made.results = {"a": Result("a", "passed")}
    assert made.lost == ["b"]
    assert made.exit_code == 1
