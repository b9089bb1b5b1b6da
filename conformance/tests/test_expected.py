"""Expected failures: the file's grammar, its limits, and what it makes of outcomes."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from infinitrain_conformance.expected import MAX_TESTS, ExpectedFailures
from infinitrain_conformance.report import Case, Result

TODAY = date(2026, 12, 1)
CASES = [
    Case("ops::test_values[Erf-odd-float32]", "L2", "4.1", "Erf", dtype="float32"),
    Case("ops::test_values[Erf-odd-float16]", "L2", "4.1", "Erf", dtype="float16"),
    Case("base_ops::test_fill[float32]", "L1", "2.3", "Fill", base=True, dtype="float32"),
    Case("registration::test_name", "L0", "1.3"),
    *(Case(f"memory::test_malloc[{i}]", "L1", "3.3") for i in range(MAX_TESTS + 1)),
]
FACTS = {
    "core": "0.1.0", "python": "3.12.4", "numpy": "2.4.1", "platform": "Linux-6.1-x86_64",
    "provider": {"name": "maca", "distribution": "my-provider 0.3.1", "describe": "maca:0 (C500, 64 GiB)"},
}  # fmt: skip


def entry(ident="ops::test_values[Erf-*-float16]", **more):
    values = {"id": f'"{ident}"', "reason": '"the driver"', "issue": '"#7"', "expires": "2027-03-01"} | more
    return "[[expected_failure]]\n" + "".join(f"{k} = {v}\n" for k, v in values.items() if v)


@pytest.fixture
def load(tmp_path):
    def call(*texts):
        path = tmp_path / "xfail.toml"
        path.write_text("\n".join(texts))
        return ExpectedFailures.load(path, TODAY)

    return call


def test_right_list(load):
    found = load(entry(), entry("memory::test_malloc[0]", raises='"crash"', when='{ core = "<0.2" }'))
    assert found.check(CASES) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (entry(reason=None), "'reason' is missing"),
        (entry(issue=None), "'issue' is missing"),
        (entry(expires=None), "'expires' is missing"),
        (entry(reason='""'), "reason = '' is no text"),
        (entry(expires='"2027-03-01"'), "is no date such as 2027-01-31"),
        (entry(expires="2026-11-30"), "expired on 2026-11-30"),
        (entry(expires="2027-05-31"), "more than 180 days away: 2027-05-30 at the latest"),
        (entry(resaon='"x"'), "unknown key 'resaon'; did you mean 'reason'?"),
        (entry(when='{ devcie = "x" }'), "when: unknown key 'devcie'; did you mean 'device'?"),
        (entry(when='{ core = "old" }'), "when.core = 'old' is no range of versions"),
        (entry(when="{ dtype = 3 }"), "when.dtype = 3 is neither a text nor a list"),
        (
            entry("ops::test_values[Erf-odd-flaot16]"),
            "is no test of the suite; did you mean 'ops::test_values[Erf-od",
        ),
        (
            entry("ops::test_values[Erf-odd-float16]", when='{ dtype = "bfloat16" }'),
            "no test that matches 'ops::test_values[Erf-odd-float16]' has dtype bfloat16; there is float16",
        ),
        (entry(when='{ dtype = "flaot16" }'), "when.dtype = 'flaot16' is no dtype; near: float16"),
        (
            entry("ops::test_values[Erf-odd-float16]", when='{ dtype = "zzz" }'),
            "when.dtype = 'zzz' is no dtype; bool, uint8",
        ),
        (entry("memory::*"), "covers 21 tests, 20 are allowed"),
        (entry("registration::test_name"), "registration::test_name may not be expected to fail: neither L0"),
        (entry("base_ops::*"), "base_ops::test_fill[float32] may not be expected to fail"),
        ("[[expected_failures]]", "unknown key 'expected_failures'; did you mean 'expected_failure'?"),
        ("expected_failure = 3", "write [[expected_failure]]"),
        ("[[", "xfail.toml: "),
    ],
)
def test_wrong_list(load, text, said):
    problems = load(text).check(CASES)
    assert len(problems) == 1
    assert said in problems[0]


def test_limit_of_days():
    last = TODAY + timedelta(days=180)
    assert str(last) == "2027-05-30"


def test_every_problem_at_once_with_its_place(load):
    text = "\n".join(["# ours", entry(reason=None), entry("nothing::at_all"), entry(expires="2020-01-01")])
    problems = load(text).check(CASES)
    places = [problem.split("xfail.toml: ")[1].split(": ")[0] for problem in problems]
    assert places == ["line 2, entry 1", "line 7, entry 2", "line 13, entry 3"]


def test_base_op_is_refused_whatever_its_dtype(load):
    problems = load(entry("base_ops::test_fill[float32]", when='{ dtype = "float16" }')).check(CASES)
    assert [problem.split(": ", 2)[2] for problem in problems] == [
        "no test that matches 'base_ops::test_fill[float32]' has dtype float16; there is float32",
        "base_ops::test_fill[float32] may not be expected to fail: neither L0 nor base ops are [contract 4.2]",
    ]


def test_what_is_switched_off_is_said(load):
    """A misspelt name of a device would never hold, and nobody would see it."""
    found = load(entry(when='{ backend = "macca" }'))
    (said,) = found.off(CASES, FACTS)
    assert said.endswith("switched off: backend is maca, not 'macca' (ops::test_values[Erf-*-float16])")
    assert found.off(CASES[:1], FACTS) == []  # not about a test of this run
    assert load(entry(when='{ backend = "maca" }')).off(CASES, FACTS) == []


def test_two_entries_for_one_test(load):
    problems = load(entry(), entry("ops::test_values[Erf-odd-float16]")).check(CASES)
    assert len(problems) == 1
    assert "expected to fail in line 1, entry 1 already" in problems[0]


def test_brackets_are_no_wildcards(load):
    """An id is full of them: only * stands for something."""
    assert load(entry("ops::test_values[Erf-odd-float16]")).check(CASES) == []
    assert load(entry("ops::test_values?Erf-odd-float16]")).check(CASES) != []


def judged(found, outcome, message="AssertionError: 3 outside", case=CASES[1], facts=FACTS):
    result = Result(case.id, outcome, 0.5, message if outcome != "passed" else "")
    return found.judge(result, case, facts)


def test_outcomes(load):
    found = load(entry())
    assert judged(found, "failed").outcome == "xfailed"
    assert judged(found, "failed").message == "the driver (#7, until 2027-03-01): AssertionError: 3 outside"
    passed = judged(found, "passed")
    assert passed.outcome == "failed"
    assert passed.message.startswith("unexpected pass: remove it from ")
    assert "line 1, entry 1" in passed.message
    declined = judged(found, "unsupported", "no kernel")
    assert declined.outcome == "failed"  # an entry for what does not run would stand for ever
    assert declined.message.startswith("unsupported, not a failure: remove it from ")
    assert judged(found, "skipped").outcome == "skipped"
    assert judged(found, "failed", case=CASES[0]).outcome == "failed"


def test_crashes_are_covered_only_by_name(load):
    assert judged(load(entry()), "crashed").outcome == "crashed"
    crash = load(entry(raises='"crash"'))
    assert judged(crash, "crashed").outcome == "xfailed"
    assert judged(crash, "failed").outcome == "failed"


def test_raises(load):
    found = load(entry(raises='"DeviceError"'))
    assert judged(found, "failed", "infinitrain.errors.DeviceError: 700").outcome == "xfailed"
    other = judged(found, "failed", "AssertionError: worst")
    assert other.outcome == "failed"
    assert "raises = 'DeviceError'" in other.message


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ('{ provider_version = "<0.4" }', True), ('{ provider_version = ">=0.4" }', False),
        ('{ device = "*C500*" }', True), ('{ device = "*C600*" }', False), ('{ device = ["*C600*", "*C500*"] }', True),
        ('{ backend = "maca" }', True), ('{ backend = "fake" }', False), ('{ python = ">=3.12,<3.13" }', True),
        ('{ numpy = "<2" }', False), ('{ platform = "Linux*" }', True), ('{ dtype = "float16" }', True),
        ('{ dtype = "float16", core = "<0.1" }', False),
    ],
)  # fmt: skip
def test_when(load, when, holds):
    found = load(entry(when=when))
    assert found.check(CASES) == []
    assert judged(found, "failed").outcome == ("xfailed" if holds else "failed")
    assert judged(found, "passed").outcome == ("failed" if holds else "passed")


def test_dtype_narrows_a_glob(load):
    found = load(entry("ops::test_values[Erf-*]", when='{ dtype = ["float16"] }'))
    assert judged(found, "failed", case=CASES[0]).outcome == "failed"
    assert judged(found, "failed", case=CASES[1]).outcome == "xfailed"
    assert load(entry(when='{ dtype = "float64" }')).check(CASES) != []


# With the command -------------------------------------------------------------------------------------------

ODD = "ops::test_values[LinearForward-odd-float32]"
VECTOR = "ops::test_values[LinearForward-vector-float32]"


def dated(*idents, **more):
    until = date.today() + timedelta(days=30)
    return "\n".join(entry(ident, expires=until.isoformat(), **more) for ident in idents)


@pytest.mark.multiproc
def test_expected_failure_of_a_provider(toy, tmp_path):
    path = tmp_path / "xfail.toml"
    path.write_text(dated(ODD, raises='"outside"'))
    got = toy("forgets_bias", "--xfail", str(path), "-k", "LinearForward-odd-float32 and test_values")
    assert got.code == 0, got.out
    assert got.tests[ODD]["outcome"] == "xfailed"
    assert got.report["summary"]["outcomes"]["xfailed"] == 1
    assert "1 xfailed" in got.out
    assert f"expected failure: {ODD}: the driver (#7" in got.out


@pytest.mark.multiproc
def test_expected_failure_that_passes(toy, tmp_path, monkeypatch):
    """The file in the working directory is found."""
    (tmp_path / "infinitrain-conformance.toml").write_text(dated(ODD))
    monkeypatch.chdir(tmp_path)
    got = toy("good", "-k", "LinearForward-odd-float32 and test_values")
    assert got.code == 1
    assert "unexpected pass: remove it from infinitrain-conformance.toml: line 1, entry 1" in got.out


@pytest.mark.multiproc
@pytest.mark.parametrize(("raises", "code", "outcome"), [(None, 1, "crashed"), ('"crash"', 0, "xfailed")])
def test_expected_crash(toy, tmp_path, raises, code, outcome):
    path = tmp_path / "xfail.toml"
    path.write_text(dated(VECTOR, raises=raises))
    got = toy("aborts", "--xfail", str(path), "-k", "LinearForward-vector-float32 and test_values")
    assert got.tests[VECTOR]["outcome"] == outcome
    assert got.code == code, got.out


@pytest.mark.multiproc
def test_wrong_list_is_usage(command, tmp_path):
    path = tmp_path / "xfail.toml"
    path.write_text(dated("ops::test_values[NoSuchOp-odd-float32]", "registration::test_parse"))
    got = command("--backend", "cpu", "--xfail", str(path), "-k", "test_parse", json=False)
    assert got.code == 2
    assert "NoSuchOp-odd-float32]' is no test of the suite" in got.out
    assert "registration::test_parse may not be expected to fail" in got.out
