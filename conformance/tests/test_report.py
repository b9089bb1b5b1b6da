"""The report: counts, floors, JSON."""

from __future__ import annotations

import json

import pytest

from infinitrain_conformance.report import Case, Report, Result


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
    lines = report("passed", "failed", "unsupported").lines()
    assert lines[-1].startswith("ran 2 of 3 (floor 0), 1 failed")


def test_json_shape(command):
    got = command(
        "--backend", "cpu", "-k", "test_parse or test_bad_index or test_guard_switches", "--seed", "3"
    )
    found = got.report
    assert found["schema"] == 1
    assert {"suite", "core", "core_contract", "python", "numpy", "provider", "summary", "tests"} <= set(found)
    assert found["seed"] == 3
    assert found["provider"]["name"] == "cpu"
    assert found["provider"]["slot"] == "CPU"
    assert found["provider"]["contract"] == "1.0"
    assert set(found["summary"]["levels"]["L0"]) == {"passed", "failed", "unsupported", "skipped"}
    test = got.tests["registration::test_parse"]
    assert (test["level"], test["clause"], test["outcome"], test["floor"]) == ("L0", "1.4", "passed", True)
    assert got.tests["devices::test_guard_switches"]["message"] == "needs two devices"
    assert {t["outcome"] for t in got.tests.values()} <= {"passed", "failed", "unsupported", "skipped"}


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
